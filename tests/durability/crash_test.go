package durability

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

var (
	killCount     = flag.Int("kills", 4, "times that a server is killed, by policy")
	stepKillCount = flag.Int("stepkills", 1, "kills before each step of a rewrite")
	firstSeed     = flag.Uint64("seed", 0, "seed; 0 takes one from the clock")
)

const (
	writerCount = 6
	depthMax    = 12
)

// writer is a client with counters of its own. Each of its transactions raises both of them and
// appends to a list.
type writer struct {
	index int
	// Transactions that were sent and that were answered, over all lives of the server.
	sent, acknowledged int64
	// Highest value of another writer's counter that a read has answered, by writer.
	seen [writerCount]int64
}

func (w *writer) key(name string) string { return fmt.Sprintf("%s:%d", name, w.index) }

// run sends transactions and reads in pipelines of random depth until the server is gone.
func (w *writer) run(address string, random *rand.Rand, answered *atomic.Int64) {
	conn, err := wire.Dial(address)
	if err != nil {
		return
	}
	defer conn.Close()
	for {
		depth := 1 + random.IntN(depthMax)
		other := random.IntN(writerCount)
		// By themselves too: then nothing but what others write holds their replies.
		if random.IntN(2) == 0 {
			if !w.read(conn, other, depth) {
				return
			}
			continue
		}
		var request []byte
		for range depth {
			for _, words := range [][]string{
				{"MULTI"}, {"INCR", w.key("a")}, {"INCR", w.key("b")}, {"EXEC"},
				{"RPUSH", w.key("l"), "x"},
				{"GET", fmt.Sprintf("a:%d", other)},
			} {
				request = wire.AppendCommand(request, wire.Arguments(words...)...)
			}
		}
		w.sent += int64(depth)
		if conn.SendRaw(request) != nil {
			return
		}
		for range depth {
			var reply wire.Reply
			for part := range 6 {
				if reply, err = conn.Receive(); err != nil {
					return
				}
				if part == 4 {
					w.acknowledged++
					answered.Add(1)
				}
			}
			w.see(other, reply)
		}
	}
}

func (w *writer) see(other int, reply wire.Reply) {
	if value, err := strconv.ParseInt(string(reply.Text), 10, 64); err == nil {
		w.seen[other] = max(w.seen[other], value)
	}
}

// read reads another writer's counter some times; it tells whether the server is there still.
func (w *writer) read(conn *wire.Conn, other, depth int) bool {
	for range depth {
		reply, err := conn.Do("GET", fmt.Sprintf("a:%d", other))
		if err != nil {
			return false
		}
		w.see(other, reply)
	}
	return true
}

// check compares what the server has with what it has acknowledged.
func (w *writer) check(t *testing.T, conn *wire.Conn, writers []*writer) {
	t.Helper()
	number := func(words ...string) int64 {
		reply, err := conn.Do(words...)
		if err != nil {
			t.Fatal(err)
		}
		value, _ := strconv.ParseInt(string(reply.Text), 10, 64)
		return value
	}
	a, b, length := number("GET", w.key("a")), number("GET", w.key("b")), number("LLEN", w.key("l"))
	if a != b {
		t.Errorf("writer %d: half a transaction: %d and %d", w.index, a, b)
	}
	if a < w.acknowledged || a > w.sent {
		t.Errorf("writer %d: counter is %d, acknowledged %d, sent %d", w.index, a, w.acknowledged,
			w.sent)
	}
	// The last command of a batch is behind its transaction.
	if length < w.acknowledged || length > a {
		t.Errorf("writer %d: list has %d elements, acknowledged %d, counter %d", w.index, length,
			w.acknowledged, a)
	}
	for _, reader := range writers {
		if seen := reader.seen[w.index]; seen > a {
			t.Errorf("writer %d: a read answered %d, now it is %d", w.index, seen, a)
		}
	}
	// The next life counts from what is there.
	for ; length < a; length++ {
		if _, err := conn.Do("RPUSH", w.key("l"), "x"); err != nil {
			t.Fatal(err)
		}
	}
	w.sent, w.acknowledged = a, a
	for _, reader := range writers {
		reader.seen[w.index] = 0
	}
}

func seed(t *testing.T) *rand.Rand {
	t.Helper()
	first := *firstSeed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", first)
	return rand.New(rand.NewPCG(first, 0))
}

// A server that is killed at any moment has, when it is started again, all that it has answered,
// reads included, and nothing twice.
func TestKill_LosesNothingAcknowledged(t *testing.T) {
	for _, policy := range []string{"always", "everysec", "no"} {
		t.Run(policy, func(t *testing.T) {
			killAgainAndAgain(t, policy, *killCount, nil)
		})
	}
}

// killAgainAndAgain starts a server on one directory several times, compares what it has with what
// was acknowledged, and kills it while the writers work, with something beside them if it is given.
func killAgainAndAgain(t *testing.T, policy string, times int, beside func(address string)) {
	t.Helper()
	random := seed(t)
	directory := t.TempDir()
	var writers []*writer
	for index := range writerCount {
		writers = append(writers, &writer{index: index})
	}
	for range times {
		server, err := instance.Launch(instance.Subject, directory, "--appendonly", "yes",
			"--appendfsync", policy, "--worker-threads", "3")
		if err != nil {
			t.Fatal(err)
		}
		conn, err := wire.Dial(server.Address)
		if err != nil {
			t.Fatal(err)
		}
		for _, writer := range writers {
			writer.check(t, conn, writers)
		}
		conn.Close()
		live(server, writers, random, beside)
		if t.Failed() {
			t.Fatal(server.Log())
		}
	}
}

// live lets the writers work for a random time, and something beside them if it is given, and
// kills the server.
func live(
	server *instance.Server, writers []*writer, random *rand.Rand, beside func(address string),
) {
	var group sync.WaitGroup
	if beside != nil {
		group.Go(func() { beside(server.Address) })
	}
	var answered atomic.Int64
	for _, writer := range writers {
		own := rand.New(rand.NewPCG(random.Uint64(), 0))
		group.Go(func() { writer.run(server.Address, own, &answered) })
	}
	// A number of answers first, and then a random time: the speed of the machine matters little.
	for least := int64(random.IntN(2000)); answered.Load() < least; {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(time.Duration(random.IntN(20_000)) * time.Microsecond)
	server.Kill()
	group.Wait()
}
