package process

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const longListItems = 1_000_000

func longListItem(index int) string { return fmt.Sprintf("v%09d", index) }

// fillLongList makes the key `list` a list of a million elements.
func fillLongList(t *testing.T, conn *wire.Conn) {
	t.Helper()
	for first := 0; first < longListItems; first += 10_000 {
		words := []string{"RPUSH", "list"}
		for index := range 10_000 {
			words = append(words, longListItem(first+index))
		}
		do(t, conn, words...)
	}
}

// outputBytes is what CLIENT LIST says of a client's unsent replies.
func outputBytes(t *testing.T, conn *wire.Conn, id int64) int {
	t.Helper()
	line := do(t, conn, "CLIENT", "LIST", "ID", strconv.FormatInt(id, 10)).Text
	match := regexp.MustCompile(` omem=(\d+)`).FindSubmatch(line)
	if match == nil {
		t.Fatalf("CLIENT LIST says %q", line)
	}
	count, _ := strconv.Atoi(string(match[1]))
	return count
}

// longReader asks for a long list and for what it is sent behind that, and reads nothing.
func longReader(t *testing.T, server *instance.Server, request, behind []byte) (*wire.Conn, int64) {
	t.Helper()
	reader := server.Dial(t)
	id := do(t, reader, "CLIENT", "ID").Int()
	if err := reader.SendRaw(append(request, behind...)); err != nil {
		t.Fatal(err)
	}
	return reader, id
}

func stalls(t *testing.T, conn *wire.Conn, id int64) {
	t.Helper()
	waitFor(t, "a reply that the client does not take", func() bool {
		return outputBytes(t, conn, id) > 0
	})
}

// A client takes a million elements slowly. Nobody waits for it, its reply never lies in memory
// whole, and all of it is of the list as it was when it asked.
func TestLongReply_IsOfOneVersionHoweverSlowlyItIsTaken(t *testing.T) {
	lrange := wire.AppendCommand(nil, wire.Arguments("LRANGE", "list", "0", "-1")...)
	lpop := wire.AppendCommand(nil, wire.Arguments("LPOP", "list", strconv.Itoa(longListItems))...)
	for name, request := range map[string][]byte{"LRANGE": lrange, "LPOP": lpop} {
		t.Run(name, func(t *testing.T) {
			server := instance.Start(t, instance.Subject, "--worker-threads", "1")
			conn := server.Dial(t)
			fillLongList(t, conn)
			behind := wire.AppendCommand(nil, wire.Arguments("ECHO", "behind")...)
			reader, id := longReader(t, server, request, behind)
			stalls(t, conn, id)
			do(t, conn, "RENAME", "list", "moved")
			do(t, conn, "LSET", "moved", "-1", "changed")
			do(t, conn, "DEL", "moved")
			for index := range 1000 {
				do(t, conn, "RPUSH", "list", fmt.Sprintf("overwrites what was freed %d", index))
			}
			if bytes := outputBytes(t, conn, id); bytes > 2*megabyte {
				t.Errorf("%d bytes of a reply lie in memory", bytes)
			}
			_ = reader.Conn.SetReadDeadline(time.Now().Add(time.Minute))
			in := bufio.NewReader(reader.Conn)
			expectLine(t, in, fmt.Sprintf("*%d", longListItems))
			for index := range longListItems {
				expectLine(t, in, "$10")
				expectLine(t, in, longListItem(index))
			}
			expectLine(t, in, "$6")
			expectLine(t, in, "behind")
		})
	}
}

func expectLine(t *testing.T, in *bufio.Reader, want string) {
	t.Helper()
	line, err := in.ReadSlice('\n')
	if err != nil || string(bytes.TrimSuffix(line, []byte("\r\n"))) != want {
		t.Fatalf("%q, %v; want %q", line, err, want)
	}
}

// The versions that a long reply keeps are freed when its client goes, however it goes.
func TestLongReply_KeepsNothingBehindAClientThatIsGone(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "1")
	conn := server.Dial(t)
	request := wire.AppendCommand(nil, wire.Arguments("LRANGE", "list", "0", "-1")...)
	for name, end := range map[string]func(*wire.Conn, int64){
		"killed": func(_ *wire.Conn, id int64) {
			do(t, conn, "CLIENT", "KILL", "ID", strconv.FormatInt(id, 10))
		},
		"closed": func(reader *wire.Conn, _ int64) { reader.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			fillLongList(t, conn)
			reader, id := longReader(t, server, request, nil)
			stalls(t, conn, id)
			do(t, conn, "DEL", "list")
			retired := func() int { return field(t, conn, "memory", "used_memory_retired") }
			waitFor(t, "a list that is deleted and still read", func() bool {
				return retired() > 10*megabyte
			})
			end(reader, id)
			waitFor(t, "the list to be freed", func() bool { return retired() < megabyte })
		})
	}
}

