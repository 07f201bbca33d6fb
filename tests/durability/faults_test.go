package durability

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// publicDirectory is one that a server without privileges may use: t.TempDir is in a folder of its
// user alone.
func publicDirectory(t *testing.T) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "tidemill-faults-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	if err := os.Chmod(directory, 0o777); err != nil {
		t.Fatal(err)
	}
	return directory
}

// tryUnprivileged starts a server to which permissions apply: as nobody in tests of root.
func tryUnprivileged(directory string, directives ...string) (*instance.Server, error) {
	var wrapper []string
	if os.Geteuid() == 0 {
		wrapper = []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}
	}
	return instance.LaunchUnder(wrapper, instance.Subject, directory, directives...)
}

func launchUnprivileged(t *testing.T, directory string, directives ...string) *instance.Server {
	t.Helper()
	server, err := tryUnprivileged(directory, directives...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	return server
}

// saveInBackground waits for the end of a BGSAVE and returns its status.
func saveInBackground(t *testing.T, conn *wire.Conn) string {
	t.Helper()
	do(t, conn, "BGSAVE")
	for fieldsOf(t, conn)["rdb_bgsave_in_progress"] == "1" {
		time.Sleep(time.Millisecond)
	}
	return fieldsOf(t, conn)["rdb_last_bgsave_status"]
}

// A directory that becomes read-only fails the next save: the old snapshot stays, writes are
// refused and reads are not; when it is writable again, so is the server, without a restart.
func TestSave_IntoReadOnlyDirectory(t *testing.T) {
	directory := publicDirectory(t)
	server := launchUnprivileged(t, directory, "--save", "3600 1")
	conn := server.Dial(t)
	do(t, conn, "SET", "key", "value")
	if status := saveInBackground(t, conn); status != "ok" {
		t.Fatalf("the first save: %s", status)
	}
	snapshot := filepath.Join(directory, "dump.rdb")
	before, err := os.ReadFile(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(directory, 0o555); err != nil {
		t.Fatal(err)
	}
	do(t, conn, "SET", "key", "another")
	if status := saveInBackground(t, conn); status != "err" {
		t.Errorf("a save into a read-only directory: %s", status)
	}
	if word := firstWord(do(t, conn, "SAVE")); word != "ERR" {
		t.Errorf("SAVE was answered %s", word)
	}
	if word := firstWord(do(t, conn, "SET", "key", "third")); word != "MISCONF" {
		t.Errorf("a write was answered %s", word)
	}
	if reply := do(t, conn, "GET", "key"); string(reply.Text) != "another" {
		t.Errorf("a read was answered %s", reply.Text)
	}
	if after, err := os.ReadFile(snapshot); err != nil || string(after) != string(before) {
		t.Errorf("the snapshot was changed: %v", err)
	}
	if !strings.Contains(server.Log(), "Write error saving DB") {
		t.Error("the log has no reason")
	}
	if err := os.Chmod(directory, 0o777); err != nil {
		t.Fatal(err)
	}
	if status := saveInBackground(t, conn); status != "ok" {
		t.Errorf("a save behind the fault: %s", status)
	}
	if word := firstWord(do(t, conn, "SET", "key", "third")); word != "OK" {
		t.Errorf("a write behind the fault was answered %s", word)
	}
}

// A directory that is gone fails saves, and the end by SIGTERM, which would lose data; SHUTDOWN
// NOSAVE ends the server.
func TestSave_IntoDirectoryThatIsGone(t *testing.T) {
	directory := publicDirectory(t)
	work := filepath.Join(directory, "work")
	if err := errors.Join(os.Mkdir(work, 0o777), os.Chmod(work, 0o777)); err != nil {
		t.Fatal(err)
	}
	server := launchUnprivileged(t, directory, "--save", "3600 1", "--dir", work)
	conn := server.Dial(t)
	do(t, conn, "SET", "key", "value")
	if err := os.RemoveAll(work); err != nil {
		t.Fatal(err)
	}
	if status := saveInBackground(t, conn); status != "err" {
		t.Errorf("a save into a directory that is gone: %s", status)
	}
	if word := firstWord(do(t, conn, "SHUTDOWN")); word != "ERR" {
		t.Errorf("SHUTDOWN was answered %s", word)
	}
	if reply := do(t, conn, "GET", "key"); string(reply.Text) != "value" {
		t.Errorf("a read was answered %s", reply.Text)
	}
	// Its answer is the end of the connection.
	_, _ = conn.Do("SHUTDOWN", "NOSAVE")
	for deadline := time.Now().Add(time.Minute); server.Running(); {
		if time.Now().After(deadline) {
			t.Fatal("it runs on behind SHUTDOWN NOSAVE")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A snapshot that may not be read ends the start, which says so, and is not replaced.
func TestLoading_WithoutPermission(t *testing.T) {
	directory := publicDirectory(t)
	snapshot := filepath.Join(directory, "dump.rdb")
	if err := os.WriteFile(snapshot, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(snapshot, 0); err != nil {
		t.Fatal(err)
	}
	_, err := tryUnprivileged(directory, "--save", "3600 1")
	if err == nil {
		t.Fatal("the server started")
	}
	for _, part := range []string{snapshot, "cannot be read", "Permission denied",
		"Fatal error loading"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in %v", part, err)
		}
	}
	if err := os.Chmod(snapshot, 0o600); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(snapshot); string(kept) != "secret" {
		t.Errorf("the snapshot is %q, %v", kept, err)
	}
}

// A second server in a directory that nobody chose, with the save points that nobody chose, saves
// nothing; one whose directory is chosen is refused.
func TestSave_SecondServerInTheDefaultDirectory(t *testing.T) {
	directory := t.TempDir()
	byDefault := []string{"--save", "3600 1 300 100 60 10000"}
	for index, wanted := range []string{"3600 1 300 100 60 10000", ""} {
		server, err := instance.Launch(instance.Subject, directory, byDefault...)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Kill()
		reply := do(t, server.Dial(t), "CONFIG", "GET", "save")
		if points := string(reply.Items[1].Text); points != wanted {
			t.Errorf("server %d has save points %q", index, points)
		}
	}
	chosen := append([]string{"--dir", directory}, byDefault...)
	server, err := instance.Launch(instance.Subject, directory, chosen...)
	if err == nil {
		server.Kill()
	}
	if err == nil || !strings.Contains(err.Error(), "another server saves to "+directory) {
		t.Errorf("the start of a server in a directory that was chosen: %v", err)
	}
}

// A server that may not write the directory it happens to be in, with the save points that nobody
// chose, starts; the first save fails, and writes are refused then. One whose directory is chosen
// does not start.
func TestSave_DefaultDirectoryIsReadOnly(t *testing.T) {
	directory := publicDirectory(t)
	chmod(t, directory, 0o555)
	byDefault := []string{"--save", "3600 1 300 100 60 10000"}
	server := launchUnprivileged(t, directory, byDefault...)
	conn := server.Dial(t)
	if word := firstWord(do(t, conn, "SET", "key", "value")); word != "OK" {
		t.Errorf("a write ahead of the first save was answered %s", word)
	}
	if !strings.Contains(server.Log(), directory+"/dump.rdb cannot be locked: Permission denied") {
		t.Error("the log has no warning")
	}
	if status := saveInBackground(t, conn); status != "err" {
		t.Errorf("a save: %s", status)
	}
	if word := firstWord(do(t, conn, "SET", "key", "another")); word != "MISCONF" {
		t.Errorf("a write behind the save was answered %s", word)
	}
	chosen, err := tryUnprivileged(directory, append(byDefault, "--dir", directory)...)
	if err == nil {
		chosen.Kill()
	}
	if err == nil || !strings.Contains(err.Error(), "cannot be locked: Permission denied") {
		t.Errorf("the start of a server in a directory that was chosen: %v", err)
	}
}

// Two servers do not save under one name: the second is refused at its start, or its save is, until
// the first is gone, however it went.
func TestSave_TwoServersInOneDirectory(t *testing.T) {
	directory := t.TempDir()
	saves := []string{"--save", "3600 1"}
	first, err := instance.Launch(instance.Subject, directory, saves...)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Kill()
	if _, err := instance.Launch(instance.Subject, directory, saves...); err == nil ||
		!strings.Contains(err.Error(), "another server saves to "+directory) {
		t.Fatalf("the start of a second server: %v", err)
	}
	reader, err := instance.Launch(instance.Subject, directory)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Kill()
	conn := reader.Dial(t)
	do(t, conn, "SET", "key", "of the second")
	if word := firstWord(do(t, conn, "SAVE")); word != "ERR" {
		t.Errorf("SAVE beside another server was answered %s", word)
	}
	if status := saveInBackground(t, conn); status != "err" {
		t.Errorf("BGSAVE beside another server: %s", status)
	}
	first.Kill()
	if word := firstWord(do(t, conn, "SAVE")); word != "OK" {
		t.Errorf("SAVE behind the other's end was answered %s", word)
	}
}

// chmod changes permissions of what a server without privileges has made.
func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// The log's directory loses its permissions, before a rewrite or in the middle of one: the rewrite
// fails and says so, writes go on, and once the permissions are back so do rewrites. Nothing that
// was answered is lost.
func TestLog_WithoutPermissionIsWrittenOn(t *testing.T) {
	for _, mode := range []os.FileMode{0, 0o555} {
		root := publicDirectory(t)
		directives := []string{"--appendonly", "yes", "--appendfsync", "everysec",
			"--enable-debug-command", "yes"}
		server := launchUnprivileged(t, root, directives...)
		conn := server.Dial(t)
		conn.Timeout = time.Minute
		directory := filepath.Join(root, "appendonlydir")
		expectStatus := func(when, want string) {
			t.Helper()
			awaitInfo(t, conn, "aof_rewrite_in_progress", "0")
			if status := info(t, conn, "aof_last_bgrewrite_status"); status != want {
				t.Errorf("%o, %s: the rewrite is %s", mode, when, status)
			}
			if reply := do(t, conn, "SET", when, "value"); string(reply.Text) != "OK" {
				t.Errorf("%o, %s: a write is answered %s", mode, when, reply)
			}
		}
		chmod(t, directory, mode)
		do(t, conn, "BGREWRITEAOF")
		expectStatus("before", "err")
		if !strings.Contains(server.Log(), "Permission denied") {
			t.Errorf("%o: the log has no reason", mode)
		}
		chmod(t, directory, 0o755)
		do(t, conn, "BGREWRITEAOF")
		expectStatus("back", "ok")

		spanBackground(t, conn, "BGREWRITEAOF", "aof_rewrite_in_progress")
		await(t, "the base is begun", func() bool {
			_, err := os.Stat(filepath.Join(directory, "temp-rewriteaof-bg-appendonly.aof"))
			return err == nil
		})
		chmod(t, directory, mode)
		do(t, conn, "CONFIG", "SET", "rdb-key-save-delay", "0")
		expectStatus("within", "err")
		// Without the base there is one increment more.
		server.Kill()
		if mode == 0 {
			_, err := tryUnprivileged(root, directives...)
			const reason = "Can't use the directory ./appendonlydir: Permission denied"
			if err == nil || !strings.Contains(err.Error(), reason) {
				t.Fatalf("a start that may not read the log: %v", err)
			}
		}
		chmod(t, directory, 0o755)
		server = launchUnprivileged(t, root, directives...)
		conn = server.Dial(t)
		if keys := do(t, conn, "DBSIZE").Int(); keys != 23 {
			t.Errorf("%o: %d keys, 23 were answered", mode, keys)
		}
		do(t, conn, "BGREWRITEAOF")
		expectStatus("again", "ok")
		if names, _ := filepath.Glob(filepath.Join(directory, "temp-*")); len(names) > 0 {
			t.Errorf("%o: %v is left", mode, names)
		}
		server.Kill()
	}
}

// A log is not switched on where its directory may not be made, and is once it may.
func TestLog_IsNotSwitchedOnWithoutPermission(t *testing.T) {
	root := publicDirectory(t)
	server := launchUnprivileged(t, root)
	conn := server.Dial(t)
	do(t, conn, "SET", "key", "value")
	chmod(t, root, 0o555)
	if reply := do(t, conn, "CONFIG", "SET", "appendonly", "yes"); firstWord(reply) != "ERR" {
		t.Errorf("CONFIG SET was answered %s", reply)
	}
	if enabled := info(t, conn, "aof_enabled"); enabled != "0" {
		t.Errorf("aof_enabled:%s", enabled)
	}
	if reply := do(t, conn, "SET", "key", "value"); string(reply.Text) != "OK" {
		t.Errorf("a write was answered %s", reply)
	}
	chmod(t, root, 0o777)
	if reply := do(t, conn, "CONFIG", "SET", "appendonly", "yes"); string(reply.Text) != "OK" {
		t.Errorf("CONFIG SET was answered %s", reply)
	}
	awaitInfo(t, conn, "aof_rewrite_in_progress", "0")
	if status := info(t, conn, "aof_last_bgrewrite_status"); status != "ok" {
		t.Error(status)
	}
}

// Two servers do not use one log, also when its directory was removed, with or without being made
// again: a second one is refused as long as the first one lives. That one makes the directory again
// at its next rewrite, and loses nothing.
func TestLog_TwoServersInADirectoryThatWasRemoved(t *testing.T) {
	root := t.TempDir()
	first := subject(t, root)
	defer first.Kill()
	conn := first.Dial(t)
	do(t, conn, "SET", "key", "value")
	directory := filepath.Join(root, "appendonlydir")
	refused := func(when string) {
		t.Helper()
		second, err := instance.Launch(instance.Subject, root, "--appendonly", "yes")
		if err == nil {
			second.Kill()
			t.Fatalf("%s: a second server started", when)
		}
		if !strings.Contains(err.Error(), "another server uses the append only files") {
			t.Errorf("%s: %v", when, err)
		}
	}
	refused("as it was")
	if err := os.RemoveAll(directory); err != nil {
		t.Fatal(err)
	}
	refused("removed")
	if err := os.Mkdir(directory, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	refused("made again")
	rewrite(t, conn)
	do(t, conn, "SET", "behind", "value")
	refused("rewritten")
	first.Kill()
	expectKeys(t, root, 2)
}

// A directory of the log that two working directories share, which is removed: the lock beside it
// does not tell them from each other. The server that made it again has it, and the other one finds
// that out at its next rewrite, touches nothing of it and says so.
func TestLog_OfADirectoryThatIsSharedByALink(t *testing.T) {
	shared := t.TempDir()
	target := filepath.Join(shared, "log")
	begin := func() (*instance.Server, *wire.Conn) {
		t.Helper()
		root := t.TempDir()
		if err := os.MkdirAll(target, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(root, "appendonlydir")); err != nil {
			t.Fatal(err)
		}
		server := subject(t, root)
		t.Cleanup(server.Kill)
		return server, server.Dial(t)
	}
	first, conn := begin()
	do(t, conn, "SET", "first", "value")
	if err := os.RemoveAll(target); err != nil {
		t.Fatal(err)
	}
	second, other := begin()
	do(t, other, "SET", "second", "value")
	do(t, conn, "BGREWRITEAOF")
	awaitInfo(t, conn, "aof_rewrite_in_progress", "0")
	if status := info(t, conn, "aof_last_bgrewrite_status"); status != "err" {
		t.Errorf("the rewrite in another server's directory is %s", status)
	}
	if !strings.Contains(first.Log(), "another server uses the append only files") {
		t.Error(first.Log())
	}
	second.Kill()
	first.Kill()
	root := t.TempDir()
	if err := os.Symlink(target, filepath.Join(root, "appendonlydir")); err != nil {
		t.Fatal(err)
	}
	again := subject(t, root)
	defer again.Kill()
	conn = again.Dial(t)
	if reply := do(t, conn, "EXISTS", "first"); reply.Int() != 0 {
		t.Error("the first server wrote into the second one's log")
	}
	if reply := do(t, conn, "GET", "second"); string(reply.Text) != "value" {
		t.Errorf("the second server's key is %s", reply)
	}
}

// The file of the lock under which a server saves is removed: it is locked anew at the next save,
// unless another server was faster.
func TestSave_WhoseLockWasRemoved(t *testing.T) {
	directory := t.TempDir()
	saves := []string{"--save", "3600 1"}
	first, err := instance.Launch(instance.Subject, directory, saves...)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Kill()
	conn := first.Dial(t)
	do(t, conn, "SET", "key", "value")
	removeLock := func() {
		t.Helper()
		if err := os.Remove(filepath.Join(directory, ".dump.rdb.lock")); err != nil {
			t.Fatal(err)
		}
	}
	removeLock()
	if word := firstWord(do(t, conn, "SAVE")); word != "OK" {
		t.Errorf("SAVE was answered %s", word)
	}
	second, err := instance.Launch(instance.Subject, directory, saves...)
	if err == nil {
		second.Kill()
		t.Fatal("a second server started")
	}
	removeLock()
	second, err = instance.Launch(instance.Subject, directory, saves...)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Kill()
	if word := firstWord(do(t, conn, "SAVE")); word != "ERR" {
		t.Errorf("SAVE beside another server was answered %s", word)
	}
	second.Kill()
	if word := firstWord(do(t, conn, "SAVE")); word != "OK" {
		t.Errorf("SAVE behind the other's end was answered %s", word)
	}
}
