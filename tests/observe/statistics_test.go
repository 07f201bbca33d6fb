package observe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// counts are the fields of INFO that a command may raise.
var counts = []string{
	"rdb_changes_since_last_save", "expired_keys", "expired_fields", "keyspace_hits",
	"keyspace_misses",
	"total_error_replies", "total_commands_processed",
}

// counted returns how much each of the counts grows while `work` runs; INFO itself is counted once.
func counted(t *testing.T, conn *wire.Conn, work func()) string {
	t.Helper()
	before := info(t, conn, "everything")
	work()
	after := info(t, conn, "everything")
	var grown []string
	for _, name := range counts {
		old, _ := strconv.Atoi(before[name])
		value, err := strconv.Atoi(after[name])
		if err != nil {
			t.Fatalf("%s is %q", name, after[name])
		}
		if value != old {
			grown = append(grown, fmt.Sprintf("%s+%d", name, value-old))
		}
	}
	return strings.Join(grown, " ")
}

// requireSameCounts runs each line on both servers and compares replies and what the counts grow
// by. `WAIT-MS n` lets time pass.
func requireSameCounts(t *testing.T, lines string) {
	t.Helper()
	valkey, subject := both(t)
	do(t, valkey, "DEBUG", "SET-ACTIVE-EXPIRE", "0")
	do(t, subject, "DEBUG", "SET-ACTIVE-EXPIRE", "0")
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		call := words(line)
		if call[0] == "WAIT-MS" {
			ms, _ := strconv.Atoi(call[1])
			time.Sleep(time.Duration(ms) * time.Millisecond)
			continue
		}
		var shown [2]string
		for index, conn := range []*wire.Conn{valkey, subject} {
			var reply string
			grown := counted(t, conn, func() { reply = do(t, conn, call...).String() })
			shown[index] = reply + " " + grown
		}
		if shown[0] != shown[1] {
			t.Errorf("%s\n  valkey:  %s\n  subject: %s", line, shown[0], shown[1])
		}
	}
}

func TestInfo_CountsOfStringsAndKeysAreValkeys(t *testing.T) {
	requireSameCounts(t, `
SET a 1
SET a 2 XX GET
SET none 1 GET
GETSET a 3
GETSET fresh 3
GETDEL fresh
GETDEL none2
GETEX a PERSIST
GETEX a EX 100
GETEX none2
MSET a 1 b 2 a 3
MSETNX a 1 c 2
BITFIELD bits SET u8 0 255 GET u8 0 INCRBY u8 0 1
BITFIELD bits GET u8 0
BITFIELD none2 GET u8 0
BITOP OR target a b none2
BITOP NOT target none2
COPY a copied
COPY none2 copied
RENAME copied renamed
RENAMENX renamed again
MOVE again 5
DEL a b none2
TYPE none2
TTL bits
PEXPIRETIME none2
OBJECT ENCODING bits
OBJECT REFCOUNT none2
EXISTS bits none2
TOUCH bits none2
RPUSH numbers 3 1 2
SORT numbers STORE sorted
SET k v
EXPIRE k -1
SET k v
GETEX k EXAT 1
SET k v
SET k v PXAT 1
SETEX k 0 v
SET k v PX 1
WAIT-MS 10
SCAN 0 MATCH k COUNT 1000
SET k v PX 1
WAIT-MS 10
SET k w GET
GET
SADD-NOT-THERE k
LPUSH k 1
`)
}

func TestInfo_CountsOfListsAndHashesAreValkeys(t *testing.T) {
	requireSameCounts(t, `
RPUSH l a b c d a b c d
LPUSHX l e f
LREM l 2 a
LTRIM l 1 -2
LPOP l 2
RPOP l
LMOVE l m LEFT RIGHT
LMOVE l l LEFT RIGHT
RPOPLPUSH l m
LMPOP 1 m LEFT COUNT 2
BLMPOP 1 1 l LEFT COUNT 5
RPUSH l a b c
BLMOVE l m LEFT LEFT 1
LTRIM l 5 9
HSET h a 1 b 2 c 3
HMSET h a 1 b 2
HDEL h a none
HEXPIRE h 100 FIELDS 3 b c none
HPERSIST h FIELDS 2 b c
HSETEX h EX 100 FIELDS 2 x 1 y 2
HGETEX h EX 200 FIELDS 2 x none
HGETEX h PERSIST FIELDS 2 x y
HGETDEL h FIELDS 3 x y none
HSET h x 1 y 2 z 3
HPEXPIRE h 0 FIELDS 2 x none
HGETEX h PXAT 1 FIELDS 2 y none
HSETEX h PXAT 1 FIELDS 2 z 1 none 2
`)
}