// A limit for unsent replies counts a whole reply, as Valkey's does, although it could be made in
// pieces.
func TestLongReply_CountsWholeForOutputLimits(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind)
		conn := server.Dial(t)
		fillLongList(t, conn)
		expectOK(t, conn, "CONFIG", "SET", "client-output-buffer-limit", "normal 4mb 0 0")
		request := wire.AppendCommand(nil, wire.Arguments("LRANGE", "list", "0", "-1")...)
		reader, _ := longReader(t, server, request, nil)
		waitFor(t, "a disconnection", func() bool {
			return field(t, conn, "stats", "client_output_buffer_limit_disconnections") == 1
		})
		drain(t, reader)
	})
}

// Commands that take longer than a turn let others go first, and lose nothing by it: all are
// answered, in order.
func TestLongCommands_TakeTurnsWithTheirNeighbours(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "1")
	const commands, keys = 40, 20_000
	words := []string{"MSET"}
	for key := range keys {
		words = append(words, fmt.Sprintf("key:%d", key), "value")
	}
	long := wire.AppendCommand(nil, wire.Arguments(words...)...)
	heavy := server.Dial(t)
	go func() {
		for index := range commands {
			request := append(bytes.Clone(long),
				wire.AppendCommand(nil, wire.Arguments("ECHO", strconv.Itoa(index))...)...)
			if heavy.SendRaw(request) != nil {
				return
			}
		}
	}()
	done := make(chan error, 2)
	stop := make(chan struct{})
	for range 2 {
		light := server.Dial(t)
		go func() {
			for {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				if reply, err := light.Do("GET", "key:1"); err != nil || reply.IsError() {
					done <- fmt.Errorf("%s, %v", reply, err)
					return
				}
			}
		}()
	}
	_ = heavy.Conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
	in := bufio.NewReader(heavy.Conn)
	for index := range commands {
		number := strconv.Itoa(index)
		expectLine(t, in, "+OK")
		expectLine(t, in, "$"+strconv.Itoa(len(number)))
		expectLine(t, in, number)
	}
	close(stop)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A client that sends much more than its replies leave room for is read slowly, so that it costs
// its neighbours little, and yet gets everything once it reads.
func TestHeldClient_IsReadSlowlyAndAnsweredInTheEnd(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "1")
	conn := server.Dial(t)
	const pieceBytes, held = 16 << 10, 5000
	do(t, conn, "SET", "piece", string(bytes.Repeat([]byte("p"), pieceBytes)))
	flood := server.Dial(t)
	id := do(t, flood, "CLIENT", "ID").Int()
	get := wire.AppendCommand(nil, wire.Arguments("GET", "piece")...)
	ping := wire.AppendCommand(nil, wire.Arguments("PING")...)
	const pings = 1_000_000
	go func() { _ = flood.SendRaw(append(bytes.Repeat(get, held), bytes.Repeat(ping, pings)...)) }()
	pending := func() int {
		line := do(t, conn, "CLIENT", "LIST", "ID", strconv.FormatInt(id, 10)).Text
		match := regexp.MustCompile(` qbuf=(\d+)`).FindSubmatch(line)
		if match == nil {
			t.Fatalf("CLIENT LIST says %q", line)
		}
		count, _ := strconv.Atoi(string(match[1]))
		return count
	}
	waitFor(t, "it to be held", func() bool { return outputBytes(t, conn, id) > 60*megabyte })
	waitFor(t, "its requests to be read on", func() bool { return pending() > megabyte })
	_ = flood.Conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
	replies := int64(held*len(fmt.Sprintf("$%d\r\n\r\n", pieceBytes))+held*pieceBytes) +
		pings*int64(len("+PONG\r\n"))
	if count, err := io.CopyN(io.Discard, flood.Conn, replies); err != nil {
		t.Fatalf("%d bytes of %d, %v", count, replies, err)
	}
}
