package goredis

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
)

// clusterPair is a cluster of two primaries with half of the slots each.
func clusterPair(t *testing.T) (nodes [2]*testServer, admin [2]*redis.Client) {
	t.Helper()
	ctx := testContext(t)
	for i := range nodes {
		nodes[i] = startServer(t, "--cluster-enabled", "yes")
		admin[i] = nodes[i].plain(t)
		if err := admin[i].ClusterAddSlotsRange(ctx, i*8192, i*8192+8191).Err(); err != nil {
			t.Fatal(err)
		}
	}
	host, port, _ := net.SplitHostPort(nodes[1].address)
	if err := admin[0].ClusterMeet(ctx, host, port).Err(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the cluster", func() bool {
		for _, node := range admin {
			info := node.ClusterInfo(ctx).Val()
			if !strings.Contains(info, "cluster_state:ok") ||
				!strings.Contains(info, "cluster_known_nodes:2") {
				return false
			}
		}
		return true
	})
	return nodes, admin
}

func TestClusterClient_SlotsMoveUnderLoad(t *testing.T) {
	checkLeaks(t)
	nodes, admin := clusterPair(t)
	ctx := testContext(t)
	client := NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{nodes[0].address, nodes[1].address}, MaxRedirects: 16,
	})
	defer client.Close()
	const keys = 32
	key := func(i int) string { return fmt.Sprint("counter:", i) }
	var acknowledged [keys]atomic.Int64
	var stop atomic.Bool
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			for i := worker; !stop.Load(); i++ {
				if err := client.Incr(ctx, key(i%keys)).Err(); err != nil {
					t.Errorf("%s: %v", key(i%keys), err)
					return
				}
				acknowledged[i%keys].Add(1)
			}
		})
	}
	ids := [2]string{admin[0].ClusterMyID(ctx).Val(), admin[1].ClusterMyID(ctx).Val()}
	moved := 0
	for i := range keys {
		slot := int(admin[0].ClusterKeySlot(ctx, key(i)).Val())
		if slot < 8192 && moveSlot(t, ctx, slot, ids, nodes, admin) {
			moved++
		}
	}
	stop.Store(true)
	group.Wait()
	if moved < keys/4 {
		t.Errorf("only %d slots were moved", moved)
	}
	for i, node := range admin {
		if count := connections(t, node); count > 4 { // ASKING travels on the shared one too
			t.Errorf("%d real connections to node %d", count, i)
		}
	}
	for i := range keys {
		value, err := client.Get(ctx, key(i)).Int64()
		if wanted := acknowledged[i].Load(); err != nil && wanted > 0 || value != wanted {
			t.Errorf("%s is %d, acknowledged %d times: %v", key(i), value, wanted, err)
		}
	}
	for i := range 20 {
		if err := client.Set(ctx, fmt.Sprint("other:", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	parts := [2]int64{admin[0].DBSize(ctx).Val(), admin[1].DBSize(ctx).Val()}
	if total, err := client.DBSize(ctx).Result(); total != parts[0]+parts[1] || parts[0] == 0 ||
		parts[1] == 0 || err != nil {
		t.Errorf("DBSIZE of the cluster is %d, of its nodes %d: %v", total, parts, err)
	}
	// go-redis's own FlushAll reaches one node only.
	if err := client.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		return master.FlushAll(ctx).Err()
	}); err != nil {
		t.Error(err)
	}
	if left := admin[0].DBSize(ctx).Val() + admin[1].DBSize(ctx).Val(); left != 0 {
		t.Error("keys after FLUSHALL:", left)
	}
}

// moveSlot moves a slot from the first node to the second, answering ASK meanwhile; false when it
// moved before.
func moveSlot(
	t *testing.T, ctx context.Context, slot int, ids [2]string, nodes [2]*testServer,
	admin [2]*redis.Client,
) bool {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := admin[1].Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0]).Err(); err != nil {
		return false
	}
	must(admin[0].Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1]).Err())
	host, port, _ := net.SplitHostPort(nodes[1].address)
	for {
		names, err := admin[0].ClusterGetKeysInSlot(ctx, slot, 100).Result()
		must(err)
		if len(names) == 0 {
			break
		}
		for _, name := range names {
			must(admin[0].Migrate(ctx, host, port, name, 0, 0).Err())
		}
	}
	must(admin[1].Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", ids[1]).Err())
	must(admin[0].Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", ids[1]).Err())
	return true
}
