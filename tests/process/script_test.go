package process

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const endless = "while true do end"

// untilReleased is a loop of a script that lasts until `release`, whatever it has locked, and for
// several turns then: a subscription is seen without a lock.
const untilReleased = " while redis.call('PUBSUB', 'NUMSUB', 'released')[2] == 0 do " +
	"for i = 1, 100000 do end end for i = 1, 5000000 do end "

// release ends the loops of untilReleased, until the connection that it returns unsubscribes.
func release(t *testing.T, server *instance.Server) *wire.Conn {
	t.Helper()
	conn := server.Dial(t)
	conn.Timeout = closeTimeout
	do(t, conn, "SUBSCRIBE", "released")
	return conn
}

// sendScript sends a script and returns once it has run for longer than a turn: it can be killed,
// or not, by then.
func sendScript(
	t *testing.T, server *instance.Server, control *wire.Conn, words ...string,
) *wire.Conn {
	t.Helper()
	conn := server.Dial(t)
	conn.Timeout = 2 * closeTimeout
	if err := conn.SendRaw(wire.AppendCommand(nil, wire.Arguments(words...)...)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the script to run for long", func() bool {
		return !do(t, control, "FUNCTION", "STATS").Items[1].Null
	})
	return conn
}

func receive(t *testing.T, conn *wire.Conn) wire.Reply {
	t.Helper()
	reply, err := conn.Receive()
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// Beside a script without end, sessions of the same worker go on; those that need its slots are
// told that it is busy; it is killed unless it has written.
func TestScript_WithoutEndKeepsNobodyButThoseOfItsSlots(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "1",
		"--busy-reply-threshold", "50")
	control := server.Dial(t)
	do(t, control, "SET", "other", "1")
	body := "redis.call('GET', KEYS[1]) " + endless
	script := sendScript(t, server, control, "EVAL", body, "1", "k")
	if reply := do(t, control, "INCR", "other"); reply.Int() != 2 {
		t.Errorf("a neighbour: %v", reply)
	}
	waiting := server.Dial(t)
	waiting.Timeout = closeTimeout
	busy, err := waiting.Do("SET", "k", "1")
	if err != nil || !strings.HasPrefix(string(busy.Text), "BUSY ") {
		t.Errorf("%v, %v", busy, err)
	}
	if reply := do(t, control, "SCRIPT", "KILL"); string(reply.Text) != "OK" {
		t.Errorf("%v", reply)
	}
	if reply := receive(t, script); !strings.Contains(string(reply.Text), "killed by user") {
		t.Errorf("%v", reply)
	}
	if reply := do(t, waiting, "SET", "k", "1"); string(reply.Text) != "OK" {
		t.Errorf("its slot: %v", reply)
	}
}

// A command that is refused as busy at once waits for nothing any more: what stops the whole server
// goes on as soon as the script is over, although the refused client stays.
func TestScript_CommandsRefusedAsBusyLeaveNothingBehind(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "2",
		"--busy-reply-threshold", "1")
	control, other := server.Dial(t), server.Dial(t)
	control.Timeout = closeTimeout
	script := sendScript(t, server, control, "EVAL", endless, "0")
	for _, words := range [][]string{{"FLUSHALL"}, {"SWAPDB", "0", "1"}} {
		refused := server.Dial(t)
		busy, err := refused.Do(words...)
		if err != nil || !strings.HasPrefix(string(busy.Text), "BUSY ") {
			t.Errorf("%v: %v, %v", words, busy, err)
		}
	}
	do(t, other, "MULTI")
	do(t, other, "FLUSHALL")
	if reply, err := other.Do("EXEC"); err != nil || !strings.Contains(string(reply.Text), "BUSY") {
		t.Errorf("EXEC: %v, %v", reply, err)
	}
	do(t, control, "SCRIPT", "KILL")
	receive(t, script)
	if reply := do(t, control, "FLUSHALL"); string(reply.Text) != "OK" {
		t.Errorf("behind the script: %v", reply)
	}
}