// blockedReplies blocks a client, ends its wait by each call, and returns what the server tells of
// the command meanwhile and afterwards.
func blockedReplies(t *testing.T, server *instance.Server, end string) (during, after string) {
	t.Helper()
	conn, blocked := server.Dial(t), server.Dial(t)
	id := strconv.FormatInt(do(t, blocked, "CLIENT", "ID").Int(), 10)
	do(t, conn, "CONFIG", "SET", "slowlog-log-slower-than", "0")
	do(t, conn, "CONFIG", "RESETSTAT")
	do(t, conn, "SLOWLOG", "RESET")
	if err := blocked.Send("BLPOP", "queue", "0"); err != nil {
		t.Fatal(err)
	}
	awaitBlocked(t, conn, "1")
	tell := func() string {
		stats := info(t, conn, "everything")
		calls, _, _ := strings.Cut(stats["cmdstat_blpop"], ",usec")
		_, rejected, _ := strings.Cut(stats["cmdstat_blpop"], "rejected_calls")
		logged := 0
		for _, entry := range do(t, conn, "SLOWLOG", "GET", "-1").Items {
			if string(entry.Items[3].Items[0].Text) == "BLPOP" {
				logged++
			}
		}
		return fmt.Sprintf("%s rejected%s errors=%s %s logged=%d", calls, rejected,
			stats["total_error_replies"],
			stats["errorstat_UNBLOCKED"], logged)
	}
	during = tell()
	do(t, conn, words(strings.ReplaceAll(end, "ID", id))...)
	if _, err := blocked.Receive(); err != nil {
		t.Fatal(err)
	}
	return during, tell()
}

// TestBlocking_CommandsCountWhenTheirWaitIsOver: not before in statistics and log, and as refused
// when somebody ends it so.
func TestBlocking_CommandsCountWhenTheirWaitIsOver(t *testing.T) {
	for _, end := range []string{"RPUSH queue a", "CLIENT UNBLOCK ID", "CLIENT UNBLOCK ID ERROR"} {
		valkey := instance.Start(t, instance.Valkey)
		subject := instance.Start(t, instance.Subject)
		during, after := blockedReplies(t, valkey, end)
		if ourDuring, ourAfter := blockedReplies(t, subject, end); during != ourDuring ||
			after != ourAfter {
			t.Errorf("%s\n  valkey:  %s, then %s\n  subject: %s, then %s", end, during, after,
				ourDuring, ourAfter)
		}
	}
}

// TestPause_PostponedClientsAreShownAsBlocked until the pause is over.
func TestPause_PostponedClientsAreShownAsBlocked(t *testing.T) {
	for _, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		server := instance.Start(t, kind)
		conn, postponed := server.Dial(t), server.Dial(t)
		do(t, conn, "CLIENT", "PAUSE", "100000", "WRITE")
		if err := postponed.Send("SET", "key", "value"); err != nil {
			t.Fatal(err)
		}
		awaitBlocked(t, conn, "1")
		if list := do(t, conn, "CLIENT", "LIST").String(); !strings.Contains(list, "flags=b") {
			t.Errorf("%s: no client is shown as blocked: %s", kind, list)
		}
		do(t, conn, "CLIENT", "UNPAUSE")
		awaitBlocked(t, conn, "0")
		if reply, err := postponed.Receive(); err != nil || string(reply.Text) != "OK" {
			t.Errorf("%s: %v, %v", kind, reply, err)
		}
	}
}

