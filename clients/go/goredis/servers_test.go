package goredis

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// exercise sets and gets keys from several goroutines.
func exercise(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	ctx := testContext(t)
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			key := fmt.Sprint("key:", worker)
			if err := client.Set(ctx, key, worker, 0).Err(); err != nil {
				t.Error(err)
			}
			if value, err := client.Get(ctx, key).Int(); value != worker || err != nil {
				t.Errorf("%s: %d, %v", key, value, err)
			}
		})
	}
	group.Wait()
}

func TestClusterClient_SharesOneConnectionPerNode(t *testing.T) {
	checkLeaks(t)
	s := startServer(t, "--cluster-enabled", "yes")
	ctx, outside := testContext(t), s.plain(t)
	if err := outside.ClusterAddSlotsRange(ctx, 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the cluster", func() bool {
		return strings.Contains(outside.ClusterInfo(ctx).Val(), "cluster_state:ok")
	})
	client := NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.address}, ReadOnly: true})
	defer client.Close()
	exercise(t, client)
	if count := connections(t, outside); count > 2 {
		t.Errorf("%d real connections for one node", count)
	}
}

func TestRing_SharesOneConnectionPerShard(t *testing.T) {
	checkLeaks(t)
	first, second := startServer(t), startServer(t)
	client := NewRing(&redis.RingOptions{
		Addrs: map[string]string{"first": first.address, "second": second.address},
	})
	defer client.Close()
	exercise(t, client)
	for _, s := range []*testServer{first, second} {
		outside := s.plain(t)
		// two where CLIENT SETINFO is not known
		if count := connections(t, outside); count < 1 || count > 2 {
			t.Errorf("%d real connections to %s", count, s.address)
		}
		if outside.DBSize(testContext(t)).Val() == 0 {
			t.Errorf("nothing arrived at %s", s.address)
		}
	}
}

func TestFailoverClient_AsksTheSentinel(t *testing.T) {
	checkLeaks(t)
	master := startServer(t)
	host, port, _ := net.SplitHostPort(master.address)
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, "sentinel monitor it %s %s 1\n", host, port),
		0o600); err != nil {
		t.Fatal(err)
	}
	sentinel := startServerWith(t, config, "--sentinel")
	client := NewFailoverClient(&redis.FailoverOptions{
		MasterName: "it", SentinelAddrs: []string{sentinel.address},
	})
	defer client.Close()
	exercise(t, client)
	if count := connections(t, master.plain(t)); count > 4 { // of them two are the sentinel's
		t.Errorf("%d real connections to the master", count)
	}
}

func TestUniversalClient_WorksInEitherProtocol(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	ctx := testContext(t)
	for protocol := 2; protocol <= 3; protocol++ {
		client := NewUniversalClient(&redis.UniversalOptions{
			Addrs: []string{s.address}, Protocol: protocol, DB: 3,
		})
		exercise(t, client)
		client.HSet(ctx, "hash", "a", 1, "b", 2)
		client.ZAdd(ctx, "sorted", redis.Z{Score: 1.5, Member: "m"})
		if hash := client.HGetAll(ctx, "hash").Val(); len(hash) != 2 || hash["b"] != "2" {
			t.Errorf("protocol %d: %v", protocol, hash)
		}
		if members := client.ZRangeWithScores(ctx, "sorted", 0, -1).Val(); len(members) != 1 ||
			members[0].Score != 1.5 {
			t.Errorf("protocol %d: %v", protocol, members)
		}
		client.Close()
	}
}

func TestClient_ServesOthersWhileTheAddressDoesNotAnswer(t *testing.T) {
	checkLeaks(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts and stays silent
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client := NewClient(&redis.Options{
		Addr: listener.Addr().String(), ReadTimeout: 200 * time.Millisecond, MaxRetries: -1,
	})
	defer client.Close()
	started := time.Now()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := client.Ping(testContext(t)).Err(); err == nil {
				t.Error("a silent server answered")
			}
		})
	}
	group.Wait()
	if elapsed := time.Since(started); elapsed > 20*time.Second {
		t.Errorf("%v for a timeout of 200ms", elapsed)
	}
}
