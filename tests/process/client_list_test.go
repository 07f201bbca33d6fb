package process

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// shown returns one figure of a client's line in CLIENT LIST; none if the client is not there.
func shown(t *testing.T, conn *wire.Conn, name, figure string) string {
	t.Helper()
	line := regexp.MustCompile(`name=` + name + ` .*`).Find(do(t, conn, "CLIENT", "LIST").Text)
	match := regexp.MustCompile(` ` + figure + `=(\S*)`).FindSubmatch(line)
	if match == nil {
		return ""
	}
	return string(match[1])
}

// named returns a connection with a name.
func named(t *testing.T, server *instance.Server, name string) *wire.Conn {
	t.Helper()
	conn := server.Dial(t)
	expectOK(t, conn, "CLIENT", "SETNAME", name)
	return conn
}

func TestClientList_ShowsAndFiltersReadonlyConnections(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind)
		conn, reader := named(t, server, "conn"), named(t, server, "reader")
		for _, step := range []struct{ call, flags string }{
			{"READONLY", "r"}, {"READWRITE", "N"}, {"READONLY", "r"}, {"RESET", "N"},
		} {
			do(t, reader, step.call)
			do(t, reader, "CLIENT", "SETNAME", "reader")
			if flags := shown(t, conn, "reader", "flags"); flags != step.flags {
				t.Errorf("behind %s: %s", step.call, flags)
			}
		}
		expectOK(t, reader, "READONLY")
		for filter, want := range map[string]string{"FLAGS": "reader", "NOT-FLAGS": "conn"} {
			list := string(do(t, conn, "CLIENT", "LIST", filter, "r").Text)
			if strings.Count(list, "id=") != 1 || !strings.Contains(list, " name="+want+" ") {
				t.Errorf("%s r: %s", filter, list)
			}
		}
		if count := do(t, conn, "CLIENT", "KILL", "NOT-FLAGS", "N").Int(); count != 1 {
			t.Errorf("%d killed", count)
		}
		if flags := shown(t, conn, "reader", "flags"); flags != "" {
			t.Errorf("a killed client is shown with %s", flags)
		}
	})
}

// A large argument is shown without what precedes it in its request, which is parsed.
func TestClientList_ShowsWhatHasArrivedOfALargeArgument(t *testing.T) {
	const arrived = 3 * megabyte
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind)
		conn, client := server.Dial(t), named(t, server, "half")
		head := fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n", arrived)
		if err := client.SendRaw([]byte(head + strings.Repeat("x", arrived))); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the whole argument", func() bool {
			return shown(t, conn, "half", "qbuf") == fmt.Sprint(arrived)
		})
	})
}

// Unsent replies are shown as parts while they pile up, and as none behind that. In Valkey payloads
// by reference fit a client's first buffer, which is not shown so.
func TestClientList_ShowsThePartsOfUnsentReplies(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server, conn := withLargeValue(t, kind)
		expectOK(t, conn, "CONFIG", "SET", "min-string-size-avoid-copy-reply", "0")
		slow := named(t, server, "slow")
		if oll := shown(t, conn, "slow", "oll"); oll != "0" {
			t.Errorf("oll=%s before", oll)
		}
		if err := slow.SendRaw(bytes.Repeat([]byte("GET large\r\n"), 40)); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "unsent replies", func() bool { return shown(t, conn, "slow", "oll") > "0" })
		for range 40 {
			if _, err := slow.Receive(); err != nil {
				t.Fatal(err)
			}
		}
		waitFor(t, "end of the pile", func() bool {
			return shown(t, conn, "slow", "oll") == "0" && shown(t, conn, "slow", "omem") == "0"
		})
	})
}

// A lowered limit for all clients holds when it is answered, over the clients of all workers: the
// largest have gone from CLIENT LIST, and no more of them than needed.
func TestClientMemory_ALoweredLimitHoldsAtOnce(t *testing.T) {
	const clients, bytesEach = 9, megabyte
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind, workers(kind)...)
		conn := named(t, server, "conn")
		expectOK(t, conn, "CLIENT", "NO-EVICT", "on")
		// Two that are twice as large; in Valkey only powers of two are told apart.
		for index := range clients {
			size := bytesEach
			if index%4 == 1 {
				size = 2*bytesEach + bytesEach/2
			}
			client := named(t, server, fmt.Sprintf("client-%d", index))
			request := fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n", size) + strings.Repeat("x", size)
			if err := client.SendRaw([]byte(request)); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "arrival of it all", func() bool {
				return shown(t, conn, fmt.Sprintf("client-%d", index), "qbuf") == fmt.Sprint(size)
			})
		}
		left := func() (names string) {
			list := string(do(t, conn, "CLIENT", "LIST").Text)
			for index := range clients {
				if strings.Contains(list, fmt.Sprintf(" name=client-%d ", index)) {
					names += fmt.Sprint(index)
				}
			}
			return names
		}
		// The two large ones go, then two of the others.
		expectOK(t, conn, "CONFIG", "SET", "maxmemory-clients", "9mb")
		if names := left(); names != "0234678" {
			t.Errorf("%s are left of 9 MB", names)
		}
		do(t, conn, "MULTI")
		do(t, conn, "CONFIG", "SET", "maxmemory-clients", fmt.Sprint(5*bytesEach+bytesEach/2))
		do(t, conn, "CLIENT", "ID")
		do(t, conn, "EXEC")
		if names := left(); len(names) != 5 {
			t.Errorf("%s are left of 5.5 MB", names)
		}
		waitFor(t, "their end", func() bool {
			return field(t, conn, "stats", "evicted_clients") == 4
		})
	})
}

// With replies counted by blocks the first of them ends a client that never authenticated.
func TestUnauthenticated_RepliesAreLimited(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind, "--enable-debug-command", "yes")
		conn := server.Dial(t)
		expectOK(t, conn, "CONFIG", "SET", "requirepass", "secret")
		stranger, former := server.Dial(t), server.Dial(t)
		expectOK(t, former, "AUTH", "secret")
		do(t, former, "RESET")
		noauth := func(client *wire.Conn) {
			t.Helper()
			if reply := do(t, client, "GET", "k"); !strings.HasPrefix(reply.String(), "-NOAUTH") {
				t.Errorf("%s", reply)
			}
		}
		noauth(stranger)
		expectOK(t, conn, "DEBUG", "CLIENT-ENFORCE-REPLY-LIST", "1")
		noauth(former)
		if reply, err := stranger.Do("GET", "k"); err == nil {
			t.Errorf("answered %s", reply)
		}
		expectOK(t, conn, "DEBUG", "CLIENT-ENFORCE-REPLY-LIST", "0")
		noauth(server.Dial(t))
		noauth(former)
	})
}
