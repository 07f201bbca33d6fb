package tidemill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// startClusterClient starts a cluster and a client of it.
func startClusterClient(t *testing.T, change ...func(*Options)) (*Cluster, []*testServer) {
	t.Helper()
	checkLeaks(t)
	servers := startCluster(t)
	return newClusterClient(t, servers, change...), servers
}

func newClusterClient(t *testing.T, servers []*testServer, change ...func(*Options)) *Cluster {
	t.Helper()
	var options Options
	for _, apply := range change {
		apply(&options)
	}
	c, err := NewCluster(testContext(t, 10*time.Second), []string{
		servers[0].address, servers[4].address,
	}, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// whileSlotMoves runs body again and again while a slot with its keys moves from node to node.
func whileSlotMoves(t *testing.T, servers []*testServer, slot int, body func(round int)) {
	t.Helper()
	moved := make(chan struct{})
	defer func() { <-moved }() // also where body ends the test
	go func() {
		defer close(moved)
		migrateSlot(t, servers, slot)
	}()
	for round := 0; ; round++ {
		body(round)
		select {
		case <-moved:
			body(round + 1)
			return
		default:
		}
	}
}

func TestCluster_SplitBatchAndTxFollowAMovingSlot(t *testing.T) {
	c, servers := startClusterClient(t)
	ctx := testContext(t, 40*time.Second)
	var keys []string
	var pairs []any
	for i := range 200 {
		key := fmt.Sprint("split:", i)
		keys = append(keys, key)
		pairs = append(pairs, key, "value of "+key)
	}
	for i := range 50 { // more keys for the slot, so that its move takes a while
		if err := c.Set(ctx, fmt.Sprintf("{split:7}%d", i), i).Err(); err != nil {
			t.Fatal(err)
		}
	}
	line := append([]any{"MSET"}, pairs...)
	if err := c.Do(ctx, line...).Err(); !errors.Is(err, ServerCode("CROSSSLOT")) {
		t.Error("without asking for it:", err)
	}
	if err := c.Do(WithSplit(ctx), line...).Err(); err != nil {
		t.Fatal(err)
	}
	counter := int64(0)
	whileSlotMoves(t, servers, slotOf([]byte("split:7")), func(round int) {
		got, err := c.MGet(WithSplit(ctx), append(keys, "absent")...).Array()
		if err != nil || len(got) != len(keys)+1 || !got[len(keys)].IsNil() {
			t.Fatal(len(got), err)
		}
		for i, key := range keys {
			if text, err := got[i].Text(); err != nil || text != "value of "+key {
				t.Fatalf("%s: %q, %v", key, text, err)
			}
		}
		var b Batch
		for _, key := range keys {
			b.Add("HINCRBY", "{"+key+"}hash", "round", 1)
			b.Add("HGET", "{"+key+"}hash", "round")
		}
		replies, err := c.RunBatch(ctx, &b)
		if err != nil {
			t.Fatal(err)
		}
		for i, reply := range replies {
			if n, err := reply.Int64(); err != nil || n != int64(round+1) {
				t.Fatalf("batch command %d in round %d: %d, %v", i, round, n, err)
			}
		}
		var tx Tx
		tx.Add("INCR", "{split:7}counter")
		tx.Add("GET", "{split:7}counter")
		results, err := c.RunTx(ctx, &tx)
		if err != nil {
			t.Fatal(err)
		}
		counter++
		for _, result := range results {
			if n, err := result.Int64(); err != nil || n != counter {
				t.Fatal(n, counter, err)
			}
		}
	})
	t.Log("rounds", counter)
	if n, err := c.Exists(WithSplit(ctx), keys...).Int64(); n != 200 || err != nil {
		t.Error("EXISTS:", n, err)
	}
	if n, err := c.Unlink(WithSplit(ctx), keys...).Int64(); n != 200 || err != nil {
		t.Error("UNLINK:", n, err)
	}
}

// A slot half moved: what is not on its primary any more is found where ASK says, at once.
func TestCluster_AskIsFollowedWhileAMoveIsUnfinished(t *testing.T) {
	c, servers := startClusterClient(t)
	ctx := testContext(t, 40*time.Second)
	slot := slotOf([]byte("{half}"))
	owner := slot * 3 / slotCount
	source, target := newTestClient(t, servers[owner].address),
		newTestClient(t, servers[(owner+1)%3].address)
	sourceID, _ := source.Do(ctx, "CLUSTER", "MYID").Text()
	targetID, _ := target.Do(ctx, "CLUSTER", "MYID").Text()
	err := errors.Join(c.Set(ctx, "{half}stays", 1).Err(),
		target.Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", sourceID).Err(),
		source.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", targetID).Err())
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := c.Set(short, "{half}new", 1).Err(); err != nil {
		t.Error("a command:", err)
	}
	var b Batch
	b.Add("INCR", "{half}new")
	b.Add("INCR", "{half}stays")
	b.Add("INCR", "{half}new")
	replies, err := c.RunBatch(short, &b)
	if err != nil || fmt.Sprint(replies) != "[2 2 3]" {
		t.Error("a batch:", replies, err)
	}
	var tx Tx
	tx.Add("INCR", "{half}new")
	tx.Add("INCR", "{half}new")
	if replies, err = c.RunTx(short, &tx); err != nil || fmt.Sprint(replies) != "[4 5]" {
		t.Error("a transaction:", replies, err)
	}
	if got, err := c.BLPop(short, []string{"{half}list"}, 0.05).Array(); !errors.Is(err, ErrNil) {
		t.Error("a blocking command:", got, err)
	}
	// Requests that chose a node just before it left the cluster go to the next.
	node := c.pick(slot)
	c.closeNodes(ctx, func(n *clusterNode) bool { return n == node })
	if n, err := c.Get(short, "{half}stays").Int64(); n != 2 || err != nil {
		t.Error("after its node was closed:", n, err)
	}
}

// A command that was blocked for longer than ConnectWait is still redirected.
func TestCluster_BlockedCommandFollowsItsSlot(t *testing.T) {
	c, servers := startClusterClient(t, func(o *Options) { o.ConnectWait = 2 * time.Second })
	ctx := testContext(t, 40*time.Second)
	blocked := make(chan Reply, 1)
	go func() { blocked <- c.BLPop(ctx, []string{"queue"}, 0) }()
	slot := slotOf([]byte("queue"))
	source := newTestClient(t, servers[slot*3/slotCount].address)
	waitFor(t, 10*time.Second, "the blocked command", func() bool {
		text, err := source.Do(ctx, "CLIENT", "LIST").Text()
		return err == nil && strings.Contains(text, "cmd=blpop")
	})
	time.Sleep(2500 * time.Millisecond)
	migrateSlot(t, servers, slot)
	if err := newClusterClient(t, servers).RPush(ctx, "queue", "item").Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := (<-blocked).Strings(); err != nil || got[1] != "item" {
		t.Error(got, err)
	}
}

func TestCluster_WatchRunsWhereTheKeysAre(t *testing.T) {
	c, servers := startClusterClient(t)
	ctx := testContext(t, 40*time.Second)
	commits := int64(0)
	whileSlotMoves(t, servers, slotOf([]byte("watched")), func(int) {
		_, err := c.Watch(ctx, func(d *Dedicated) (*Tx, error) {
			n, err := d.Get(ctx, "watched").Int64()
			if err != nil && !errors.Is(err, ErrNil) {
				return nil, err
			}
			tx := &Tx{}
			tx.Add("SET", "watched", n+1)
			return tx, nil
		}, "watched")
		var refused *ServerError
		switch {
		case err == nil:
			commits++
		case errors.As(err, &refused) && (refused.Code == "ASK" || refused.Code == "MOVED" ||
			refused.Code == "TRYAGAIN"):
		case errors.Is(err, ErrTxAborted): // MIGRATE touched the key
		default:
			t.Fatal(err)
		}
	})
	if n, err := c.Get(ctx, "watched").Int64(); n != commits || err != nil || commits == 0 {
		t.Fatal(n, commits, err)
	}
	if _, err := c.Watch(ctx, nil, "a", "b"); !errors.Is(err, ErrCrossSlot) {
		t.Error(err)
	}
}

func TestCluster_IterateMissesNothingWhileSlotsMove(t *testing.T) {
	c, servers := startClusterClient(t)
	ctx := testContext(t, 5*time.Minute)
	var pairs []any
	for i := range 20000 {
		pairs = append(pairs, fmt.Sprint("scan:", i), i)
	}
	for chunk := range slices.Chunk(pairs, 4000) {
		if err := c.Do(WithSplit(ctx), append([]any{"MSET"}, chunk...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	// Slots of the last node go to the first, which the walk has behind it by then.
	seen, moved := map[string]bool{}, false
	last := 2 * slotCount / 3
	for key, err := range c.Iterate(ctx, "scan:*") {
		if err != nil {
			t.Fatal(err)
		}
		seen[key] = true
		if slot := slotOf([]byte(key)); !moved && slot*3/slotCount == 1 {
			moved = true
			for i := 1; i <= 200; i++ {
				moveSlotAtOnce(t, servers, last+i)
			}
		}
	}
	if !moved || len(seen) != 20000 {
		t.Fatalf("%d keys of 20000, moved: %v", len(seen), moved)
	}
}

// moveSlotAtOnce is migrateSlot without time for others to meet ASK.
func moveSlotAtOnce(t *testing.T, servers []*testServer, slot int) {
	t.Helper()
	ctx := testContext(t, 20*time.Second)
	owner := slot * 3 / slotCount
	source, target := newTestClient(t, servers[owner].address),
		newTestClient(t, servers[(owner+1)%3].address)
	defer source.Close()
	defer target.Close()
	sourceID, _ := source.Do(ctx, "CLUSTER", "MYID").Text()
	targetID, _ := target.Do(ctx, "CLUSTER", "MYID").Text()
	setSlot(ctx, t, target, slot, "IMPORTING", sourceID)
	setSlot(ctx, t, source, slot, "MIGRATING", targetID)
	keys, _ := source.Do(ctx, "CLUSTER", "GETKEYSINSLOT", slot, 10000).Strings()
	line := []any{"MIGRATE", "127.0.0.1", strings.TrimPrefix(target.options.Address, "127.0.0.1:"),
		"", 0, 5000, "KEYS"}
	for _, key := range keys {
		line = append(line, key)
	}
	if len(keys) > 0 {
		if err := source.Do(ctx, line...).Err(); err != nil {
			t.Error(err)
		}
	}
	setSlot(ctx, t, target, slot, "NODE", targetID)
	setSlot(ctx, t, source, slot, "NODE", targetID)
}

// executedGets counts the GETs that each server executed.
func executedGets(t *testing.T, servers []*testServer) (counts []int) {
	t.Helper()
	for _, s := range servers {
		c := newTestClient(t, s.address)
		text, err := c.Info(testContext(t, 5*time.Second), "commandstats").Text()
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		if _, rest, found := strings.Cut(text, "cmdstat_get:calls="); found {
			_, _ = fmt.Sscanf(rest, "%d", &count)
		}
		counts = append(counts, count)
		_ = c.Close()
	}
	return counts
}

func TestCluster_ReadPoliciesChooseTheirNodes(t *testing.T) {
	checkLeaks(t)
	servers := startCluster(t)
	ctx := testContext(t, 60*time.Second)
	for i, s := range servers { // primaries in zone a, replicas in zone b
		zone := []string{"a", "b"}[i/3]
		if err := newTestClient(t, s.address).Do(ctx, "CONFIG", "SET", "availability-zone",
			zone).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		policy              ReadPolicy
		zone                string
		primaries, replicas bool
	}{
		{ReadPrimary, "", true, false},
		{ReadPreferReplica, "", false, true},
		{ReadAny, "", true, true},
		{ReadSameZone, "b", false, true},
		{ReadSameZone, "a", true, false},
		{ReadSameZone, "nowhere", false, true},
	} {
		c := newClusterClient(t, servers, func(o *Options) {
			o.ReadFrom, o.Zone = test.policy, test.zone
		})
		for i := range 30 {
			if err := c.Set(ctx, fmt.Sprint("read:", i), i).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if test.policy == ReadSameZone {
			waitFor(t, 10*time.Second, "zones", func() bool {
				return !slices.ContainsFunc(c.members(), func(n *clusterNode) bool {
					return n.zone.Load() == nil
				})
			})
			c.arrangeAll()
		}
		before := executedGets(t, servers)
		until := time.Now().Add(400 * time.Millisecond) // several periods of the seed
		for i := 0; time.Now().Before(until); i++ {
			got, err := c.Get(ctx, fmt.Sprint("read:", i%30)).Int64()
			if err != nil && !errors.Is(err, ErrNil) || err == nil && got != int64(i%30) {
				t.Fatal(got, err)
			}
		}
		after := executedGets(t, servers)
		primaries, replicas := 0, 0
		for i := range servers {
			if i < 3 {
				primaries += after[i] - before[i]
			} else {
				replicas += after[i] - before[i]
			}
		}
		if primaries > 0 != test.primaries || replicas > 0 != test.replicas {
			t.Errorf("policy %d, zone %q: %d reads on primaries, %d on replicas", test.policy,
				test.zone, primaries, replicas)
		}
		_ = c.Close()
	}
	if _, err := NewCluster(ctx, []string{servers[0].address},
		Options{ReadFrom: ReadSameZone}); !errors.Is(err, ErrArgument) {
		t.Error(err)
	}
}

// Primaries are far away here, replicas are near.
func TestCluster_LowestLatencyAvoidsSlowNodes(t *testing.T) {
	var far sync.Map
	c, servers := startClusterClient(t, func(o *Options) {
		o.ReadFrom = ReadLowestLatency
		o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			var slow atomic.Bool
			if _, found := far.Load(address); found {
				slow.Store(true)
			}
			return slowConn{conn, &slow, 50 * time.Millisecond}, err
		}
	})
	_ = c.Close()
	for _, s := range servers[:3] {
		far.Store(s.address, true)
	}
	c = newClusterClient(t, servers, func(o *Options) {
		o.ReadFrom, o.Dialer = c.options.ReadFrom, c.options.Dialer
	})
	ctx := testContext(t, 30*time.Second)
	if err := c.Set(ctx, "key", "v").Err(); err != nil {
		t.Fatal(err)
	}
	primary := c.pick(slotOf([]byte("key")))
	waitFor(t, 10*time.Second, "probes", func() bool {
		readers := *c.topology.Load().slots[slotOf([]byte("key"))].readers.Load()
		return len(readers) == 1 && readers[0] != primary
	})
	before := executedGets(t, servers)
	for range 100 {
		if _, err := c.Get(ctx, "key").Text(); err != nil {
			t.Fatal(err)
		}
	}
	after := executedGets(t, servers)
	for i := range 3 {
		if after[i] != before[i] {
			t.Error("reads on a slow primary:", after[i]-before[i])
		}
	}
}

func TestFastest_IgnoresNoiseAndTheUnmeasured(t *testing.T) {
	make := func(latency time.Duration) *clusterNode {
		n := &clusterNode{}
		n.latency.Store(int64(latency))
		return n
	}
	near, alike, far, unknown := make(time.Millisecond), make(1200*time.Microsecond),
		make(3*time.Millisecond), make(0)
	if got := fastest([]*clusterNode{far, near, unknown, alike}); len(got) != 2 || got[0] != near ||
		got[1] != alike {
		t.Error(len(got))
	}
	if got := fastest([]*clusterNode{unknown}); len(got) != 1 {
		t.Error("nothing is measured yet:", len(got))
	}
}

// Reads go on, within their deadlines, while a replica dies and comes back on another port.
func TestCluster_ReadsSurviveAReplicaRestartedOnAnotherPort(t *testing.T) {
	c, servers := startClusterClient(t, func(o *Options) { o.ReadFrom = ReadPreferReplica })
	ctx := testContext(t, 60*time.Second)
	for i := range 30 {
		if err := c.Set(ctx, fmt.Sprint("read:", i), i).Err(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(200 * time.Millisecond) // replication
	stopping, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := worker; stopping.Err() == nil; i++ {
				attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
				got, err := c.Get(attempt, fmt.Sprint("read:", i%30)).Int64()
				cancel()
				if err != nil || got != int64(i%30) {
					t.Errorf("read:%d: %d, %v", i%30, got, err)
					return
				}
			}
		})
	}
	victim := servers[3]
	time.Sleep(200 * time.Millisecond)
	restartElsewhere(t, victim)
	waitFor(t, 30*time.Second, "reads from the restarted replica", func() bool {
		n := c.nodeAt(victim.address)
		p := n.current.Load()
		return p != nil && p.snapshot().Requests > 100
	})
	stop()
	group.Wait()
}

// restartElsewhere kills a server and starts it again, with what it knows of its cluster, on new
// ports.
func restartElsewhere(t *testing.T, s *testServer) {
	t.Helper()
	s.stop()
	s.startOnFreePorts(t)
}

func TestCluster_WritesSurviveAPrimaryRestartedOnAnotherPort(t *testing.T) {
	c, servers := startClusterClient(t)
	ctx := testContext(t, 60*time.Second)
	if err := newTestClient(t, servers[3].address).Do(ctx, "CONFIG", "SET",
		"cluster-replica-no-failover", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	key := ""
	for i := 0; slotOf([]byte(key))*3/slotCount != 0 || key == ""; i++ {
		key = fmt.Sprint("key:", i)
	}
	if err := c.Set(ctx, key, 1).Err(); err != nil {
		t.Fatal(err)
	}
	old := c.pick(slotOf([]byte(key))).address
	restartElsewhere(t, servers[0])
	waitFor(t, 30*time.Second, "writes at the new port", func() bool {
		attempt, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		err := c.Set(attempt, key, 2).Err()
		if err != nil && !errors.Is(err, ErrNotSent) && !errors.Is(err, ErrMaybeSent) {
			t.Log(err)
		}
		return err == nil
	})
	if now := c.pick(slotOf([]byte(key))).address; now != servers[0].address || now == old {
		t.Errorf("writes go to %s, the server is at %s", now, servers[0].address)
	}
}

func TestCluster_ShardSubscriptionFollowsItsSlot(t *testing.T) {
	c, servers := startClusterClient(t)
	ctx := testContext(t, 40*time.Second)
	channels := []string{"shard:1", "shard:2", "shard:3", "shard:4"}
	sub := subscribed(t, ctx, c, SubscribeOptions{Shard: channels})
	for _, channel := range channels {
		if n, err := c.SPublish(ctx, channel, "first").Int64(); n != 1 || err != nil {
			t.Fatal(channel, n, err)
		}
	}
	for range channels {
		if m := receive(t, sub); m.Payload != "first" {
			t.Fatal(m)
		}
	}
	migrateSlot(t, servers, slotOf([]byte("shard:2")))
	waitFor(t, 10*time.Second, "the moved channel", func() bool {
		n, _ := c.SPublish(ctx, "shard:2", "moved").Int64()
		return n == 1
	})
	if m := receive(t, sub); m.Channel != "shard:2" || m.Payload != "moved" {
		t.Fatal(m)
	}
}

func receive(t *testing.T, sub *Subscription) Message {
	t.Helper()
	select {
	case m, ok := <-sub.Messages():
		if !ok {
			t.Fatal("the subscription ended:", sub.Err())
		}
		return m
	case <-time.After(10 * time.Second):
		t.Fatal("no message")
	}
	return Message{}
}

// Keyspace notifications are told by each node alone; after a failover the new primary is listened
// to.
func TestCluster_EveryNodeSubscriptionFollowsAFailover(t *testing.T) {
	c, servers := startClusterClient(t)
	ctx := testContext(t, 60*time.Second)
	for _, s := range servers {
		direct := newTestClient(t, s.address)
		if err := direct.Do(ctx, "CONFIG", "SET", "notify-keyspace-events",
			"K$").Err(); err != nil {
			t.Fatal(err)
		}
		_ = direct.Close()
	}
	sub := subscribed(t, ctx, c, SubscribeOptions{
		Patterns: []string{"__keyspace@0__:*"}, EveryNode: true,
	})
	plain := subscribed(t, ctx, c, SubscribeOptions{Channels: []string{"news"}})
	told := func(key string) bool {
		if err := c.Set(WithIdempotent(ctx), key, 1).Err(); err != nil {
			t.Fatal(err)
		}
		limit := time.After(2 * time.Second)
		for {
			select {
			case m := <-sub.Messages():
				if m.Channel == "__keyspace@0__:"+key {
					return true
				}
			case <-limit:
				return false
			}
		}
	}
	for i := range 12 {
		if key := fmt.Sprint("key:", i); !told(key) {
			t.Error("nothing was told about", key)
		}
	}
	key := "key:5"
	victim := c.pick(slotOf([]byte(key))).address
	killPrimary(ctx, t, servers, victim)
	waitFor(t, 30*time.Second, "notices from the new primary", func() bool { return told(key) })
	waitFor(t, 10*time.Second, "the plain subscription", func() bool {
		_ = c.Publish(ctx, "news", "x")
		select {
		case <-plain.Messages():
			return true
		case <-time.After(50 * time.Millisecond):
			return false
		}
	})
}

func TestSplitFailure_TellsWhatMayHaveHappened(t *testing.T) {
	del, mget := commandTable["DEL"], commandTable["MGET"]
	ok, refused := Reply{kind: KindInt, number: 1}, errorReply(newServerError("OOM no memory"))
	unsent, unknown := failedReply(notSent(ErrNoNode)), failedReply(maybeSent(ErrTimeout))
	for i, test := range []struct {
		info    *commandInfo
		replies []Reply
		sent    bool
		unknown bool
	}{
		{del, []Reply{unsent, unsent}, false, false},
		{del, []Reply{ok, unsent}, true, true},
		{del, []Reply{unknown, unsent}, true, true},
		{del, []Reply{refused, refused}, true, false},
		{del, []Reply{ok, refused}, true, true},
		{del, []Reply{refused, unsent}, false, false},
		{del, []Reply{unsent, refused}, false, false},
		{del, []Reply{ok, refused, unsent}, true, true},
		{mget, []Reply{ok, refused}, true, false},
	} {
		failed := splitFailure(test.replies, test.info)
		if failed == nil {
			t.Fatal(i, "no failure")
		}
		err := failed.Err()
		if errors.Is(err, ErrNotSent) == test.sent || errors.Is(err, ErrMaybeSent) != test.unknown {
			t.Error(i, err)
		}
	}
	if splitFailure([]Reply{ok, ok}, del) != nil {
		t.Error("a failure without one")
	}
}

func TestBatchFailure_TellsWhatMayHaveHappened(t *testing.T) {
	ok, refused := Reply{kind: KindInt, number: 1}, errorReply(newServerError("OOM no memory"))
	unsent, unknown := failedReply(notSent(ErrNoNode)), failedReply(maybeSent(ErrTimeout))
	for i, test := range []struct {
		flags   commandFlags
		replies []Reply
		want    error
	}{
		{0, []Reply{ok, refused}, nil},
		{0, []Reply{unsent, unsent}, ErrNotSent},
		{0, []Reply{unsent, refused}, ErrNotSent},
		{0, []Reply{unsent, ok}, ErrMaybeSent},
		{0, []Reply{ok, unsent}, ErrMaybeSent},
		{0, []Reply{unsent, unknown}, ErrMaybeSent},
		{0, []Reply{unknown, unsent}, ErrMaybeSent},
		{0, []Reply{unknown, ok}, ErrMaybeSent},
		{commandReads, []Reply{unsent, ok}, ErrNotSent},
	} {
		err := batchFailure(test.replies, test.flags).Err()
		if !errors.Is(err, test.want) || test.want == nil && err != nil {
			t.Error(i, err)
		}
	}
}

// Half of the slots have no node.
func TestCluster_BatchOfWhichAPartWasExecutedIsNotUnsent(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 20*time.Second)
	var address string
	address = startCommands(t, func(args []string) string {
		if args[0] == "CLUSTER" && args[1] == "SLOTS" {
			return strings.Replace(slotsAnswer(address), ":16383", ":8191", 1)
		}
		return "+OK\r\n"
	})
	c := newSeededCluster(t, address, briefly)
	var b Batch
	b.Add("SET", "bar", 1) // slot 5061
	b.Add("SET", "foo", 1) // slot 12182
	replies, err := c.RunBatch(ctx, &b)
	if !errors.Is(err, ErrMaybeSent) || replies[0].Err() != nil ||
		!errors.Is(replies[1].Err(), ErrNotSent) {
		t.Error(replies, err)
	}
}
