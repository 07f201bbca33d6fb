package tidemill

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
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

// staleConn has the read deadline of an earlier caller when the first read begins. While that is
// cleared, the context of the present caller ends and sets its own, which the clearing erases.
type staleConn struct {
	net.Conn // nil: nothing else is called
	end      func()
	reads    chan error
	set      chan struct{}
}

func (c *staleConn) Write(data []byte) (int, error) { return len(data), nil }
func (c *staleConn) Read([]byte) (int, error)       { return 0, <-c.reads }

func (c *staleConn) Close() error {
	c.reads <- net.ErrClosed
	return nil
}

func (c *staleConn) SetReadDeadline(at time.Time) error {
	if !at.IsZero() {
		close(c.set)
		return nil
	}
	c.end()
	<-c.set
	return nil
}

func TestPipe_SoloCallerSeesTheEndOfItsContextBesideAnEarlierDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &staleConn{reads: make(chan error, 2), set: make(chan struct{})}
		conn.reads <- os.ErrDeadlineExceeded
		p := newPipe(conn, Options{}.withDefaults(), nil)
		p.gauge.streak = soloStreak
		ctx, cancel := context.WithCancel(context.Background())
		conn.end = cancel
		started := time.Now()
		r := &request{wake: make(chan struct{}, 1), want: 1, wire: []byte(pingWire)}
		reply, _ := p.do(ctx, r)
		if took := time.Since(started); took != 0 || !errors.Is(reply.Err(), context.Canceled) ||
			!errors.Is(reply.Err(), ErrMaybeSent) || p.snapshot().Solo != 1 {
			t.Errorf("after %v: %v", took, reply.Err())
		}
		p.kill(ErrClosed)
		<-p.closed
	})
}
