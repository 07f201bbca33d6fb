package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	megabyte     = 1 << 20
	closeTimeout = 15 * time.Second
)

// field returns one number of INFO.
func field(t *testing.T, conn *wire.Conn, section, name string) int {
	t.Helper()
	match := regexp.MustCompile(`(?m)^` + name + `:(\d+)`).FindSubmatch(
		do(t, conn, "INFO", section).Text)
	if match == nil {
		t.Fatalf("INFO %s has no %s", section, name)
	}
	value, _ := strconv.Atoi(string(match[1]))
	return value
}

func do(t *testing.T, conn *wire.Conn, words ...string) wire.Reply {
	t.Helper()
	reply, err := conn.Do(words...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func expectOK(t *testing.T, conn *wire.Conn, words ...string) {
	t.Helper()
	if reply := do(t, conn, words...); string(reply.Text) != "OK" {
		t.Fatalf("%.60q answered %s", words, reply)
	}
}

// drain reads until the server closes the connection and returns how much came before.
func drain(t *testing.T, conn net.Conn) (count int64) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(closeTimeout))
	count, err := io.Copy(io.Discard, conn)
	if errors.Is(err, syscall.ECONNRESET) {
		return count
	}
	if err != nil {
		t.Errorf("the connection is still open after %d bytes: %v", count, err)
	}
	return count
}

func requireLog(t *testing.T, server *instance.Server, pattern string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(server.Log()) {
		t.Errorf("the log has no %s:\n%s", pattern, server.Log())
	}
}

// withLargeValue returns a server whose key `large` holds a megabyte, and a connection to it.
func withLargeValue(
	t *testing.T, kind instance.Kind, directives ...string,
) (*instance.Server, *wire.Conn) {
	t.Helper()
	server := instance.Start(t, kind, directives...)
	conn := server.Dial(t)
	expectOK(t, conn, "SET", "large", strings.Repeat("x", megabyte))
	return server, conn
}

// requestLarge sends count requests for the large value and reads nothing.
func requestLarge(t *testing.T, server *instance.Server, count int) *wire.Conn {
	t.Helper()
	conn := server.Dial(t)
	request := wire.AppendCommand(nil, []byte("GET"), []byte("large"))
	if err := conn.SendRaw(bytes.Repeat(request, count)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// both runs a claim against Tidemill and, so that the claim itself is known to be right, against
// Valkey.
func both(t *testing.T, claim func(*testing.T, instance.Kind)) {
	for _, kind := range []instance.Kind{instance.Subject, instance.Valkey} {
		t.Run(string(kind), func(t *testing.T) { claim(t, kind) })
	}
}

func TestOutputLimit_HardEndsAClientAtOnce(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server, conn := withLargeValue(t, kind)
		expectOK(t, conn, "CONFIG", "SET", "client-output-buffer-limit", "normal 4mb 0 0")
		slow := requestLarge(t, server, 60)
		// Unread until the limit has struck; what the sockets hold comes before the end.
		waitFor(t, "a disconnection", func() bool {
			return field(t, conn, "stats", "client_output_buffer_limit_disconnections") == 1
		})
		if count := drain(t, slow); count > 30*megabyte {
			t.Errorf("%d MiB came through a limit of 4", count/megabyte)
		}
		requireLog(t, server,
			`# Client id=\d+ addr=127\.0\.0\.1:\d+ .* `+
				`closed for overcoming of output buffer limits\.`)
	})
}

// CLIENT LIST shows the replies and the input that pile up for each client.
func TestClientList_TellsWhatClientsPileUp(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server, conn := withLargeValue(t, kind)
		slow, half := server.Dial(t), server.Dial(t)
		expectOK(t, slow, "CLIENT", "SETNAME", "slow")
		if err := slow.SendRaw(bytes.Repeat([]byte("GET large\r\n"), 40)); err != nil {
			t.Fatal(err)
		}
		if err := half.SendRaw([]byte(
			"CLIENT SETNAME half\r\n*2\r\n$4\r\nECHO\r\n$100\r\nxyz")); err != nil {
			t.Fatal(err)
		}
		piled := func(name, figure string) int {
			line := regexp.MustCompile(`name=` + name + ` .*`).Find(
				do(t, conn, "CLIENT", "LIST").Text)
			match := regexp.MustCompile(` ` + figure + `=(\d+)`).FindSubmatch(line)
			if match == nil {
				return 0
			}
			count, _ := strconv.Atoi(string(match[1]))
			return count
		}
		waitFor(t, "unsent replies", func() bool {
			return piled("slow", "omem") > megabyte && piled("slow", "tot-mem") > megabyte
		})
		waitFor(t, "half a request", func() bool {
			return piled("half", "tot-mem") > 0 && piled("half", "omem") == 0
		})
		for range 40 {
			if _, err := slow.Receive(); err != nil {
				t.Fatal(err)
			}
		}
		waitFor(t, "end of the pile", func() bool { return piled("slow", "omem") == 0 })
	})
}

