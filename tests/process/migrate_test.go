package process

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// keysOfAllTypes makes one key of each type, small and large, and returns their names.
func keysOfAllTypes(t *testing.T, conn *wire.Conn) []string {
	t.Helper()
	words := func(name, key string, each func(number int) []string) {
		call := []string{name, key}
		for number := range 3000 {
			call = append(call, each(number)...)
		}
		do(t, conn, call...)
	}
	text := func(number int) string { return fmt.Sprintf("element-%06d", number) }
	do(t, conn, "SET", "string", "value")
	do(t, conn, "SET", "expiring", "value", "PX", "100000000")
	words("RPUSH", "list", func(number int) []string { return []string{text(number)} })
	words("SADD", "set", func(number int) []string { return []string{text(number)} })
	words("SADD", "integers", func(number int) []string { return []string{strconv.Itoa(number)} })
	words("HSET", "hash", func(number int) []string { return []string{text(number), "v"} })
	words("ZADD", "sorted", func(number int) []string {
		return []string{strconv.Itoa(number), text(number)}
	})
	do(t, conn, "XADD", "stream", "1-1", "field", "value")
	do(t, conn, "PFADD", "sketch", "a", "b")
	return []string{
		"string", "expiring", "list", "set", "integers", "hash", "sorted", "stream", "sketch",
	}
}

func migrate(server *instance.Server, words ...string) []string {
	host, port, _ := net.SplitHostPort(server.Address)
	return append([]string{"MIGRATE", host, port}, words...)
}

func TestMigrate_MovesKeysOfAllTypesToValkeyAndToTidemill(t *testing.T) {
	for name, kind := range map[string]instance.Kind{
		"valkey": instance.Valkey, "tidemill": instance.Subject,
	} {
		t.Run(name, func(t *testing.T) {
			source := instance.Start(t, instance.Subject, "--enable-debug-command", "yes")
			target := instance.Start(t, kind, "--enable-debug-command", "yes")
			from, to := source.Dial(t), target.Dial(t)
			do(t, to, "CONFIG", "SET", "requirepass", "secret")
			keys := keysOfAllTypes(t, from)
			digests := append([]string{"DEBUG", "DIGEST-VALUE"}, keys...)
			want := do(t, from, digests...).String()
			words := func(options ...string) []string {
				call := append(migrate(target, "", "3", "5000"), options...)
				return append(append(call, "KEYS"), keys...)
			}
			call := words("COPY", "AUTH", "secret")
			if reply := do(t, from, call...); string(reply.Text) != "OK" {
				t.Fatalf("MIGRATE COPY: %v", reply)
			}
			do(t, to, "SELECT", "3")
			if got := do(t, to, digests...).String(); got != want {
				t.Fatalf("copied: %s\nexpected: %s", got, want)
			}
			if ttl := do(t, to, "PTTL", "expiring").Int(); ttl < 1e7 || ttl > 1e8 {
				t.Errorf("the copy lives %d ms", ttl)
			}
			call = words("AUTH2", "default", "secret")
			busy := "Target instance replied with error: BUSYKEY Target key name already exists."
			if reply, _ := from.Do(call...); reply.String() != "-ERR "+busy {
				t.Errorf("keys that are there: %v", reply)
			}
			if count := do(t, from, "DBSIZE").Int(); count != int64(len(keys)) {
				t.Errorf("%d keys are left behind an error", count)
			}
			do(t, from, words("AUTH", "secret", "REPLACE")...)
			if count := do(t, from, "DBSIZE").Int(); count != 0 {
				t.Errorf("%d keys are left", count)
			}
			if got := do(t, to, digests...).String(); got != want {
				t.Fatalf("moved: %s\nexpected: %s", got, want)
			}
			// One for each user.
			stats := string(do(t, from, "INFO", "stats").Text)
			if !strings.Contains(stats, "migrate_cached_sockets:2\r\n") {
				t.Error("INFO does not show the connections that are kept")
			}
			call = migrate(target, "nothing", "0", "100")
			if reply := do(t, from, call...); string(reply.Text) != "NOKEY" {
				t.Errorf("without keys: %v", reply)
			}
		})
	}
}