// A script that has written is not killed, and nobody sees half of it while it is suspended.
func TestScript_SuspendedBetweenTwoWritesIsSeenWhole(t *testing.T) {
	// Readers wait for the script, however long it takes.
	server := instance.Start(t, instance.Subject, "--worker-threads", "2",
		"--busy-reply-threshold", "600000")
	control := server.Dial(t)
	do(t, control, "MSET", "a", "0", "b", "0")
	source := "redis.call('SET', 'a', ARGV[1])" + untilReleased +
		"redis.call('SET', 'b', ARGV[1]) return 'done'"
	script := sendScript(t, server, control, "EVAL", source, "2", "a", "b", "1")
	killed, err := control.Do("SCRIPT", "KILL")
	if err != nil || !strings.HasPrefix(string(killed.Text), "UNKILLABLE ") {
		t.Errorf("%v, %v", killed, err)
	}
	reader := server.Dial(t)
	reader.Timeout = 2 * closeTimeout
	if err := reader.Send("MGET", "a", "b"); err != nil {
		t.Fatal(err)
	}
	// It waits for the script. One that is answered already has seen half.
	waitFor(t, "wait of the reader, or its answer", func() bool {
		return field(t, control, "stats", "parked_sessions") > 0 ||
			strings.Contains(string(do(t, control, "CLIENT", "LIST").Text), "cmd=mget")
	})
	release(t, server)
	seen := receive(t, reader)
	a, b := string(seen.Items[0].Text), string(seen.Items[1].Text)
	if a != b || a != "1" {
		t.Fatalf("half of a script: a=%s b=%s", a, b)
	}
	if reply := receive(t, script); string(reply.Text) != "done" {
		t.Errorf("%v", reply)
	}
}