func TestOutputLimit_SoftEndsAClientAfterItsSeconds(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server, conn := withLargeValue(t, kind)
		expectOK(t, conn, "CONFIG", "SET", "client-output-buffer-limit", "normal 0 1mb 1")
		start := time.Now()
		slow := requestLarge(t, server, 30)
		waitFor(t, "a disconnection", func() bool {
			return field(t, conn, "stats", "client_output_buffer_limit_disconnections") == 1
		})
		// Valkey counts in whole seconds of the clock.
		if elapsed := time.Since(start); elapsed < time.Second || elapsed > 20*time.Second {
			t.Errorf("disconnected after %v", elapsed)
		}
		drain(t, slow)
	})
}

// A monitor is sent what others do: when it does not read, it is the one to go. They, and a monitor
// that reads, notice nothing.
func TestOutputLimit_EndsAMonitorThatDoesNotRead(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind)
		conn, slow, reading := server.Dial(t), server.Dial(t), server.Dial(t)
		expectOK(t, conn, "CONFIG", "SET", "client-output-buffer-limit", "normal 4mb 0 0")
		for _, monitor := range []*wire.Conn{slow, reading} {
			expectOK(t, monitor, "MONITOR")
		}
		sees := func(suffix string) {
			t.Helper()
			line, err := reading.Receive()
			if err != nil || !strings.HasSuffix(string(line.Text), suffix) {
				t.Fatalf("the monitor that reads got %.100s, %v; want ... %.50s", line, err, suffix)
			}
		}
		// At some time the sockets are full, and then the buffer, while a reader keeps up.
		const stepsMax = 40_000
		value := strings.Repeat("x", 8<<10)
		isClosed := false
		for index := 1; !isClosed && index < stepsMax; index++ {
			key := "key" + strconv.Itoa(index%10)
			expectOK(t, conn, "SET", key, value)
			sees(`"SET" "` + key + `" "` + value + `"`)
			if index%100 == 0 {
				isClosed = field(t, conn, "stats", "client_output_buffer_limit_disconnections") == 1
				sees(`"INFO" "stats"`)
			}
		}
		if !isClosed {
			t.Fatalf("the monitor that does not read is still there after %d MiB", stepsMax>>7)
		}
		drain(t, slow)
		requireLog(t, server,
			`# Client id=\d+ addr=127\.0\.0\.1:\d+ .* `+
				`(scheduled to be closed ASAP|closed) for overcoming of output buffer limits\.`)
		if list := string(do(t, conn, "CLIENT", "LIST").Text); strings.Count(list, "flags=O") != 1 {
			t.Errorf("one monitor is left, CLIENT LIST says: %s", list)
		}
	})
}

func TestOutputLimit_SparesAClientThatReads(t *testing.T) {
	server, conn := withLargeValue(t, instance.Subject)
	expectOK(t, conn, "CONFIG", "SET", "client-output-buffer-limit", "normal 64mb 32mb 1")
	reader := requestLarge(t, server, 20)
	for range 20 {
		if reply, err := reader.Receive(); err != nil || len(reply.Text) != megabyte {
			t.Fatalf("%d bytes, %v", len(reply.Text), err)
		}
	}
	if count := field(t, conn, "stats", "client_output_buffer_limit_disconnections"); count != 0 {
		t.Errorf("%d disconnections", count)
	}
}

// awaitRest waits until the threads of a server have hardly anything to do: they neither run nor
// wait for a CPU. A buffer that grows is there twice for a moment, which takes long on a busy
// machine.
func awaitRest(t *testing.T, server *instance.Server) {
	t.Helper()
	const window = time.Second
	waitFor(t, "rest of the server", func() bool {
		begun := time.Now()
		before := busyTime(t, server)
		time.Sleep(window)
		return busyTime(t, server)-before < time.Since(begun)/2
	})
}

