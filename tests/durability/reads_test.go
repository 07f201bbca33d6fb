package durability

import (
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/wire"
)

// slowSync is the time that a sync takes at the least under DEBUG DISK-FAULT SLOW-SYNC.
const slowSync = time.Second

// strangerReads is the number of reads of a key that is not written, and strangerReadsMax the time
// within which they are answered: less than that of a sync, since the time without a CPU is counted
// out, also that beside a sync.
const strangerReads, strangerReadsMax = 20, slowSync * 9 / 10

// shownWrite is a write and a read that shows it.
type shownWrite struct {
	name  string
	write []string
	read  []string
	// The read's reply behind the write.
	shown string
	// True if the write changes all slots.
	isOfAll bool
}

var shownWrites = []shownWrite{
	{"SET", []string{"SET k new"}, []string{"GET", "k"}, "new", false},
	{"DEL", []string{"DEL k"}, []string{"STRLEN", "k"}, "0", false},
	{"DEL, seen by a read of two keys", []string{"DEL k"}, []string{"EXISTS", "stranger", "k"},
		"1", false},
	{"PEXPIREAT", []string{"PEXPIREAT k 99999999999999"}, []string{"PEXPIRETIME", "k"},
		"99999999999999", false},
	{"MSET", []string{"MSET x 1 k new y 2"}, []string{"GET", "k"}, "new", false},
	{"RENAME", []string{"RENAME source k"}, []string{"GET", "k"}, "renamed", false},
	{"EXEC", []string{"MULTI", "SET x 1", "SET k new", "EXEC"}, []string{"GET", "k"}, "new",
		false},
	{"EXEC of one", []string{"MULTI", "SET k new", "EXEC"}, []string{"GET", "k"}, "new", false},
	{"EVAL", []string{"EVAL redis.call('set',KEYS[1],'new') 1 k"}, []string{"GET", "k"}, "new",
		false},
	{"HSET", []string{"HSET hash field new"}, []string{"HGET", "hash", "field"}, "new", false},
	{"run of HSET", []string{"HSET hash a 1", "HSET hash field new", "HSET hash b 2"},
		[]string{"HGET", "hash", "field"}, "new", false},
	{"client that is served", []string{"RPUSH queue element"}, []string{"LLEN", "moved"}, "1",
		false},
	{"FLUSHALL", []string{"FLUSHALL"}, []string{"STRLEN", "stranger"}, "0", true},
	{"SWAPDB", []string{"SWAPDB 0 1"}, []string{"STRLEN", "stranger"}, "0", true},
	{"EXEC with FLUSHDB", []string{"MULTI", "FLUSHDB", "SET k new", "EXEC"},
		[]string{"STRLEN", "stranger"}, "0", true},
}

// Under always a read is answered once what it shows is durable, whichever way that was written,
// and does not wait for writes of other slots.
func TestReads_WaitForTheWritesThatTheyShow(t *testing.T) {
	for _, c := range shownWrites {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := subject(t, t.TempDir(), "--appendfsync", "always")
			t.Cleanup(server.Kill)
			writer, reader, blocked := server.Dial(t), server.Dial(t), server.Dial(t)
			writer.Timeout, reader.Timeout = time.Minute, time.Minute
			do(t, writer, "MSET", "k", "old", "source", "renamed", "stranger", "there")
			do(t, writer, "HSET", "hash", "field", "old")
			send(t, blocked, "BLMOVE queue moved LEFT RIGHT 0")
			await(t, "a client is blocked", func() bool {
				return info(t, reader, "blocked_clients") == "1"
			})
			do(t, writer, "DEBUG", "DISK-FAULT", "SLOW-SYNC")
			begun := time.Now()
			took := unready(t, server, func() {
				send(t, writer, c.write...)
				for count := 0; count < strangerReads && !c.isOfAll; count++ {
					do(t, reader, "GET", "stranger")
				}
			})
			if took > strangerReadsMax {
				t.Errorf("%d reads of another slot took %v", strangerReads, took)
			}
			for {
				reply := do(t, reader, c.read...)
				if string(reply.Text) != c.shown {
					// The write comes still.
					if time.Since(begun) > time.Minute {
						t.Fatalf("%v: %s", c.read, reply)
					}
					continue
				}
				if took := time.Since(begun); took < slowSync {
					t.Errorf("%v was answered behind %v, before it can be durable", c.read, took)
				}
				return
			}
		})
	}
}

// send sends commands in one write; blanks separate their words.
func send(t *testing.T, conn *wire.Conn, commands ...string) {
	t.Helper()
	var requests []byte
	for _, command := range commands {
		requests = wire.AppendCommand(requests, wire.Arguments(strings.Fields(command)...)...)
	}
	if err := conn.SendRaw(requests); err != nil {
		t.Fatal(err)
	}
}
