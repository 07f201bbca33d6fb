package abuse

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	smallValueBytes = 1000
	// smallTogether is the number of requests that are sent before the first reply is read.
	smallTogether = 20
	// refusedEnough is the number of refusals after which the memory counts as full.
	refusedEnough = 1000
	// smallMax bounds the keys: ten times as much as the server may map.
	smallMax = 10 * headroomBytes / smallValueBytes
)

// fillSmall sets keys of small values until enough of them were refused, and returns how many were
// set.
func fillSmall(t *testing.T, conn *wire.Conn, round int) int {
	t.Helper()
	value := strings.Repeat("v", smallValueBytes)
	set, refused := 0, 0
	for refused < refusedEnough {
		if set > smallMax {
			t.Fatalf("%d values of %d bytes were set beyond a limit of %d", set, smallValueBytes,
				headroomBytes)
		}
		var requests []byte
		for index := range smallTogether {
			words := wire.Arguments("SET", fmt.Sprintf("%d:%d", round, set+index), value)
			requests = wire.AppendCommand(requests, words...)
		}
		if err := conn.SendRaw(requests); err != nil {
			t.Fatal(err)
		}
		for range smallTogether {
			reply, err := conn.Receive()
			switch {
			case err != nil:
				t.Fatalf("behind %d values: %v", set, err)
			case strings.HasPrefix(string(reply.Text), "OOM "):
				refused++
			case reply.IsError():
				t.Fatal(reply)
			default:
				set++
			}
		}
	}
	return set
}

// TestServer_RefusesWritesOfAScriptWithoutMemory lets scripts write more than there is memory for:
// all of it is within one iteration of a worker.
func TestServer_RefusesWritesOfAScriptWithoutMemory(t *testing.T) {
	for _, first := range []string{"", "#!lua flags=allow-oom\n"} {
		server := instance.Start(t, instance.Subject, "--worker-threads", "2")
		conn := server.Dial(t)
		source := first + `local value = string.rep('v', ARGV[2])
for number = 1, tonumber(ARGV[3]) do redis.call('SET', ARGV[1] .. number, value) end`
		size := strconv.Itoa(smallValueBytes)
		mustDo(t, conn, "EVAL", source, "0", "before:", size, "1")
		limitMemory(t, server, headroomBytes)
		for round := range 3 {
			reply, err := conn.Do("EVAL", source, "0", fmt.Sprintf("%d:", round), size,
				strconv.Itoa(smallMax))
			if err != nil || !strings.Contains(reply.String(), "the system has no memory left") {
				t.Fatalf("%q: %v, %v\n%s", first, reply, err, server.Log())
			}
		}
		if reply := mustDo(t, conn, "STRLEN", "0:1"); reply.Int() != smallValueBytes {
			t.Errorf("what was written before: %v", reply)
		}
	}
}

// TestServer_RefusesSmallValuesWithoutMemory fills a limited server with values that are too small
// to be asked for one by one, again and again.
func TestServer_RefusesSmallValuesWithoutMemory(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "2")
	conn := server.Dial(t)
	limitMemory(t, server, headroomBytes)
	first := fillSmall(t, conn, 0)
	for round := 1; round < 3; round++ {
		mustDo(t, conn, "GET", fmt.Sprintf("%d:1", round-1))
		mustDo(t, conn, "FLUSHALL")
		deadline := time.Now().Add(30 * time.Second)
		for {
			reply, err := conn.Do("SET", "again", "there")
			if err != nil {
				t.Fatal(err)
			}
			if !reply.IsError() {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("writes are refused behind FLUSHALL: %v", reply)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if again := fillSmall(t, conn, round); again < first/2 {
			t.Errorf("round %d: %d values, %d before", round, again, first)
		}
	}
}
