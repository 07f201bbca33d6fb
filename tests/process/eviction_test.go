package process

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

var evictingPolicies = []string{
	"allkeys-lru", "allkeys-lfu", "allkeys-random",
	"volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl",
}

// live returns the bytes of live data of a server.
func live(t *testing.T, conn *wire.Conn) int64 {
	t.Helper()
	return information(t, conn, "used_memory_dataset")
}

// Twice the limit is written by several clients at once, of values of all sizes and of
// collections, in transactions too, beside readers, blocked clients and flushes.
func TestEviction_TwiceTheLimitFitsUnderEveryPolicy(t *testing.T) {
	const limit = 24 << 20
	for _, workers := range []int{1, 2} {
		server := instance.Start(t, instance.Subject, "--maxmemory", strconv.Itoa(limit),
			"--worker-threads", strconv.Itoa(workers))
		conn := server.Dial(t)
		for _, policy := range evictingPolicies {
			expectOK(t, conn, "FLUSHALL", "ASYNC")
			expectOK(t, conn, "CONFIG", "SET", "maxmemory-policy", policy)
			evicted := information(t, conn, "evicted_keys")
			var group sync.WaitGroup
			for client := range 4 {
				group.Go(func() { overfill(t, server, client, limit/2, workers) })
			}
			group.Wait()
			if t.Failed() {
				t.Fatalf("%s, %d workers", policy, workers)
			}
			if evicted == information(t, conn, "evicted_keys") {
				t.Errorf("%s evicted nothing", policy)
			}
			if bytes := live(t, conn); bytes < limit*3/4 {
				t.Errorf("%s, %d workers: only %d bytes are live", policy, workers, bytes)
			}
		}
		resident, err := instance.ResidentBytes(server.PID)
		// Dirty pages of the allocator, and the program itself, are in the 64 MiB.
		if bound := int64(limit*115/100 + 64<<20); err != nil || resident > bound {
			t.Errorf("%d workers: %d bytes are resident, more than %d (%v)",
				workers, resident, bound, err)
		}
	}
}

// overfill writes that many bytes in keys that expire, and looks at the limit in between.
func overfill(t *testing.T, server *instance.Server, client, bytes, workers int) {
	conn := server.Dial(t)
	random := rand.New(rand.NewPCG(uint64(client), 1))
	written := 0
	for number := 0; written < bytes; number++ {
		key := fmt.Sprintf("key:%d:%d", client, number)
		size := int(math.Exp(random.Float64() * math.Log(20_000)))
		value := strings.Repeat("x", size)
		var requests []string
		switch number % 8 {
		case 0:
			requests = []string{"MULTI", "SET " + key + " " + value, "EXPIRE " + key + " 9000",
				"EXEC"}
		case 1:
			requests = []string{"RPUSH " + key + " " + value + " a b", "EXPIRE " + key + " 9000"}
		case 2:
			requests = []string{"HSET " + key + " field " + value, "EXPIRE " + key + " 9000"}
		case 3:
			requests = []string{"SET " + key + " " + value + " PX 5"}
		default:
			requests = []string{"SET " + key + " " + value + " EX 9000"}
		}
		for _, request := range requests {
			reply, err := conn.Do(strings.Split(request, " ")...)
			if err != nil || reply.IsError() {
				t.Errorf("%.40s answers %s (%v)", request, reply, err)
				return
			}
		}
		written += size
		if number%200 == 199 {
			// The largest command of each client is beyond it for a moment.
			bound := int64(24<<20 + workers<<20)
			if bytes := live(t, conn); bytes > bound {
				t.Errorf("%d bytes are live, more than %d", bytes, bound)
				return
			}
		}
	}
}

// At the limit, clients that block are served, and a flush leaves room at once.
func TestEviction_BesideBlockedClientsAndFlushes(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--maxmemory", "8mb", "--worker-threads", "2",
		"--maxmemory-policy", "allkeys-lru")
	conn, blocked := server.Dial(t), server.Dial(t)
	value := strings.Repeat("x", 1000)
	for round := range 20 {
		if err := blocked.Send("BLPOP", "queue", "0"); err != nil {
			t.Fatal(err)
		}
		for number := range 2000 {
			expectOK(t, conn, "SET", fmt.Sprintf("key:%d:%d", round, number), value)
		}
		do(t, conn, "RPUSH", "queue", value)
		if reply, err := blocked.Receive(); err != nil || len(reply.Items) != 2 {
			t.Fatal(reply, err)
		}
		if round%5 == 4 {
			expectOK(t, conn, "FLUSHALL", "ASYNC")
			before := information(t, conn, "evicted_keys")
			for number := range 2000 {
				expectOK(t, conn, "SET", "after:"+strconv.Itoa(number), value)
			}
			if evicted := information(t, conn, "evicted_keys") - before; evicted > 0 {
				t.Fatalf("%d keys were evicted behind a flush", evicted)
			}
		}
	}
}

// Hit rate of a cache whose keys are asked for by Zipf's law, beside Valkey with room for as many.
func TestEviction_HitRateIsThatOfValkey(t *testing.T) {
	for _, policy := range []string{"allkeys-lru", "allkeys-lfu"} {
		theirs := cache{t, instance.Start(t, instance.Valkey, "--maxmemory-policy", policy).Dial(t)}
		ours := cache{t, instance.Start(t, instance.Subject, "--maxmemory-policy", policy).Dial(t)}
		theirRate, theirKeys := theirs.hitRate(4000, "used_memory")
		rate, keys := ours.hitRate(theirKeys, "used_memory_dataset")
		t.Logf("%s: hit rates %.4f and %.4f of Valkey, %d and %d keys",
			policy, rate, theirRate, keys, theirKeys)
		if ratio := float64(keys) / float64(theirKeys); ratio < 0.97 || ratio > 1.03 {
			t.Errorf("%s: %d and %d keys are no comparison", policy, keys, theirKeys)
		}
		if rate < theirRate-0.01 {
			t.Errorf("%s: %.4f of requests hit, %.4f of Valkey's", policy, rate, theirRate)
		}
	}
}

