package process

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// withPassword returns a server that asks for a password, and a connection that has given it.
func withPassword(t *testing.T, kind instance.Kind) (*instance.Server, *wire.Conn) {
	t.Helper()
	server := instance.Start(t, kind, workers(kind)...)
	conn := server.Dial(t)
	expectOK(t, conn, "CONFIG", "SET", "requirepass", "secret")
	return server, conn
}

// flood sends the same bytes again and again without reading, until the server takes no more or
// closes the connection; tells whether that is closed.
func flood(server *instance.Server, text []byte, bytesMax int) bool {
	conn, err := wire.Dial(server.Address)
	if err != nil {
		return false
	}
	defer conn.Close()
	for sent := 0; sent < bytesMax; sent += len(text) {
		_ = conn.SetWriteDeadline(time.Now().Add(closeTimeout))
		if _, err := conn.Write(text); err != nil {
			return true
		}
	}
	return false
}

// Many who never authenticate and never read: each is closed after little, all together take
// little, and the log stays short.
func TestUnauthenticated_FloodsEndEarly(t *testing.T) {
	const clients, bytesMax = 8, 64 * megabyte
	server, conn := withPassword(t, instance.Subject)
	for name, text := range map[string][]byte{
		"requests": bytes.Repeat([]byte("PING\r\n"), 5000),
		"garbage":  bytes.Repeat([]byte("x"), 30_000),
	} {
		t.Run(name, func(t *testing.T) {
			closed := func() int {
				return field(t, conn, "stats", "client_output_buffer_limit_disconnections") +
					field(t, conn, "stats", "client_query_buffer_limit_disconnections")
			}
			before, largest := closed(), 0
			var group sync.WaitGroup
			for range clients {
				group.Go(func() {
					if !flood(server, text, bytesMax) {
						t.Errorf("%d MiB were taken", bytesMax/megabyte)
					}
				})
			}
			done := make(chan bool)
			go func() {
				defer close(done)
				group.Wait()
			}()
			for isDone := false; !isDone; {
				select {
				case <-done:
					isDone = true
				case <-time.After(5 * time.Millisecond):
				}
				largest = max(largest, field(t, conn, "memory", "mem_clients_normal"))
			}
			// Bound: input and output that the limits allow, and the state of a client.
			if largest > (clients+1)*(17+5+4)<<10 {
				t.Errorf("clients took %d KiB", largest>>10)
			}
			if count := closed() - before; count != clients {
				t.Errorf("%d of %d count as closed", count, clients)
			}
		})
	}
	lines := regexp.MustCompile(
		`# Closed (a client|\d+ clients) that had not authenticated`).FindAllString(server.Log(),
		-1)
	if len(lines) == 0 || len(lines) > 20 {
		t.Errorf("%d lines in the log tell of it:\n%.2000s", len(lines), server.Log())
	}
}

// Requests that never end are cut off at the limit of unauthenticated input.
func TestUnauthenticated_HalfARequestEndsAtItsLimit(t *testing.T) {
	server, conn := withPassword(t, instance.Subject)
	client := server.Dial(t)
	argument := "$16000\r\n" + strings.Repeat("x", 16_000) + "\r\n"
	_ = client.SendRaw([]byte("*7\r\n$5\r\nHELLO\r\n" + argument + argument + argument))
	drain(t, client)
	if count := field(t, conn, "stats", "client_query_buffer_limit_disconnections"); count != 1 {
		t.Errorf("%d disconnections", count)
	}
}

// The limits on unauthenticated input do not apply to commands pipelined behind a successful AUTH.
func TestUnauthenticated_PipelineBehindAuthRuns(t *testing.T) {
	const pings = 50_000
	for _, auth := range []string{"AUTH secret", "AUTH default secret",
		"HELLO 2 AUTH default secret", "HELLO 3 AUTH default secret SETNAME it"} {
		t.Run(auth, func(t *testing.T) {
			both(t, func(t *testing.T, kind instance.Kind) {
				server, _ := withPassword(t, kind)
				client := server.Dial(t)
				text := request(auth, "SET k "+strings.Repeat("v", 100_000))
				text = append(text, bytes.Repeat([]byte("PING\r\n"), pings)...)
				go func() { _ = client.SendRaw(text) }()
				if reply, err := client.Receive(); err != nil || reply.IsError() {
					t.Fatalf("%s, %v", reply, err)
				}
				if reply, err := client.Receive(); err != nil || string(reply.Text) != "OK" {
					t.Fatalf("%s, %v", reply, err)
				}
				for index := range pings {
					if reply, err := client.Receive(); err != nil || string(reply.Text) != "PONG" {
						t.Fatalf("reply %d: %s, %v", index, reply, err)
					}
				}
			})
		})
	}
}

// Requests before AUTH are bounded in arguments and in bytes of each.
func TestUnauthenticated_RequestsAreSmall(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server, _ := withPassword(t, kind)
		for _, each := range []struct{ text, want string }{
			{"*10\r\n" + strings.Repeat("$1\r\nx\r\n", 10), "ERR unknown command"},
			{"*11\r\n", "ERR Protocol error: unauthenticated multibulk length"},
			{"*2\r\n$4\r\nAUTH\r\n$16384\r\n" + strings.Repeat("x", 16_384) + "\r\n", "WRONGPASS"},
			{"*2\r\n$4\r\nAUTH\r\n$16385\r\n", "ERR Protocol error: unauthenticated bulk length"},
		} {
			client := server.Dial(t)
			if err := client.SendRaw([]byte(each.text)); err != nil {
				t.Fatal(err)
			}
			if reply, err := client.Receive(); err != nil ||
				!strings.HasPrefix(string(reply.Text), each.want) &&
					!strings.HasPrefix(string(reply.Text), "NOAUTH") {
				t.Errorf("%.20q: %s, %v", each.text, strconv.Quote(string(reply.Text)), err)
			}
			client.Close()
		}
	})
}