// busyTime is the time for which the threads of a server ran or waited for a CPU.
func busyTime(t *testing.T, server *instance.Server) time.Duration {
	t.Helper()
	ran, err := instance.ScheduledTime(server.PID)
	if err != nil {
		t.Fatal(err)
	}
	delayed, err := instance.RunDelay(server.PID)
	if err != nil {
		t.Fatal(err)
	}
	return ran + delayed
}

// Without a limit Valkey's memory grows by all the replies. Tidemill's stays bounded, and every
// reply still comes.
func TestSlowReader_DoesNotGrowMemoryWithoutBound(t *testing.T) {
	const requests = 400
	server, conn := withLargeValue(t, instance.Subject)
	expectOK(t, conn, "SET", "piece", strings.Repeat("p", 8<<10))
	// Small values are copied into the replies, so that unsent ones are memory of their own.
	slow := server.Dial(t)
	piece := wire.AppendCommand(nil, []byte("GET"), []byte("piece"))
	if err := slow.SendRaw(bytes.Repeat(piece, requests*megabyte/(8<<10))); err != nil {
		t.Fatal(err)
	}
	large := requestLarge(t, server, requests)
	awaitRest(t, server)
	resident, err := instance.ResidentBytes(server.PID)
	if err != nil {
		t.Fatal(err)
	}
	if resident > 200*megabyte {
		t.Errorf("%d MiB resident for replies that nobody reads", resident/megabyte)
	}
	for index := range requests {
		if reply, err := large.Receive(); err != nil || len(reply.Text) != megabyte {
			t.Fatalf("reply %d: %d bytes, %v", index, len(reply.Text), err)
		}
	}
	for index := range requests * megabyte / (8 << 10) {
		if reply, err := slow.Receive(); err != nil || len(reply.Text) != 8<<10 {
			t.Fatalf("reply %d: %d bytes, %v", index, len(reply.Text), err)
		}
	}
}

func TestQueryLimit_EndsAClientThatPilesUp(t *testing.T) {
	argument := "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8000000\r\n" + strings.Repeat("v", 4*megabyte)
	queued := "MULTI\r\n" +
		strings.Repeat("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n"+strings.Repeat("v",
			100_000)+"\r\n", 40)
	blocked := "BLPOP nothing 0\r\n" + strings.Repeat("*1\r\n$4\r\nPING\r\n", 4*megabyte/14)
	for name, request := range map[string]string{"argument": argument, "transaction": queued,
		"while blocked": blocked} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, kind instance.Kind) {
				server := instance.Start(t, kind, "--client-query-buffer-limit", "2mb")
				conn := server.Dial(t)
				greedy := server.Dial(t)
				go func() { _ = greedy.SendRaw([]byte(request)) }()
				waitFor(t, "a disconnection", func() bool {
					return field(t, conn, "stats", "client_query_buffer_limit_disconnections") == 1
				})
				drain(t, greedy)
				requireLog(t, server,
					`# Closing client that reached max query buffer length: id=\d+ `)
			})
		})
	}
}

func TestQueryLimit_CountsOnlyWhatIsNotExecuted(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--client-query-buffer-limit", "1mb")
	conn := server.Dial(t)
	const requests = 300_000 // some 8 MiB in all
	go func() {
		_ = conn.SendRaw(bytes.Repeat([]byte("*2\r\n$4\r\nECHO\r\n$1\r\nx\r\n"),
			requests))
	}()
	for index := range requests {
		if reply, err := conn.Receive(); err != nil || string(reply.Text) != "x" {
			t.Fatalf("reply %d: %s, %v", index, reply, err)
		}
	}
}

func TestBulkLimit_FollowsConfigSet(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind)
		conn := server.Dial(t)
		other := server.Dial(t)
		expectOK(t, conn, "CONFIG", "SET", "proto-max-bulk-len", "1mb")
		expectOK(t, other, "SET", "k", strings.Repeat("v", megabyte))
		// Without the argument itself: what a server leaves unread may cost its last reply.
		if err := other.SendRaw([]byte("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048577\r\n")); err != nil {
			t.Fatal(err)
		}
		if reply, err := other.Receive(); err != nil ||
			string(reply.Text) != "ERR Protocol error: invalid bulk length" {
			t.Errorf("%s, %v", reply, err)
		}
		drain(t, other)
	})
}

