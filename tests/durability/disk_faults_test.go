package durability

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// writeUntilRefused writes keys until a write is refused, and returns how many were answered.
func writeUntilRefused(t *testing.T, conn *wire.Conn, prefix, word string) int {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for answered := 0; ; answered++ {
		reply := do(t, conn, "SET", prefix+strconv.Itoa(answered), strings.Repeat("x", 100))
		if strings.HasPrefix(string(reply.Text), word) {
			return answered
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d writes are answered although the disk fails", answered)
		}
	}
}

// awaitWrites waits until writes are taken again.
func awaitWrites(t *testing.T, conn *wire.Conn) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for firstWord(do(t, conn, "SET", "last", "value")) != "OK" {
		if time.Now().After(deadline) {
			t.Fatal("writes are refused still")
		}
		time.Sleep(time.Millisecond)
	}
}

// A disk whose writes fail, at once or behind a part, or whose syncs do: writes are refused, reads
// go on, and behind the fault all that was answered is in the log.
func TestDiskFault_OfTheLogLosesNothing(t *testing.T) {
	for _, fault := range []string{"WRITE", "SHORT-WRITE", "SYNC"} {
		t.Run(fault, func(t *testing.T) {
			directory := t.TempDir()
			server := subject(t, directory, "--appendfsync", "everysec")
			defer server.Kill()
			conn := server.Dial(t)
			conn.Timeout = time.Minute
			do(t, conn, "SET", "first", "value")
			count := 2
			for round := range 2 {
				do(t, conn, "DEBUG", "DISK-FAULT", fault)
				count += writeUntilRefused(t, conn, strconv.Itoa(round)+":",
					"MISCONF Errors writing to the AOF file: Input/output error")
				if reply := do(t, conn, "GET", "first"); string(reply.Text) != "value" {
					t.Fatalf("GET answered %s", reply.Text)
				}
				for _, script := range []string{
					"return redis.call('SET', KEYS[1], 'x')",
					"#!lua\nreturn redis.call('GET', KEYS[1])",
				} {
					reply := do(t, conn, "EVAL", script, "1", "key")
					if word := firstWord(reply); word != "MISCONF" {
						t.Errorf("a script was answered %s", reply.Text)
					}
				}
				reads := "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])"
				reply := do(t, conn, "EVAL", reads, "1", "first")
				if string(reply.Text) != "value" {
					t.Errorf("a script that reads was answered %s", reply.Text)
				}
				if status := info(t, conn, "aof_last_write_status"); status != "err" {
					t.Error(status)
				}
				do(t, conn, "DEBUG", "DISK-FAULT", "NONE")
				awaitWrites(t, conn)
				if status := info(t, conn, "aof_last_write_status"); status != "ok" {
					t.Error(status)
				}
			}
			server.Kill()
			again := subject(t, directory)
			defer again.Kill()
			if keys := int(do(t, again.Dial(t), "DBSIZE").Int()); keys < count {
				t.Errorf("%d keys, %d writes were answered", keys, count)
			}
		})
	}
}

// Under `always` no reply leaves that depends on what could not be written or synced: the server
// ends, and what it had answered is there.
func TestDiskFault_EndsAServerThatAlwaysSyncs(t *testing.T) {
	for fault, word := range map[string]string{
		"WRITE": "write", "SHORT-WRITE": "write", "SYNC": "fsync",
	} {
		directory := t.TempDir()
		server := subject(t, directory, "--appendfsync", "always")
		conn := server.Dial(t)
		for index := range 10 {
			do(t, conn, "SET", strconv.Itoa(index), "value")
		}
		do(t, conn, "DEBUG", "DISK-FAULT", fault)
		if reply, err := conn.Do("SET", "lost", "value"); err == nil {
			t.Errorf("%s: a write was answered %s", fault, reply.Text)
		}
		for deadline := time.Now().Add(time.Minute); server.Running(); {
			if time.Now().After(deadline) {
				t.Fatal("the server runs still")
			}
			time.Sleep(time.Millisecond)
		}
		if !strings.Contains(server.Log(), "Can't recover from AOF "+word+" error") {
			t.Error(server.Log())
		}
		again := subject(t, directory)
		if keys := do(t, again.Dial(t), "DBSIZE").Int(); keys < 10 {
			t.Errorf("%s: %d keys", fault, keys)
		}
		again.Kill()
	}
}

