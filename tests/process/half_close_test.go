package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	// holdSeconds is the CPU time for which a slot is held so that others park.
	holdSeconds = "0.3"
	// heldAfter is the time without an answer behind which the key counts as held.
	heldAfter   = 50 * time.Millisecond
	halfClients = 24
)

// request is a pipeline of commands, words separated by blanks.
func request(commands ...string) (out []byte) {
	for _, command := range commands {
		out = wire.AppendCommand(out, wire.Arguments(strings.Fields(command)...)...)
	}
	return out
}

// halfClose ends what a connection sends; what it is sent can still be read.
func halfClose(t *testing.T, conn *wire.Conn) {
	t.Helper()
	if err := conn.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
}

// readAll returns all that comes until the server closes the connection.
func readAll(t *testing.T, conn net.Conn) string {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(closeTimeout))
	all, err := io.ReadAll(conn)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection is still open after %.200q: %v", all, err)
	}
	return string(all)
}

// hold makes other clients wait for the key `held`, from some time on until the returned
// connection is answered. Other workers run meanwhile.
func hold(t *testing.T, server *instance.Server, by string) *wire.Conn {
	t.Helper()
	conn := server.Dial(t)
	if by == "transaction" {
		for _, call := range []string{"MULTI", "INCRBY held 0", "DEBUG SLEEP " + holdSeconds} {
			do(t, conn, strings.Fields(call)...)
		}
		if err := conn.Send("EXEC"); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	const script = "local began = os.clock() redis.call('INCRBY', KEYS[1], 0) " +
		"while os.clock() - began < " + holdSeconds + " do end"
	if err := conn.Send("EVAL", script, "1", "held"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// A session that waits for a lock runs although its client has half-closed, and so does all behind
// it.
func TestHalfClose_AfterAParkedCommandAllIsExecutedAndAnswered(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		for _, by := range []string{"script", "transaction"} {
			afterAParkedCommand(t, kind, by)
		}
	})
}

func afterAParkedCommand(t *testing.T, kind instance.Kind, by string) {
	t.Helper()
	server := instance.Start(t, kind, append(workers(kind), "--enable-debug-command", "yes")...)
	conn := server.Dial(t)
	// The key may be free again before all have sent.
	const attemptsMax = 10
	for range attemptsMax {
		expectOK(t, conn, "FLUSHALL")
		halfCloseBehindHolder(t, server, by)
		for _, command := range []string{"GET held", "LLEN list", "GET count"} {
			reply := do(t, conn, strings.Fields(command)...)
			if string(reply.Text) != strconv.Itoa(halfClients) {
				t.Fatalf("%s: %s after %d clients", command, reply, halfClients)
			}
		}
		if kind != instance.Subject || field(t, conn, "stats", "parked_sessions") > 0 {
			return
		}
	}
	t.Errorf("nobody was parked behind a %s: nothing is shown", by)
}

// halfCloseBehindHolder lets clients send, half-close and read while a key is held that they change
// first.
func halfCloseBehindHolder(t *testing.T, server *instance.Server, by string) {
	t.Helper()
	clients := make([]*wire.Conn, halfClients)
	for index := range clients {
		clients[index] = server.Dial(t)
		do(t, clients[index], "PING")
	}
	holder := hold(t, server, by)
	defer holder.Close()
	waitUntilHeld(t, server)
	for index, client := range clients {
		own := strconv.Itoa(index)
		commands := []string{"INCR held", "SET own" + own + " x", "RPUSH list " + own, "MULTI",
			"INCR count", "EXEC", "GET own" + own}
		if err := client.SendRaw(request(commands...)); err != nil {
			t.Fatal(err)
		}
		halfClose(t, client)
	}
	for index, client := range clients {
		lines := strings.Split(readAll(t, client), "\r\n")
		// :n +OK :n +OK +QUEUED *1 :n $1 x
		if len(lines) != 10 || lines[8] != "x" {
			t.Errorf("client %d got %q", index, lines)
		}
		client.Close()
	}
}

// waitUntilHeld asks for the key until no answer comes: the script that holds it has begun, however
// late its worker was scheduled. If it is over already nobody parks, and the caller sees that.
func waitUntilHeld(t *testing.T, server *instance.Server) {
	t.Helper()
	conn := server.Dial(t)
	defer conn.Close()
	patience := conn.Timeout
	for began := time.Now(); time.Since(began) < time.Second; {
		conn.Timeout = patience
		if err := conn.Send("GET", "held"); err != nil {
			t.Fatal(err)
		}
		conn.Timeout = heldAfter
		if _, err := conn.Receive(); errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

// Writers of many slots run beside clients that send, half-close and read.
func TestHalfClose_BesideWritersNothingIsLost(t *testing.T) {
	const keys, rounds, clientsAtOnce = 64, 20, 30
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind, workers(kind)...)
		var names []string
		for index := range keys {
			names = append(names, "k"+strconv.Itoa(index))
		}
		stop := make(chan struct{})
		var writers sync.WaitGroup
		for writer := range 3 {
			conn := server.Dial(t)
			mset := "MSET " + strings.Join(names, " "+strconv.Itoa(writer)+" ") + " 0"
			pipeline := bytes.Repeat(request("MULTI", mset, "GET k0", "EXEC"), 20)
			writers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if conn.SendRaw(pipeline) != nil {
						return
					}
					for range 4 * 20 {
						if _, err := conn.Receive(); err != nil {
							t.Errorf("a writer: %v", err)
							return
						}
					}
				}
			})
		}
		lost := 0
		for round := range rounds {
			clients := make([]*wire.Conn, clientsAtOnce)
			for index := range clients {
				clients[index] = server.Dial(t)
				own := fmt.Sprintf("own:%d:%d", round, index)
				commands := []string{"MSET " + own + " 1 " + strings.Join(names[:8], " 5 ") + " 5",
					"INCR " + own, "RPUSH done " + own}
				if err := clients[index].SendRaw(request(commands...)); err != nil {
					t.Fatal(err)
				}
				halfClose(t, clients[index])
			}
			for _, client := range clients {
				if got := readAll(t, client); !strings.HasPrefix(got, "+OK\r\n:2\r\n:") {
					lost++
				}
				client.Close()
			}
		}
		close(stop)
		writers.Wait()
		done := do(t, server.Dial(t), "LLEN", "done").Int()
		if lost > 0 || done != rounds*clientsAtOnce {
			t.Errorf("%d of %d clients were not answered, %d executed", lost, rounds*clientsAtOnce,
				done)
		}
	})
}