// A script whose client is killed ends; one that has written runs to its end.
func TestScript_OfAClientThatIsKilled(t *testing.T) {
	// The last reader waits for the script, however long it takes.
	server := instance.Start(t, instance.Subject, "--worker-threads", "1",
		"--busy-reply-threshold", "600000")
	control := server.Dial(t)
	kill := func() {
		t.Helper()
		id := strconv.FormatInt(do(t, control, "CLIENT", "ID").Int(), 10)
		do(t, control, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes", "NOT-ID", id)
	}
	sendScript(t, server, control, "EVAL", "redis.call('GET', 'k') "+endless, "1", "k")
	kill()
	waitFor(t, "the script to end", func() bool {
		return do(t, control, "FUNCTION", "STATS").Items[1].Null
	})
	source := "redis.call('SET', 'x', '1')" + untilReleased + "redis.call('SET', 'y', '1')"
	sendScript(t, server, control, "EVAL", source, "2", "x", "y")
	kill()
	release(t, server)
	control.Timeout = 2 * closeTimeout
	if reply := do(t, control, "MGET", "x", "y"); string(reply.Items[1].Text) != "1" {
		t.Errorf("%v", reply)
	}
}

// Read-only scripts that never see one moment take locks at last: they end beside a writer.
func TestScript_ReadOnlyEndsBesideWriters(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "2")
	control := server.Dial(t)
	// On one worker they would take turns, and no read could be torn.
	writer, reader := onWorker(t, server, control, 0), onWorker(t, server, control, 1)
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		for number := 2; ; number++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			value := strconv.Itoa(number)
			if _, err := writer.Do("MSET", "a", value, "b", value); err != nil {
				done <- err
				return
			}
		}
	}()
	reader.Timeout = 2 * closeTimeout
	source := `for i = 1, 300 do
  if redis.call('GET', 'a') ~= redis.call('GET', 'b') then return 'torn' end
end return 'whole'`
	do(t, reader, "MSET", "a", "1", "b", "1")
	for range 50 {
		if reply := do(t, reader, "EVAL_RO", source, "2", "a", "b"); string(reply.Text) != "whole" {
			t.Fatalf("%v", reply)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// An endless script in a transaction, or one that has stopped the other workers, keeps only those
// who need its keys: with one worker, too, it can be killed, and the transaction goes on behind it.
func TestScript_WithoutEndInTransactionOrAloneIsKilled(t *testing.T) {
	for _, workers := range []string{"1", "2"} {
		server := instance.Start(t, instance.Subject, "--worker-threads", workers,
			"--busy-reply-threshold", "50")
		control := server.Dial(t)
		do(t, control, "SET", "other", "1")
		busy := func(words ...string) {
			t.Helper()
			waiting := server.Dial(t)
			waiting.Timeout = closeTimeout
			if reply := do(t, waiting, words...); !strings.HasPrefix(string(reply.Text), "BUSY ") {
				t.Errorf("%v: %v", words, reply)
			}
		}
		transaction := server.Dial(t)
		transaction.Timeout = 2 * closeTimeout
		for _, words := range [][]string{
			{"MULTI"}, {"SET", "a", "1"}, {"EVAL", endless, "0"}, {"INCR", "a"}, {"DBSIZE"},
			{"EVAL", "redis.call('KEYS', '*') redis.call('GET', 'a') " + endless, "0"},
			{"GET", "a"},
		} {
			do(t, transaction, words...)
		}
		request := wire.AppendCommand(nil, wire.Arguments("EXEC")...)
		if err := transaction.SendRaw(request); err != nil {
			t.Fatal(err)
		}
		isRunning := func() bool { return !do(t, control, "FUNCTION", "STATS").Items[1].Null }
		for range 2 {
			waitFor(t, "the script to run for long", isRunning)
			busy("GET", "a")
			busy("EVAL", "return redis.call('SET', 'a', 'x')", "1", "a")
			if reply := do(t, control, "PING"); string(reply.Text) != "PONG" {
				t.Errorf("a neighbour: %v", reply)
			}
			if reply := do(t, control, "SCRIPT", "KILL"); string(reply.Text) != "OK" {
				t.Errorf("%v", reply)
			}
			waitFor(t, "the script to end", func() bool {
				stats := do(t, control, "FUNCTION", "STATS").Items[1]
				return stats.Null || strings.Contains(string(stats.Items[3].Items[1].Text), "KEYS")
			})
		}
		replies := receive(t, transaction).Items
		if len(replies) != 6 || string(replies[5].Text) != "2" || replies[2].Int() != 2 {
			t.Errorf("%v", replies)
		}
		for _, at := range []int{1, 4} {
			if text := string(replies[at].Text); !strings.Contains(text, "on @user_script:1.") {
				t.Errorf("%v", replies[at])
			}
		}
		alone := sendScript(t, server, control, "EVAL",
			"redis.call('SET', 'b', '1') redis.call('KEYS', '*') "+endless, "1", "b")
		busy("GET", "other")
		busy("FLUSHALL")
		killed := do(t, control, "SCRIPT", "KILL")
		if !strings.HasPrefix(string(killed.Text), "UNKILLABLE ") {
			t.Errorf("%v", killed)
		}
		_ = control.SendRaw(wire.AppendCommand(nil, wire.Arguments("SHUTDOWN", "NOSAVE")...))
		if _, err := alone.Receive(); err == nil {
			t.Error("the server goes on")
		}
		server.Kill()
	}
}

// TIME does not move within a script, but for one that has run for busy-reply-threshold: a script
// that waits for the time to pass ends.
func TestScript_ThatWaitsForTheTimeEnds(t *testing.T) {
	conn := instance.Start(t, instance.Subject).Dial(t)
	conn.Timeout = time.Minute
	const now = "local function now() local t = redis.call('TIME') " +
		"return t[1] * 1000000 + t[2] end "
	still := do(t, conn, "EVAL", now+"local t = now() for i = 1, 100 do if now() ~= t then "+
		"return 'moved' end end return 'stood'", "0")
	if string(still.Text) != "stood" {
		t.Errorf("within a short script the time %s", still.Text)
	}
	do(t, conn, "CONFIG", "SET", "busy-reply-threshold", "100")
	waits := now + "local t = now() + 150000 while now() < t do end return 'over'"
	for _, keys := range [][]string{{"0"}, {"1", "key"}} {
		words := append([]string{"EVAL", waits}, keys...)
		if reply := do(t, conn, words...); string(reply.Text) != "over" {
			t.Errorf("%v: %s", keys, reply)
		}
	}
}

// Steps in which a script cannot be suspended. Each has no end.
var endlessSteps = map[string]string{
	"metamethod": "local t = setmetatable({}, {__index = function() " + endless +
		" end}) return t.x",
	"comparator":  "table.sort({1, 2, 3}, function() " + endless + " end)",
	"replacement": "string.gsub('a', 'a', function() " + endless + " end)",
	"iterator":    "table.foreach({1}, function() " + endless + " end)",
	"conversion":  "tostring(setmetatable({}, {__tostring = function() " + endless + " end}))",
}

// A step that cannot be suspended stops its worker for busy-reply-threshold at most, whatever the
// script has written and catches.
func TestScript_StepThatCannotBeSuspendedHasALimit(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "1",
		"--busy-reply-threshold", "50")
	neighbour := server.Dial(t)
	for name, step := range endlessSteps {
		for _, before := range []string{"", "redis.call('SET', KEYS[1], 'written') "} {
			script := server.Dial(t)
			script.Timeout = 2 * closeTimeout
			neighbour.Timeout = 2 * closeTimeout
			body := before + "return tostring(pcall(function() " + step + " end))"
			reply, err := script.Do("EVAL", body, "1", "k")
			const reason = "for longer than busy-reply-threshold"
			if err != nil || !strings.Contains(string(reply.Text), reason) {
				t.Errorf("%s: %v, %v", name, reply, err)
			}
			if reply := do(t, neighbour, "INCR", "other"); reply.IsError() {
				t.Errorf("%s: a neighbour: %v", name, reply)
			}
			if before != "" {
				if reply := do(t, neighbour, "GETDEL", "k"); string(reply.Text) != "written" {
					t.Errorf("%s: %v", name, reply)
				}
			}
		}
	}
	if stats := do(t, neighbour, "FUNCTION", "STATS").Items[1]; !stats.Null {
		t.Errorf("it is still listed: %v", stats)
	}
}

// The log tells once of a script that runs for longer than busy-reply-threshold, by its digest: its
// source is the user's.
func TestScript_SlowOneIsToldToTheLogOnce(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "1",
		"--busy-reply-threshold", "20")
	control := server.Dial(t)
	source := "local secret = 'of the user' " + endless
	digest := sha1.Sum([]byte(source))
	script := sendScript(t, server, control, "EVAL", source, "0")
	line := "Slow script detected: " + hex.EncodeToString(digest[:]) + " has run for "
	waitFor(t, "line in the log", func() bool { return strings.Contains(server.Log(), line) })
	time.Sleep(100 * time.Millisecond)
	do(t, control, "SCRIPT", "KILL")
	receive(t, script)
	log := server.Log()
	if count := strings.Count(log, "Slow script detected"); count != 1 {
		t.Errorf("%d lines", count)
	}
	if strings.Contains(log, "of the user") {
		t.Error("the log has the source of the script")
	}
}

