package process

import (
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// defragRest is the pause behind a round that moved nothing.
const defragRest = 10 * time.Second

// The directive is taken up at once, also by a worker that rests because there is nothing to move.
func TestDefrag_EndsWithItsDirectiveAlsoWhileItRests(t *testing.T) {
	for _, workers := range []string{"1", "4"} {
		t.Run(workers, func(t *testing.T) {
			server := instance.Start(t, instance.Subject, "--worker-threads", workers,
				"--active-defrag-ignore-bytes", "1", "--active-defrag-threshold-lower", "0")
			conn := server.Dial(t)
			if now := information(t, conn, "active_defrag_running"); now != 0 {
				t.Fatalf("it runs with %d %% unasked", now)
			}
			for range 2 {
				expectOK(t, conn, "CONFIG", "SET", "activedefrag", "yes")
				begun := time.Now()
				waitFor(t, "rest in an empty keyspace", func() bool {
					return information(t, conn, "current_active_defrag_time") >= 300
				})
				expectOK(t, conn, "CONFIG", "SET", "activedefrag", "no")
				waitFor(t, "end of the defragmentation", func() bool {
					return information(t, conn, "active_defrag_running") == 0
				})
				if took := time.Since(begun); took >= defragRest {
					t.Fatalf("it ended after %v, with the rest", took)
				}
			}
		})
	}
}

// Beside keys that move, databases are flushed and exchanged, data is saved and loaded anew, and
// the directive changes: what was written last is there.
func TestDefrag_BesideFlushesSavesAndLoading(t *testing.T) {
	for _, workers := range []string{"1", "4"} {
		t.Run(workers, func(t *testing.T) { defragBesideOthers(t, workers) })
	}
}

func defragBesideOthers(t *testing.T, workers string) {
	const keys, rounds = 6000, 2
	server := instance.Start(t, instance.Subject, "--worker-threads", workers,
		"--activedefrag", "yes", "--enable-debug-command", "yes",
		"--active-defrag-ignore-bytes", "1", "--active-defrag-threshold-lower", "0",
		"--active-defrag-cycle-min", "50", "--active-defrag-cycle-max", "99",
		"--active-defrag-max-scan-fields", "3")
	conn, saver := server.Dial(t), server.Dial(t)
	var stop atomic.Bool
	var saving sync.Mutex
	var group sync.WaitGroup
	group.Go(func() { saveAndToggle(t, saver, &saving, &stop) })
	defer group.Wait()
	defer stop.Store(true)
	for round := range rounds {
		pipelineAll(t, conn, keys, defragWrite)
		moved := information(t, conn, "active_defrag_hits")
		pipelineAll(t, conn, keys, defragDelete)
		waitFor(t, "moved block", func() bool {
			return information(t, conn, "active_defrag_hits") > moved
		})
		expectOK(t, conn, "SWAPDB", "0", "3")
		expectOK(t, conn, "SELECT", "3")
		if round%2 == 1 {
			saving.Lock()
			reply := do(t, conn, "DEBUG", "RELOAD")
			saving.Unlock()
			if string(reply.Text) != "OK" {
				t.Fatalf("DEBUG RELOAD answered %s", reply)
			}
		}
		for number := range keys {
			if !isDeleted(number) {
				if err := defragCheck(conn, number); err != nil {
					t.Fatal(err)
				}
			}
		}
		expectOK(t, conn, "FLUSHALL")
		if left := do(t, conn, "DBSIZE").Int(); left != 0 {
			t.Fatalf("%d keys are left of the flushed ones", left)
		}
		expectOK(t, conn, "SELECT", "0")
	}
}

// saveAndToggle saves in the background, with the lock in hand until it is saved, and switches the
// defragmentation off and on, until it is stopped.
func saveAndToggle(t *testing.T, conn *wire.Conn, saving *sync.Mutex, stop *atomic.Bool) {
	ask := func(words ...string) string {
		reply, err := conn.Do(words...)
		if err != nil && !stop.Load() {
			t.Error(err)
			stop.Store(true)
		}
		return string(reply.Text)
	}
	random := rand.New(rand.NewPCG(2, 4))
	for !stop.Load() {
		if random.IntN(4) == 0 {
			saving.Lock()
			ask("BGSAVE")
			const isSaved = "\nrdb_bgsave_in_progress:0\r"
			for !stop.Load() && !strings.Contains(ask("INFO", "persistence"), isSaved) {
			}
			saving.Unlock()
			ask("CONFIG", "SET", "activedefrag", "no")
		}
		ask("CONFIG", "SET", "activedefrag", "yes")
	}
}