func TestClientMemory_LargestClientsAreEvicted(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind)
		conn := server.Dial(t)
		spared := server.Dial(t)
		expectOK(t, spared, "CLIENT", "NO-EVICT", "on")
		// An argument each that lacks its last megabyte, of different sizes.
		half := func(conn *wire.Conn, megabytes int) {
			text := fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n", (megabytes+1)*megabyte) +
				strings.Repeat("x", megabytes*megabyte)
			if err := conn.SendRaw([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		small, large := server.Dial(t), server.Dial(t)
		half(spared, 24)
		half(small, 2)
		half(large, 18)
		waitFor(t, "arrival of it all", func() bool {
			return field(t, conn, "stats", "total_net_input_bytes") > 44*megabyte
		})
		expectOK(t, conn, "CONFIG", "SET", "maxmemory-clients", "40mb")
		drain(t, large)
		if count := field(t, conn, "stats", "evicted_clients"); count != 1 {
			t.Errorf("%d evicted", count)
		}
		requireLog(t, server, `\* Evicting client: id=\d+ addr=127\.0\.0\.1:`)
		// One that grows under the limit, and takes less than the one that is spared.
		growing := server.Dial(t)
		_ = growing.SendRaw([]byte("*2\r\n$4\r\nECHO\r\n$20971520\r\n" +
			strings.Repeat("x", 20*megabyte-1)))
		drain(t, growing)
		// The others go on where they were.
		for each, megabytes := range map[*wire.Conn]int{spared: 24, small: 2} {
			rest := strings.Repeat("x", megabyte) + "\r\n"
			expectOK(t, conn, "CONFIG", "SET", "maxmemory-clients", "0")
			if err := each.SendRaw([]byte(rest)); err != nil {
				t.Fatal(err)
			}
			if reply, err := each.Receive(); err != nil ||
				len(reply.Text) != (megabytes+1)*megabyte {
				t.Errorf("%d bytes, %v", len(reply.Text), err)
			}
		}
	})
}

// Ten megabytes are announced and a hundredth of them sent: that is what it takes, and what counts.
func TestHalfSentArgument_TakesWhatHasArrived(t *testing.T) {
	const clients, arrived = 200, 100_000
	server := instance.Start(t, instance.Subject)
	conn := server.Dial(t)
	before, err := instance.ResidentBytes(server.PID)
	if err != nil {
		t.Fatal(err)
	}
	half := []byte("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10000000\r\n" + strings.Repeat("v", arrived/2))
	var senders []*wire.Conn
	for range clients {
		senders = append(senders, server.Dial(t))
	}
	for _, text := range [][]byte{half, half[len(half)-arrived/2:]} {
		for _, sender := range senders {
			if err := sender.SendRaw(text); err != nil {
				t.Fatal(err)
			}
		}
	}
	waitFor(t, "arrival of it all", func() bool {
		return field(t, conn, "stats", "total_net_input_bytes") > clients*arrived
	})
	// The room that a few of them have for more is theirs for a moment.
	counted := func() int { return field(t, conn, "memory", "mem_clients_normal") }
	waitFor(t, "giving back of room", func() bool { return counted() < 22*clients*arrived/10 })
	after, err := instance.ResidentBytes(server.PID)
	if err != nil {
		t.Fatal(err)
	}
	if grown := after - before; grown > 3*clients*arrived || int64(counted()) < grown/2 {
		t.Errorf("%d KiB resident and %d KiB counted for %d KiB", grown>>10, counted()>>10,
			clients*arrived>>10)
	}
	// The rest of the argument completes the request.
	rest := append(bytes.Repeat([]byte("v"), 10_000_000-arrived), "\r\n"...)
	if err := senders[0].SendRaw(rest); err != nil {
		t.Fatal(err)
	}
	if reply, err := senders[0].Receive(); err != nil || string(reply.Text) != "OK" {
		t.Errorf("%s, %v", reply, err)
	}
	if length := do(t, conn, "STRLEN", "k").Int(); length != 10_000_000 {
		t.Errorf("%d bytes", length)
	}
}

func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	const pollPause = 20 * time.Millisecond
	for end := time.Now().Add(closeTimeout); time.Now().Before(end); time.Sleep(pollPause) {
		if holds() {
			return
		}
	}
	t.Fatalf("no %s within %v", what, closeTimeout)
}

