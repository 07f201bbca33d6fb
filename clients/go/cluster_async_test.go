package tidemill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Unique values pushed asynchronously while a slot moves and a primary dies: each callback comes
// once and tells the truth. Where nothing changes, order holds.
func TestCluster_AsyncWritesAreAccountedForWhileTheClusterChanges(t *testing.T) {
	c, servers := startClusterClient(t)
	ctx := testContext(t, time.Minute)
	// The first attempt to connect may fail, and what begins then waits beside the others.
	if err := c.Set(ctx, "{ordered}", 1).Err(); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		c.Async(ctx, func(Reply) {}, "RPUSH", "ordered", i)
	}
	got, err := As[[]int](c.Go(ctx, "LRANGE", "ordered", 0, -1).Wait(ctx))
	if err != nil || len(got) != 200 || !slices.IsSorted(got) {
		t.Fatal("order:", got, err)
	}
	record := &ledger{outcome: map[string]error{}}
	var begun, ended atomic.Int64
	stopping, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := 0; stopping.Err() == nil; i++ {
				value := fmt.Sprintf("%d:%d", worker, i)
				begun.Add(1)
				c.Async(ctx, func(reply Reply) {
					record.note(value, reply.Err())
					ended.Add(1)
				}, "RPUSH", fmt.Sprintf("list:%d", worker), value)
				time.Sleep(200 * time.Microsecond)
			}
		})
	}
	migrateSlot(t, servers, slotOf([]byte("list:3")))
	victim := c.pick(slotOf([]byte("list:5")))
	killPrimary(ctx, t, servers, victim.address)
	waitFor(t, 30*time.Second, "the failover", func() bool {
		at := c.pick(slotOf([]byte("list:5")))
		return at != nil && at != victim &&
			c.Set(WithIdempotent(ctx), "{list:5}alive", 1).Err() == nil
	})
	stop()
	group.Wait()
	waitFor(t, 30*time.Second, "all callbacks", func() bool { return ended.Load() == begun.Load() })
	var stored []string
	for worker := range 8 {
		items, err := c.LRange(ctx, fmt.Sprintf("list:%d", worker), 0, -1).Strings()
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, items...)
	}
	if len(record.outcome) != int(begun.Load()) {
		t.Errorf("%d callbacks for %d commands", len(record.outcome), begun.Load())
	}
	checkClusterLedger(t, record, stored)
}

func TestCluster_AsyncCoversWhatDoDoes(t *testing.T) {
	c, servers := startClusterClient(t, func(o *Options) {
		o.Hook = &recorder{
			ended: map[string]int{}, count: map[string]int{}, fails: map[string]error{},
		}
	})
	ctx := testContext(t, 30*time.Second)
	split := WithSplit(ctx)
	if reply := c.Go(split, "MSET", "a", 1, "b", 2, "c", 3).Wait(ctx); reply.Err() != nil {
		t.Error(reply)
	}
	got, err := c.Go(split, "MGET", "a", "b", "c").Wait(ctx).Strings()
	if fmt.Sprint(got) != "[1 2 3]" || err != nil {
		t.Error(got, err)
	}
	blocked := c.Go(ctx, "BLPOP", "queue", 0)
	if n, err := c.Go(ctx, "RPUSH", "queue", "item").Wait(ctx).Int64(); n != 1 || err != nil {
		t.Error(n, err)
	}
	if got, err := blocked.Wait(ctx).Strings(); err != nil || got[1] != "item" {
		t.Error(got, err)
	}
	called := 0
	c.Async(ctx, func(reply Reply) {
		called++
		if !errors.Is(reply.Err(), ErrArgument) {
			t.Error(reply)
		}
	}, "SET", "k", struct{}{})
	if called != 1 {
		t.Error("callback of what cannot be sent was called", called, "times")
	}
	err = c.Go(ctx, "INCR", "queue{x}", "too", "many").Wait(ctx).Err()
	if !errors.Is(err, ServerCode("ERR")) {
		t.Error(err)
	}
	// A slot that moved behind the client's back.
	migrateSlot(t, servers, slotOf([]byte("a")))
	if got, err := c.Go(ctx, "GET", "a").Wait(ctx).Text(); got != "1" || err != nil {
		t.Error(got, err)
	}
	ended := make(chan struct{})
	c.Async(ctx, func(Reply) { defer close(ended); panic("callback") }, "GET", "a")
	<-ended
	hook := c.options.Hook.(*recorder)
	hook.mu.Lock()
	if hook.ended["MSET"] != 1 || hook.ended["BLPOP"] != 1 || hook.ended["GET"] != 2 ||
		hook.count["GET"] != 2 {
		t.Error("hooks saw", hook.ended, hook.count)
	}
	hook.mu.Unlock()
	checkSumOfNodeStats(t, c, servers[0].address)
	c.mu.Lock()
	for _, n := range c.nodes {
		if left := n.unawaited.Load(); left != 0 {
			t.Errorf("%s waits for %d answers", n.address, left)
		}
	}
	c.mu.Unlock()
	_ = c.Close()
	if err := c.Go(ctx, "GET", "a").Wait(ctx).Err(); !errors.Is(err, ErrNotSent) {
		t.Error("after Close:", err)
	}
}

// checkSumOfNodeStats compares the statistics of all nodes with those of each. The client looks for
// a moved slot in the background, so requests are written between any two looks.
func checkSumOfNodeStats(t *testing.T, c *Cluster, busy string) {
	t.Helper()
	before, stats, after := c.NodeStats(), c.Stats(), c.NodeStats()
	requests := func(nodes map[string]PipeStats) (total uint64) {
		for _, s := range nodes {
			total += s.Requests
		}
		return total
	}
	if after[busy].Requests == 0 {
		t.Error("no requests to", busy)
	}
	if stats.Requests < requests(before) || stats.Requests > requests(after) ||
		stats.Requests < 5 || stats.Pipes < 3 {
		t.Errorf("%+v, not between %v and %v", stats, before, after)
	}
}
