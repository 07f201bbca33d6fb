package process

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	// besideFactorMax is how many times longer a command may take beside writers than alone, for a
	// machine that has other things to do as well. What repeats until nobody writes never ends, or
	// took a hundred times as long.
	besideFactorMax = 20
	// besideFloor is what that factor is taken of at least.
	besideFloor = 5 * time.Millisecond
	// besideDeadline ends a test whose command does not end; far above what the factor allows.
	besideDeadline = 60 * time.Second
	walkedKeys     = 300_000
	readRuns       = 5
	writersCount   = 4
	// writesPause makes some 200 writes a second of each writer: far more often than the commands
	// here take.
	writesPause = 5 * time.Millisecond
)

// writers send one write after the other, with a pause in between, until they are stopped.
type writers struct {
	stop  chan struct{}
	done  chan error
	count atomic.Int64
}

func startWriters(
	t *testing.T, server *instance.Server, pause time.Duration,
	command func(writer, round int) []string,
) *writers {
	t.Helper()
	w := &writers{stop: make(chan struct{}), done: make(chan error, writersCount)}
	for writer := range writersCount {
		conn := server.Dial(t)
		go func() {
			w.done <- w.run(conn, pause, func(round int) []string {
				return command(writer, round)
			})
		}()
	}
	waitFor(t, "the first writes", func() bool { return w.count.Load() > writersCount })
	return w
}

func (w *writers) run(
	conn *wire.Conn, pause time.Duration, command func(round int) []string,
) error {
	for round := 0; ; round++ {
		select {
		case <-w.stop:
			return nil
		case <-time.After(pause):
		}
		if reply, err := conn.Do(command(round)...); err != nil || reply.IsError() {
			return fmt.Errorf("a write answered %v, %v", reply, err)
		}
		w.count.Add(1)
	}
}

func (w *writers) finish(t *testing.T) {
	t.Helper()
	close(w.stop)
	for range writersCount {
		if err := <-w.done; err != nil {
			t.Error(err)
		}
	}
}

// least is the shortest time of a few runs: other processes add to a time, and never take from it.
func least(runs int, run func()) (shortest time.Duration) {
	for index := range runs {
		began := time.Now()
		run()
		if took := time.Since(began); index == 0 || took < shortest {
			shortest = took
		}
	}
	return shortest
}

// ask sends a command, and fails the test unless the reply comes in time and is as `check` wants
// it.
func ask(t *testing.T, conn *wire.Conn, command []string, check func(wire.Reply) bool) {
	t.Helper()
	_ = conn.Conn.SetReadDeadline(time.Now().Add(besideDeadline))
	reply, err := conn.Do(command...)
	if err != nil || !check(reply) {
		t.Fatalf("%s answers %.100v, %v", command[0], reply, err)
	}
}

// requireBounded compares what a command takes alone and beside writers, and tells both.
func requireBounded(t *testing.T, name string, alone, beside time.Duration) {
	t.Helper()
	t.Logf("%s: %v alone, %v beside writers", name, alone, beside)
	if most := besideFactorMax * max(alone, besideFloor); beside > most {
		t.Errorf("%s takes %v beside writers, %v alone", name, beside, alone)
	}
}

// fillTag makes many keys of one slot.
func fillTag(t *testing.T, conn *wire.Conn) {
	t.Helper()
	const batch = 10_000
	for first := 0; first < walkedKeys; first += batch {
		words := []string{"MSET"}
		for index := range batch {
			words = append(words, fmt.Sprintf("{t}%d", first+index), "")
		}
		expectOK(t, conn, words...)
	}
}

func setInTag(writer, round int) []string {
	return []string{"SET", fmt.Sprintf("{t}%d", writer), strconv.Itoa(round)}
}

// A walk of a slot that is written to all the time ends, and meanwhile everybody else is served:
// clients of both workers, who wants to stop all workers, and who wants to stop the server.
func TestWalks_EndBesideWritersOfTheSlot(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "2")
	conn := server.Dial(t)
	fillTag(t, conn)
	hasAll := func(reply wire.Reply) bool { return len(reply.Items) == walkedKeys }
	hasTwo := func(reply wire.Reply) bool { return len(reply.Items) == 2 }
	keys, scan := []string{"KEYS", "*"}, []string{"SCAN", "0", "COUNT", strconv.Itoa(walkedKeys)}
	keysAlone := least(3, func() { ask(t, conn, keys, hasAll) })
	scanAlone := least(3, func() { ask(t, conn, scan, hasTwo) })
	beside := startWriters(t, server, writesPause, setInTag)
	others := []*wire.Conn{server.Dial(t), server.Dial(t)}
	walked := make(chan time.Duration, 1)
	walker := server.Dial(t)
	go func() { walked <- least(3, func() { _, _ = walker.Do(keys...) }) }()
	overdue := time.After(besideDeadline)
	var keysBeside time.Duration
	for round := 0; keysBeside == 0; round++ {
		for _, other := range others {
			ask(t, other, []string{"PING"}, func(reply wire.Reply) bool {
				return string(reply.Text) == "PONG"
			})
		}
		// Stops all workers, which waits until none is in a command.
		ask(t, others[round%2], []string{"SWAPDB", "1", "2"}, func(reply wire.Reply) bool {
			return !reply.IsError()
		})
		select {
		case keysBeside = <-walked:
		case <-overdue:
			t.Fatal("KEYS does not end")
		default:
		}
	}
	requireBounded(t, "KEYS", keysAlone, keysBeside)
	requireBounded(t, "SCAN", scanAlone, least(3, func() { ask(t, conn, scan, hasTwo) }))
	// A scan that was cut short for the writers' sake goes on where it was.
	seen := map[string]bool{}
	for cursor := "0"; ; {
		reply := do(t, conn, "SCAN", cursor, "COUNT", "50000")
		for _, key := range reply.Items[1].Items {
			seen[string(key.Text)] = true
		}
		if cursor = string(reply.Items[0].Text); cursor == "0" {
			break
		}
	}
	if len(seen) != walkedKeys {
		t.Errorf("a scan beside writers met %d keys of %d", len(seen), walkedKeys)
	}
	go func() { _, _ = walker.Do(keys...) }()
	beside.finish(t)
	// `Start` has seen to it that a server which does not stop in time fails the test.
}

