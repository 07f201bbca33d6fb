package tidemill

import (
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Tests of an idle pipe, in a synctest bubble: its clock jumps ahead while every goroutine waits.

func TestPipe_PingsOnlyWhenIdle(t *testing.T) {
	for _, test := range []struct {
		name     string
		interval time.Duration // of pings
		every    time.Duration // between requests; 0: none
		min, max int           // pings in an hour
	}{
		{"idle", 30 * time.Second, 0, 100, 120},
		{"used", 30 * time.Second, 20 * time.Second, 0, 0},
		{"never", -1, 0, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := newFarServer(time.Millisecond, 4, 1)
			p := newPipe(server, Options{PingInterval: test.interval}.withDefaults(), nil)
			requests := 0
			step := max(test.every, time.Second)
			for started := time.Now(); time.Since(started) < time.Hour; time.Sleep(step) {
				if test.every > 0 {
					runClosedLoop(t, p, 1, 1)
					requests++
				}
			}
			server.mu.Lock()
			pings := server.writes - requests
			server.mu.Unlock()
			if pings < test.min || pings > test.max {
				t.Errorf("%s: %d pings in an hour", test.name, pings)
			}
			p.kill(ErrClosed)
			<-p.closed
		})
	}
}

// mute takes requests and answers nothing.
type mute struct{ *farServer }

func (mute) Write(data []byte) (int, error) { return len(data), nil }

func TestPipe_SilenceEndsAtTheIOTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{10 * time.Second, -1} {
		synctest.Test(t, func(t *testing.T) {
			p := newPipe(mute{newFarServer(0, 1, 1)}, Options{IOTimeout: timeout}.withDefaults(),
				nil)
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			started := time.Now()
			reply, _ := p.do(ctx, &request{
				wake: make(chan struct{}, 1), want: 1, wire: []byte(pingWire),
			})
			took, err := time.Since(started), reply.Err()
			if timeout > 0 && (took < timeout || took > timeout+2*watchInterval ||
				!errors.Is(err, ErrTimeout)) {
				t.Errorf("IO timeout of %v: %v after %v", timeout, err, took)
			}
			if timeout < 0 && (took != time.Hour || !errors.Is(err, context.DeadlineExceeded)) {
				t.Errorf("without an IO timeout: %v after %v", err, took)
			}
			if !errors.Is(err, ErrMaybeSent) {
				t.Error(err)
			}
			p.kill(ErrClosed)
			<-p.closed
		})
	}
}

// Callers that go on sending do not keep a silent connection open, not with large requests either;
// those of a server that takes a large request slowly do not end it.
func TestPipe_SilenceEndsBesideMoreRequests(t *testing.T) {
	const timeout = 10 * time.Second
	for _, c := range []struct {
		name  string
		size  int
		every time.Duration
		conn  net.Conn
		ends  bool
	}{
		{"small", 100, timeout / 50, mute{newFarServer(0, 1, 1)}, true},
		{"large", 100 << 10, timeout / 50, mute{newFarServer(0, 1, 1)}, true},
		{"buffered", 4 << 20, timeout / 50,
			&narrow{farServer: newFarServer(0, 1, 1), room: 8 << 20}, true},
		{"upload", 64 << 20, 0, &narrow{farServer: newFarServer(0, 1, 1), room: 1 << 40,
			pause: time.Second}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPipe(c.conn, Options{IOTimeout: timeout}.withDefaults(), nil)
			started := time.Now()
			wire := make([]byte, c.size)
			for time.Since(started) < 5*timeout && !p.gone.Load() {
				r := &request{want: 1, wire: wire, notify: func(*request) {}}
				_, _ = p.enqueue(context.Background(), r, false)
				if c.every == 0 {
					time.Sleep(time.Minute) // the pieces take 64 s
				} else {
					time.Sleep(c.every)
				}
			}
			took := time.Since(started)
			if p.gone.Load() != c.ends || c.ends && (took < timeout || took > timeout+time.Second) {
				t.Errorf("%s: ended %v after %v", c.name, p.gone.Load(), took)
			}
			p.kill(ErrClosed)
			<-p.closed
		})
	}
}

// narrow takes a number of bytes, each write after a pause, and then nothing more.
type narrow struct {
	*farServer
	room  int
	pause time.Duration
}

func (n *narrow) Write(data []byte) (int, error) {
	time.Sleep(n.pause)
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.room < len(data) && !n.closed {
		n.arrived.Wait()
	}
	if n.closed {
		return 0, net.ErrClosed
	}
	n.room -= len(data)
	return len(data), nil
}