// Commands behind one that waits for another client are not executed if the client ends meanwhile.
func TestHalfClose_EndsAWaitForOthers(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind, workers(kind)...)
		conn := server.Dial(t)
		exchange := func(commands ...string) string {
			t.Helper()
			client := server.Dial(t)
			if err := client.SendRaw(request(commands...)); err != nil {
				t.Fatal(err)
			}
			halfClose(t, client)
			return readAll(t, client)
		}
		for _, each := range []struct {
			commands []string
			want     string
		}{
			{[]string{"SET a 1", "BLPOP nothing 0", "SET behind 1"}, "+OK\r\n"},
			{[]string{"RPUSH l x", "BLPOP l 0", "SET a 2"},
				":1\r\n*2\r\n$1\r\nl\r\n$1\r\nx\r\n+OK\r\n"},
			{[]string{"MULTI", "SET behind 1"}, "+OK\r\n+QUEUED\r\n"},
			{[]string{"CLIENT REPLY OFF", "SET silent 1"}, ""},
			{[]string{"SET a 3", "QUIT", "SET behind 1"}, "+OK\r\n+OK\r\n"},
		} {
			if got := exchange(each.commands...); got != each.want {
				t.Errorf("%q: %q, want %q", each.commands, got, each.want)
			}
		}
		expectOK(t, conn, "CLIENT", "PAUSE", "60000", "WRITE")
		if got := exchange("GET a", "SET behind 1", "SET behind 2"); got != "$1\r\n3\r\n" {
			t.Errorf("in a pause: %q", got)
		}
		expectOK(t, conn, "CLIENT", "UNPAUSE")
		if reply := do(t, conn, "MGET", "behind", "silent"); reply.String() != `*[$nil $"1"]` {
			t.Errorf("behind, silent: %s", reply)
		}
		// A wait that has ended leaves no blocked client behind.
		expectOK(t, conn, "SET", "a", "4")
		if reply := do(t, conn, "LPUSH", "nothing", "x"); reply.Int() != 1 ||
			do(t, conn, "LLEN", "nothing").Int() != 1 {
			t.Error("a client that is gone was served")
		}
		if count := field(t, conn, "clients", "blocked_clients"); count != 0 {
			t.Errorf("%d are blocked", count)
		}
	})
}

