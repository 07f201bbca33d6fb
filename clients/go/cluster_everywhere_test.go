package tidemill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestCluster_CommandsOfAllShardsRunOnEveryPrimary(t *testing.T) {
	seen := &recorder{ended: map[string]int{}, count: map[string]int{}, fails: map[string]error{}}
	c, servers := startClusterClient(t, func(o *Options) { o.Hook = seen })
	ctx := testContext(t, time.Minute)
	var want []string
	var b Batch
	for i := range 300 {
		want = append(want, fmt.Sprint("key:", i))
		b.Add("SET", want[i], i)
	}
	if _, err := c.RunBatch(ctx, &b); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Do(ctx, "DBSIZE").Int64(); n != 300 || err != nil {
		t.Error("DBSIZE:", n, err)
	}
	keys, err := c.Keys(ctx, "key:*").Strings()
	slices.Sort(keys)
	slices.Sort(want)
	if err != nil || !slices.Equal(keys, want) {
		t.Errorf("KEYS: %d of %d, %v", len(keys), len(want), err)
	}
	digest, err := c.ScriptLoad(ctx, "return 1").Text()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers[:3] {
		direct := newTestClient(t, s.address)
		if got, err := As[[]int](direct.ScriptExists(ctx, digest)); err != nil || got[0] != 1 {
			t.Error(s.address, got, err)
		}
		if s == servers[2] {
			direct.Do(ctx, "SCRIPT", "LOAD", "return 2")
		}
		_ = direct.Close()
	}
	partial := NewScript("return 2").digest
	got, err := As[[]int](c.ScriptExists(ctx, digest, partial, "none"))
	if fmt.Sprint(got) != "[1 0 0]" || err != nil {
		t.Error("SCRIPT EXISTS:", got, err)
	}
	if err := c.Do(ctx, "SCRIPT", "KILL").Err(); !errors.Is(err, ServerCode("NOTBUSY")) {
		t.Error("SCRIPT KILL:", err)
	}
	err = c.Do(ctx, "CONFIG", "SET", "no-such-option", 1).Err()
	if !errors.Is(err, ServerCode("ERR")) || errors.Is(err, ErrMaybeSent) {
		t.Error("what every primary refuses:", err)
	}
	checkCountInOtherCalls(t, ctx, c)
	seen.mu.Lock()
	if seen.ended["DBSIZE"] != 2 || seen.count["DBSIZE"] != 2 {
		t.Error("the hook saw", seen.ended, seen.count)
	}
	seen.mu.Unlock()
	// One primary dies: the command reaches the replica that takes its slots over.
	killPrimary(ctx, t, servers, servers[1].address)
	waitFor(t, 30*time.Second, "FLUSHALL after a failover", func() bool {
		return c.Do(WithIdempotent(ctx), "FLUSHALL").Err() == nil
	})
	if n, err := c.Do(ctx, "DBSIZE").Int64(); n != 0 || err != nil {
		t.Error("DBSIZE after FLUSHALL:", n, err)
	}
}

// checkCountInOtherCalls asks for the count of 300 keys asynchronously and in a batch.
func checkCountInOtherCalls(t *testing.T, ctx context.Context, c *Cluster) {
	t.Helper()
	if n, err := c.Go(ctx, "DBSIZE").Wait(ctx).Int64(); n != 300 || err != nil {
		t.Error("asynchronous DBSIZE:", n, err)
	}
	var mixed Batch
	mixed.Add("GET", "key:1")
	mixed.Add("DBSIZE")
	mixed.Add("GET", "key:2")
	if replies, err := c.RunBatch(ctx, &mixed); fmt.Sprint(replies) != "[1 300 2]" || err != nil {
		t.Error("in a batch:", replies, err)
	}
}

func TestJoinShards_TellsPartialFailures(t *testing.T) {
	ok, refused := Reply{kind: KindSimple, text: "OK"},
		errorReply(newServerError("NOTBUSY no script"))
	if failed := splitFailure([]Reply{ok, failedReply(notSent(ErrNoNode))},
		commandTable["FLUSHALL"]); failed == nil || !errors.Is(failed.Err(), ErrMaybeSent) ||
		errors.Is(failed.Err(), ErrNotSent) || !errors.Is(failed.Err(), ErrNoNode) {
		t.Error(failed)
	}
	if failed := splitFailure([]Reply{refused, refused},
		commandTable["SCRIPT KILL"]); failed == nil ||
		!errors.Is(failed.Err(), ServerCode("NOTBUSY")) {
		t.Error(failed)
	}
	bits := func(numbers ...int64) Reply {
		items := make([]Reply, len(numbers))
		for i, n := range numbers {
			items[i] = Reply{kind: KindInt, number: n}
		}
		return Reply{kind: KindArray, extra: &extra{items: items}}
	}
	exists := commandTable["SCRIPT EXISTS"]
	if got := joinShards([]Reply{bits(1, 1, 0), bits(1, 0, 0)}, exists).String(); got != "[1 0 0]" {
		t.Error(got)
	}
	if err := joinShards([]Reply{bits(1, 1), bits(1)}, exists).Err(); !errors.Is(err, ErrProtocol) {
		t.Error(err)
	}
}

// A node comes back with another address, as after a move to another host: the old one answers no
// more.
func TestCluster_FollowsANodeWhoseAddressChanges(t *testing.T) {
	checkLeaks(t)
	s := startOneNodeCluster(t)
	_, port, _ := net.SplitHostPort(s.address)
	ctx := testContext(t, time.Minute)
	var host atomic.Value // documentation addresses stand for the loopback one
	announce := func(address string) {
		t.Helper()
		direct := newTestClient(t, s.address)
		defer direct.Close()
		if err := direct.Do(ctx, "CONFIG", "SET", "cluster-announce-client-ipv4",
			address).Err(); err != nil {
			t.Fatal(err)
		}
		host.Store(address)
		_ = direct.Do(ctx, "CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES").Err()
	}
	announce("192.0.2.1")
	c, err := NewCluster(ctx, []string{s.address}, Options{
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != s.address && address != net.JoinHostPort(host.Load().(string), port) {
				return nil, fmt.Errorf("nobody is at %s", address)
			}
			return (&net.Dialer{}).DialContext(ctx, network, s.address)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, address := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"} {
		announce(address)
		if err := c.Set(WithIdempotent(ctx), "key", address).Err(); err != nil {
			t.Fatal(address, err)
		}
		waitFor(t, 20*time.Second, "requests to "+address, func() bool {
			got, err := c.Get(ctx, "key").Text()
			return err == nil && got == address &&
				strings.HasPrefix(c.pick(slotOf([]byte("key"))).address, address+":")
		})
	}
}