func TestNode_DialsAgainAfterJitteredDoublingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var all []time.Time
		options := Options{ConnectWait: time.Hour,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, time.Now())
				return nil, net.ErrClosed
			}}.withDefaults()
		n := newNode("nowhere", options)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := n.acquire(ctx); !errors.Is(err, ErrNotSent) || !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		mu.Lock()
		dials := slices.Clone(all)
		mu.Unlock()
		_ = n.close(ctx)
		base, jittered := options.BackoffMin, map[time.Duration]bool{}
		for i := 1; i < len(dials); i++ {
			pause := dials[i].Sub(dials[i-1])
			if pause < base/2 || pause >= base+base/2 {
				t.Errorf("pause %d of %v, wanted about %v", i, pause, base)
			}
			jittered[pause*time.Duration(options.BackoffMax/base)] = true
			base = min(2*base, options.BackoffMax)
		}
		if len(dials) < 40 || len(jittered) < 30 {
			t.Errorf("%d dials in a minute, %d different pauses", len(dials), len(jittered))
		}
	})
}

// Connections that are made and lost at once are dialed for as seldom as those that cannot be made;
// one that lived for some time is replaced at once.
func TestNode_DialsAgainAfterPausesWhereConnectionsDieYoung(t *testing.T) {
	for _, c := range []struct {
		lives    time.Duration
		min, max int // dials in a minute
	}{{0, 40, 130}, {2 * time.Second, 29, 31}} {
		synctest.Test(t, func(t *testing.T) {
			dials := 0
			n := newNode("nowhere", Options{ConnectWait: time.Hour,
				Dialer: func(context.Context, string, string) (net.Conn, error) {
					dials++
					return newCutConn(0), nil
				}}.withDefaults())
			var slowest time.Duration
			for began := time.Now(); time.Since(began) < time.Minute && dials <= c.max; {
				asked := time.Now()
				p, err := n.acquire(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				slowest = max(slowest, time.Since(asked))
				time.Sleep(c.lives)
				r := &request{wake: make(chan struct{}, 1), want: 1, wire: []byte(pingWire)}
				reply, _ := p.do(context.Background(), r)
				if !errors.Is(reply.Err(), ErrNotSent) {
					t.Fatal(reply)
				}
			}
			if dials < c.min || dials > c.max || c.lives > 0 && slowest > 0 {
				t.Errorf("connections live %v: %d dials in a minute, waited up to %v", c.lives,
					dials, slowest)
			}
			_ = n.close(context.Background())
		})
	}
}

// Callers that go on asking keep something pending all the time; what they ask after close began is
// refused, and what they asked before is answered.
func TestNode_CloseEndsBesideCallersThatGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rtt = time.Millisecond
		n := newNode("nowhere", Options{}.withDefaults())
		n.current.Store(newPipe(newFarServer(rtt, 4, 1), n.options, nil))
		var group sync.WaitGroup
		for i := range 10 {
			group.Go(func() {
				time.Sleep(time.Duration(i) * rtt / 10)
				r := &request{wake: make(chan struct{}, 1), want: 1, wire: []byte(pingWire)}
				for {
					p, err := n.choose(context.Background())
					if err == nil {
						var reply Reply
						reply, _ = p.do(context.Background(), r)
						err = reply.Err()
						r.rearm()
					}
					if err != nil {
						if !errors.Is(err, ErrNotSent) || !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		time.Sleep(20 * rtt)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := n.close(ctx); err != nil || time.Since(began) > 10*rtt {
			t.Error(err, "after", time.Since(began))
		}
		group.Wait()
	})
}

// Bounds of the pause may have any values.
func TestPacing_TakesAnyBounds(t *testing.T) {
	for _, options := range []Options{
		{BackoffMin: math.MaxInt64, BackoffMax: math.MaxInt64}, {BackoffMin: 1, BackoffMax: 1},
		{BackoffMin: time.Second, BackoffMax: 1}, {BackoffMin: 1, BackoffMax: math.MaxInt64},
	} {
		if err := options.check(); err != nil {
			t.Fatal(err)
		}
		var p pacing
		at := time.Now()
		for range 100 {
			p.failed(at, &options)
			if p.pause <= 0 || p.until.Before(at) {
				t.Fatalf("%v to %v: a pause of %v", options.BackoffMin, options.BackoffMax,
					p.pause)
			}
		}
	}
}

// A request whose context ends while a node is silent makes the cluster look at its topology: the
// node may hang.
func TestCluster_GivenUpRequestIsAHint(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 30*time.Second)
	s := startOneNodeCluster(t)
	// Without the goroutine that takes hints.
	c := &Cluster{options: Options{}.withDefaults(), seeds: []string{s.address},
		suspect: make(chan struct{}, 1), nodes: map[string]*clusterNode{}}
	c.Commands = Commands{c}
	c.draining, c.endDrains = context.WithCancel(ctx)
	c.refresh(ctx)
	defer func() {
		c.endDrains()
		_ = c.closeNodes(ctx, func(*clusterNode) bool { return true })
		c.background.Wait()
	}()
	if err := c.Set(ctx, "k", 1).Err(); err != nil {
		t.Fatal(err)
	}
	if len(c.suspect) != 0 {
		t.Fatal("a hint though nothing failed")
	}
	s.pause(t)
	defer s.resume(t)
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := c.Set(short, "k", 2).Err(); !errors.Is(err, ErrMaybeSent) || len(c.suspect) != 1 {
		t.Error(err, "hints:", len(c.suspect))
	}
	s.resume(t)
}