// Replies count before the socket takes them: a client that asks for more than its hard limit at
// once is closed and gets nothing of it, while its transaction is executed as a whole. What fits a
// client's first buffer never counts.
func TestOutputLimit_CountsRepliesBeforeTheyAreSent(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind, "--enable-debug-command", "yes")
		conn := server.Dial(t)
		// Valkey makes the first buffer smaller after some tenths of a second.
		expectOK(t, conn, "DEBUG", "REPLYBUFFER", "RESIZING", "0")
		item := strings.Repeat("x", 1000)
		for range 150 {
			do(t, conn, "RPUSH", "list", item)
		}
		limit := func(bytes string) {
			expectOK(t, conn, "CONFIG", "SET", "client-output-buffer-limit", "normal "+bytes+" 0 0")
		}
		closes := func(words ...string) {
			t.Helper()
			client := server.Dial(t)
			before := field(t, conn, "stats", "client_output_buffer_limit_disconnections")
			for _, line := range words {
				if err := client.Send(strings.Fields(line)...); err != nil {
					t.Fatal(err)
				}
			}
			// Replies to requests before it in the pipeline may have been sent.
			if count := drain(t, client); count > 1000 {
				t.Errorf("%q: %d bytes came", words, count)
			}
			after := field(t, conn, "stats", "client_output_buffer_limit_disconnections")
			if after != before+1 {
				t.Errorf("%q: %d disconnections", words, after-before)
			}
		}
		do(t, conn, "HSET", "hash", "f", "v")
		do(t, conn, "SADD", "set", "m")
		do(t, conn, "ZADD", "sorted", "1", "m")
		limit("100000")
		closes("LRANGE list 0 -1")
		// Replies that are larger than any that is made.
		for _, call := range []string{"HRANDFIELD hash", "SRANDMEMBER set", "ZRANDMEMBER sorted"} {
			closes(call + " -999999999")
			closes("MULTI", call+" -999999999", "EXEC")
		}
		closes("MULTI", "SET a 1", "LRANGE list 0 -1", "SET b 2", "EXEC")
		for _, key := range []string{"a", "b"} {
			if reply := do(t, conn, "GET", key); len(reply.Text) == 0 {
				t.Errorf("%s was not set", key)
			}
		}
		limit("1000")
		if reply := do(t, conn, "LRANGE", "list", "0", "9"); len(reply.Items) != 10 {
			t.Errorf("10 KB were answered by %d items", len(reply.Items))
		}
		limit("200000")
		if reply := do(t, conn, "LRANGE", "list", "0", "-1"); len(reply.Items) != 150 {
			t.Errorf("150 KB were answered by %d items", len(reply.Items))
		}
	})
}

// A client that CLIENT LIST no longer has leaves its place of maxclients to the next one, although
// the server still takes back what it subscribed to.
func TestMaxclients_PlaceOfAClientThatIsGoneIsFree(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--maxclients", "2")
	watcher := server.Dial(t)
	subscribe := []string{"SUBSCRIBE"}
	for channel := range 20_000 {
		subscribe = append(subscribe, "channel:"+strconv.Itoa(channel))
	}
	for round := range 20 {
		leaving, err := wire.Dial(server.Address)
		if err != nil {
			t.Fatal(err)
		}
		if reply := do(t, leaving, subscribe...); reply.Kind != '*' {
			t.Fatalf("round %d: %s", round, reply)
		}
		leaving.Close()
		deadline := time.Now().Add(20 * time.Second)
		for strings.Count(string(do(t, watcher, "CLIENT", "LIST").Text), " laddr=") > 1 {
			if time.Now().After(deadline) {
				t.Fatalf("round %d: the client is still there", round)
			}
		}
		next, err := wire.Dial(server.Address)
		if err != nil {
			t.Fatal(err)
		}
		if reply, err := next.Do("PING"); err != nil || string(reply.Text) != "PONG" {
			t.Fatalf("round %d: the next client was answered %s, %v", round, reply, err)
		}
		if err := next.Finish(); err != nil {
			t.Fatal(err)
		}
		for strings.Count(string(do(t, watcher, "CLIENT", "LIST").Text), " laddr=") > 1 {
			if time.Now().After(deadline) {
				t.Fatalf("round %d: the next client is still there", round)
			}
		}
	}
}