// A client that sees the end of its connection finds nobody listening any more.
func TestShutdown_StopsListeningBeforeConnectionsEnd(t *testing.T) {
	for range 20 {
		server := instance.Start(t, instance.Subject, "--worker-threads", "2")
		conn := server.Dial(t)
		if err := conn.Send("SHUTDOWN", "NOSAVE"); err != nil {
			t.Fatal(err)
		}
		drain(t, conn)
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(server.Port))
		if other, err := net.Dial("tcp", address); err == nil {
			_ = other.Close()
			t.Fatal("a server that has ended its connections listens still")
		}
		server.Kill()
	}
}

// SCRIPT FLUSH gives the memory back that scripts have taken, of all workers.
func TestScript_FlushGivesMemoryOfInterpretersBack(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "2")
	control := server.Dial(t)
	for range 2 {
		for worker := range 2 {
			conn := onWorker(t, server, control, worker)
			for number := range 400 {
				source := fmt.Sprintf("local t = {%s} return %d",
					strings.Repeat("'a constant', ", 20), number)
				do(t, conn, "EVAL", source, "0")
			}
		}
	}
	const usedMin, flushedMax = 300_000, 150_000
	if used := information(t, control, "used_memory_vm_eval"); used < usedMin {
		t.Fatalf("scripts take %d bytes: too few to see them go", used)
	}
	do(t, control, "SCRIPT", "FLUSH")
	waitFor(t, "the memory to be given back", func() bool {
		return information(t, control, "used_memory_vm_eval") < flushedMax
	})
}

// lua-enable-insecure-api offers functions to scripts, and takes them away, while the server runs.
func TestScript_WithdrawnFunctionsAreOfferedByADirective(t *testing.T) {
	for _, initial := range []string{"no", "yes"} {
		server := instance.Start(t, instance.Subject, "--worker-threads", "2",
			"--enable-protected-configs", "yes", "--lua-enable-insecure-api", initial)
		control := server.Dial(t)
		conns := []*wire.Conn{onWorker(t, server, control, 0), onWorker(t, server, control, 1)}
		check := func(isOffered bool) {
			t.Helper()
			for _, conn := range conns {
				source := "setfenv(1, {x = 'own'}) return x"
				reply, err := conn.Do("EVAL", source, "0")
				if err != nil || (string(reply.Text) == "own") != isOffered {
					t.Errorf("offered %v: %v, %v", isOffered, reply, err)
				}
			}
		}
		check(initial == "yes")
		for _, value := range []string{"yes", "no", "yes"} {
			expectOK(t, control, "CONFIG", "SET", "lua-enable-insecure-api", value)
			// Workers see it at the boundary before their next request.
			check(value == "yes")
		}
	}
}

