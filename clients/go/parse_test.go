package tidemill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestParser_RefusesALineWithoutEnd(t *testing.T) {
	// Memory that takes no room as long as nobody writes to it.
	data, err := syscall.Mmap(-1, 0, replyLineMax+1, syscall.PROT_READ,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = syscall.Munmap(data) }()
	var p parser
	for _, size := range []int{1, replyLineMax / 2, replyLineMax} {
		if used, _, done, err := p.next(data[:size]); used != 0 || done || err != nil {
			t.Error(size, used, done, err)
		}
	}
	if _, _, _, err := p.next(data); !errors.Is(err, ErrLimit) || !errors.Is(err, ErrProtocol) {
		t.Error(err)
	}
}

// Scripts may answer lines of any length. They belong to their caller alone.
func TestClient_LongLinesDoNotEndTheConnection(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		var dials atomic.Int32
		c := newTestClient(t, s.address, func(o *Options) {
			o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				dials.Add(1)
				return (&net.Dialer{}).DialContext(ctx, network, address)
			}
		})
		ctx := testContext(t, 30*time.Second)
		for _, kind := range []string{"error", "status"} {
			for _, size := range []int{70 << 10, 3 << 20} {
				script := fmt.Sprintf("return redis.%s_reply('X '..string.rep('x',%d))", kind, size)
				reply := c.Do(ctx, "EVAL", script, 0)
				text, err := reply.Text()
				if kind == "error" {
					var refused *ServerError
					if !errors.As(err, &refused) {
						t.Fatalf("%s of %d bytes: %.200s", kind, size, err)
					}
					text = refused.Message
				}
				if strings.Count(text, "x") != size {
					t.Errorf("%s of %d bytes: %d came", kind, size, len(text))
				}
				if err := c.Set(ctx, "k", strings.Repeat("v", 10)).Err(); err != nil {
					t.Error(err)
				}
			}
		}
		if dials.Load() != 1 {
			t.Error("connections:", dials.Load())
		}
		p := c.node.current.Load()
		_ = c.Close()
		if kept := len(p.reader.buffer); kept > readBufferMaxBytes {
			t.Errorf("a buffer of %d bytes stays", kept)
		}
	})
}

// An answer that is no RESP ends the connection; asking again would end the next one as well.
func TestClient_DoesNotRepeatWhatIsAnsweredWithNonsense(t *testing.T) {
	checkLeaks(t)
	var asked atomic.Int32
	address := startScript(t, func(name string) string {
		if name == "GET" {
			asked.Add(1)
			return "what\r\n"
		}
		return "+OK\r\n"
	})
	c := newTestClient(t, address)
	ctx := testContext(t, 10*time.Second)
	for range 2 {
		err := c.Get(ctx, "k").Err()
		if !errors.Is(err, ErrProtocol) || !errors.Is(err, ErrMaybeSent) {
			t.Error(err)
		}
	}
	if asked.Load() != 2 {
		t.Error("asked", asked.Load(), "times")
	}
}
