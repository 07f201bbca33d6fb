package tidemill

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// A user may lack everything but its commands: the handshake does without what it is refused.
func TestACL_ARestrictedUserCanWork(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		admin := newTestClient(t, s.address)
		ctx := testContext(t, 20*time.Second)
		if err := admin.Do(ctx, "ACL", "SETUSER", "app", "on", ">secret", "~app:*",
			"resetchannels", "&news", "+get", "+set", "+subscribe", "+multi",
			"+exec").Err(); err != nil {
			t.Fatal(err)
		}
		as := func(o *Options) { o.Username, o.Password = "app", "secret" }
		c := newTestClient(t, s.address, as)
		if err := c.Set(ctx, "app:1", "v").Err(); err != nil {
			t.Fatal(err)
		}
		refused := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, ServerCode("NOPERM")) || errors.Is(err, ErrMaybeSent) ||
				strings.Contains(err.Error(), "secret") {
				t.Error(what, err)
			}
		}
		refused("another key:", c.Set(ctx, "other", "v").Err())
		refused("another command:", c.Do(ctx, "DEL", "app:1").Err())
		refused("a blocking command:", c.Do(ctx, "BLPOP", "app:list", 1).Err())
		refused("an asynchronous command:", c.Go(ctx, "DEL", "app:1").Wait(ctx).Err())
		var b Batch
		b.Add("GET", "app:1")
		b.Add("GET", "other")
		replies, err := c.RunBatch(ctx, &b)
		if err != nil || replies[0].Err() != nil {
			t.Error(replies, err)
		}
		refused("in a batch:", replies[1].Err())
		var tx Tx
		tx.Add("SET", "app:1", "changed")
		tx.Add("SET", "other", "v")
		_, err = c.RunTx(ctx, &tx)
		refused("in a transaction:", err)
		if got, err := c.Get(ctx, "app:1").Text(); got != "v" || err != nil {
			t.Error("the refused transaction did something:", got, err)
		}
		sub, err := c.Subscribe(ctx, SubscribeOptions{Channels: []string{"news"}})
		if err != nil {
			t.Fatal(err)
		}
		sub.Close()
		_, err = c.Subscribe(ctx, SubscribeOptions{Channels: []string{"secrets"}})
		refused("another channel:", err)
		started := time.Now()
		cached := newTestClient(t, s.address, as, withCache, func(o *Options) {
			o.ConnectWait = 50 * time.Second
		})
		refused("tracking:", cached.Get(ctx, "app:1").Err())
		if time.Since(started) > 30*time.Second {
			t.Error("a refusal that is final was repeated for", time.Since(started))
		}
	})
}

// recorder notes what hooks see.
type recorder struct {
	mu    sync.Mutex
	ended map[string]int // operations by name
	count map[string]int // commands in them
	fails map[string]error
}

func (r *recorder) Start(
	ctx context.Context, name string, commands int,
) (context.Context, func(error)) {
	return ctx, func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended[name]++
		r.count[name] += commands
		r.fails[name] = err
	}
}

func TestHook_SeesEveryOperationOnce(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		seen := &recorder{
			ended: map[string]int{}, count: map[string]int{}, fails: map[string]error{},
		}
		c := newTestClient(t, s.address, func(o *Options) { o.Hook = seen })
		ctx := testContext(t, 20*time.Second)
		c.Set(ctx, "k", "v")
		if err := c.Go(ctx, "INCR", "k").Wait(ctx).Err(); err == nil {
			t.Fatal("INCR of a text")
		}
		c.Go(ctx, "BLPOP", "list", 0.01).Wait(ctx)
		done := make(chan struct{})
		c.Async(ctx, func(Reply) { close(done) }, "GET", "k")
		<-done
		var b Batch
		b.Add("GET", "k")
		b.Add("GET", "k")
		b.Add("GET", "k")
		_, _ = c.RunBatch(ctx, &b)
		var tx Tx
		tx.Add("GET", "k")
		tx.Add("GET", "k")
		_, _ = c.RunTx(ctx, &tx)
		seen.mu.Lock()
		defer seen.mu.Unlock()
		for name, want := range map[string][2]int{"SET": {1, 1}, "INCR": {1, 1}, "BLPOP": {1, 1},
			"GET": {1, 1}, "BATCH": {1, 3}, "TX": {1, 2}} {
			if seen.ended[name] != want[0] || seen.count[name] != want[1] {
				t.Errorf("%s: %d operations, %d commands", name, seen.ended[name], seen.count[name])
			}
		}
		if !errors.Is(seen.fails["INCR"], ServerCode("ERR")) || seen.fails["SET"] != nil {
			t.Error(seen.fails)
		}
	})
}