func awaitBlocked(t *testing.T, conn *wire.Conn, count string) {
	t.Helper()
	blocked := func() string { return info(t, conn, "clients")["blocked_clients"] }
	for deadline := time.Now().Add(time.Minute); blocked() != count; {
		if time.Now().After(deadline) {
			t.Fatalf("blocked_clients is not %s", count)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestInfo_RefusedCallsAreCounted: wrong numbers of arguments and what MULTI does not take are
// refused calls.
func TestInfo_RefusedCallsAreCounted(t *testing.T) {
	valkey, subject := both(t)
	var shown [2][]string
	for index, conn := range []*wire.Conn{valkey, subject} {
		for _, call := range []string{"SET a", "MULTI", "SET", "WATCH a", "EXEC",
			"CLIENT LIST EXTRA"} {
			do(t, conn, words(call)...)
		}
		for _, name := range []string{"set", "watch", "exec", "client|list"} {
			calls := info(t, conn, "commandstats")["cmdstat_"+name]
			number, _, _ := strings.Cut(calls, ",")
			_, rejected, _ := strings.Cut(calls, "rejected_calls")
			shown[index] = append(shown[index], name+" "+number+" "+rejected)
		}
	}
	if want, got := strings.Join(shown[0], "\n"), strings.Join(shown[1], "\n"); want != got {
		t.Errorf("valkey:\n%s\nsubject:\n%s", want, got)
	}
}

// TestWatch_KeysWhoseTimeWasOverAreAsGoodAsAbsent: their deletion changes nothing for who began to
// watch them then.
func TestWatch_KeysWhoseTimeWasOverAreAsGoodAsAbsent(t *testing.T) {
	for _, between := range []string{
		"EXISTS k", "DEL k", "FLUSHDB", "FLUSHALL", "SWAPDB 9 10", "SET k 1", "EXISTS k; SET k 1",
		"FLUSHDB; SET k 1",
		"COPY k other", "RANDOMKEY", "SCAN 0",
		// of a key that is not there when it is watched, or that has another value then
		"EXISTS none", "SWAPDB 9 11", "SWAPDB 9 12", "SWAPDB 9 12; SWAPDB 9 12",
	} {
		var shown [2]string
		for index, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
			conn := instance.Start(t, kind, directives...).Dial(t)
			prepare := "DEBUG SET-ACTIVE-EXPIRE 0; SELECT 11; SET k v PX 1; SET fresh v PX 1; " +
				"SELECT 12; SET k v; SELECT 9; SET k v PX 1"
			for _, call := range strings.Split(prepare, "; ") {
				do(t, conn, words(call)...)
			}
			time.Sleep(5 * time.Millisecond)
			calls := "WATCH k fresh; " + between + "; MULTI; PING; EXEC"
			for _, call := range strings.Split(calls, "; ") {
				shown[index] = do(t, conn, words(call)...).String()
			}
		}
		if shown[0] != shown[1] {
			t.Errorf("%s: valkey answers EXEC with %s, subject with %s", between, shown[0],
				shown[1])
		}
	}
}

// TestPause_HoldsBackWhatValkeyHoldsBack: in a pause of all clients every command, what manages
// connections included; in one of writes, transactions with a write in them.
func TestPause_HoldsBackWhatValkeyHoldsBack(t *testing.T) {
	const pauseMs = 150
	for _, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		server := instance.Start(t, kind)
		conn, client := server.Dial(t), server.Dial(t)
		for _, test := range []struct {
			mode, calls string
			held        bool
		}{
			{"ALL", "PING", true},
			{"ALL", "CLIENT UNPAUSE", true},
			{"ALL", "SELECT 0", true},
			{"ALL", "MULTI", true},
			{"WRITE", "CLIENT ID; PING; GET a", false},
			{"WRITE", "MULTI; EXEC", false},
			{"WRITE", "MULTI; GET a; EXEC", false},
			{"WRITE", "MULTI; GET a; SET a 1; EXEC", true},
			{"WRITE", "SET a 1", true},
		} {
			held := true
			// A real hold is there each time; a busy machine may be late once.
			for tries := 0; tries < 5 && held; tries++ {
				start := time.Now()
				do(t, conn, "CLIENT", "PAUSE", strconv.Itoa(pauseMs), test.mode)
				for _, call := range strings.Split(test.calls, "; ") {
					do(t, client, words(call)...)
				}
				held = time.Since(start) >= pauseMs*time.Millisecond
				do(t, conn, "CLIENT", "UNPAUSE")
				if test.calls == "MULTI" {
					do(t, client, "DISCARD")
				}
			}
			if held != test.held {
				t.Errorf("%s, pause of %s: %s held back: %v", kind, test.mode, test.calls, held)
			}
		}
	}
}

// TestWatch_KeysThatExpireMeanwhileFailExec, whether somebody has deleted them by then or not.
func TestWatch_KeysThatExpireMeanwhileFailExec(t *testing.T) {
	for _, between := range []string{"PING", "GET k; PING", "DEL k", "FLUSHALL"} {
		var shown [2]string
		for index, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
			conn := instance.Start(t, kind, directives...).Dial(t)
			do(t, conn, "DEBUG", "SET-ACTIVE-EXPIRE", "0")
			// On a busy machine it may have expired before it is watched.
			for do(t, conn, "PTTL", "k").Int() <= 0 {
				do(t, conn, "UNWATCH")
				do(t, conn, "SET", "k", "v", "PX", "100")
				do(t, conn, "WATCH", "k")
			}
			time.Sleep(150 * time.Millisecond)
			for _, call := range strings.Split(between+"; MULTI; PING; EXEC", "; ") {
				shown[index] = do(t, conn, words(call)...).String()
			}
		}
		if shown[0] != shown[1] {
			t.Errorf("%s: valkey answers EXEC with %s, subject with %s", between, shown[0],
				shown[1])
		}
	}
}

