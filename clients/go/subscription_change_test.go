package tidemill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// publishTo tells how many listened.
func publishTo(t *testing.T, c *Client, channel, text string) int64 {
	t.Helper()
	n, err := c.Publish(testContext(t, 10*time.Second), channel, text).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// subscribed is a subscription that ends with the test.
func subscribed(t *testing.T, ctx context.Context, c interface {
	Subscribe(context.Context, SubscribeOptions) (*Subscription, error)
}, options SubscribeOptions) *Subscription {
	t.Helper()
	sub, err := c.Subscribe(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sub.Close() })
	return sub
}

// subscribeAtLast subscribes where the first attempts may fail.
func subscribeAtLast(
	t *testing.T, ctx context.Context, c *Client, channel string,
) (sub *Subscription) {
	t.Helper()
	waitFor(t, 20*time.Second, "a subscription", func() bool {
		var err error
		sub, err = c.Subscribe(ctx, SubscribeOptions{Channels: []string{channel}})
		return err == nil
	})
	return sub
}

func TestSubscription_TakesAndGivesUpChannelsWhileItRuns(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		c := newTestClient(t, s.address)
		ctx := testContext(t, 30*time.Second)
		sub := subscribed(t, ctx, c, SubscribeOptions{Channels: []string{"one"}})
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(sub.Subscribe(ctx, "two", "three", "one"))
		must(sub.PSubscribe(ctx, "t*"))
		must(sub.Subscribe(ctx))
		for _, want := range []struct {
			channel string
			count   int64
		}{{"one", 1}, {"two", 2}, {"three", 2}, {"twelve", 1}} {
			if n := publishTo(t, c, want.channel, "x"); n != want.count {
				t.Errorf("%s has %d listeners", want.channel, n)
			}
			for range want.count {
				if m := receive(t, sub); m.Channel != want.channel {
					t.Error(m)
				}
			}
		}
		must(sub.Unsubscribe(ctx, "one", "two", "never"))
		must(sub.PUnsubscribe(ctx, "t*"))
		if one, two, three := publishTo(t, c, "one", "x"), publishTo(t, c, "two", "x"), publishTo(t,
			c, "three", "kept"); one+two != 0 || three != 1 {
			t.Error("listeners after Unsubscribe:", one, two, three)
		}
		if m := receive(t, sub); m.Payload != "kept" {
			t.Error(m)
		}
		must(sub.Unsubscribe(ctx, "three"))
		must(sub.Subscribe(ctx, "four"))
		if err := sub.SSubscribe(ctx, "shard"); !errors.Is(err, ErrArgument) ||
			!errors.Is(err, ErrNotSent) {
			t.Error("a shard channel among others:", err)
		}
		s.stop()
		s.start(t)
		waitFor(t, 10*time.Second, "the channel after a restart", func() bool {
			n, _ := c.Publish(ctx, "four", "back").Int64()
			return n == 1
		})
		if m := receive(t, sub); m.Payload != "back" {
			t.Error(m)
		}
		if one := publishTo(t, c, "one", "x"); one != 0 {
			t.Error("a channel that was given up came back")
		}
		if clients, err := c.Do(ctx, "CLIENT", "LIST", "TYPE", "PUBSUB").Text(); err != nil ||
			strings.Count(clients, "\n") != 1 {
			t.Error("connections of one subscription:", clients, err)
		}
		sub.Close()
		if err := sub.Subscribe(ctx, "late"); !errors.Is(err, ErrClosed) ||
			!errors.Is(err, ErrNotSent) {
			t.Error("after Close:", err)
		}
	})
}