func TestMigrate_WithinATransactionIsPartOfIt(t *testing.T) {
	source, target := instance.Start(t, instance.Subject), instance.Start(t, instance.Subject)
	from, to := source.Dial(t), target.Dial(t)
	for _, words := range [][]string{
		{"MULTI"}, {"SET", "key", "value"}, migrate(target, "key", "0", "5000"), {"EXISTS", "key"},
	} {
		do(t, from, words...)
	}
	if reply := do(t, from, "EXEC"); reply.Items[1].String() != "+OK" || reply.Items[2].Int() != 0 {
		t.Errorf("EXEC: %v", reply)
	}
	if value := do(t, to, "GET", "key"); string(value.Text) != "value" {
		t.Errorf("moved: %v", value)
	}
}

// fakeTarget is a server that answers when it is told to.
type fakeTarget struct {
	listener net.Listener
	socket   net.Conn
	in       *bufio.Reader
}

func listenAsTarget(t *testing.T) (*fakeTarget, []string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return &fakeTarget{listener: listener}, []string{"MIGRATE", "127.0.0.1", port}
}

// request returns the next request's arguments.
func (f *fakeTarget) request(t *testing.T) []string {
	t.Helper()
	if f.socket == nil {
		socket, err := f.listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { socket.Close() })
		f.socket, f.in = socket, bufio.NewReader(socket)
	}
	if err := f.socket.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	reply, err := wire.ReadReply(f.in)
	if err != nil {
		t.Fatalf("no request: %v", err)
	}
	var words []string
	for _, item := range reply.Items {
		words = append(words, string(item.Text))
	}
	return words
}

func (f *fakeTarget) answer(t *testing.T, line string) {
	t.Helper()
	if _, err := f.socket.Write([]byte(line + "\r\n")); err != nil {
		t.Fatal(err)
	}
}

// A target that does not answer holds up neither other clients of the worker nor writers of the
// key; what they write goes to the target too.
func TestMigrate_SendsWhatChangesOnTheWay(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "1")
	target, call := listenAsTarget(t)
	conn, other := server.Dial(t), server.Dial(t)
	do(t, other, "MSET", "changed", "old", "gone", "old", "same", "old")
	call = append(call, "", "0", "20000", "KEYS", "changed", "gone", "same")
	if err := conn.Send(call...); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"changed", "gone", "same"} {
		if words := target.request(t); len(words) != 4 || words[1] != key {
			t.Fatalf("sent for %s: %q", key, words)
		}
	}
	do(t, other, "SET", "changed", "new")
	do(t, other, "DEL", "gone")
	for range 3 {
		target.answer(t, "+OK")
	}
	words := target.request(t)
	if len(words) != 5 || words[1] != "changed" || words[4] != "REPLACE" {
		t.Fatalf("sent for what has changed: %q", words)
	}
	if words := target.request(t); fmt.Sprint(words) != "[DEL gone]" {
		t.Fatalf("sent for what is gone: %q", words)
	}
	if count := do(t, other, "DBSIZE").Int(); count != 2 {
		t.Errorf("%d keys while one is on its way", count)
	}
	target.answer(t, "+OK")
	target.answer(t, ":1")
	if reply, err := conn.Receive(); err != nil || reply.String() != "+OK" {
		t.Fatalf("MIGRATE: %v %v", reply, err)
	}
	if count := do(t, other, "DBSIZE").Int(); count != 0 {
		t.Errorf("%d keys are left", count)
	}
}

func TestMigrate_KeepsKeysThatWereNotTaken(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "1")
	conn, other := server.Dial(t), server.Dial(t)
	do(t, conn, "MSET", "a", "1", "b", "2")
	target, call := listenAsTarget(t)
	expect := func(want string) {
		t.Helper()
		if reply, err := conn.Receive(); err != nil || reply.String() != want {
			t.Errorf("%v %v, expected %s", reply, err, want)
		}
	}
	_ = conn.Send(append(call, "a", "0", "50")...)
	expect("-IOERR error or timeout reading from target instance")
	_ = conn.Send(append(call[:3:3], "", "0", "20000", "KEYS", "a", "b")...)
	target.request(t)
	target.socket, target.in = nil, nil
	target.request(t)
	target.request(t)
	target.answer(t, "+OK")
	target.answer(t, "-OOM no room")
	expect("-ERR Target instance replied with error: OOM no room")
	if do(t, other, "EXISTS", "a").Int() != 0 || do(t, other, "EXISTS", "b").Int() != 1 {
		t.Error("a was taken and b was not")
	}
	_ = conn.Send("MIGRATE", "127.0.0.1", "1", "b", "0", "100")
	expect("-IOERR error or timeout writing to target instance")
	// A client that ends while its key is on its way is no reason to have it twice.
	gone := server.Dial(t)
	_ = gone.Send(append(call[:3:3], "b", "0", "20000")...)
	target.request(t)
	gone.Close()
	target.answer(t, "+OK")
	waitFor(t, "deletion of what has moved", func() bool {
		return do(t, other, "EXISTS", "b").Int() == 0
	})
}