// TestInfo_ErrorsOfScriptsAndOfEndedWaitsAreCountedAsByValkey compares how often commands ran and
// failed, and the errors by their codes.
func TestInfo_ErrorsOfScriptsAndOfEndedWaitsAreCountedAsByValkey(t *testing.T) {
	scripts := []string{
		"return server.error_reply('FOO text')", "return {err='BAR text'}",
		"return {1, {err='BAZ text'}, server.pcall('get')}", "return server.pcall('get')",
		"return server.call('get')", "error('x y')", "error({err='QUX text'})", "return 1",
		"return server.error_reply('" + strings.Repeat("x", 1000) + " text')",
	}
	var counts [2]string
	valkey, subject := both(t)
	for index, conn := range []*wire.Conn{valkey, subject} {
		for _, script := range scripts {
			do(t, conn, "EVAL", script, "0")
		}
		_, address, _ := strings.Cut(string(do(t, conn, "CLIENT", "INFO").Text), "laddr=")
		address, _, _ = strings.Cut(address, " ")
		waiting, err := wire.Dial(address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { waiting.Close() })
		do(t, conn, "ACL", "SETUSER", "waiter", "on", "nopass", "+@all", "~*")
		do(t, waiting, "AUTH", "waiter", "x")
		if err := waiting.SendRaw([]byte("BLPOP list 0\r\n")); err != nil {
			t.Fatal(err)
		}
		awaitField(t, conn, "clients", "blocked_clients", "1")
		do(t, conn, "ACL", "SETUSER", "waiter", "-blpop")
		do(t, conn, "RPUSH", "list", "v")
		if _, err := waiting.Receive(); err != nil {
			t.Fatal(err)
		}
		do(t, conn, "XGROUP", "CREATE", "stream", "group", "$", "MKSTREAM")
		if err := waiting.SendRaw(
			[]byte("XREADGROUP GROUP group c BLOCK 0 STREAMS stream >\r\n")); err != nil {
			t.Fatal(err)
		}
		awaitField(t, conn, "clients", "blocked_clients", "1")
		if on := info(t, conn, "clients")["total_blocking_keys_on_nokey"]; on != "1" {
			t.Errorf("total_blocking_keys_on_nokey is %s", on)
		}
		do(t, conn, "XGROUP", "DESTROY", "stream", "group")
		if _, err := waiting.Receive(); err != nil {
			t.Fatal(err)
		}
		fields := info(t, conn, "everything")
		counts[index] = "errors " + fields["total_error_replies"]
		for _, code := range []string{"FOO", "BAR", "BAZ", "QUX", "ERR", "NOPERM", "NOGROUP"} {
			counts[index] += " " + code + " " + fields["errorstat_"+code]
		}
		for _, name := range []string{"eval", "get", "blpop", "xreadgroup"} {
			for _, part := range strings.Split(fields["cmdstat_"+name], ",") {
				if !strings.HasPrefix(part, "usec") {
					counts[index] += " " + name + "." + part
				}
			}
		}
	}
	if counts[0] != counts[1] {
		t.Errorf("\n  valkey:  %s\n  subject: %s", counts[0], counts[1])
	}
}