// cache is a server that holds some of the keys that are asked for.
type cache struct {
	*testing.T
	conn *wire.Conn
}

func (c cache) number(field string) int64 {
	c.Helper()
	return information(c.T, c.conn, field)
}

// hitRate limits a server to the memory of about `capacity` keys by what it counts, and asks for
// five times as many. It returns the share of hits, and the number of keys at the end.
func (c cache) hitRate(capacity int, counted string) (rate float64, keys int) {
	c.Helper()
	const population, batch, batches = 20_000, 50, 3_000
	value := strings.Repeat("v", 200)
	for number := range capacity {
		expectOK(c.T, c.conn, "SET", fmt.Sprintf("key:%06d", number), value)
	}
	limit := c.number(counted)
	expectOK(c.T, c.conn, "CONFIG", "SET", "maxmemory", strconv.FormatInt(limit, 10))
	law := newZipf(population, 0.9)
	random := rand.New(rand.NewPCG(7, 7))
	var hits, total int
	for number := range batches {
		var names []string
		for range batch {
			names = append(names, fmt.Sprintf("key:%06d", law.draw(random)*7919%population))
		}
		missed := c.missing(names)
		for _, name := range missed {
			expectOK(c.T, c.conn, "SET", name, value)
		}
		keys = int(do(c.T, c.conn, "DBSIZE").Int())
		if steps := batches / 16; number > 0 && number%steps == 0 && number < batches/2 &&
			counted != "used_memory" {
			// Tables of keys that come and go take another share than those of keys that came.
			limit += int64(capacity-keys) * 250
			expectOK(c.T, c.conn, "CONFIG", "SET", "maxmemory", strconv.FormatInt(limit, 10))
		}
		if number >= batches/2 {
			hits, total = hits+batch-len(missed), total+batch
		}
	}
	return float64(hits) / float64(total), keys
}

// missing asks for keys at once and returns those that are not there.
func (c cache) missing(names []string) (missed []string) {
	c.Helper()
	var requests []byte
	for _, name := range names {
		requests = wire.AppendCommand(requests, wire.Arguments("GET", name)...)
	}
	if err := c.conn.SendRaw(requests); err != nil {
		c.Fatal(err)
	}
	for _, name := range names {
		reply, err := c.conn.Receive()
		if err != nil {
			c.Fatal(err)
		}
		if len(reply.Text) == 0 {
			missed = append(missed, name)
		}
	}
	return missed
}

// zipf draws ranks by Zipf's law.
type zipf struct{ sums []float64 }

func newZipf(count int, exponent float64) zipf {
	sums, sum := make([]float64, count), 0.0
	for rank := range sums {
		sum += 1 / math.Pow(float64(rank+1), exponent)
		sums[rank] = sum
	}
	return zipf{sums}
}

func (z zipf) draw(random *rand.Rand) int {
	wanted := random.Float64() * z.sums[len(z.sums)-1]
	low, high := 0, len(z.sums)-1
	for low < high {
		middle := (low + high) / 2
		if z.sums[middle] < wanted {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// Buffers of clients count for maxmemory as of the last tick. Those of one that is gone do not,
// even if they were dropped before it was: the next write has room, and need not wait for a tick.
func TestEviction_BuffersOfClosedClientsCountNoMore(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--maxmemory", "4mb", "--worker-threads", "1")
	conn := server.Dial(t)
	value := strings.Repeat("v", 200_000)
	expectOK(t, conn, "SET", "large", value)
	gets := wire.AppendCommand(nil, wire.Arguments("GET", "large")...)
	for range 5 {
		reader, err := net.Dial("tcp", server.Address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reader.Write(bytes.Repeat(gets, 200)); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "replies that nobody reads take the room", func() bool {
			reply, err := conn.Do("SET", "small", "v")
			return err == nil && strings.Contains(reply.String(), "OOM command")
		})
		reader.Close()
		waitFor(t, "the client is gone", func() bool {
			return information(t, conn, "connected_clients") == 1
		})
		expectOK(t, conn, "SET", "small", "v")
	}
}

// A limit, or a policy, that asks for an eviction is obeyed before the next command.
func TestEviction_FollowsTheSettingsAtOnce(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "1")
	conn := server.Dial(t)
	expectOK(t, conn, "CONFIG", "SET", "import-mode", "yes")
	for range 5 {
		expectOK(t, conn, "SET", "key", "value")
		expectOK(t, conn, "CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "allkeys-lru")
		if reply, err := conn.Do("DBSIZE"); err != nil || reply.String() != ":1" {
			t.Fatalf("in import mode: %v, %v", reply, err)
		}
		expectOK(t, conn, "CONFIG", "SET", "import-mode", "no")
		if reply, err := conn.Do("DBSIZE"); err != nil || reply.String() != ":0" {
			t.Fatalf("out of import mode: %v, %v", reply, err)
		}
		expectOK(t, conn, "CONFIG", "SET", "import-mode", "yes", "maxmemory", "0")
	}
}
