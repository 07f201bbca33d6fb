package tidemill

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// gatedConn fails each read when told to, and lets a write end only when told to.
type gatedConn struct {
	net.Conn // nil: nothing else is called
	reads    chan error
	writes   chan error
}

func (c *gatedConn) Read([]byte) (int, error) { return 0, <-c.reads }
func (c *gatedConn) Close() error             { return nil }

func (c *gatedConn) Write(data []byte) (int, error) {
	if err := <-c.writes; err != nil {
		return 0, err
	}
	return len(data), nil
}

// The reader's death while a write is under way once left the pipe without anyone to end it.
func TestPipe_EndsWhenTheReaderDiesDuringAWrite(t *testing.T) {
	for _, outcome := range []error{nil, net.ErrClosed} {
		checkLeaks(t)
		conn := &gatedConn{reads: make(chan error, 1), writes: make(chan error, 1)}
		p := newPipe(conn, Options{}.withDefaults(), nil)
		results := make(chan error, 2)
		send := func() {
			r := newRequest()
			r.wire = append(r.wire, "*1\r\n$4\r\nPING\r\n"...)
			r.notify = func(r *request) { results <- r.reply.Err() }
			if _, err := p.enqueue(context.Background(), r, false); err != nil {
				t.Fatal(err)
			}
		}
		state := func(condition func() bool) func() bool {
			return func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return condition()
			}
		}
		send()
		conn.writes <- nil
		waitFor(t, 5*time.Second, "the reader", state(func() bool {
			return p.reading && !p.writing
		}))
		send()
		waitFor(t, 5*time.Second, "the second write", state(func() bool {
			return p.stats.Writes == 2
		}))
		conn.reads <- io.ErrUnexpectedEOF
		waitFor(t, 5*time.Second, "the reader's end", state(func() bool {
			return p.dead != nil && !p.reading
		}))
		conn.writes <- outcome
		for range 2 {
			select {
			case err := <-results:
				if !errors.Is(err, ErrMaybeSent) && !errors.Is(err, ErrNotSent) {
					t.Errorf("ended with %v", err)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("a request never ended")
			}
		}
	}
}
