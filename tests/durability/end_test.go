package durability

import (
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

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func sendSignal(t *testing.T, server *instance.Server, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(server.PID, signal); err != nil {
		t.Fatal(err)
	}
}

// A client calls off the end that a signal asked for while it waits for a script, or before it has
// begun: the server goes on, and obeys the next signal.
func TestEnd_IsCalledOffByAClient(t *testing.T) {
	directory := t.TempDir()
	server, err := instance.Launch(instance.Subject, directory, "--save", "3600 1",
		"--worker-threads", "2", "--enable-debug-command", "yes",
		"--busy-reply-threshold", "600000")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	conn := server.Dial(t)
	conn.Timeout = time.Minute
	const none = "ERR No shutdown in progress."
	if reply := do(t, conn, "SHUTDOWN", "ABORT"); string(reply.Text) != none {
		t.Errorf("without a signal: %s", reply)
	}
	for round, begin := range []func() (release func()){
		func() func() { return spin(t, server) },
		func() func() {
			do(t, conn, "DEBUG", "PAUSE-CRON", "1")
			return func() { do(t, conn, "DEBUG", "PAUSE-CRON", "0") }
		},
	} {
		release := begin()
		sendSignal(t, server, syscall.SIGTERM)
		await(t, "the signal is seen", func() bool {
			return strings.Count(server.Log(), "User requested shutdown...") == round+1
		})
		// Between the line and the waiting.
		await(t, "the end is called off", func() bool {
			reply := do(t, conn, "SHUTDOWN", "ABORT")
			return string(reply.Text) == "OK"
		})
		if reply := do(t, conn, "SHUTDOWN", "ABORT"); string(reply.Text) != none {
			t.Errorf("round %d, once more: %s", round, reply)
		}
		if !strings.Contains(server.Log(), "Shutdown manually aborted.") {
			t.Errorf("round %d: the log says nothing", round)
		}
		release()
		// Behind the script.
		if reply := do(t, conn, "SET", "key", strconv.Itoa(round)); string(reply.Text) != "OK" {
			t.Errorf("round %d: SET answered %s", round, reply)
		}
		await(t, "the script ends", func() bool {
			return do(t, conn, "EXISTS", "first", "second").Int() == 2
		})
		if _, err := os.Stat(filepath.Join(directory, "dump.rdb")); err == nil {
			t.Fatalf("round %d: it saved", round)
		}
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	again, err := instance.Launch(instance.Subject, directory)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Kill()
	if reply := do(t, again.Dial(t), "GET", "key"); string(reply.Text) != "1" {
		t.Errorf("the save at the end has %s", reply)
	}
}

// A second SIGINT ends the server at once, in the middle of the save that the first one began: the
// last snapshot is as it was, and nothing is left of the next.
func TestEnd_AtOnceLeavesNoPartOfASave(t *testing.T) {
	directory := t.TempDir()
	server, err := instance.Launch(instance.Subject, directory, "--save", "3600 1")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	conn := server.Dial(t)
	do(t, conn, "SET", "key", "saved")
	do(t, conn, "SAVE")
	for index := range 20 {
		do(t, conn, "SET", "key:"+strconv.Itoa(index), "value")
	}
	// A minute and more for all keys.
	do(t, conn, "CONFIG", "SET", "rdb-key-save-delay", "10000000")
	sendSignal(t, server, syscall.SIGINT)
	part := filepath.Join(directory, "temp-dump.rdb")
	await(t, "a save begins", func() bool {
		_, err := os.Stat(part)
		return err == nil
	})
	sendSignal(t, server, syscall.SIGINT)
	await(t, "the server ends", func() bool { return !server.Running() })
	if _, err := os.Stat(part); err == nil {
		t.Error("a part of the save is left")
	}
	again, err := instance.Launch(instance.Subject, directory)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Kill()
	conn = again.Dial(t)
	if keys := do(t, conn, "DBSIZE").Int(); keys != 1 {
		t.Errorf("%d keys, 1 was saved", keys)
	}
}

// unready returns how long a call lasts, less the time for which threads of the server and of the
// test had no CPU meanwhile: what is left on a busy machine is a wait for something.
func unready(t *testing.T, server *instance.Server, call func()) time.Duration {
	t.Helper()
	delays := func() (ofBoth [2]instance.Delays) {
		for index, pid := range []int{server.PID, os.Getpid()} {
			var err error
			if ofBoth[index], err = instance.RunDelays(pid); err != nil {
				t.Fatal(err)
			}
		}
		return ofBoth
	}
	before, begun := delays(), time.Now()
	call()
	took := time.Since(begun)
	for index, after := range delays() {
		took -= after.Since(before[index])
	}
	return took
}

// requirePrompt checks that nobody waited for a disk whose syncs take a second.
func requirePrompt(t *testing.T, what string, longest, limit time.Duration) {
	t.Helper()
	if longest > limit {
		t.Errorf("%s: INFO waited for %v", what, longest)
	}
}

// No worker waits for the disk when a rewrite begins, nor when a log is switched on: with one
// worker and a disk whose syncs take a second, others are answered meanwhile.
func TestRewrite_BeginsBesideTheWorkers(t *testing.T) {
	directory := t.TempDir()
	server := subject(t, directory, "--appendonly", "no", "--worker-threads", "1")
	defer server.Kill()
	conn, other := server.Dial(t), server.Dial(t)
	conn.Timeout, other.Timeout = time.Minute, time.Minute
	do(t, conn, "SET", "key", "value")
	do(t, conn, "DEBUG", "DISK-FAULT", "SLOW-SYNC")
	for _, words := range [][]string{
		{"BGREWRITEAOF"}, {"CONFIG", "SET", "appendonly", "yes"}, {"BGREWRITEAOF"},
	} {
		begun := time.Now()
		if err := conn.SendRaw(wire.AppendCommand(nil, wire.Arguments(words...)...)); err != nil {
			t.Fatal(err)
		}
		longest := time.Duration(0)
		for isRunning := true; isRunning || time.Since(begun) < time.Second; {
			longest = max(longest, unready(t, server, func() {
				isRunning = info(t, other, "aof_rewrite_in_progress") == "1"
			}))
			time.Sleep(time.Millisecond)
		}
		if reply, err := conn.Receive(); err != nil || strings.HasPrefix(reply.String(), "-") {
			t.Fatalf("%v: %s, %v", words, reply, err)
		}
		requirePrompt(t, strings.Join(words, " "), longest, 900*time.Millisecond)
		// It is over only behind several slow syncs.
		if time.Since(begun) < 2*time.Second {
			t.Errorf("%v: over within %v: the disk was not slow", words, time.Since(begun))
		}
		await(t, "the rewrite is over", func() bool {
			return info(t, other, "aof_rewrite_in_progress") == "0"
		})
	}
	do(t, conn, "DEBUG", "DISK-FAULT", "NONE")
	do(t, conn, "SET", "last", "value")
	server.Kill()
	again := subject(t, directory)
	defer again.Kill()
	if keys := do(t, again.Dial(t), "DBSIZE").Int(); keys != 2 {
		t.Errorf("%d keys, 2 were answered", keys)
	}
}

// asked sends a command, asks for INFO on another connection until the command is answered, and
// returns the reply, the time to it and the longest time that INFO waited for.
func asked(
	t *testing.T, server *instance.Server, conn, other *wire.Conn, words ...string,
) (reply wire.Reply, took, longest time.Duration) {
	t.Helper()
	begun := time.Now()
	if err := conn.SendRaw(wire.AppendCommand(nil, wire.Arguments(words...)...)); err != nil {
		t.Fatal(err)
	}
	replies := make(chan error, 1)
	go func() {
		var err error
		reply, err = conn.Receive()
		replies <- err
	}()
	for {
		select {
		case err := <-replies:
			if err != nil {
				t.Fatalf("%v: %v", words, err)
			}
			return reply, time.Since(begun), longest
		case <-time.After(time.Millisecond):
			wait := unready(t, server, func() { do(t, other, "INFO", "server") })
			longest = max(longest, wait)
		}
	}
}

// FLUSHALL with save points is answered once the file without keys is durable, and no worker waits
// for that; a save that is asked for meanwhile comes behind it. That one is BGSAVE: SAVE keeps all
// waiting by what it is, and may begin before the reply of FLUSHALL has left.
func TestFlushAll_SavesBesideTheWorkers(t *testing.T) {
	directory := t.TempDir()
	directives := []string{"--appendonly", "no", "--save", "3600 1", "--worker-threads", "1"}
	server := subject(t, directory, directives...)
	defer server.Kill()
	conn, other, saver := server.Dial(t), server.Dial(t), server.Dial(t)
	for _, conn := range []*wire.Conn{conn, other, saver} {
		conn.Timeout = time.Minute
	}
	do(t, conn, "SET", "key", "value")
	do(t, conn, "SAVE")
	do(t, conn, "DEBUG", "DISK-FAULT", "SLOW-SYNC")
	saved := make(chan wire.Reply, 1)
	go func() {
		// A write before FLUSHALL would go with it.
		for reply, err := saver.Do("EXISTS", "key"); err == nil && reply.Int() == 1; {
			time.Sleep(time.Millisecond)
			reply, err = saver.Do("EXISTS", "key")
		}
		_, _ = saver.Do("SET", "behind", "value")
		reply, _ := saver.Do("BGSAVE")
		saved <- reply
	}()
	reply, took, longest := asked(t, server, conn, other, "FLUSHALL")
	if string(reply.Text) != "OK" || took < time.Second {
		t.Errorf("%s within %v: not behind the sync", reply, took)
	}
	requirePrompt(t, "FLUSHALL", longest, 500*time.Millisecond)
	if reply := <-saved; string(reply.Text) != "Background saving started" {
		t.Errorf("BGSAVE was answered %s", reply)
	}
	await(t, "the save is over", func() bool {
		return info(t, conn, "rdb_bgsave_in_progress") == "0"
	})
	server.Kill()
	again := subject(t, directory, directives...)
	defer again.Kill()
	conn = again.Dial(t)
	if reply := do(t, conn, "GET", "behind"); string(reply.Text) != "value" {
		t.Errorf("a save behind FLUSHALL has %s", reply)
	}
	if keys := do(t, conn, "DBSIZE").Int(); keys != 1 {
		t.Errorf("%d keys", keys)
	}
	// In a transaction the worker itself writes the file.
	for _, words := range [][]string{{"MULTI"}, {"FLUSHALL"}, {"EXEC"}} {
		do(t, conn, words...)
	}
	again.Kill()
	expectKeys(t, directory, 0, directives...)
}

// expectKeys starts a server and counts the keys that it finds.
func expectKeys(t *testing.T, directory string, want int, directives ...string) {
	t.Helper()
	server := subject(t, directory, directives...)
	defer server.Kill()
	if keys := int(do(t, server.Dial(t), "DBSIZE").Int()); keys != want {
		t.Errorf("%d keys behind a restart, not %d", keys, want)
	}
}

// spanBackground begins a save or a rewrite that lasts until it is given up or the delay of each
// key is taken away.
func spanBackground(t *testing.T, conn *wire.Conn, command, field string) {
	t.Helper()
	for index := range 20 {
		do(t, conn, "SET", "key:"+strconv.Itoa(index), "value")
	}
	do(t, conn, "CONFIG", "SET", "rdb-key-save-delay", "10000000")
	do(t, conn, command)
	await(t, command+" is under way", func() bool { return info(t, conn, field) == "1" })
}

// Several clients flush at the same time, beside a save, which is given up, or beside a rewrite of
// the log, which goes on: each is answered behind an empty file, of which one answers several,
// and no worker waits.
func TestFlushAll_BesideASaveARewriteAndOthers(t *testing.T) {
	for command, field := range map[string]string{
		"BGSAVE": "rdb_bgsave_in_progress", "BGREWRITEAOF": "aof_rewrite_in_progress",
	} {
		directory := t.TempDir()
		directives := []string{"--appendonly", "no", "--save", "3600 1", "--worker-threads", "2"}
		server := subject(t, directory, directives...)
		defer server.Kill()
		conn, other := server.Dial(t), server.Dial(t)
		conn.Timeout, other.Timeout = time.Minute, time.Minute
		spanBackground(t, conn, command, field)
		do(t, conn, "DEBUG", "DISK-FAULT", "SLOW-SYNC")
		const flushers = 8
		flushed := make(chan string, flushers)
		for range flushers {
			flusher := server.Dial(t)
			flusher.Timeout = time.Minute
			go func() {
				time.Sleep(200 * time.Millisecond)
				reply, err := flusher.Do("FLUSHALL")
				if err != nil {
					flushed <- err.Error()
				} else {
					flushed <- string(reply.Text)
				}
			}()
		}
		var longest time.Duration
		all := unready(t, server, func() {
			var reply wire.Reply
			var took time.Duration
			reply, took, longest = asked(t, server, conn, other, "FLUSHALL")
			if string(reply.Text) != "OK" || took < time.Second {
				t.Errorf("%s: %s within %v: not behind the sync", command, reply, took)
			}
			for range flushers {
				if text := <-flushed; text != "OK" {
					t.Errorf("%s: FLUSHALL was answered %s", command, text)
				}
			}
		})
		// Two syncs for each of two files.
		if all > 8*time.Second {
			t.Errorf("%s: all flushes took %v", command, all)
		}
		requirePrompt(t, command, longest, 500*time.Millisecond)
		goesOn := command == "BGREWRITEAOF"
		if isRunning := info(t, conn, field) == "1"; isRunning != goesOn {
			t.Errorf("%s: under way is %v", command, isRunning)
		}
		if status := info(t, conn, "rdb_last_bgsave_status"); status != "ok" {
			t.Errorf("%s: the status of saves is %s", command, status)
		}
		if unsaved := info(t, conn, "rdb_changes_since_last_save"); unsaved != "0" {
			t.Errorf("%s: %s unsaved changes", command, unsaved)
		}
		server.Kill()
		expectKeys(t, directory, 0, directives...)
	}
}

// An end that is asked for while the file of a flush is written comes behind it, with and without a
// save, by a client and by a signal.
func TestFlushAll_IsFinishedBeforeTheEnd(t *testing.T) {
	ends := map[string]func(*instance.Server, *wire.Conn){
		"SHUTDOWN": func(_ *instance.Server, conn *wire.Conn) { _, _ = conn.Do("SHUTDOWN") },
		"SHUTDOWN NOSAVE": func(_ *instance.Server, conn *wire.Conn) {
			_, _ = conn.Do("SHUTDOWN", "NOSAVE")
		},
		"SIGTERM": func(server *instance.Server, _ *wire.Conn) {
			sendSignal(t, server, syscall.SIGTERM)
		},
	}
	for name, end := range ends {
		directory := t.TempDir()
		directives := []string{"--appendonly", "no", "--save", "3600 1", "--worker-threads", "2"}
		server := subject(t, directory, directives...)
		defer server.Kill()
		conn, other := server.Dial(t), server.Dial(t)
		conn.Timeout, other.Timeout = time.Minute, time.Minute
		do(t, conn, "SET", "key", "value")
		do(t, conn, "SAVE")
		do(t, conn, "DEBUG", "DISK-FAULT", "SLOW-SYNC")
		flush := wire.AppendCommand(nil, wire.Arguments("FLUSHALL")...)
		if err := conn.SendRaw(flush); err != nil {
			t.Fatal(err)
		}
		await(t, "the keys are gone", func() bool { return do(t, other, "DBSIZE").Int() == 0 })
		end(server, other)
		await(t, name+" ends the server", func() bool { return !server.Running() })
		if names, _ := filepath.Glob(filepath.Join(directory, "temp-*")); len(names) > 0 {
			t.Errorf("%s left %v", name, names)
		}
		expectKeys(t, directory, 0, directives...)
	}
}

// A flush whose file cannot be written is answered like any other and refuses no write, as in
// Valkey; its changes count as unsaved, and a save behind the fault has them.
func TestFlushAll_WhoseFileFails(t *testing.T) {
	directory := t.TempDir()
	directives := []string{"--appendonly", "no", "--save", "3600 1"}
	server := subject(t, directory, directives...)
	defer server.Kill()
	conn := server.Dial(t)
	do(t, conn, "SET", "key", "value")
	do(t, conn, "SAVE")
	do(t, conn, "DEBUG", "DISK-FAULT", "WRITE")
	if reply := do(t, conn, "FLUSHALL"); string(reply.Text) != "OK" {
		t.Errorf("FLUSHALL was answered %s", reply)
	}
	if reply := do(t, conn, "SET", "key", "value"); string(reply.Text) != "OK" {
		t.Errorf("SET was answered %s", reply)
	}
	if !strings.Contains(server.Log(), "Write error saving DB") {
		t.Error("the log says nothing")
	}
	if unsaved := info(t, conn, "rdb_changes_since_last_save"); unsaved != "2" {
		t.Errorf("%s unsaved changes", unsaved)
	}
	// A save that fails refuses writes, flushes too, until one succeeds.
	if status := saveInBackground(t, conn); status != "err" {
		t.Error(status)
	}
	if reply := do(t, conn, "FLUSHALL"); firstWord(reply) != "MISCONF" {
		t.Errorf("behind a save that failed FLUSHALL was answered %s", reply)
	}
	do(t, conn, "DEBUG", "DISK-FAULT", "NONE")
	if status := saveInBackground(t, conn); status != "ok" {
		t.Error(status)
	}
	if reply := do(t, conn, "FLUSHALL"); string(reply.Text) != "OK" {
		t.Errorf("behind the fault FLUSHALL was answered %s", reply)
	}
	server.Kill()
	expectKeys(t, directory, 0, directives...)
}

// One client switches the log off, another on while it ends: both are answered, neither does it a
// second time, and the log is on.
func TestSwitchOff_BesideAClientThatSwitchesOn(t *testing.T) {
	for range 5 {
		directory := t.TempDir()
		server := subject(t, directory, "--worker-threads", "2")
		defer server.Kill()
		conn, other := server.Dial(t), server.Dial(t)
		conn.Timeout, other.Timeout = time.Minute, time.Minute
		do(t, conn, "DEBUG", "DISK-FAULT", "SLOW-SYNC")
		do(t, conn, "SET", "before", "value")
		off := wire.AppendCommand(nil, wire.Arguments("CONFIG", "SET", "appendonly", "no")...)
		if err := conn.SendRaw(off); err != nil {
			t.Fatal(err)
		}
		await(t, "the log is off", func() bool { return info(t, other, "aof_enabled") == "0" })
		if reply := do(t, other, "CONFIG", "SET", "appendonly", "yes"); string(reply.Text) != "OK" {
			t.Errorf("on: %s", reply)
		}
		if reply, err := conn.Receive(); err != nil || string(reply.Text) != "OK" {
			t.Errorf("off: %s, %v", reply, err)
		}
		do(t, conn, "DEBUG", "DISK-FAULT", "NONE")
		await(t, "the log has its base", func() bool {
			return info(t, other, "aof_rewrite_in_progress") == "0" &&
				info(t, other, "aof_rewrite_scheduled") == "0"
		})
		if enabled := info(t, other, "aof_enabled"); enabled != "1" {
			t.Fatalf("aof_enabled:%s, and the last one switched it on", enabled)
		}
		const begun = "Background append only file rewriting started"
		if count := strings.Count(server.Log(), begun); count != 1 {
			t.Errorf("%d rewrites for one switch", count)
		}
		do(t, conn, "SET", "behind", "value")
		server.Kill()
		expectKeys(t, directory, 2)
	}
}

// CONFIG SET appendonly no is answered once the log is durable and gets nothing more, and no worker
// waits for that.
func TestSwitchOff_ClosesTheLogBesideTheWorkers(t *testing.T) {
	for _, policy := range []string{"everysec", "always"} {
		directory := t.TempDir()
		server := subject(t, directory, "--appendfsync", policy, "--worker-threads", "1")
		defer server.Kill()
		conn, other := server.Dial(t), server.Dial(t)
		conn.Timeout, other.Timeout = time.Minute, time.Minute
		do(t, conn, "DEBUG", "DISK-FAULT", "SLOW-SYNC")
		do(t, conn, "SET", "before", "value")
		words := []string{"CONFIG", "SET", "appendonly", "no"}
		reply, took, longest := asked(t, server, conn, other, words...)
		if string(reply.Text) != "OK" || took < time.Second {
			t.Errorf("%s: %s within %v: not behind the sync", policy, reply, took)
		}
		requirePrompt(t, policy, longest, 500*time.Millisecond)
		do(t, conn, "FLUSHALL")
		do(t, conn, "SET", "behind", "value")
		server.Kill()
		again := subject(t, directory)
		defer again.Kill()
		conn = again.Dial(t)
		if reply := do(t, conn, "EXISTS", "before", "behind"); reply.Int() != 1 {
			t.Errorf("%s: %s of both keys are in the log", policy, reply)
		}
		// A transaction goes on at once, and still nothing of what follows is in the log.
		for _, words := range [][]string{
			{"DEBUG", "DISK-FAULT", "SLOW-SYNC"}, {"MULTI"},
			{"CONFIG", "SET", "appendonly", "no"}, {"FLUSHALL"}, {"EXEC"},
		} {
			do(t, conn, words...)
		}
		again.Kill()
		last := subject(t, directory)
		defer last.Kill()
		if keys := do(t, last.Dial(t), "DBSIZE").Int(); keys != 1 {
			t.Errorf("%s: %d keys behind a transaction", policy, keys)
		}
	}
}
