// Package pubsub tests channels, patterns and keyspace events: what clients are told is compared
// with Valkey's, and messages of concurrent publishers are checked for order and loss.
package pubsub

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// A room is one server with its clients, by name.
type room struct {
	server  *instance.Server
	clients map[string]*wire.Conn
	marks   int
}

func (r *room) client(t *testing.T, name string) *wire.Conn {
	if r.clients[name] == nil {
		r.clients[name] = r.server.Dial(t)
	}
	return r.clients[name]
}

// heard returns what a client received since the last call. A PING tells where it ends: everything
// that was published to the client before is in front of the answer.
func (r *room) heard(t *testing.T, name string) []string {
	t.Helper()
	r.marks++
	mark := fmt.Sprintf("mark-%d", r.marks)
	conn := r.clients[name]
	if err := conn.Send("PING", mark); err != nil {
		t.Fatal(err)
	}
	var heard []string
	for {
		reply, err := conn.Receive()
		if err != nil {
			t.Fatalf("%s, behind %q: %v", name, heard, err)
		}
		if isMark(reply, mark) {
			return heard
		}
		// HELLO names the server and its version, which differ.
		if len(reply.Items) == 0 || string(reply.Items[0].Text) != "server" {
			heard = append(heard, reply.String())
		}
	}
}

func isMark(reply wire.Reply, mark string) bool {
	if len(reply.Items) == 2 {
		reply = reply.Items[1]
	}
	return string(reply.Text) == mark
}

// sorted sorts runs of messages by pattern: their order is no promise.
func sorted(heard []string) []string {
	for from := 0; from < len(heard); from++ {
		to := from
		for to < len(heard) && strings.Contains(heard[to], "pmessage") {
			to++
		}
		slices.Sort(heard[from:to])
		from = max(from, to)
	}
	return heard
}

// converse runs a conversation on both servers: `client: call ; call`, in one write. Behind each
// line all clients have to have heard the same.
func converse(t *testing.T, conversation string) {
	t.Helper()
	rooms := []*room{
		{server: instance.Start(t, instance.Valkey), clients: map[string]*wire.Conn{}},
		{
			server:  instance.Start(t, instance.Subject, "--worker-threads", "2"),
			clients: map[string]*wire.Conn{},
		},
	}
	for _, line := range strings.Split(strings.TrimSpace(conversation), "\n") {
		name, calls, _ := strings.Cut(line, ": ")
		var request []byte
		for _, call := range strings.Split(calls, " ; ") {
			words := strings.Fields(call)
			for index := range words {
				words[index] = strings.Trim(words[index], `"`)
			}
			request = wire.AppendCommand(request, wire.Arguments(words...)...)
		}
		for _, room := range rooms {
			if err := room.client(t, name).SendRaw(request); err != nil {
				t.Fatal(err)
			}
		}
		// The caller first: behind its answers the others' messages are on their way.
		names := []string{name}
		for other := range rooms[0].clients {
			if other != name {
				names = append(names, other)
			}
		}
		for _, client := range names {
			want, got := sorted(rooms[0].heard(t, client)), sorted(rooms[1].heard(t, client))
			if !slices.Equal(want, got) {
				t.Errorf("%s\n  %s hears\n  valkey:  %q\n  subject: %q", line, client, want, got)
			}
		}
	}
}

func TestChannels_AreValkeysInResp2(t *testing.T) {
	converse(t, `
a: SUBSCRIBE c1 c2 c1
b: PUBLISH c1 hello ; PUBLISH c3 nobody ; PUBLISH "" ""
a: PING ; PING x ; PING x y
a: GET k ; PUBLISH c1 x ; MULTI ; PUBSUB NUMPAT ; CLIENT ID ; HELLO 2 x ; EXEC ; FOO
a: PSUBSCRIBE c* *1 c?
b: PUBLISH c1 m ; PUBLISH c m ; PUBLISH d1 m
b: PUBSUB CHANNELS c1 ; PUBSUB CHANNELS none ; PUBSUB NUMSUB c1 c2 c3 ; PUBSUB NUMPAT
b: PUBSUB NUMSUB ; PUBSUB SHARDNUMSUB ; PUBSUB SHARDCHANNELS
a: UNSUBSCRIBE c1 nothing
a: SSUBSCRIBE s1 s2
b: SPUBLISH s1 hi ; PUBLISH s1 hi ; SPUBLISH c1 no ; PUBSUB SHARDNUMSUB s1 s3
a: SUNSUBSCRIBE s1
a: SUNSUBSCRIBE
a: SUNSUBSCRIBE
a: UNSUBSCRIBE
a: UNSUBSCRIBE
a: PUNSUBSCRIBE c*
a: PUNSUBSCRIBE c? *1
a: PUNSUBSCRIBE
a: GET k
b: PUBSUB ; PUBSUB CHANNELS a b ; PUBSUB NUMPAT x ; PUBSUB FOO ; SUBSCRIBE ; PUBLISH a
b: PUBSUB SHARDCHANNELS a b ; PSUBSCRIBE ; SSUBSCRIBE ; SPUBLISH a ; PUBSUB CHANNELS
c: SUBSCRIBE r
c: RESET
c: GET k
b: PUBLISH r x
c: MULTI ; SUBSCRIBE q w ; PUBLISH q own ; GET k ; EXEC
c: PING
c: MULTI ; UNSUBSCRIBE q ; PUBLISH w z ; UNSUBSCRIBE ; EXEC
c: GET k
c: UNSUBSCRIBE ; PUNSUBSCRIBE ; SUNSUBSCRIBE
`)
}

