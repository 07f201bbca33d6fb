package process

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// workerFigures returns one figure of INFO workers, by worker.
func workerFigures(t *testing.T, conn *wire.Conn, name string) (figures []int) {
	t.Helper()
	info := do(t, conn, "INFO", "workers").Text
	for _, match := range regexp.MustCompile(`worker\d+:.*\b`+name+`=(\d+)`).FindAllSubmatch(info,
		-1) {
		figure, _ := strconv.Atoi(string(match[1]))
		figures = append(figures, figure)
	}
	return figures
}

// ownerOf finds a connection's worker out by asking it for much.
func ownerOf(t *testing.T, control, conn *wire.Conn) int {
	t.Helper()
	before := workerFigures(t, control, "commands")
	const requests = 500
	if err := conn.SendRaw(bytes.Repeat([]byte("PING\r\n"), requests)); err != nil {
		t.Fatal(err)
	}
	for range requests {
		if _, err := conn.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	owner := -1
	waitFor(t, "worker that executed", func() bool {
		for worker, after := range workerFigures(t, control, "commands") {
			if after >= before[worker]+requests {
				owner = worker
			}
		}
		return owner >= 0
	})
	return owner
}

// Clients that keep one worker busy while the other idles end up on both; what a connection has
// going on goes with it.
func TestHotConnections_MoveToAnIdleWorker(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "2")
	control := server.Dial(t)
	do(t, control, "SET", "bits", strings.Repeat("\x00", 4<<20)+"\x01")
	var hot []*wire.Conn
	for range 5 {
		hot = append(hot, onWorker(t, server, control, 0))
	}
	var stop atomic.Bool
	var clients sync.WaitGroup
	for number, conn := range hot {
		clients.Go(func() { keepBusy(t, conn, "counter"+strconv.Itoa(number), &stop) })
	}
	var moved []int
	waitFor(t, "move", func() bool {
		moved = workerFigures(t, control, "moved")
		return moved[0] > 0
	})
	time.Sleep(500 * time.Millisecond)
	stop.Store(true)
	clients.Wait()
	owners := map[int]int{}
	for _, conn := range hot {
		owners[ownerOf(t, control, conn)]++
	}
	if owners[0] == 0 || owners[1] == 0 {
		t.Errorf("the hot connections are on workers %v, moved %v", owners, moved)
	}
	// A message for a connection finds it wherever it is.
	for number, conn := range hot {
		id := do(t, conn, "CLIENT", "ID")
		if reply := do(t, control, "CLIENT", "KILL", "ID", string(id.Text)); reply.Int() != 1 {
			t.Errorf("CLIENT KILL of %d answered %s", number, reply)
		}
		drain(t, conn)
	}
}

// keepBusy sends batches of commands that cost the server far more than the client, so that the
// server always has something to do even where others take the client's CPU, with a transaction in
// the middle of each, and checks every reply.
func keepBusy(t *testing.T, conn *wire.Conn, key string, stop *atomic.Bool) {
	const increments, counts = 20, 60
	increment := wire.AppendCommand(nil, []byte("INCR"), []byte(key))
	batch := bytes.Repeat(increment, increments)
	batch = append(batch, bytes.Repeat([]byte("BITCOUNT bits\r\n"), counts)...)
	batch = append(batch, "WATCH "+key+"\r\nMULTI\r\n"...)
	batch = append(batch, increment...)
	// The transaction stays open across a pause in which the connection may move.
	rest := append(bytes.Clone(increment), "EXEC\r\n"...)
	count := int64(0)
	expect := func(holds func(wire.Reply) bool) bool {
		reply, err := conn.Receive()
		if err != nil || !holds(reply) {
			t.Errorf("%s after %d: %s, %v", key, count, reply, err)
			return false
		}
		return true
	}
	next := func(reply wire.Reply) bool { count++; return reply.Int() == count }
	is := func(text string) func(wire.Reply) bool {
		return func(reply wire.Reply) bool { return string(reply.Text) == text }
	}
	executed := func(reply wire.Reply) bool {
		return len(reply.Items) == 2 && next(reply.Items[0]) && next(reply.Items[1])
	}
	for !stop.Load() {
		if err := conn.SendRaw(batch); err != nil {
			t.Error(err)
			return
		}
		for range increments {
			if !expect(next) {
				return
			}
		}
		for range counts {
			if !expect(is("1")) {
				return
			}
		}
		if !expect(is("OK")) || !expect(is("OK")) || !expect(is("QUEUED")) {
			return
		}
		if err := conn.SendRaw(rest); err != nil {
			t.Error(err)
			return
		}
		if !expect(is("QUEUED")) || !expect(executed) {
			return
		}
	}
}
