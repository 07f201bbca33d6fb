package tidemill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const pingWire = "*1\r\n$4\r\nPING\r\n"

// farServer answers each PING with a large value, half a round trip after it came; what it answered
// is another half under way. It needs no processor, so what it does not explain is the client's own
// waiting.
type farServer struct {
	net.Conn // nil: nothing else is called
	half     time.Duration
	answer   string

	mu          sync.Mutex
	arrived     sync.Cond
	inbound     []byte
	closed      bool
	readBytes   int // since the last write
	betweenFull int // writes before which at least one whole round was read
	writes      int
	round       int
}

func newFarServer(rtt time.Duration, size, callers int) *farServer {
	s := &farServer{
		half: rtt / 2, answer: fmt.Sprintf("$%d\r\n%s\r\n", size, strings.Repeat("v", size)),
	}
	s.round = callers * len(s.answer)
	s.arrived.L = &s.mu
	return s
}

func (s *farServer) Write(data []byte) (int, error) {
	s.mu.Lock()
	if s.writes++; s.readBytes >= s.round {
		s.betweenFull++
	}
	s.readBytes = 0
	s.mu.Unlock()
	count := strings.Count(string(data), "PING")
	if s.half == 0 {
		s.deliver(count)
	} else {
		time.AfterFunc(2*s.half, func() { s.deliver(count) })
	}
	return len(data), nil
}

func (s *farServer) deliver(count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range count {
		s.inbound = append(s.inbound, s.answer...)
	}
	s.arrived.Broadcast()
}

func (s *farServer) Read(buffer []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.inbound) == 0 && !s.closed {
		s.arrived.Wait()
	}
	if s.closed {
		return 0, io.EOF
	}
	n := copy(buffer, s.inbound)
	s.inbound = s.inbound[n:]
	s.readBytes += n
	return n, nil
}

func (s *farServer) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.arrived.Broadcast()
	return nil
}

// runClosedLoop has each caller ask rounds times.
func runClosedLoop(t *testing.T, p *pipe, callers, rounds int) {
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			// Not from the pool: a channel belongs to the clock under which it was made.
			r := &request{wake: make(chan struct{}, 1), want: 1, wire: []byte(pingWire)}
			for range rounds {
				reply, _ := p.do(context.Background(), r)
				r.rearm()
				if err := reply.Err(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// The clock advances only while every goroutine is blocked: each caller's round takes the round
// trip and nothing else.
func TestPipe_ClosedLoopWaitsForTheNetworkOnly(t *testing.T) {
	const rounds, rtt = 100, time.Millisecond
	for _, callers := range []int{1, 3, 16, 64} {
		for _, size := range []int{32, 10 << 10} {
			synctest.Test(t, func(t *testing.T) {
				server := newFarServer(rtt, size, callers)
				p := newPipe(server, Options{}.withDefaults(), nil)
				started := time.Now()
				runClosedLoop(t, p, callers, rounds)
				if took := time.Since(started); took != rounds*rtt {
					t.Errorf("%d callers, %d bytes: %v for %d round trips of %v", callers, size,
						took, rounds, rtt)
				}
				if stats := p.snapshot(); callers == 1 && stats.Solo < rounds-2*soloStreak {
					t.Errorf("a lone caller did only %d of %d operations by itself", stats.Solo,
						rounds)
				}
				synctest.Wait()
				if kept := cap(p.reader.due); kept > 2*callers+soloStreak {
					t.Errorf("%d callers leave %d places for requests", callers, kept)
				}
				p.kill(ErrClosed)
				<-p.closed
			})
		}
	}
}

// A caller that gives up waiting for room passes its wake-up on to the next waiter: no reply would
// wake that one when all is answered.
func TestPipe_CallerThatGivesUpPassesRoomOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rtt = time.Second
		p := newPipe(newFarServer(rtt, 4, 1), Options{MaxPending: 1}.withDefaults(), nil)
		send := func(ctx context.Context, tell chan<- error) {
			r := &request{wake: make(chan struct{}, 1), want: 1, wire: []byte(pingWire)}
			reply, _ := p.do(ctx, r)
			tell <- reply.Err()
		}
		impatient, giveUp := context.WithCancel(context.Background())
		first, second, third := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		started := time.Now()
		go send(context.Background(), first)
		synctest.Wait()
		go send(impatient, second)
		synctest.Wait()
		go send(context.Background(), third)
		synctest.Wait()
		giveUp()
		if err := <-second; !errors.Is(err, ErrNotSent) || !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := errors.Join(<-first, <-third); err != nil || time.Since(started) != 2*rtt {
			t.Errorf("two requests one after the other took %v: %v", time.Since(started), err)
		}
		p.mu.Lock()
		left := len(p.waiters)
		p.mu.Unlock()
		if left != 0 {
			t.Error("waiters left:", left)
		}
		p.kill(ErrClosed)
		<-p.closed
	})
}

// The reader always finds more bytes here. Callers whose replies came first ask again before it has
// read the replies of all.
func TestPipe_ReaderOfLargeValuesLetsCallersAskAgain(t *testing.T) {
	checkLeaks(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const callers, rounds = 16, 500
	server := newFarServer(0, 10<<10, callers)
	p := newPipe(server, Options{}.withDefaults(), nil)
	runClosedLoop(t, p, callers, rounds)
	server.mu.Lock()
	whole := server.betweenFull
	server.mu.Unlock()
	if whole > rounds/4 {
		t.Errorf("%d of %d rounds were answered whole before anybody asked again", whole, rounds)
	}
	t.Logf("%d writes, %d whole rounds", server.writes, whole)
	p.kill(ErrClosed)
	<-p.closed
}

// Many connections with small replies shall not hold memory for large ones.
func TestPipe_ReadBufferGrowsWhereRepliesFillIt(t *testing.T) {
	for _, test := range []struct{ callers, size, want int }{
		{16, 32, readBufferBytes},
		{64, 10 << 10, readBufferMaxBytes},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPipe(newFarServer(time.Millisecond, test.size, test.callers),
				Options{}.withDefaults(), nil)
			runClosedLoop(t, p, test.callers, 50)
			p.kill(ErrClosed)
			<-p.closed
			if got := len(p.reader.buffer); got != test.want {
				t.Errorf("%d callers, values of %d bytes: a buffer of %d bytes, not %d",
					test.callers, test.size, got, test.want)
			}
		})
	}
}

// Replies that are read straight into their strings count like those that are copied.
func TestPipe_CountsBytesOfRequestsAndReplies(t *testing.T) {
	for _, size := range []int{32, 10 << 10, 100 << 10} {
		synctest.Test(t, func(t *testing.T) {
			const callers, rounds = 10, 20
			server := newFarServer(time.Millisecond, size, callers)
			p := newPipe(server, Options{}.withDefaults(), nil)
			runClosedLoop(t, p, callers, rounds)
			p.kill(ErrClosed)
			<-p.closed
			each := len(pingWire) + len(server.answer)
			if g := p.gauge; g.answered != callers*rounds || g.moved != float64(each)*g.answered {
				t.Errorf("%v bytes of %v requests, with %d each", g.moved, g.answered, each)
			}
		})
	}
}