// A save that fails leaves the old snapshot, and the end by SIGTERM is refused; both succeed behind
// the fault.
func TestDiskFault_OfASaveKeepsTheOldSnapshot(t *testing.T) {
	for _, fault := range []string{"WRITE", "SHORT-WRITE", "SYNC"} {
		directory := t.TempDir()
		server, err := instance.Launch(instance.Subject, directory, "--save", "3600 1",
			"--enable-debug-command", "yes")
		if err != nil {
			t.Fatal(err)
		}
		conn := server.Dial(t)
		do(t, conn, "SET", "key", "value")
		if status := saveInBackground(t, conn); status != "ok" {
			t.Fatal(status)
		}
		snapshot := filepath.Join(directory, "dump.rdb")
		before, err := os.ReadFile(snapshot)
		if err != nil {
			t.Fatal(err)
		}
		do(t, conn, "SET", "key", "another")
		do(t, conn, "DEBUG", "DISK-FAULT", fault)
		if status := saveInBackground(t, conn); status != "err" {
			t.Errorf("%s: a save ended with %s", fault, status)
		}
		if word := firstWord(do(t, conn, "SET", "key", "third")); word != "MISCONF" {
			t.Errorf("%s: a write was answered %s", fault, word)
		}
		if word := firstWord(do(t, conn, "SHUTDOWN")); word != "ERR" {
			t.Errorf("%s: SHUTDOWN was answered %s", fault, word)
		}
		if after, err := os.ReadFile(snapshot); err != nil || string(after) != string(before) {
			t.Errorf("%s: the snapshot was changed: %v", fault, err)
		}
		names, _ := filepath.Glob(filepath.Join(directory, "temp-*"))
		if len(names) > 0 {
			t.Errorf("%s left %v", fault, names)
		}
		do(t, conn, "DEBUG", "DISK-FAULT", "NONE")
		if status := saveInBackground(t, conn); status != "ok" {
			t.Errorf("%s: a save behind it: %s", fault, status)
		}
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// A limit of the size of files tears a write where the file ends: the system's own short write.
func TestFileSizeLimit_TearsNoRecord(t *testing.T) {
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Skip(err)
	}
	directory := t.TempDir()
	limits := []string{"prlimit", "--fsize=40000:unlimited"}
	server, err := instance.LaunchUnder(limits, instance.Subject, directory,
		"--appendonly", "yes", "--appendfsync", "everysec")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	conn := server.Dial(t)
	conn.Timeout = time.Minute
	answered := writeUntilRefused(t, conn, "key:", "MISCONF Errors writing to the AOF file")
	if reply := do(t, conn, "GET", "key:0"); len(reply.Text) != 100 {
		t.Errorf("GET answered %q", reply.Text)
	}
	// Its log is whole at the limit.
	copied := subject(t, copyOf(t, directory), "--aof-load-truncated", "no")
	keys := int(do(t, copied.Dial(t), "DBSIZE").Int())
	copied.Kill()
	if keys == 0 || keys > answered {
		t.Errorf("%d keys at the limit, %d writes were answered", keys, answered)
	}
	unlimited := exec.Command("prlimit", "--pid", strconv.Itoa(server.PID), "--fsize=unlimited")
	if text, err := unlimited.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	awaitWrites(t, conn)
	server.Kill()
	again := subject(t, directory)
	defer again.Kill()
	if keys := int(do(t, again.Dial(t), "DBSIZE").Int()); keys < answered+1 {
		t.Errorf("%d keys, %d writes were answered", keys, answered)
	}
}

// A log that cannot be written is a reason to refuse writes only while it is on.
func TestDiskFault_OfALogThatIsSwitchedOffRefusesNothing(t *testing.T) {
	for _, fault := range []string{"WRITE", "SYNC"} {
		server := subject(t, t.TempDir(), "--appendfsync", "everysec")
		defer server.Kill()
		conn := server.Dial(t)
		conn.Timeout = time.Minute
		do(t, conn, "DEBUG", "DISK-FAULT", fault)
		writeUntilRefused(t, conn, "key:", "MISCONF Errors writing to the AOF file")
		if reply := do(t, conn, "CONFIG", "SET", "appendonly", "no"); string(reply.Text) != "OK" {
			t.Fatalf("%s: %s", fault, reply)
		}
		if reply := do(t, conn, "SET", "key", "value"); string(reply.Text) != "OK" {
			t.Errorf("%s: without a log a write is answered %s", fault, reply)
		}
		if status := info(t, conn, "aof_last_write_status"); status != "ok" {
			t.Errorf("%s: %s", fault, status)
		}
	}
}

// The log's directory is moved away, and a file takes its place: what is written goes on, a rewrite
// fails and says why. Once the place is free, a rewrite makes the directory again, and a start
// finds everything there.
func TestDiskFault_OfTheLogsDirectoryIsMendedByARewrite(t *testing.T) {
	root := t.TempDir()
	server := subject(t, root, "--appendfsync", "everysec")
	defer server.Kill()
	conn := server.Dial(t)
	conn.Timeout = time.Minute
	rewrite := func(want string) {
		t.Helper()
		if reply := do(t, conn, "BGREWRITEAOF"); firstWord(reply) != "Background" {
			t.Fatal(reply)
		}
		await(t, "the rewrite is over", func() bool {
			return info(t, conn, "aof_rewrite_in_progress") == "0"
		})
		if status := info(t, conn, "aof_last_bgrewrite_status"); status != want {
			t.Fatalf("the rewrite is %s, not %s", status, want)
		}
	}
	do(t, conn, "SET", "1", "before")
	directory := filepath.Join(root, "appendonlydir")
	if err := os.Rename(directory, filepath.Join(root, "moved")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(directory, []byte("in the way"), 0o600); err != nil {
		t.Fatal(err)
	}
	do(t, conn, "SET", "2", "moved")
	rewrite("err")
	const reason = "Background AOF rewrite failed: Can't use the directory ./appendonlydir: "
	if !strings.Contains(server.Log(), reason) {
		t.Error(server.Log())
	}
	if reply := do(t, conn, "SET", "3", "behind"); string(reply.Text) != "OK" {
		t.Errorf("behind a rewrite that failed a write is answered %s", reply)
	}
	if err := os.Remove(directory); err != nil {
		t.Fatal(err)
	}
	rewrite("ok")
	do(t, conn, "SET", "4", "mended")
	server.Kill()
	again := subject(t, root)
	defer again.Kill()
	if keys := do(t, again.Dial(t), "DBSIZE").Int(); keys != 4 {
		t.Errorf("%d keys, 4 were answered", keys)
	}
}