// A transaction with a script has a buffer of replies of its own, over several turns where the
// script is long. The protocol that HELLO chose in it holds for what follows.
func TestScripts_HelloBesideThemInATransactionHolds(t *testing.T) {
	server := instance.Start(t, instance.Subject)
	conn := server.Dial(t)
	long := "local n = 0 for i = 1, 2e6 do n = n + i end return 1"
	for _, script := range []string{"return 1", long} {
		for _, version := range []struct {
			hello string
			empty byte
		}{{"3", '%'}, {"2", '*'}} {
			for _, queued := range [][]string{
				{"MULTI"}, {"EVAL", script, "0"}, {"HELLO", version.hello},
				{"EVAL", script, "0"}, {"EXEC"},
			} {
				if reply := do(t, conn, queued...); reply.IsError() {
					t.Fatalf("%v: %v", queued, reply)
				}
			}
			if reply := do(t, conn, "HGETALL", "absent"); reply.Kind != version.empty {
				t.Errorf("%s, HELLO %s: %c %v", script, version.hello, reply.Kind, reply)
			}
		}
	}
}

// A script that has written goes on without its client, and what it changes then is told to a
// session that wants no word of its own changes.
func TestScript_ChangesBehindItsClientAreNobodysOwn(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "1")
	control, tracking := server.Dial(t), server.Dial(t)
	tracking.Timeout = closeTimeout
	do(t, tracking, "HELLO", "3")
	do(t, tracking, "CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "told", "NOLOOP")
	body := "redis.call('SET', KEYS[1], 1)" + untilReleased + "redis.call('SET', KEYS[1], 2)"
	sendScript(t, server, control, "EVAL", body, "1", "told")
	// One that only closes is executed to the end as a client.
	list := do(t, control, "CLIENT", "LIST").Text
	script := regexp.MustCompile(`(?m)^id=(\d+) .* cmd=eval `).FindSubmatch(list)
	if script == nil {
		t.Fatalf("nobody runs a script:\n%s", list)
	}
	do(t, control, "CLIENT", "KILL", "ID", string(script[1]))
	// The session that tracks, and no other one, is served whenever the script has had a turn.
	const ahead = 64
	for range ahead {
		_ = tracking.Send("FUNCTION", "STATS")
	}
	// By the same session, so that no other one is served last before the change.
	_ = tracking.Send("SUBSCRIBE", "released")
	told := 0
	for end, hasEnded := time.Now().Add(closeTimeout), false; !hasEnded; {
		if time.Now().After(end) {
			t.Fatalf("no end of the script within %v", closeTimeout)
		}
		_ = tracking.Send("FUNCTION", "STATS")
		statistics := receive(t, tracking)
		for ; statistics.Kind == '>'; statistics = receive(t, tracking) {
			if string(statistics.Items[0].Text) == "invalidate" {
				told++
			}
		}
		hasEnded = statistics.Items[1].Kind == '_'
	}
	if told != 2 {
		t.Errorf("told of %d of 2 changes", told)
	}
}

// A denied call of a script is told also when its client is killed before the script's end.
func TestScript_WithoutClientLeavesItsDenials(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "1")
	control, client := server.Dial(t), server.Dial(t)
	do(t, control, "ACL", "SETUSER", "u", "on", "nopass", "+@all", "~a")
	do(t, client, "AUTH", "u", "x")
	body := "redis.pcall('GET', 'secret') redis.log(redis.LOG_WARNING, 'a line of it') " + endless
	if err := client.Send("EVAL_RO", body, "0"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the script to run for long", func() bool {
		return !do(t, control, "FUNCTION", "STATS").Items[1].Null
	})
	do(t, control, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	waitFor(t, "its denial and its line", func() bool {
		return len(do(t, control, "ACL", "LOG").Items) == 1 &&
			strings.Contains(server.Log(), "a line of it")
	})
	if denied := field(t, control, "stats", "acl_access_denied_key"); denied != 1 {
		t.Errorf("%d denials are counted", denied)
	}
}

// The memory of a script that has changed nothing is free once its client is gone.
func TestScript_WithoutClientHasNoMemory(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "1")
	control := server.Dial(t)
	body := "local t = {} for i = 1, 20000 do t[i] = string.rep('x', 1000) .. i end " + endless
	sendScript(t, server, control, "EVAL_RO", body, "0")
	used := func() int64 { return information(t, control, "used_memory_vm_eval") }
	waitFor(t, "the script to fill its table", func() bool { return used() > 20_000_000 })
	do(t, control, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	waitFor(t, "its memory to be free", func() bool { return used() < 1_000_000 })
}
