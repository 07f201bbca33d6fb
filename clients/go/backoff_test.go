package tidemill

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"testing"
	"time"
)

func TestPacing_GrowsUntilSomethingLasts(t *testing.T) {
	o := &Options{BackoffMin: 8 * time.Millisecond, BackoffMax: 100 * time.Millisecond}
	now := time.Now()
	between := func(p *pacing, least, most time.Duration) {
		t.Helper()
		if pause := p.until.Sub(now); pause < least || pause > most {
			t.Errorf("a pause of %v, wanted %v to %v", pause, least, most)
		}
		now = p.until.Add(steadyTime / 2)
	}
	var p pacing
	p.ended(now, o)
	between(&p, 0, 0)
	for _, most := range []time.Duration{8, 16, 32, 64, 100, 100} {
		p.ended(now, o)
		between(&p, most*time.Millisecond/2, most*time.Millisecond)
	}
	now = now.Add(steadyTime)
	p.ended(now, o)
	between(&p, 0, 0)
	p = pacing{}
	for _, most := range []time.Duration{8, 16} {
		p.failed(now, o)
		between(&p, most*time.Millisecond/2, most*time.Millisecond)
	}
	p = pacing{}
	for range 3 { // sums do not overflow
		p.failed(now, &Options{BackoffMin: math.MaxInt64, BackoffMax: math.MaxInt64})
		if p.until.Before(now) {
			t.Error(p)
		}
	}
}

// arrivals tells how far apart subscriptions came, whose connections it cuts soon.
type arrivals struct {
	mu    sync.Mutex
	times []time.Time
	conn  net.Conn // the latest
}

func (a *arrivals) accepted(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conn = conn
}

func (a *arrivals) subscribed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times = append(a.times, time.Now())
	conn := a.conn
	time.AfterFunc(5*time.Millisecond, func() { _ = conn.Close() })
}

func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.times)
}

// forget leaves out connections of attempts to subscribe that failed.
func (a *arrivals) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times = nil
}

// checkGrowing requires pauses between connections that grow from least/2 on, after the first loss.
func (a *arrivals) checkGrowing(t *testing.T, least time.Duration, count int) {
	t.Helper()
	waitFor(t, time.Second, "connections", func() bool { return a.count() >= count })
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := 2; i < count; i++ {
		if apart := a.times[i].Sub(a.times[i-1]); apart < least/2 {
			t.Errorf("connection %d came %v after the one before it", i, apart)
		}
		least *= 2
	}
}

// A server that confirms and closes the connection does not make a subscription dial at once each
// time.
func TestSubscription_ConnectionsThatDoNotLastAreReplacedEverMoreSlowly(t *testing.T) {
	checkLeaks(t)
	var a arrivals
	address := startScript(t, func(name string) string {
		if name != "SUBSCRIBE" {
			return "+OK\r\n"
		}
		a.subscribed()
		return "*3\r\n$9\r\nsubscribe\r\n$3\r\none\r\n:1\r\n"
	}, a.accepted)
	const least = 20 * time.Millisecond
	c := newTestClient(t, address, func(o *Options) { o.BackoffMin = least })
	sub := subscribeAtLast(t, testContext(t, 20*time.Second), c, "one")
	defer sub.Close()
	a.forget()
	a.checkGrowing(t, least, 6)
}

// The same of the connection that listens to a sentinel's notices.
func TestSentinel_ListenersThatDoNotLastAreReplacedEverMoreSlowly(t *testing.T) {
	checkLeaks(t)
	var a arrivals
	address := startScript(t, func(name string) string {
		switch name {
		case "SUBSCRIBE":
			a.subscribed()
			return "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n"
		case "SENTINEL":
			return "*-1\r\n"
		}
		return "+OK\r\n"
	}, a.accepted)
	const least = 20 * time.Millisecond
	c, err := NewSentinel([]string{address}, "main", Options{BackoffMin: least})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a.checkGrowing(t, least, 6)
}

