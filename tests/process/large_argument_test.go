package process

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// sendInPieces sends bytes in pieces of random lengths, most of which arrive by themselves.
func sendInPieces(conn *wire.Conn, random *rand.Rand, request []byte) error {
	for len(request) > 0 {
		length := min(len(request), 1+random.IntN(400_000))
		if random.IntN(4) == 0 {
			length = min(length, 1+random.IntN(20))
		}
		if err := conn.SendRaw(request[:length]); err != nil {
			return err
		}
		request = request[length:]
		if random.IntN(2) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// step is a request, in which @ is the large argument, and its reply; empty for any but an error.
type step struct{ words, reply string }

// largeSteps returns requests that do all kinds of things with an argument.
func largeSteps(large string) []step {
	size := len(large)
	length, twice := fmt.Sprint(size), large+large
	return []step{
		{"DEL k other list hash", ""},
		{"SET k @", "OK"}, {"GET k", large},
		{"SETEX k 1000 @", "OK"}, {"GETSET k @", large}, {"SETNX k @", "0"},
		{"APPEND k @", fmt.Sprint(2 * size)}, {"GET k", twice},
		{"SETRANGE k 3 @", fmt.Sprint(2 * size)},
		{"GET k", large[:3] + large + twice[size+3:]},
		{"DEL k", "1"}, {"SETNX k @", "1"}, {"APPEND k x", fmt.Sprint(size + 1)},
		{"GET k", large + "x"},
		// Keys that share the bytes of one argument are changed one by one.
		{"SET k @", "OK"}, {"COPY k other", "1"}, {"SETRANGE k 0 ab", length},
		{"GET k", "ab" + large[2:]}, {"GET other", large},
		{"MSET one 1 k @", "OK"}, {"GET one", "1"}, {"GET k", large},
		{"SET @ 1", "OK"}, {"GET @", "1"}, {"EXISTS @", "1"}, {"DEL @", "1"},
		{"ECHO @", large}, {"PING @", large},
		{"RPUSH list a @", "2"}, {"LINDEX list 1", large},
		{"HSET hash f @", "1"}, {"HGET hash f", large}, {"HSTRLEN hash f", length},
		{"EVAL return(#ARGV[1]) 0 @", length}, {"PUBLISH channel @", "0"},
		{"MULTI", "OK"}, {"SET k @", "QUEUED"}, {"APPEND k @", "QUEUED"}, {"EXEC", ""},
		{"GET k", twice}, {"SET k @ EX 1000", "OK"}, {"GET k", large},
		{"SET @", "ERR wrong number of arguments for 'set' command"},
		{"@", "ERR unknown command"}, {"GET k @", "ERR wrong number of arguments"},
	}
}

// A large last argument is received into memory of its own: whatever a command does with it, and
// however it arrives, nobody can tell.
func TestLargeArgument_IsAnArgumentLikeAnyOther(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind)
		random := rand.New(rand.NewPCG(1, 2))
		for _, size := range []int{200_000, 1<<18 - 1, 1 << 18, 1<<18 + 1, 1_000_003, 5_000_000} {
			value := bytes.Repeat([]byte("0123456789\r\n$5\r\n*3\r\n"), size/20+1)[:size]
			for index := range value[:size/2] {
				value[index] ^= byte(random.Uint32())
			}
			steps := largeSteps(string(value))
			var requests []byte
			for _, step := range steps {
				var words [][]byte
				for word := range strings.FieldsSeq(step.words) {
					if word == "@" {
						words = append(words, value)
					} else {
						words = append(words, []byte(word))
					}
				}
				requests = wire.AppendCommand(requests, words...)
			}
			conn := server.Dial(t)
			sent := make(chan error, 1)
			go func() { sent <- sendInPieces(conn, random, requests) }()
			for _, step := range steps {
				requireReply(t, conn, step)
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
		}
	})
}

func requireReply(t *testing.T, conn *wire.Conn, step step) {
	t.Helper()
	reply, err := conn.Receive()
	text := string(reply.Text)
	isRight := text == step.reply || step.reply == ""
	if expectsError := strings.HasPrefix(step.reply, "ERR"); expectsError || reply.IsError() {
		isRight = expectsError && reply.IsError() && strings.HasPrefix(text, step.reply)
	}
	if err != nil || !isRight {
		t.Fatalf("%s: %.100q of %d bytes, %v, not %.100q of %d", step.words, text, len(text), err,
			step.reply, len(step.reply))
	}
}

// A request that waits for its key is executed later, with the argument that it came with.
func TestLargeArgument_OutlastsAWait(t *testing.T) {
	// The writers wait for the script, however long it takes.
	server := instance.Start(t, instance.Subject, "--worker-threads", "2",
		"--busy-reply-threshold", "600000")
	control := server.Dial(t)
	value := strings.Repeat("v", 3_000_000)
	writers := []*wire.Conn{server.Dial(t), server.Dial(t), server.Dial(t)}
	for round := range 5 {
		// It keeps the key locked until all writers wait.
		const script = "redis.call('GET', KEYS[1])" + untilReleased +
			"return redis.call('SET', KEYS[1], 'script')"
		busy := sendScript(t, server, control, "EVAL", script, "1", "k")
		parked := func() int { return field(t, control, "stats", "parked_sessions") }
		before := parked()
		for index, writer := range writers {
			own := fmt.Sprint(round, index, value)
			if err := writer.Send("GETSET", "k", own); err != nil {
				t.Fatal(err)
			}
			// Behind it, so that there is more input than the request.
			if err := writer.Send("STRLEN", "k"); err != nil {
				t.Fatal(err)
			}
		}
		waitFor(t, "the writers to wait", func() bool { return parked() >= before+len(writers) })
		released := release(t, server)
		requireReply(t, busy, step{"EVAL", "OK"})
		do(t, released, "UNSUBSCRIBE")
		for _, writer := range writers {
			requireReply(t, writer, step{"GETSET", ""})
			requireReply(t, writer, step{"STRLEN", fmt.Sprint(len(value) + 3)})
		}
	}
}

// An argument that never arrives whole leaves nothing behind.
func TestLargeArgument_OfAClientThatGoes(t *testing.T) {
	server := instance.Start(t, instance.Subject)
	conn := server.Dial(t)
	expectOK(t, conn, "SET", "k", "before")
	before := field(t, conn, "memory", "used_memory")
	part := wire.AppendCommand(nil, []byte("SET"), []byte("k"), make([]byte, 8_000_000))
	whole := len(part)
	for _, length := range []int{1_000_000, 4_000_000, whole - 3, whole - 2, whole - 1} {
		sender := server.Dial(t)
		id := do(t, sender, "CLIENT", "ID").String()[1:]
		if err := sender.SendRaw(part[:length]); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"mem_clients_normal", "used_memory"} {
			waitFor(t, "arrival of the part in "+name, func() bool {
				return field(t, conn, "memory", name) > length-1000
			})
		}
		if length%2 == 0 {
			sender.Close()
		} else {
			do(t, conn, "CLIENT", "KILL", "ID", id)
		}
		waitFor(t, "end of the client's memory", func() bool {
			return field(t, conn, "memory", "mem_clients_normal") < 200_000
		})
	}
	if value := string(do(t, conn, "GET", "k").Text); value != "before" {
		t.Errorf("%.100q", value)
	}
	if after := field(t, conn, "memory", "used_memory"); after > before+500_000 {
		t.Errorf("%d bytes are used, %d before", after, before)
	}
}
