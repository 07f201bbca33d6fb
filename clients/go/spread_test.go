package tidemill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestMeter_AsksOnlyAfterASecondOfSaturation(t *testing.T) {
	var m meter
	at, reader, writer := time.Second, time.Duration(0), time.Duration(0)
	m.look(at, reader, writer)
	looks := func(count int, readerShare, writerShare float64) (wider, narrower int) {
		for range count {
			at += watchInterval
			reader += time.Duration(readerShare * float64(watchInterval))
			writer += time.Duration(writerShare * float64(watchInterval))
			w, n := m.look(at, reader, writer)
			if w {
				wider++
			}
			if n {
				narrower++
			}
		}
		return wider, narrower
	}
	for i, test := range []struct {
		count           int
		reader, writer  float64
		wider, narrower int
	}{
		{100, 0.79, 0.3, 0, 0},
		{9, 0.9, 0, 0, 0},
		{1, 0.5, 0, 0, 0}, // starts anew
		{9, 0, 0.85, 0, 0},
		{1, 0, 0.85, 1, 0}, // one second
		{10, 0.9, 0.9, 1, 0},
		{99, 0.1, 0.1, 0, 0},
		{1, 0.1, 0.1, 0, 1},
	} {
		if wider, narrower := looks(test.count, test.reader, test.writer); wider != test.wider ||
			narrower != test.narrower {
			t.Errorf("step %d: wider %d, narrower %d", i, wider, narrower)
		}
	}
}

func withProcessors(t *testing.T, count int) {
	before := runtime.GOMAXPROCS(count)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// slowConn writes slowly, as a connection does whose writer is saturated.
type slowConn struct {
	net.Conn
	slow  *atomic.Bool
	delay time.Duration
}

func (c slowConn) Write(data []byte) (int, error) {
	if c.slow.Load() {
		time.Sleep(c.delay)
	}
	return c.Conn.Write(data)
}

func TestSpread_OpensPipesUnderSaturationOnly(t *testing.T) {
	withProcessors(t, 3)
	eachServer(t, func(t *testing.T, s *testServer) {
		var slow atomic.Bool
		c := newTestClient(t, s.address, func(o *Options) {
			o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
				// Far above the delays of a busy machine, which writers and callers have, too.
				return slowConn{conn, &slow, 20 * time.Millisecond}, err
			}
		})
		ctx := testContext(t, 60*time.Second)
		stopping, stop := context.WithCancel(ctx)
		defer stop()
		var group sync.WaitGroup
		for worker := range 32 {
			group.Go(func() {
				key := fmt.Sprint("counter:", worker)
				for n := int64(1); stopping.Err() == nil; n++ {
					if got, err := c.Incr(ctx, key).Int64(); err != nil || got != n {
						t.Error(got, n, err)
						return
					}
					pause := 5 * time.Millisecond // far from saturation, also on a slow machine
					if slow.Load() {
						pause = 100 * time.Microsecond
					}
					time.Sleep(pause)
				}
			})
		}
		time.Sleep(1500 * time.Millisecond)
		if got := c.Stats().Pipes; got != 1 {
			t.Error("pipes without saturation:", got)
		}
		slow.Store(true)
		started := time.Now()
		waitFor(t, 10*time.Second, "a second pipe", func() bool { return c.Stats().Pipes >= 2 })
		if took := time.Since(started); took < 500*time.Millisecond {
			t.Error("a second pipe came after", took)
		}
		waitFor(t, 10*time.Second, "a third pipe", func() bool { return c.Stats().Pipes == 3 })
		time.Sleep(1300 * time.Millisecond)
		if got := c.Stats().Pipes; got != 3 {
			t.Errorf("%d pipes with GOMAXPROCS=3", got)
		}
		stop()
		group.Wait()
	})
}