// A subscription without channels, and one whose connections fail, end with their client.
func TestSubscription_EndsWithItsClientWhateverItWaitsFor(t *testing.T) {
	checkLeaks(t)
	s := startServer(t, "valkey-server")
	ctx := testContext(t, 20*time.Second)
	for _, emptied := range []bool{true, false} {
		c := newTestClient(t, s.address, func(o *Options) {
			o.BackoffMin, o.BackoffMax = time.Hour, time.Hour
		})
		sub := subscribed(t, ctx, c, SubscribeOptions{Channels: []string{"one"}})
		if emptied {
			if err := sub.Unsubscribe(ctx, "one"); err != nil {
				t.Fatal(err)
			}
		}
		for n := range uint64(2) { // the second time it waits, unless it is empty
			if emptied && n > 0 {
				break
			}
			if !emptied { // a connection that is lost before it is confirmed is no loss
				waitFor(t, 10*time.Second, "a message", func() bool {
					if err := c.Publish(ctx, "one", "alive").Err(); err != nil {
						t.Error(err)
					}
					select {
					case <-sub.Messages():
						return true
					case <-time.After(50 * time.Millisecond):
						return false
					}
				})
			}
			c.node.closeLoose()
			waitFor(t, time.Second, "the loss", func() bool { return sub.Reconnected() > n })
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for late, open := time.After(busyMachine/6), true; open; {
			select {
			case _, open = <-sub.Messages():
			case <-late:
				t.Fatal("emptied ", emptied, ": Messages is open after the client was closed")
			}
		}
		if !errors.Is(sub.Err(), ErrClosed) {
			t.Error(sub.Err())
		}
		if _, err := c.Subscribe(ctx, SubscribeOptions{Channels: []string{"late"}}); !errors.Is(err,
			ErrClosed) || !errors.Is(err, ErrNotSent) {
			t.Error("a subscription of a closed client:", err)
		}
	}
}

// Subscriptions end before what is pending is waited for.
func TestShutdown_EndsSubscriptionsAtOnce(t *testing.T) {
	checkLeaks(t)
	s := startServer(t, "valkey-server")
	ctx := testContext(t, 20*time.Second)
	c := newTestClient(t, s.address)
	sub := subscribed(t, ctx, c, SubscribeOptions{Channels: []string{"one"}})
	if err := c.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	s.pause(t)
	pending := c.Go(ctx, "PING")
	closing, end := context.WithCancel(ctx)
	closed := make(chan error, 1)
	go func() { closed <- c.Shutdown(closing) }()
	select {
	case <-sub.Messages():
	case <-time.After(busyMachine / 6):
		t.Error("the subscription waits for the pending command")
	}
	s.resume(t)
	_ = pending.Wait(ctx)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	end()
}

// A change that is confirmed as its context ends is confirmed, and one that ended before is not
// sent.
func TestSubscription_ConfirmedChangeIsNotOfUnknownOutcome(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	s := &Subscription{changes: make(chan *change, 64), done: make(chan struct{})}
	for range 64 { // a choice among ready channels is random
		if err := s.Subscribe(ended, "one"); !errors.Is(err, ErrNotSent) {
			t.Fatal("an ended context:", err)
		}
		c := &change{done: make(chan error, 1)}
		c.done <- nil
		if err := c.wait(ended, s.done); err != nil {
			t.Fatal("a confirmed change:", err)
		}
	}
}

// The error of a change names each channel once, in one list.
func TestSubscription_RefusalsOfManyChannelsAreOneList(t *testing.T) {
	checkLeaks(t)
	s := startServer(t, "valkey-server")
	ctx := testContext(t, 30*time.Second)
	admin := newTestClient(t, s.address)
	if err := admin.Do(ctx, "ACL", "SETUSER", "app", "on", ">p", "resetchannels", "&news",
		"+@all").Err(); err != nil {
		t.Fatal(err)
	}
	c := newTestClient(t, s.address, func(o *Options) { o.Username, o.Password = "app", "p" })
	sub := subscribed(t, ctx, c, SubscribeOptions{Channels: []string{"news"}})
	names := make([]string, 3000)
	for i := range names {
		names[i] = fmt.Sprint("secret:", i)
	}
	err := sub.Subscribe(ctx, names...)
	list, ok := err.(interface{ Unwrap() []error })
	if !ok || len(list.Unwrap()) != len(names) || !errors.Is(err, ServerCode("NOPERM")) {
		t.Errorf("not a list of %d: %.200v", len(names), err)
	}
}
