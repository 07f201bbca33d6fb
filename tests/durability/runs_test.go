package durability

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	runClientCount  = 3
	runsPerClient   = 200
	runCommandCount = 40
	// evictedBeyondBytes is a part of what the runs would fill.
	evictedBeyondBytes = 300_000
)

// runLine is a command that may be part of a write run on a key of its family; one that removes an
// item may remove the key.
func runLine(random *rand.Rand, family, key string) []string {
	item, number := fmt.Sprintf("item %d", random.IntN(40)), strconv.Itoa(random.IntN(1000))
	isRemoval := random.IntN(5) == 0
	choose := func(add, remove []string) []string {
		if isRemoval {
			return remove
		}
		return add
	}
	switch family {
	case "list":
		return choose([]string{"RPUSH", key, item + number}, []string{"LPOP", key})
	case "hash":
		return choose([]string{"HINCRBY", key, item, number}, []string{"HDEL", key, item})
	case "set":
		return choose([]string{"SADD", key, item, number}, []string{"SREM", key, item, number})
	case "sorted":
		return choose([]string{"ZINCRBY", key, number, item}, []string{"ZREM", key, item})
	default:
		return []string{"XADD", key, "*", "field", item}
	}
}

// sendRuns sends batches of commands, each batch on one of some keys, and checks that none is
// answered by an error. Counts the batches that were answered.
func sendRuns(address string, random *rand.Rand, keyCount int, answered *atomic.Int64) error {
	conn, err := wire.Dial(address)
	if err != nil {
		return err
	}
	defer conn.Close()
	families := []string{"list", "hash", "set", "sorted", "stream"}
	for range runsPerClient {
		family := families[random.IntN(len(families))]
		key := fmt.Sprintf("%s:%d", family, random.IntN(keyCount))
		var batch []byte
		for range runCommandCount {
			batch = wire.AppendCommand(batch, wire.Arguments(runLine(random, family, key)...)...)
		}
		if err := conn.SendRaw(batch); err != nil {
			return err
		}
		for range runCommandCount {
			reply, err := conn.Receive()
			if err != nil {
				return err
			}
			if reply.IsError() {
				return fmt.Errorf("on %s: %s", key, reply.Text)
			}
		}
		answered.Add(1)
	}
	return nil
}

// sendAllRuns lets some clients send runs, and returns when all are answered.
func sendAllRuns(
	t *testing.T, server *instance.Server, keyCount int, answered *atomic.Int64,
) {
	t.Helper()
	source := seed(t)
	var clients sync.WaitGroup
	for range runClientCount {
		random := rand.New(rand.NewPCG(source.Uint64(), 0))
		clients.Go(func() {
			if err := sendRuns(server.Address, random, keyCount, answered); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	if t.Failed() {
		t.FailNow()
	}
	if do(t, server.Dial(t), "DBSIZE").Int() == 0 {
		t.Fatal("no key is left to compare")
	}
}

// rewriteUntil rewrites the log without pause until a number of batches is answered: the last base
// has about that number of them, and the commands of the others follow it.
func rewriteUntil(address string, batches int64, answered *atomic.Int64) {
	conn, err := wire.Dial(address)
	if err != nil {
		return
	}
	defer conn.Close()
	for answered.Load() < batches {
		if _, err := conn.Do("BGREWRITEAOF"); err != nil {
			return
		}
	}
}

// Write runs of several clients on the same keys, beside rewrites, make the same dataset again.
func TestRuns_MakeTheSameDatasetAgainBesideCuts(t *testing.T) {
	directory := t.TempDir()
	server := subject(t, directory, "--worker-threads", "2")
	defer server.Kill()
	var answered atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		rewriteUntil(server.Address, runClientCount*runsPerClient/2, &answered)
	}()
	sendAllRuns(t, server, 4, &answered)
	<-done
	expectAgain(t, server, directory)
}

// Write runs beside eviction: no command fails, and what was evicted is not there again.
func TestRuns_MakeTheSameDatasetAgainBesideEviction(t *testing.T) {
	for _, workers := range []string{"1", "2"} {
		t.Run(workers, func(t *testing.T) {
			directory := t.TempDir()
			server := subject(t, directory, "--worker-threads", workers,
				"--maxmemory-policy", "allkeys-random")
			defer server.Kill()
			conn := server.Dial(t)
			used, err := strconv.Atoi(info(t, conn, "used_memory"))
			if err != nil {
				t.Fatal(err)
			}
			limit := strconv.Itoa(used + evictedBeyondBytes)
			do(t, conn, "CONFIG", "SET", "maxmemory", limit)
			sendAllRuns(t, server, 2000, new(atomic.Int64))
			if info(t, conn, "evicted_keys") == "0" {
				t.Error("nothing was evicted")
			}
			// The comparison's own replies would evict more.
			do(t, conn, "CONFIG", "SET", "maxmemory", "0")
			expectAgain(t, server, directory)
		})
	}
}