// widened makes a client with several pipes without waiting for saturation.
func widened(t *testing.T, c *Client, pipes int) {
	t.Helper()
	if err := c.Connect(testContext(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, 10*time.Second, "further pipes", func() bool {
		if c.Stats().Pipes >= pipes {
			return true
		}
		c.node.resize(true)
		return false
	})
}

// Each goroutine mixes waiting and not waiting; what it sent last must always have been executed
// after all it sent before.
func TestSpread_KeepsOneGoroutinesOrder(t *testing.T) {
	withProcessors(t, 4)
	eachServer(t, func(t *testing.T, s *testServer) {
		c := newTestClient(t, s.address)
		widened(t, c, 4)
		ctx := testContext(t, 60*time.Second)
		var group sync.WaitGroup
		for worker := range 16 {
			group.Go(func() {
				key := fmt.Sprint("list:", worker)
				for i := range 600 {
					var err error
					switch {
					case worker%4 == 0 || i%5 != 0: // a quarter never waits
						c.Async(ctx, func(reply Reply) {
							if reply.Err() != nil {
								t.Error(reply.Err())
							}
						}, "RPUSH", key, i)
					default:
						err = c.RPush(ctx, key, i).Err()
					}
					if i%50 == 0 {
						time.Sleep(time.Millisecond)
					}
					if err != nil {
						t.Error(err)
					}
				}
				got, err := As[[]int](c.LRange(ctx, key, 0, -1))
				if err != nil || len(got) != 600 {
					t.Error(len(got), err)
					return
				}
				for i, value := range got {
					if i != value {
						t.Errorf("%s: index %d holds %d", key, i, value)
						return
					}
				}
			})
		}
		group.Wait()
		for range 200 { // nobody is asynchronous now: all pipes are used
			for range 8 {
				group.Go(func() { _ = c.Do(ctx, "PING").Err() })
			}
			group.Wait()
		}
		for i, p := range c.node.pipes() {
			if p.snapshot().Requests == 0 {
				t.Error("unused: pipe", i)
			}
		}
	})
}

func TestSpread_SurvivesTheLossOfAnyPipeAndShrinks(t *testing.T) {
	withProcessors(t, 4)
	eachServer(t, func(t *testing.T, s *testServer) {
		c := newTestClient(t, s.address)
		widened(t, c, 3)
		ctx := testContext(t, 60*time.Second)
		record := &ledger{outcome: map[string]error{}}
		stopping, stop := context.WithCancel(ctx)
		var group sync.WaitGroup
		for worker := range 8 {
			group.Go(func() {
				for i := 0; stopping.Err() == nil; i++ {
					value := fmt.Sprintf("%d:%d", worker, i)
					record.note(value, c.RPush(ctx, "list", value).Err())
				}
			})
		}
		for i := range 3 {
			time.Sleep(50 * time.Millisecond)
			c.node.pipes()[i%len(c.node.pipes())].kill(errors.New("planted loss"))
		}
		widened(t, c, 2)
		waitFor(t, 10*time.Second, "one pipe", func() bool {
			if c.Stats().Pipes == 1 {
				return true
			}
			c.node.resize(false)
			return false
		})
		waitFor(t, 10*time.Second, "writes", func() bool { return record.hasAcknowledged(100) })
		stop()
		group.Wait()
		stored, err := c.LRange(ctx, "list", 0, -1).Strings()
		if err != nil {
			t.Fatal(err)
		}
		record.check(t, stored)
		widened(t, c, 2) // Close has something to close
	})
}

// A pipe that is given up lets its pending requests end and takes no more; who chose it just before
// is served by another.
func TestSpread_PipeThatIsGivenUpFailsNobody(t *testing.T) {
	withProcessors(t, 2)
	checkLeaks(t)
	s := startServer(t, "valkey-server")
	c := newTestClient(t, s.address)
	widened(t, c, 2)
	ctx := testContext(t, 30*time.Second)
	request := func() *request {
		r := newRequest()
		r.wire, _ = appendCommand(r.wire[:0], []any{"INCR", "k"})
		return r
	}
	p := (*c.node.further.Load())[0]
	s.pause(t)
	defer s.resume(t)
	pending := make(chan Reply, 1)
	go func() {
		reply, _ := p.do(ctx, request())
		pending <- reply
	}()
	waitFor(t, 10*time.Second, "a pending request", func() bool {
		return p.snapshot().Pending == 1
	})
	c.node.resize(false)
	waitFor(t, 10*time.Second, "the refusal", p.gone.Load)
	late := request()
	reply, reusable := p.do(ctx, late)
	if !retired(reply) || !reusable || errors.Is(reply.Err(), ErrClosed) {
		t.Error("a late request:", reply, reusable)
	}
	s.resume(t)
	if got, err := (<-pending).Int64(); got != 1 || err != nil {
		t.Error("the pending request:", got, err)
	}
	again := sendAgain(ctx, c.node, late, reply, commandWrites, c.options)
	if got, err := again.Int64(); got != 2 || err != nil {
		t.Error("the late request:", got, err)
	}
	<-p.closed
}

// Shutdown waits also for a pipe that is being given up, and ends it at its deadline.
func TestSpread_ShutdownCoversPipesThatAreGivenUp(t *testing.T) {
	withProcessors(t, 2)
	checkLeaks(t)
	for _, ends := range []bool{false, true} {
		s := startServer(t, "valkey-server")
		c := newTestClient(t, s.address)
		widened(t, c, 2)
		ctx := testContext(t, 30*time.Second)
		p := (*c.node.further.Load())[0]
		s.pause(t)
		pending := make(chan Reply, 1)
		go func() {
			r := newRequest()
			r.wire, _ = appendCommand(r.wire[:0], []any{"INCR", "k"})
			reply, _ := p.do(ctx, r)
			pending <- reply
		}()
		waitFor(t, 10*time.Second, "a pending request", func() bool {
			return p.snapshot().Pending == 1
		})
		c.node.resize(false)
		waitFor(t, 10*time.Second, "the refusal", p.gone.Load)
		limited, cancel := context.WithCancel(ctx)
		closed := make(chan error, 1)
		go func() { closed <- c.Shutdown(limited) }()
		select {
		case err := <-closed:
			t.Error("Shutdown did not wait:", err)
			closed <- err
		case <-time.After(20 * time.Millisecond):
		}
		if ends {
			s.resume(t)
			if got, err := (<-pending).Int64(); got != 1 || err != nil {
				t.Error(got, err)
			}
			if err := <-closed; err != nil {
				t.Error(err)
			}
		} else {
			cancel()
			if err := (<-pending).Err(); !errors.Is(err, ErrMaybeSent) ||
				!errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			if err := <-closed; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			s.resume(t)
		}
		cancel()
	}
}