func TestChannels_AreValkeysInResp3(t *testing.T) {
	converse(t, `
a: AUTH x y ; SET k v
a: HELLO 3 SETNAME n ; CLIENT GETNAME
a: SUBSCRIBE c1 c2
b: PUBLISH c1 hello
a: PUBLISH c1 own ; GET k ; PING
a: PSUBSCRIBE c* ; PUBLISH c1 twice ; GET k
a: MULTI ; PUBLISH c1 own ; SUBSCRIBE x y ; PUBLISH x own2 ; GET k ; EXEC ; GET k
a: MULTI ; UNSUBSCRIBE x ; PUBLISH c1 z ; UNSUBSCRIBE c1 ; EXEC
a: MULTI ; SUBSCRIBE only ; PUBLISH only 1 ; UNSUBSCRIBE only y c2 ; PUNSUBSCRIBE c* ; EXEC ; GET k
a: SUBSCRIBE c2 ; PSUBSCRIBE c*
a: SUBSCRIBE c1 ; PUBLISH c1 1 ; PUBLISH c1 2 ; UNSUBSCRIBE c1 ; PUBLISH c1 3
a: CLIENT REPLY OFF ; SUBSCRIBE n1 ; GET k ; PUBLISH n1 x ; UNSUBSCRIBE n1 zz ; CLIENT REPLY ON
a: CLIENT REPLY SKIP ; SUBSCRIBE c9 ; GET k
a: CLIENT REPLY OFF ; MULTI ; SUBSCRIBE n2 ; GET k ; PUBLISH n2 x ; EXEC ; CLIENT REPLY ON
b: CLIENT REPLY OFF ; UNSUBSCRIBE ; CLIENT REPLY ON
a: SSUBSCRIBE s ; SPUBLISH s x ; SUNSUBSCRIBE s ; SPUBLISH s y
a: BLPOP nolist 0.01
b: PUBLISH c2 1 ; SET c1 v
a: HELLO 2 SETNAME n ; PING ; GET k
b: PUBLISH c2 2
a: HELLO 3 SETNAME n ; GET k
a: UNSUBSCRIBE c2 ; PUNSUBSCRIBE
a: RESET ; GET k
b: PUBLISH c2 3 ; PUBSUB NUMPAT
`)
}

// field returns the value of a field of CLIENT LIST or INFO.
func field(text, name, separator string) string {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool {
		return r == ' ' && separator == "=" || r == '\n' || r == '\r'
	}) {
		if value, found := strings.CutPrefix(word, name+separator); found {
			return value
		}
	}
	return "none"
}

func do(t *testing.T, conn *wire.Conn, words ...string) wire.Reply {
	t.Helper()
	reply, err := conn.Do(words...)
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return reply
}

func info(t *testing.T, conn *wire.Conn, name string) string {
	t.Helper()
	return field(string(do(t, conn, "INFO", "everything").Text), name, ":")
}

func TestSubscribers_AreShownAndKilledAsInValkey(t *testing.T) {
	for _, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		server := instance.Start(t, kind)
		subscriber, other := server.Dial(t), server.Dial(t)
		do(t, subscriber, "HELLO", "3")
		for _, call := range []string{"SUBSCRIBE a", "PSUBSCRIBE b*", "SSUBSCRIBE c"} {
			do(t, subscriber, strings.Fields(call)...)
		}
		line := string(do(t, other, "CLIENT", "LIST", "TYPE", "pubsub").Text)
		var shown []string
		for _, name := range []string{"flags", "sub", "psub", "ssub"} {
			shown = append(shown, field(line, name, "="))
		}
		for _, name := range []string{
			"pubsub_clients", "pubsub_channels", "pubsub_patterns", "pubsubshard_channels",
		} {
			shown = append(shown, info(t, other, name))
		}
		if want := strings.Fields("P 1 1 1 1 1 1 1"); !slices.Equal(shown, want) {
			t.Errorf("%v shows %v instead of %v", kind, shown, want)
		}
		normal := string(do(t, other, "CLIENT", "LIST", "TYPE", "normal").Text)
		if strings.Count(normal, "id=") != 1 {
			t.Errorf("%v: normal clients are %s", kind, normal)
		}
		if killed := do(t, other, "CLIENT", "KILL", "TYPE", "pubsub").Int(); killed != 1 {
			t.Errorf("%v kills %d subscribers", kind, killed)
		}
		if _, err := subscriber.Receive(); err == nil {
			t.Errorf("%v: the subscriber is not killed", kind)
		}
		awaitNobody(t, other)
	}
}