// More replies than the sockets hold, and a reply that is made in pieces. Valkey sends a
// half-closed client only what the sockets take at once.
func TestHalfClose_AllRepliesComeHoweverManyTheyAre(t *testing.T) {
	const requests = 150
	server, conn := withLargeValue(t, instance.Subject, workers(instance.Subject)...)
	elements := strings.Repeat(" element", 1000)
	for range 20 {
		do(t, conn, strings.Fields("RPUSH long"+elements)...)
	}
	client := server.Dial(t)
	commands := []string{"LRANGE long 0 -1"}
	for range requests {
		commands = append(commands, "GET large", "INCR count")
	}
	commands = append(commands, "LRANGE long 0 -1", "INCR last")
	if err := client.SendRaw(request(commands...)); err != nil {
		t.Fatal(err)
	}
	halfClose(t, client)
	for index := range commands {
		reply, err := client.Receive()
		if err != nil {
			t.Fatalf("reply %d: %v", index, err)
		}
		if index == 0 && len(reply.Items) != 20_000 || index == 1 && len(reply.Text) != megabyte {
			t.Fatalf("reply %d is short", index)
		}
	}
	if rest := readAll(t, client); rest != "" {
		t.Errorf("%.100q behind the last reply", rest)
	}
	waitFor(t, "end of the connection", func() bool {
		return field(t, conn, "clients", "connected_clients") == 1
	})
}

// A client that sends and closes without having read anything is executed for to the end of what
// has arrived: all it sent when that is little, and over a Unix socket, where nothing is under way.
func TestClose_WithoutReadingAllThatArrivedIsExecuted(t *testing.T) {
	closed := func(t *testing.T, server *instance.Server, address string, linger, commands int) {
		conn, err := wire.Dial(address)
		if err != nil {
			t.Fatal(err)
		}
		if tcp, isTCP := conn.Conn.(*net.TCPConn); isTCP {
			if err := tcp.SetLinger(linger); err != nil {
				t.Fatal(err)
			}
		}
		// It is accepted before it sends.
		do(t, conn, "PING")
		text := bytes.Repeat([]byte("INCR count\r\nGET value\r\n"), commands)
		// Bytes beyond the sockets' buffers are not sent: nothing reads the replies.
		_ = conn.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		sent, _ := conn.Write(text)
		conn.Close()
		control := server.Dial(t)
		waitFor(t, "end of the connection", func() bool {
			return field(t, control, "clients", "connected_clients") == 1
		})
		want := strconv.Itoa(bytes.Count(text[:sent], []byte("INCR count\r\n")))
		if got := do(t, control, "GET", "count"); string(got.Text) != want {
			t.Errorf("%s of %s executed", got, want)
		}
	}
	start := func(t *testing.T, kind instance.Kind, directives ...string) *instance.Server {
		server := instance.Start(t, kind, append(workers(kind), directives...)...)
		conn := server.Dial(t)
		expectOK(t, conn, "SET", "value", strings.Repeat("x", 1000))
		conn.Close()
		return server
	}
	for _, linger := range []int{-1, 0} {
		t.Run(fmt.Sprintf("little, linger %d", linger), func(t *testing.T) {
			both(t, func(t *testing.T, kind instance.Kind) {
				server := start(t, kind)
				closed(t, server, server.Address, linger, 600)
			})
		})
	}
	t.Run("much", func(t *testing.T) {
		socket := filepath.Join(t.TempDir(), "socket")
		server := start(t, instance.Subject, "--unixsocket", socket)
		closed(t, server, socket, 0, 100_000)
	})
}