// A server stops although a slot is written to, and walked, all the time.
func TestStop_BesideWritersOfASlot(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "2", "--save", "")
	fillTag(t, server.Dial(t))
	// The server's end ends them.
	beside := startWriters(t, server, 0, setInTag)
	walker := server.Dial(t)
	walked := make(chan error, 1)
	go func() {
		for {
			if _, err := walker.Do("KEYS", "*"); err != nil {
				walked <- err
				return
			}
		}
	}()
	before := beside.count.Load()
	waitFor(t, "writes beside a walk", func() bool { return beside.count.Load() > before+1000 })
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
	<-walked
	for range writersCount {
		<-beside.done
	}
}

// Long optimistic reads are not repeated without end because of writes to other keys of the slot.
func TestReads_EndBesideWritersOfTheSlots(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "2")
	conn := server.Dial(t)
	const manyKeys = 10_000
	many, values := []string{"MGET"}, []string{"MSET"}
	for index := range manyKeys {
		key := "k" + strconv.Itoa(index)
		many, values = append(many, key), append(values, key, "value")
	}
	expectOK(t, conn, values...)
	expectOK(t, conn, "SET", "{t}a", strings.Repeat("abcdefgh", 300))
	expectOK(t, conn, "SET", "{t}b", strings.Repeat("hgfedcba", 300))
	for _, read := range []struct {
		name    string
		command []string
		check   func(wire.Reply) bool
		pause   time.Duration
		write   func(writer, round int) []string
		beside  func(writer, round int) []string
	}{
		{
			"LCS", []string{"LCS", "{t}a", "{t}b", "LEN"},
			func(reply wire.Reply) bool { return reply.Int() > 0 }, writesPause, setInTag,
			func(writer, _ int) []string { return []string{"GET", fmt.Sprintf("{t}%d", writer)} },
		},
		{
			"MGET", many, func(reply wire.Reply) bool { return len(reply.Items) == manyKeys }, 0,
			// As many writes as a pipeline carries, so that there is always one within the time
			// that MGET takes.
			func(writer, round int) []string {
				words := []string{"MSET"}
				for index := range 100 {
					words = append(words, "k"+strconv.Itoa((round*100+index*7+writer)%manyKeys),
						"value")
				}
				return words
			},
			func(writer, _ int) []string {
				return append([]string{"MGET"}, many[1+writer*100:1+writer*100+200]...)
			},
		},
	} {
		t.Run(read.name, func(t *testing.T) {
			run := func() { ask(t, conn, read.command, read.check) }
			many := func() {
				for range readRuns {
					run()
				}
			}
			run()
			// They take as much of the machine as the writers.
			readers := startWriters(t, server, read.pause, read.beside)
			alone := least(3, many)
			readers.finish(t)
			beside := startWriters(t, server, read.pause, read.write)
			requireBounded(t, read.name, alone/readRuns, least(3, many)/readRuns)
			beside.finish(t)
		})
	}
}

// Clients that CLIENT PAUSE holds back cost nothing while it lasts, and go on when it ends, by its
// timeout or by CLIENT UNPAUSE.
func TestPause_IsNotPolled(t *testing.T) {
	const clients = 100
	server := instance.Start(t, instance.Subject, "--worker-threads", "2")
	conn := server.Dial(t)
	var paused []*wire.Conn
	for range clients {
		paused = append(paused, server.Dial(t))
	}
	count := func(name string) int { return field(t, conn, "stats", name) }
	for _, end := range []struct {
		name string
		run  func()
	}{
		{"by time", func() {}},
		{"by command", func() { expectOK(t, conn, "CLIENT", "UNPAUSE") }},
	} {
		t.Run(end.name, func(t *testing.T) {
			length := 10 * time.Second
			if end.name == "by command" {
				length = time.Hour
			}
			// Before the command: the pause begins before its reply is here.
			began := time.Now()
			expectOK(t, conn, "CLIENT", "PAUSE", strconv.FormatInt(length.Milliseconds(), 10),
				"WRITE")
			for _, client := range paused {
				if err := client.Send("INCR", "count"); err != nil {
					t.Fatal(err)
				}
			}
			waitFor(t, "all to be held back", func() bool {
				return field(t, conn, "clients", "blocked_clients") == clients
			})
			before, from := count("eventloop_cycles"), time.Now()
			time.Sleep(500 * time.Millisecond)
			cycles, watched := count("eventloop_cycles")-before, time.Since(from)
			t.Logf("%d iterations in %v", cycles, watched)
			// Ten ticks a second of each worker, and some for the sweep and for memory; polling
			// makes 2,000.
			if most := int(200*watched.Seconds()) + 20; cycles > most {
				t.Errorf("%d iterations in %v beside clients that wait", cycles, watched)
			}
			end.run()
			for _, client := range paused {
				_ = client.Conn.SetReadDeadline(time.Now().Add(besideDeadline))
				if reply, err := client.Receive(); err != nil || reply.IsError() {
					t.Fatalf("%v, %v", reply, err)
				}
			}
			if took := time.Since(began); end.name == "by time" && took < length {
				t.Errorf("the pause of %v ended after %v", length, took)
			}
		})
	}
}