// awaitNobody waits until nobody subscribes to anything.
func awaitNobody(t *testing.T, conn *wire.Conn) {
	t.Helper()
	await(t, "registrations are left", func() bool {
		left := do(t, conn, "PUBSUB", "CHANNELS").String() +
			do(t, conn, "PUBSUB", "SHARDCHANNELS").String() +
			do(t, conn, "PUBSUB", "NUMPAT").String()
		empty := do(t, conn, "LRANGE", "no list", "0", "1").String()
		return left == empty+empty+wire.Reply{Kind: ':', Text: []byte("0")}.String()
	})
}

func TestRegistrations_EndHoweverTheClientEnds(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "2")
	other := server.Dial(t)
	ends := map[string]func(*wire.Conn){
		"closed": func(conn *wire.Conn) { _ = conn.Close() },
		"quit":   func(conn *wire.Conn) { do(t, conn, "QUIT") },
		"reset":  func(conn *wire.Conn) { do(t, conn, "RESET") },
		"killed": func(*wire.Conn) { do(t, other, "CLIENT", "KILL", "TYPE", "pubsub") },
		"broken": func(conn *wire.Conn) { _ = conn.SendRaw([]byte("*1\r\nx\r\n")) },
		"unsubscribed": func(conn *wire.Conn) {
			_ = conn.Send("UNSUBSCRIBE")
			_ = conn.Send("PUNSUBSCRIBE")
			_ = conn.Send("SUNSUBSCRIBE")
		},
		"in a transaction": func(conn *wire.Conn) {
			do(t, conn, "MULTI")
			do(t, conn, "SUBSCRIBE", "q")
			_ = conn.Close()
		},
	}
	for name, end := range ends {
		conn := server.Dial(t)
		for _, call := range []string{"SUBSCRIBE a b", "PSUBSCRIBE a* *b ?", "SSUBSCRIBE a b"} {
			words := strings.Fields(call)
			do(t, conn, words...)
			for range words[2:] {
				if _, err := conn.Receive(); err != nil {
					t.Fatal(err)
				}
			}
		}
		end(conn)
		t.Run(name, func(t *testing.T) { awaitNobody(t, other) })
		if count := do(t, other, "PUBLISH", "a", "x").Int(); count != 0 {
			t.Errorf("%s: %d receive", name, count)
		}
	}
}

// A client that has the answer to QUIT subscribes to nothing, for clients of all workers.
func TestQuit_EndsSubscriptionsBeforeItIsAnswered(t *testing.T) {
	const rounds = 500
	server := instance.Start(t, instance.Subject, "--worker-threads", "2")
	other := server.Dial(t)
	for range rounds {
		conn := server.Dial(t)
		do(t, conn, "SUBSCRIBE", "channel")
		do(t, conn, "QUIT")
		channels := do(t, other, "PUBSUB", "CHANNELS")
		if len(channels.Items) > 0 {
			t.Fatalf("after the answer: %s", channels)
		}
		conn.Close()
	}
}

// TestPushes_LeaveTogether watches by how many writes lines and messages leave.
func TestPushes_LeaveTogether(t *testing.T) {
	const count = 2000
	server := instance.Start(t, instance.Subject, "--worker-threads", "2")
	publisher := server.Dial(t)
	monitor, subscriber := server.Dial(t), server.Dial(t)
	do(t, monitor, "MONITOR")
	do(t, subscriber, "SUBSCRIBE", "c")
	var request []byte
	for range count {
		request = wire.AppendCommand(request, wire.Arguments("PUBLISH", "c", "message")...)
	}
	before := do(t, publisher, "INFO", "stats")
	if err := publisher.SendRaw(request); err != nil {
		t.Fatal(err)
	}
	for range count {
		if _, err := publisher.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	for _, conn := range []*wire.Conn{monitor, subscriber} {
		for range count {
			reply, err := conn.Receive()
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(reply.Text, []byte("INFO")) {
				_, _ = conn.Receive()
			}
		}
	}
	writes := func(text []byte) (count int) {
		_, _ = fmt.Sscan(field(string(text), "total_writes_processed", ":"), &count)
		return count
	}
	after := do(t, publisher, "INFO", "stats")
	if made := writes(after.Text) - writes(before.Text); made > count/2 {
		t.Errorf("%d writes for %d lines, messages and replies", made, 3*count)
	}
}