// A MIGRATE that waited and is refused in the end leaves nothing to the next one of its session,
// which may be about another key.
func TestMigrate_RefusedInTheEnd(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "1")
	conn, other := server.Dial(t), server.Dial(t)
	do(t, other, "MSET", "first", "1", "second", "2")
	do(t, other, "ACL", "SETUSER", "mover", "on", "nopass", "~*", "+@all")
	do(t, conn, "AUTH", "mover", "any")
	target, call := listenAsTarget(t)
	_ = conn.Send(append(call[:3:3], "first", "0", "20000", "COPY")...)
	target.request(t)
	do(t, other, "ACL", "SETUSER", "mover", "-migrate")
	target.answer(t, "+OK")
	if reply, err := conn.Receive(); err != nil ||
		!strings.HasPrefix(reply.String(), "-NOPERM") {
		t.Fatalf("the refused one: %v %v", reply, err)
	}
	do(t, other, "ACL", "SETUSER", "mover", "+migrate")
	_ = conn.Send(append(call[:3:3], "second", "0", "20000")...)
	if words := target.request(t); len(words) != 4 || words[1] != "second" {
		t.Fatalf("sent for the second: %q", words)
	}
	target.answer(t, "+OK")
	if reply, err := conn.Receive(); err != nil || reply.String() != "+OK" {
		t.Errorf("the second: %v %v", reply, err)
	}
	if do(t, other, "EXISTS", "first").Int() != 1 || do(t, other, "EXISTS", "second").Int() != 0 {
		t.Error("the first stays, the second has moved")
	}
}

// A database that the target has not is refused each time, also on a connection that was kept.
func TestMigrate_IntoADatabaseThatIsNotThere(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind)
		target := instance.Start(t, instance.Valkey)
		conn := server.Dial(t)
		do(t, conn, "MSET", "a", "1", "b", "2", "c", "3")
		if reply := do(t, conn, migrate(target, "a", "0", "20000")...); reply.String() != "+OK" {
			t.Fatal(reply)
		}
		for _, key := range []string{"b", "c"} {
			reply := do(t, conn, migrate(target, key, "99", "20000")...)
			if !strings.Contains(reply.String(), "DB index is out of range") {
				t.Errorf("%s: %v", key, reply)
			}
			if do(t, conn, "EXISTS", key).Int() != 1 {
				t.Errorf("%s is gone", key)
			}
		}
	})
}

// A script that is taken back, since another one has the token, does not move a key twice.
func TestMigrate_WithinAScriptThatWaitsForItsTurn(t *testing.T) {
	source := instance.Start(t, instance.Subject, "--worker-threads", "1",
		"--busy-reply-threshold", "600000")
	target := instance.Start(t, instance.Subject)
	control, to := source.Dial(t), target.Dial(t)
	do(t, control, "SET", "key", "value")
	parked := func() int { return field(t, control, "stats", "parked_sessions") }
	long := sendScript(t, source, control, "EVAL",
		"redis.call('SET', KEYS[1], 1)"+untilReleased+"return 'OK'", "1", "long")
	_, port, _ := net.SplitHostPort(target.Address)
	moving, before := source.Dial(t), parked()
	const move = "local moved = redis.call('MIGRATE', '127.0.0.1', ARGV[1], KEYS[1], 0, 5000) " +
		"for i = 1, 5000000 do end return moved"
	if err := moving.Send("EVAL", move, "1", "key", port); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the second script to wait", func() bool { return parked() > before })
	if moved := do(t, to, "EXISTS", "key").Int(); moved != 0 {
		t.Errorf("%d keys were moved by a script that waits", moved)
	}
	released := release(t, source)
	requireReply(t, long, step{"EVAL", "OK"})
	requireReply(t, moving, step{"EVAL", "OK"})
	do(t, released, "UNSUBSCRIBE")
	if here := do(t, control, "EXISTS", "key").Int(); here != 0 {
		t.Errorf("%d keys are still there", here)
	}
	if value := do(t, to, "GET", "key"); string(value.Text) != "value" {
		t.Errorf("moved: %v", value)
	}
}
