package durability

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// logKeys leaves an append-only file in a directory: a base with half of the keys, and commands.
func logKeys(t *testing.T, kind instance.Kind, directory string) {
	t.Helper()
	server, err := instance.Launch(kind, directory, "--appendonly", "yes",
		"--rdbcompression", "no")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	conn := server.Dial(t)
	for index := range savedKeys {
		if index == savedKeys/2 {
			rewrite(t, conn)
		}
		do(t, conn, "SET", "key:"+strconv.Itoa(index), strings.Repeat("x", 500))
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
}

// logOf has the files of a log by their names.
func logOf(t *testing.T, directory string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	names, err := filepath.Glob(filepath.Join(directory, "appendonlydir", "*aof*"))
	if err != nil || len(names) == 0 {
		t.Fatal("no log: ", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = text
	}
	return files
}

// A server that loads an append-only file answers what Valkey answers then.
func TestLogLoading_AnswersAsValkeyDoes(t *testing.T) {
	all := func(instance.Kind, map[string]string) int { return savedKeys }
	answerAsValkeyDoes(t, logKeys, all, append(slowly(), "--appendonly", "yes")...)
}

// SIGTERM and SHUTDOWN end a server at once that replays a log, in its base and in its commands; it
// is as it was.
func TestLogLoading_IsEndedWithoutAChange(t *testing.T) {
	directory := t.TempDir()
	logKeys(t, instance.Subject, directory)
	before := logOf(t, directory)
	for _, how := range []string{"SIGTERM", "SHUTDOWN", "SHUTDOWN NOSAVE", "SHUTDOWN SAVE"} {
		for _, part := range []string{"base", "commands"} {
			directives := append(slowly(), "--appendonly", "yes", "--save", "3600 1")
			server, err := instance.LaunchLoading(instance.Subject, directory, directives...)
			if err != nil {
				t.Fatal(err)
			}
			conn := server.Dial(t)
			if part == "commands" {
				// The commands take ten seconds then: time enough to be seen on a busy machine.
				do(t, conn, "CONFIG", "SET", "key-load-delay", "10000")
				await(t, "commands are replayed", func() bool {
					fields := fieldsOf(t, conn)
					loaded, _ := strconv.ParseFloat(fields["loading_loaded_perc"], 64)
					return loaded > 52 || fields["loading"] != "1"
				})
			}
			do(t, conn, "CONFIG", "SET", "key-load-delay", "100000")
			if fieldsOf(t, conn)["loading"] != "1" {
				t.Fatal("it loads no longer: the end proves nothing")
			}
			endBy(t, server, how)
			if fmt.Sprint(logOf(t, directory)) != fmt.Sprint(before) {
				t.Errorf("%s in the %s changed the log", how, part)
			}
			snapshot := filepath.Join(directory, "dump.rdb")
			if _, err := os.Stat(snapshot); !os.IsNotExist(err) {
				t.Errorf("%s in the %s saved: %v", how, part, err)
			}
		}
	}
	server := subject(t, directory)
	defer server.Kill()
	if count := do(t, server.Dial(t), "DBSIZE").Int(); count != savedKeys {
		t.Errorf("%d keys", count)
	}
}

// The session that replays is no client: nobody sees it, and who kills all loses nothing.
func TestLogLoading_IsNoClient(t *testing.T) {
	directory := t.TempDir()
	logKeys(t, instance.Subject, directory)
	server, err := instance.LaunchLoading(instance.Subject, directory,
		append(slowly(), "--appendonly", "yes")...)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	conn := server.Dial(t)
	do(t, conn, "CONFIG", "SET", "key-load-delay", "100")
	for fieldsOf(t, conn)["loading"] == "1" {
		do(t, conn, "CLIENT", "KILL", "SKIPME", "yes")
		if clients := do(t, conn, "CLIENT", "LIST"); bytes.Count(clients.Text, []byte("id=")) != 1 {
			t.Fatalf("clients: %s", clients.Text)
		}
	}
	if count := do(t, conn, "DBSIZE").Int(); count != savedKeys {
		t.Errorf("%d keys", count)
	}
}

// Damage that is met while clients are answered ends the start, and changes nothing.
func TestLogLoading_OfDamageEndsTheStart(t *testing.T) {
	directory := t.TempDir()
	logKeys(t, instance.Subject, directory)
	names, _ := filepath.Glob(filepath.Join(directory, "appendonlydir", "*.incr.aof"))
	last := names[len(names)-1]
	text, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	middle := len(text) / 2
	text[middle+bytes.Index(text[middle:], []byte("*3\r\n"))] = 'X'
	if err := os.WriteFile(last, text, 0o600); err != nil {
		t.Fatal(err)
	}
	before := logOf(t, directory)
	_, err = instance.Launch(instance.Subject, directory, "--appendonly", "yes")
	if err == nil || !strings.Contains(err.Error(), "Bad file format") {
		t.Fatalf("the start: %v", err)
	}
	if fmt.Sprint(logOf(t, directory)) != fmt.Sprint(before) {
		t.Error("the log was changed")
	}
}

// While one client reloads the log, others are answered that data is loaded; what had expired when
// it was deleted by another way is there again, whatever was seen expired since.
func TestReloadOfLog_AnswersOthers(t *testing.T) {
	server := subject(t, t.TempDir())
	defer server.Kill()
	conn, other := server.Dial(t), server.Dial(t)
	await(t, "the key to be kept in time", func() bool {
		do(t, conn, "SET", "kept", "value", "PX", "100")
		return do(t, conn, "PERSIST", "kept").Int() == 1
	})
	do(t, conn, "SET", "expired", "value", "PX", "150")
	do(t, conn, "FUNCTION", "LOAD", "#!lua name=lib\nserver.register_function('f', function() end)")
	for index := range savedKeys {
		do(t, conn, "SET", "key:"+strconv.Itoa(index), strings.Repeat("x", 500))
	}
	for deadline := time.Now().Add(time.Minute); do(t, conn, "EXISTS", "expired").Int() != 0; {
		if time.Now().After(deadline) {
			t.Fatal("it does not expire")
		}
	}
	before := string(do(t, conn, "DEBUG", "DIGEST").Text)
	reloadBeside(t, conn, other, "LOADAOF", [][]string{
		{"GET", "key:1"}, {"DEBUG", "LOADAOF"}, {"SET", "a", "b"}, {"BGREWRITEAOF"}, {"SAVE"},
	})
	if after := string(do(t, other, "DEBUG", "DIGEST").Text); after != before {
		t.Errorf("the digest was %s and is %s", before, after)
	}
	if value := do(t, other, "GET", "kept"); string(value.Text) != "value" {
		t.Errorf("kept is %q", value.Text)
	}
	if libraries := do(t, other, "FUNCTION", "LIST"); len(libraries.Items) != 1 {
		t.Errorf("%d libraries", len(libraries.Items))
	}
	// It is journaled again.
	do(t, other, "SET", "behind", "value")
	if reply := do(t, conn, "DEBUG", "LOADAOF"); string(reply.Text) != "OK" {
		t.Fatalf("DEBUG LOADAOF answered %s", reply.Text)
	}
	if value := do(t, other, "GET", "behind"); string(value.Text) != "value" {
		t.Errorf("behind is %q", value.Text)
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
}

// The log is switched neither on nor off while data is loaded. Behind the load it begins with all
// of it, and one that is switched off stays as it is.
func TestLogLoading_SwitchesOfTheLogMeanwhile(t *testing.T) {
	directory := t.TempDir()
	saveKeys(t, instance.Subject, directory)
	server, err := instance.LaunchLoading(instance.Subject, directory, slowly()...)
	if err != nil {
		t.Fatal(err)
	}
	conn := server.Dial(t)
	requireLoading(t, conn, "CONFIG", "SET", "appendonly", "yes")
	do(t, conn, "CONFIG", "SET", "key-load-delay", "0")
	awaitLoaded(t, conn)
	do(t, conn, "CONFIG", "SET", "appendonly", "yes")
	awaitInfo(t, conn, "aof_rewrite_scheduled", "0")
	awaitInfo(t, conn, "aof_rewrite_in_progress", "0")
	do(t, conn, "SET", "behind", "value")
	server.Kill()
	if err := os.Remove(filepath.Join(directory, "dump.rdb")); err != nil {
		t.Fatal(err)
	}
	server, err = instance.LaunchLoading(instance.Subject, directory,
		append(slowly(), "--appendonly", "yes")...)
	if err != nil {
		t.Fatal(err)
	}
	conn = server.Dial(t)
	requireLoading(t, conn, "CONFIG", "SET", "appendonly", "no")
	do(t, conn, "CONFIG", "SET", "key-load-delay", "0")
	awaitLoaded(t, conn)
	do(t, conn, "CONFIG", "SET", "appendonly", "no")
	before := logOf(t, directory)
	do(t, conn, "SELECT", "0")
	if count := do(t, conn, "DBSIZE").Int(); count != savedKeys*9/10+1 {
		t.Errorf("%d keys", count)
	}
	do(t, conn, "SET", "unlogged", "value")
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
	if fmt.Sprint(logOf(t, directory)) != fmt.Sprint(before) {
		t.Error("a log that is off was changed")
	}
}

// A log of large values is replayed in little more memory than they take.
func TestLogLoading_TakesLittleMemory(t *testing.T) {
	const valueBytes, keyCount = 32 << 20, 4
	directory := t.TempDir()
	server := subject(t, directory)
	conn := server.Dial(t)
	conn.Timeout = time.Minute
	for index := range keyCount {
		key := "key:" + strconv.Itoa(index)
		// One live value of each key, which is in the log three times.
		for range 3 {
			do(t, conn, "SET", key, strings.Repeat("x", valueBytes))
		}
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	server = subject(t, directory)
	defer server.Kill()
	conn = server.Dial(t)
	if count := do(t, conn, "DBSIZE").Int(); count != keyCount {
		t.Fatalf("%d keys", count)
	}
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(server.PID), "status"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	peakKiB, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("at most %d MiB for %d MiB", peakKiB>>10, keyCount*valueBytes>>20)
	// The reader has room for two, and one is on its way, stored, and replaced at a time; a buffer
	// may have grown to twice its bytes. The whole log in memory is twelve values beside the data,
	// and what is stored besides.
	if limit := (keyCount + 11) * valueBytes; peakKiB<<10 > limit {
		t.Errorf("%d MiB at most, %d MiB are allowed", peakKiB>>10, limit>>20)
	}
}

// spin runs a script that changes a key, goes on until it is released and for some time then, and
// changes another. A script sees a subscription whatever it has locked.
func spin(t *testing.T, server *instance.Server) (release func()) {
	t.Helper()
	script := `redis.call('SET', KEYS[1], 'x')
		local sum = 0
		local function go_on()
			for round = 1, 100000 do sum = sum + round % 7 end
		end
		repeat go_on() until redis.call('PUBSUB', 'NUMSUB', 'released')[2] > 0
		-- An end that does not wait comes within this time.
		local released = os.clock()
		repeat go_on() until os.clock() - released > 0.2
		redis.call('SET', KEYS[2], 'x')`
	runner, watcher, releaser := server.Dial(t), server.Dial(t), server.Dial(t)
	if err := runner.Send("EVAL", script, "2", "first", "second"); err != nil {
		t.Fatal(err)
	}
	// Beyond its first turn, so in the loop: half of the script is done then.
	await(t, "the script runs", func() bool {
		return !do(t, watcher, "FUNCTION", "STATS").Items[1].Null
	})
	// A server that ends may close the connection before its reply.
	return func() { _ = releaser.Send("SUBSCRIBE", "released") }
}

// The save at the end has all of a script that is running, or nothing of it.
func TestEnd_SavesWholeScripts(t *testing.T) {
	for _, how := range []string{"SIGTERM", "SHUTDOWN"} {
		directory := t.TempDir()
		server, err := instance.Launch(instance.Subject, directory, "--save", "3600 1",
			"--worker-threads", "2", "--busy-reply-threshold", "600000")
		if err != nil {
			t.Fatal(err)
		}
		defer server.Kill()
		conn, watcher := server.Dial(t), server.Dial(t)
		do(t, conn, "SET", "other", "x")
		release := spin(t, server)
		if how == "SHUTDOWN" {
			if err := conn.Send("SHUTDOWN"); err != nil {
				t.Fatal(err)
			}
		} else {
			sendSignal(t, server, syscall.SIGTERM)
		}
		await(t, how+" waits for the script, or ends the server", func() bool {
			if how == "SIGTERM" {
				return strings.Contains(server.Log(), "User requested shutdown...")
			}
			stats, err := watcher.Do("INFO", "stats")
			return err != nil || !strings.Contains(string(stats.Text), "parked_sessions:0\r\n")
		})
		release()
		await(t, how+" ends the server", func() bool { return !server.Running() })
		server, err = instance.Launch(instance.Subject, directory)
		if err != nil {
			t.Fatal(err)
		}
		conn = server.Dial(t)
		if count := do(t, conn, "EXISTS", "first", "second").Int(); count == 1 {
			t.Errorf("%s saved half of a script", how)
		}
		if do(t, conn, "EXISTS", "other").Int() != 1 {
			t.Errorf("%s saved nothing", how)
		}
		server.Kill()
	}
}

// The signals do what their directives say.
func TestEnd_BySignalDoesAsConfigured(t *testing.T) {
	for _, c := range []struct {
		points, how string
		saves       bool
	}{
		{"3600 1", "default", true}, {"", "default", false}, {"3600 1", "nosave", false},
		{"", "save", true}, {"3600 1", "now force", true},
	} {
		directory := t.TempDir()
		server, err := instance.Launch(instance.Subject, directory, "--save", c.points)
		if err != nil {
			t.Fatal(err)
		}
		conn := server.Dial(t)
		do(t, conn, "CONFIG", "SET", "shutdown-on-sigterm", c.how)
		do(t, conn, "SET", "key", "value")
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
		_, err = os.Stat(filepath.Join(directory, "dump.rdb"))
		if saved := err == nil; saved != c.saves {
			t.Errorf("%+v: saved %v", c, saved)
		}
	}
	server := instance.Start(t, instance.Subject)
	reply := do(t, server.Dial(t), "CONFIG", "SET", "shutdown-on-sigint", "save nosave")
	if !strings.Contains(string(reply.Text), "options SAVE and NOSAVE") {
		t.Errorf("save and nosave: %s", reply.Text)
	}
}

// The kind of a base is that of the configuration with which its rewrite begins.
func TestRewrite_HasTheKindOfItsBegin(t *testing.T) {
	directory := t.TempDir()
	server := subject(t, directory, "--appendonly", "no")
	defer server.Kill()
	conn := server.Dial(t)
	do(t, conn, "SET", "key", "value")
	bases := func(kind string) int {
		names, _ := filepath.Glob(filepath.Join(directory, "appendonlydir", "*.base."+kind))
		return len(names)
	}
	do(t, conn, "CONFIG", "SET", "appendonly", "yes", "aof-use-rdb-preamble", "no")
	awaitInfo(t, conn, "aof_rewrite_in_progress", "0")
	if bases("aof") != 1 || bases("rdb") != 0 {
		t.Errorf("switched on with commands: %d of commands, %d snapshots", bases("aof"),
			bases("rdb"))
	}
	for range 20 {
		for _, preamble := range []string{"yes", "no"} {
			do(t, conn, "CONFIG", "SET", "aof-use-rdb-preamble", preamble)
			for _, words := range [][]string{
				{"BGREWRITEAOF"}, {"CONFIG", "SET", "aof-use-rdb-preamble", "yes"},
				{"CONFIG", "SET", "aof-use-rdb-preamble", "no"},
			} {
				if err := conn.Send(words...); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				if _, err := conn.Receive(); err != nil {
					t.Fatal(err)
				}
			}
			awaitInfo(t, conn, "aof_rewrite_in_progress", "0")
			snapshots := map[string]int{"yes": 1, "no": 0}[preamble]
			if bases("rdb") != snapshots || bases("aof") != 1-snapshots {
				t.Fatalf("with %s: %d of commands, %d snapshots", preamble, bases("aof"),
					bases("rdb"))
			}
		}
	}
}

// INFO tells how far a save and a rewrite are, and what they keep from being freed.
func TestInfo_TellsTheProgressOfSavesAndRewrites(t *testing.T) {
	server := subject(t, t.TempDir())
	defer server.Kill()
	conn := server.Dial(t)
	const keyCount = 1000
	for index := range keyCount {
		do(t, conn, "SET", "key:"+strconv.Itoa(index), strings.Repeat("x", 100))
	}
	for _, c := range []struct{ command, running, peak string }{
		{"BGSAVE", "rdb_bgsave_in_progress", "rdb_last_cow_size"},
		{"BGREWRITEAOF", "aof_rewrite_in_progress", "aof_last_cow_size"},
	} {
		// Ten seconds, unless it is taken away.
		do(t, conn, "CONFIG", "SET", "rdb-key-save-delay", "10000")
		do(t, conn, c.command)
		awaitInfo(t, conn, "current_save_keys_total", strconv.Itoa(keyCount))
		for info(t, conn, "current_save_keys_processed") == "0" {
			time.Sleep(time.Millisecond)
		}
		var sets []byte
		for index := range keyCount {
			sets = wire.AppendCommand(sets,
				wire.Arguments("SET", "key:"+strconv.Itoa(index), "another")...)
		}
		if err := conn.SendRaw(sets); err != nil {
			t.Fatal(err)
		}
		for range keyCount {
			if reply, err := conn.Receive(); err != nil || reply.IsError() {
				t.Fatal(reply, err)
			}
		}
		fields := fieldsOf(t, conn)
		if fields[c.running] != "1" {
			t.Fatalf("%s is over: the fields prove nothing", c.command)
		}
		for _, name := range []string{
			"current_fork_perc", "current_cow_size", "current_cow_peak",
		} {
			if value, _ := strconv.ParseFloat(fields[name], 64); value <= 0 {
				t.Errorf("%s: %s is %s", c.command, name, fields[name])
			}
		}
		do(t, conn, "CONFIG", "SET", "rdb-key-save-delay", "0")
		awaitInfo(t, conn, c.running, "0")
		fields = fieldsOf(t, conn)
		for _, name := range []string{
			"current_save_keys_total", "current_save_keys_processed", "current_cow_size",
			"current_cow_peak",
		} {
			if fields[name] != "0" {
				t.Errorf("behind %s: %s is %s", c.command, name, fields[name])
			}
		}
		if size, _ := strconv.Atoi(fields[c.peak]); size <= 0 {
			t.Errorf("%s: %s is %d", c.command, c.peak, size)
		}
	}
}

// launchSynced starts a server in a directory whose log is durable with each reply.
func launchSynced(t *testing.T, kind instance.Kind, dir string) (*instance.Server, *wire.Conn) {
	t.Helper()
	server, err := instance.Launch(kind, dir, "--appendonly", "yes", "--appendfsync", "always")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	return server, server.Dial(t)
}

// keepFields writes a base with three fields of some life, keeps two of them by commands behind it,
// and returns the moment at which the third is gone. That is zero if one was gone too early.
func keepFields(t *testing.T, conn *wire.Conn, life time.Duration) (end time.Time) {
	t.Helper()
	first := func(words ...string) int64 {
		words = append(words, "FIELDS", "1", "f")
		reply := do(t, conn, words...)
		if len(reply.Items) != 1 {
			t.Fatalf("%v: %s", words, reply)
		}
		return reply.Items[0].Int()
	}
	for _, key := range []string{"persisted", "refreshed", "left"} {
		do(t, conn, "HSET", key, "f", "v", "other", "w")
		first("HPEXPIRE", key, strconv.FormatInt(life.Milliseconds(), 10))
	}
	endMs := first("HPEXPIRETIME", "left")
	rewrite(t, conn)
	if first("HPERSIST", "persisted") != 1 || first("HEXPIRE", "refreshed", "1000") != 1 {
		return time.Time{}
	}
	if endMs < 0 {
		return time.Time{}
	}
	return time.UnixMilli(endMs + 1)
}

// A field whose time is over since the base was written is there when a command behind the base
// kept it, and gone when none did.
func TestLogLoading_FieldsThatWereKept(t *testing.T) {
	for _, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		directory := t.TempDir()
		server, conn := launchSynced(t, kind, directory)
		end := keepFields(t, conn, 800*time.Millisecond)
		for life := 1600 * time.Millisecond; end.IsZero(); life *= 2 {
			if life > time.Minute {
				t.Fatalf("%v: no field is kept", kind)
			}
			end = keepFields(t, conn, life)
		}
		server.Kill()
		time.Sleep(time.Until(end))
		_, conn = launchSynced(t, kind, directory)
		for key, want := range map[string]string{"persisted": "v", "refreshed": "v", "left": ""} {
			if value := string(do(t, conn, "HGET", key, "f").Text); value != want {
				t.Errorf("%v: field of %s is %q behind the replay", kind, key, value)
			}
		}
	}
}

// A pending entry of a group is as old behind a replay as it was, and its consumer was just seen.
func TestLogLoading_PendingEntriesKeepTheirAge(t *testing.T) {
	for _, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		directory := t.TempDir()
		server, conn := launchSynced(t, kind, directory)
		do(t, conn, "XADD", "s", "1-1", "f", "v")
		do(t, conn, "XGROUP", "CREATE", "s", "g", "0")
		do(t, conn, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
		server.Kill()
		_, conn = launchSynced(t, kind, directory)
		const hour = 3_600_000
		pending := do(t, conn, "XPENDING", "s", "g", "-", "+", "10")
		if idle := pending.Items[0].Items[2].Int(); idle < 0 || idle > hour {
			t.Errorf("%v: an entry is pending for %d ms", kind, idle)
		}
		consumer := do(t, conn, "XINFO", "CONSUMERS", "s", "g").Items[0]
		for _, at := range []int{5, 7} {
			if ms := consumer.Items[at].Int(); ms > hour {
				t.Errorf("%v: %s of the consumer is %d ms", kind, consumer.Items[at-1].Text, ms)
			}
		}
	}
}
