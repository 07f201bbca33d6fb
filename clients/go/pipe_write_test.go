package tidemill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// cutConn answers a handshake and takes a number of bytes of what follows it; then it fails.
type cutConn struct {
	net.Conn // nil: nothing else is called
	room     int

	mu     sync.Mutex
	greets bool
	taken  []byte
	reads  chan string
	once   sync.Once
}

func newCutConn(room int) *cutConn {
	return &cutConn{room: room, greets: true, reads: make(chan string, 1)}
}

func (c *cutConn) Write(data []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.greets {
		c.greets = false
		c.reads <- "+OK\r\n+OK\r\n+OK\r\n"
		return len(data), nil
	}
	n := min(len(data), c.room-len(c.taken))
	c.taken = append(c.taken, data[:n]...)
	if n < len(data) {
		return n, errors.New("planted cut")
	}
	return n, nil
}

func (c *cutConn) Read(buffer []byte) (int, error) {
	text, ok := <-c.reads
	if !ok {
		return 0, io.EOF
	}
	return copy(buffer, text), nil
}

func (c *cutConn) Close() error {
	c.once.Do(func() { close(c.reads) })
	return nil
}

func (c *cutConn) SetDeadline(time.Time) error     { return nil }
func (c *cutConn) SetReadDeadline(time.Time) error { return nil }

// whole is how many commands arrived whole that a server executes by themselves.
func (c *cutConn) whole() (count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := string(c.taken)
	return strings.Count(text, "x\r\n")
}

// A server executes each command that it received whole, though the batch around it was cut off:
// such a batch is not "not sent", and is not sent again.
func TestBatch_CutOffAnywhereIsExecutedOnceAtMost(t *testing.T) {
	checkLeaks(t)
	const command = len("*2\r\n$5\r\nRPUSH\r\n$1\r\nx\r\n")
	send := map[string]func(ctx context.Context, c *Client) error{
		"batch": func(ctx context.Context, c *Client) error {
			var b Batch
			for range 3 {
				b.Add("RPUSH", "x")
			}
			_, err := c.RunBatch(ctx, &b)
			return err
		},
		"transaction": func(ctx context.Context, c *Client) error {
			var tx Tx
			for range 3 {
				tx.Add("RPUSH", "x")
			}
			_, err := c.RunTx(ctx, &tx)
			return err
		},
	}
	for name, run := range send {
		for room := 0; room < 3*command; room++ {
			conn, dials := newCutConn(room), atomic.Int32{}
			c := newTestClient(t, "nowhere", func(o *Options) {
				o.ConnectWait, o.BackoffMin, o.BackoffMax = 20*time.Millisecond, 1, 1
				o.Dialer = func(context.Context, string, string) (net.Conn, error) {
					if dials.Add(1) > 1 {
						return nil, errors.New("planted refusal")
					}
					return conn, nil
				}
			})
			err := run(testContext(t, 10*time.Second), c)
			if errors.Is(err, ErrNotSent) != (conn.whole() == 0) ||
				errors.Is(err, ErrMaybeSent) != (conn.whole() > 0) {
				t.Errorf("%s cut off after %d bytes, %d commands: %v", name, room, conn.whole(),
					err)
			}
			if conn.whole() > 0 && dials.Load() > 1 {
				t.Errorf("%s cut off after %d bytes: sent again", name, room)
			}
			_ = c.Close()
		}
	}
}

func TestMayHaveRun_LooksAtWholeCommands(t *testing.T) {
	const multi, asking = "*1\r\n$5\r\nmulti\r\n", "*1\r\n$6\r\nASKING\r\n"
	const set = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n"
	for _, c := range []struct {
		wire string
		from int // bytes after which something may have been executed
	}{
		{set, len(set)},
		{set + set, len(set)},
		{asking + set, len(asking + set)},
		{multi + set + "*1\r\n$4\r\nEXEC\r\n", len(multi + set)},
		{asking + multi + set, len(asking + multi + set)},
		{"no command", 1},
		{"*1\r\n$9999999999999999999\r\nx\r\n", 1},
		{"*1\r\n$5\r\nx\r\n", 1},
		{"*-1\r\n*1\r\n$1\r\nx\r\n", len("*-1\r\n")},
		{"*9\r\n$1\r\nx\r\n", 1},
	} {
		for written := range len(c.wire) {
			if got := mayHaveRun([]byte(c.wire), written); got != (written >= c.from) {
				t.Errorf("%d bytes of %q: %v", written, c.wire, got)
			}
		}
	}
}

// Of what a Link forwards the same holds.
func TestLink_CutOffCommandsMayHaveBeenExecuted(t *testing.T) {
	checkLeaks(t)
	const command = "*2\r\n$5\r\nRPUSH\r\n$1\r\nx\r\n"
	for room := range 2 * len(command) {
		conn := newCutConn(room)
		conn.greets = false
		link, err := NewLink(conn, Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = link.Forward(testContext(t, 10*time.Second), []byte(command+command), 2, nil)
		if want := fmt.Sprint(room < len(command)); fmt.Sprint(errors.Is(err, ErrNotSent)) != want {
			t.Errorf("cut off after %d bytes: %v", room, err)
		}
		link.Close()
		<-link.pipe.closed
	}
}