// TestFlushAll_IsSavedWhereThereAreSavePoints and so leaves nothing to be saved.
func TestFlushAll_IsSavedWhereThereAreSavePoints(t *testing.T) {
	valkey, subject := both(t)
	for _, conn := range []*wire.Conn{valkey, subject} {
		for save, want := range map[string]string{"3600 1": "0", "": "more"} {
			do(t, conn, "CONFIG", "SET", "save", save)
			do(t, conn, "SET", "k", "v")
			do(t, conn, "FLUSHALL")
			unsaved := info(t, conn, "persistence")["rdb_changes_since_last_save"]
			if (unsaved == "0") != (want == "0") {
				t.Errorf("save %q: %s changes", save, unsaved)
			}
		}
	}
}

// TestLoad_LeavesOutFieldsWhoseTimeIsOver loads hashes of which some or all fields have expired.
func TestLoad_LeavesOutFieldsWhoseTimeIsOver(t *testing.T) {
	valkey, subject := both(t)
	for _, conn := range []*wire.Conn{valkey, subject} {
		do(t, conn, "DEBUG", "SET-ACTIVE-EXPIRE", "0")
		do(t, conn, "HSETEX", "all", "PX", "1", "FIELDS", "2", "f", "v", "g", "v")
		do(t, conn, "HSETEX", "some", "PX", "1", "FIELDS", "1", "f", "v")
		do(t, conn, "HSET", "some", "stays", "v")
		time.Sleep(10 * time.Millisecond)
		do(t, conn, "SAVE")
		do(t, conn, "DEBUG", "RELOAD", "NOSAVE")
		if count := do(t, conn, "EXISTS", "all", "some").Int(); count != 1 {
			t.Errorf("%d keys", count)
		}
		if count := do(t, conn, "HLEN", "some").Int(); count != 1 {
			t.Errorf("%d fields", count)
		}
	}
}

// TestCommandLog_ShowsABlockedReadAsItWasSent, not with the ids that `$` was when it began to wait.
func TestCommandLog_ShowsABlockedReadAsItWasSent(t *testing.T) {
	for _, of := range []instance.Kind{instance.Valkey, instance.Subject} {
		server := instance.Start(t, of, directives...)
		reader, writer := server.Dial(t), server.Dial(t)
		do(t, writer, words("CONFIG SET slowlog-log-slower-than 0 "+
			"commandlog-request-larger-than 1 commandlog-reply-larger-than 0")...)
		do(t, writer, words("XADD s 1-1 a b")...)
		sent := "XREAD BLOCK 1 STREAMS s none $ $"
		do(t, reader, words(sent)...)
		for _, log := range []string{"slow", "large-request", "large-reply"} {
			var logged []string
			for _, entry := range do(t, writer, "COMMANDLOG", "GET", "-1", log).Items {
				var shown []string
				for _, word := range entry.Items[3].Items {
					shown = append(shown, string(word.Text))
				}
				logged = append(logged, strings.Join(shown, " "))
			}
			if !slices.Contains(logged, sent) {
				t.Errorf("%v, %s: %q", of, log, logged)
			}
		}
	}
}
