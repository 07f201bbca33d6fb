package durability

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
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
// answered by an error.
func sendRuns(address string, random *rand.Rand, keyCount int) error {
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
	}
	return nil
}

// sendAllRuns lets some clients send runs, and returns when all are answered.
func sendAllRuns(t *testing.T, server *instance.Server, keyCount int) {
	t.Helper()
	source := seed(t)
	var clients sync.WaitGroup
	for range runClientCount {
		random := rand.New(rand.NewPCG(source.Uint64(), 0))
		clients.Go(func() {
			if err := sendRuns(server.Address, random, keyCount); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// expectAgain kills a server, and expects its dataset of another one on its directory and of
// Valkey.
func expectAgain(t *testing.T, server *instance.Server, directory string) {
	t.Helper()
	original := dataset(t, server)
	if len(original) == 0 {
		t.Fatal("no key is left to compare")
	}
	server.Kill()
	copied := copyOf(t, directory)
	again := subject(t, directory)
	defer again.Kill()
	if found := dataset(t, again); !maps.Equal(original, found) {
		t.Errorf("replayed:\n%s", differences(original, found))
	}
	valkey, err := instance.Launch(instance.Valkey, copied, "--appendonly", "yes",
		"--enable-debug-command", "yes")
	if err != nil {
		t.Fatal(err)
	}
	defer valkey.Kill()
	if found := dataset(t, valkey); !maps.Equal(original, found) {
		t.Errorf("replayed by Valkey:\n%s", differences(original, found))
	}
}

// Write runs of several clients on the same keys, beside rewrites and saves, make the same dataset
// again.
func TestRuns_MakeTheSameDatasetAgainBesideCuts(t *testing.T) {
	directory := t.TempDir()
	server := subject(t, directory, "--worker-threads", "2")
	defer server.Kill()
	done := make(chan struct{})
	go func() {
		defer close(done)
		rewriteAgainAndAgain(server.Address)
	}()
	sendAllRuns(t, server, 4)
	expectAgain(t, server, directory)
	<-done
}

func usedMemory(t *testing.T, conn *wire.Conn) int64 {
	t.Helper()
	_, rest, _ := strings.Cut(string(do(t, conn, "INFO", "memory").Text), "used_memory:")
	digits, _, _ := strings.Cut(rest, "\r\n")
	used, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return used
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
			limit := usedMemory(t, conn) + evictedBeyondBytes
			do(t, conn, "CONFIG", "SET", "maxmemory", strconv.FormatInt(limit, 10))
			sendAllRuns(t, server, 2000)
			statistics := string(do(t, conn, "INFO", "stats").Text)
			if strings.Contains(statistics, "evicted_keys:0\r\n") {
				t.Error("nothing was evicted")
			}
			// The comparison's own replies would evict more.
			do(t, conn, "CONFIG", "SET", "maxmemory", "0")
			expectAgain(t, server, directory)
		})
	}
}