func TestSubscription_RefusedChannelLeavesTheOthers(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		ctx := testContext(t, 30*time.Second)
		admin := newTestClient(t, s.address)
		if err := admin.Do(ctx, "ACL", "SETUSER", "app", "on", "nopass", "resetchannels", "&news*",
			"+@all").Err(); err != nil {
			t.Fatal(err)
		}
		c := newTestClient(t, s.address, func(o *Options) { o.Username, o.Password = "app", "any" })
		sub := subscribed(t, ctx, c, SubscribeOptions{Channels: []string{"news1"}})
		err := sub.Subscribe(ctx, "news2", "secret", "news3")
		if !errors.Is(err, ServerCode("NOPERM")) {
			t.Error("a channel that is not allowed:", err)
		}
		for round := range 2 {
			for _, channel := range []string{"news1", "news2", "news3"} {
				waitFor(t, 10*time.Second, channel, func() bool {
					return publishTo(t, admin, channel, "x") == 1
				})
				if m := receive(t, sub); m.Channel != channel {
					t.Error(round, m)
				}
			}
			// The refused one must not keep the others from coming back.
			_ = admin.Do(ctx, "CLIENT", "KILL", "TYPE", "PUBSUB").Err()
		}
	})
}

// Changes from many goroutines while connections die at random places. Afterwards exactly what is
// wanted is subscribed to.
func TestSubscription_ChangesSurviveResets(t *testing.T) {
	checkLeaks(t)
	s := startServer(t, "valkey-server")
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	faults := 12
	proxy := startProxy(t, s.address, func() (int, int, int, time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if faults--; faults < 0 {
			return -1, -1, 4096, 0
		}
		return -1, 300 + random.IntN(3000), 1 + random.IntN(200), 0
	})
	c := newTestClient(t, proxy.address(), func(o *Options) { o.BackoffMin = time.Millisecond })
	ctx := testContext(t, time.Minute)
	sub := subscribeAtLast(t, ctx, c, "base")
	defer sub.Close()
	const workers, each = 8, 12
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for i := range each {
				names := []string{
					fmt.Sprintf("c:%d:%d", worker, i), fmt.Sprintf("d:%d:%d", worker, i),
				}
				if err := sub.Subscribe(ctx, names...); err != nil {
					t.Error(err)
				}
				if err := sub.Unsubscribe(ctx, names[1]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	direct := newTestClient(t, s.address)
	// Once all changes are confirmed this holds at once, but for a connection that the server has
	// not yet seen end, or that was cut after the last confirmation.
	waitFor(t, 20*time.Second, "exactly the wanted channels", func() bool {
		channels, err := direct.Do(ctx, "PUBSUB", "CHANNELS").Strings()
		slices.Sort(channels)
		return err == nil && len(channels) == workers*each+1 && channels[0] == "base" &&
			channels[len(channels)-1][0] == 'c'
	})
	if sub.Reconnected() == 0 {
		t.Error("the test met no faults")
	}
	t.Log(sub.Reconnected(), "reconnections")
}

func TestCluster_SubscriptionsTakeChannelsWhileTheyRun(t *testing.T) {
	c, servers := startClusterClient(t)
	ctx := testContext(t, time.Minute)
	sub := subscribed(t, ctx, c, SubscribeOptions{Shard: []string{"shard:1"}})
	if err := sub.SSubscribe(ctx, "shard:2", "shard:3", "shard:4"); err != nil {
		t.Fatal(err)
	}
	if err := sub.SUnsubscribe(ctx, "shard:1"); err != nil {
		t.Fatal(err)
	}
	told := func(channel string, want int64) {
		t.Helper()
		if n, err := c.SPublish(ctx, channel, channel).Int64(); n != want || err != nil {
			t.Fatal(channel, n, err)
		}
		if want > 0 {
			if m := receive(t, sub); m.Payload != channel {
				t.Fatal(m)
			}
		}
	}
	told("shard:1", 0)
	told("shard:2", 1)
	told("shard:3", 1)
	told("shard:4", 1)
	// The topology that the client knows is old when the channel is added: the server says MOVED.
	migrateSlot(t, servers, slotOf([]byte("shard:5")))
	migrateSlot(t, servers, slotOf([]byte("shard:2")))
	if err := sub.SSubscribe(ctx, "shard:5"); err != nil {
		t.Fatal(err)
	}
	told("shard:5", 1)
	waitFor(t, 10*time.Second, "the moved channel", func() bool {
		n, _ := c.SPublish(ctx, "shard:2", "shard:2").Int64()
		return n == 1
	})

	every := subscribed(t, ctx, c, SubscribeOptions{Channels: []string{"first"}, EveryNode: true})
	if err := errors.Join(every.Subscribe(ctx, "second"),
		every.Unsubscribe(ctx, "first")); err != nil {
		t.Fatal(err)
	}
	for _, s := range servers[:3] {
		direct := newTestClient(t, s.address)
		counts, err := direct.Do(ctx, "PUBSUB", "NUMSUB", "first", "second").Strings()
		if err != nil || counts[1] != "0" || counts[3] != "1" {
			t.Error(s.address, counts, err)
		}
	}
}

// A context that ends while the server does not answer: the change takes effect later.
func TestSubscription_ContextEndsTheWaitForAChange(t *testing.T) {
	checkLeaks(t)
	s := startServer(t, "valkey-server")
	c := newTestClient(t, s.address)
	ctx := testContext(t, 30*time.Second)
	sub := subscribed(t, ctx, c, SubscribeOptions{Channels: []string{"one"}})
	s.pause(t)
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := sub.Subscribe(short, "two"); !errors.Is(err, context.DeadlineExceeded) ||
		!errors.Is(err, ErrMaybeSent) {
		t.Error(err)
	}
	s.resume(t)
	waitFor(t, 10*time.Second, "the channel", func() bool {
		return publishTo(t, c, "two", "x") == 1
	})
}

// A change given to a connection that is lost before it confirmed waits for the next one, however
// often that fails.
func TestSubscription_ChangeWaitsForTheConnectionThatHasIt(t *testing.T) {
	checkLeaks(t)
	var mu sync.Mutex
	var latest net.Conn
	conns, subscribes, mended := 0, 0, false
	address := startScript(t, func(name string) string {
		if name != "SUBSCRIBE" {
			return "+OK\r\n"
		}
		mu.Lock()
		defer mu.Unlock()
		if subscribes++; subscribes > 1 && !mended {
			_ = latest.Close()
		}
		return "*3\r\n$9\r\nsubscribe\r\n$3\r\none\r\n:1\r\n"
	}, func(conn net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		latest = conn
		conns++
	})
	c := newTestClient(t, address, func(o *Options) {
		o.BackoffMin, o.BackoffMax = time.Millisecond, time.Millisecond
	})
	ctx := testContext(t, 30*time.Second)
	sub := subscribed(t, ctx, c, SubscribeOptions{Channels: []string{"one"}})
	changed := make(chan error, 1)
	go func() { changed <- sub.Subscribe(ctx, "two") }()
	waitFor(t, 10*time.Second, "failed attempts", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return conns >= 5
	})
	select {
	case err := <-changed:
		t.Fatal("the change ended before any server confirmed it:", err)
	case <-time.After(50 * time.Millisecond):
	}
	mu.Lock()
	mended = true
	mu.Unlock()
	if err := <-changed; err != nil {
		t.Error(err)
	}
}

// A server that accepts, greets and then says nothing does not hold the subscription for good.
func TestSubscription_SilentServerIsLeft(t *testing.T) {
	checkLeaks(t)
	var mu sync.Mutex
	var latest net.Conn
	conns, confirmed := 0, 0
	address := startScript(t, func(name string) string {
		if name != "SUBSCRIBE" {
			return "+OK\r\n"
		}
		mu.Lock()
		defer mu.Unlock()
		if confirmed == 1 && conns < 4 {
			return "" // after the first connection was lost
		}
		confirmed++
		return "*3\r\n$9\r\nsubscribe\r\n$3\r\none\r\n:1\r\n"
	}, func(conn net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		latest = conn
		conns++
	})
	c := newTestClient(t, address, func(o *Options) { o.DialTimeout = 500 * time.Millisecond })
	ctx := testContext(t, 30*time.Second)
	sub := subscribeAtLast(t, ctx, c, "one")
	defer sub.Close()
	mu.Lock()
	_ = latest.Close()
	mu.Unlock()
	waitFor(t, 10*time.Second, "a connection whose server answers", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return confirmed > 1
	})
}
