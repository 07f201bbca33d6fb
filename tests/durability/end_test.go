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
		"--worker-threads", "2", "--enable-debug-command", "yes")
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
	for round, begin := range []func(){
		func() { spin(t, server) },
		func() { do(t, conn, "DEBUG", "PAUSE-CRON", "1") },
	} {
		begin()
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
		do(t, conn, "DEBUG", "PAUSE-CRON", "0")
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
			asked := time.Now()
			isRunning = info(t, other, "aof_rewrite_in_progress") == "1"
			longest = max(longest, time.Since(asked))
			time.Sleep(time.Millisecond)
		}
		if reply, err := conn.Receive(); err != nil || strings.HasPrefix(reply.String(), "-") {
			t.Fatalf("%v: %s, %v", words, reply, err)
		}
		if longest > 900*time.Millisecond {
			t.Errorf("%v: INFO took %v", words, longest)
		}
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
// returns the reply, the time to it and the longest time that INFO took.
func asked(
	t *testing.T, conn, other *wire.Conn, words ...string,
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
			asked := time.Now()
			do(t, other, "INFO", "server")
			longest = max(longest, time.Since(asked))
		}
	}
}

// FLUSHALL with save points is answered once the file without keys is durable, and no worker waits
// for that; a save that is asked for meanwhile comes behind it.
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
		time.Sleep(300 * time.Millisecond)
		_, _ = saver.Do("SET", "behind", "value")
		reply, _ := saver.Do("SAVE")
		saved <- reply
	}()
	reply, took, longest := asked(t, conn, other, "FLUSHALL")
	if string(reply.Text) != "OK" || took < time.Second {
		t.Errorf("%s within %v: not behind the sync", reply, took)
	}
	if longest > 500*time.Millisecond {
		t.Errorf("INFO took %v", longest)
	}
	if reply := <-saved; string(reply.Text) != "OK" {
		t.Errorf("SAVE was answered %s", reply)
	}
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
	last := subject(t, directory, directives...)
	defer last.Kill()
	if keys := do(t, last.Dial(t), "DBSIZE").Int(); keys != 0 {
		t.Errorf("%d keys behind FLUSHALL in a transaction", keys)
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
		reply, took, longest := asked(t, conn, other, "CONFIG", "SET", "appendonly", "no")
		if string(reply.Text) != "OK" || took < time.Second {
			t.Errorf("%s: %s within %v: not behind the sync", policy, reply, took)
		}
		if longest > 500*time.Millisecond {
			t.Errorf("%s: INFO took %v", policy, longest)
		}
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
