package process

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// refused requires an error that names the directive and holds a text.
func refused(t *testing.T, conn *wire.Conn, name, value, want string) {
	t.Helper()
	reply, err := conn.Do("CONFIG", "SET", name, value)
	if text := string(reply.Text); err != nil || !reply.IsError() || !strings.Contains(text, want) {
		t.Errorf("CONFIG SET %s %s: %s, %v; want %s", name, value, text, err, want)
	}
}

// A client that may change protected directives moves the snapshot, as in Valkey.
func TestConfigSet_MovesTheSnapshot(t *testing.T) {
	for _, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		server := instance.Start(t, kind, "--enable-protected-configs", "yes",
			"--enable-debug-command", "yes")
		conn := server.Dial(t)
		directory, err := filepath.EvalSymlinks(server.Directory)
		if err != nil {
			t.Fatal(err)
		}
		saves := func(path string) {
			t.Helper()
			expectOK(t, conn, "SAVE")
			if err := os.Remove(filepath.Join(directory, path)); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
		within := func(path string) {
			t.Helper()
			want := filepath.Join(directory, path)
			if reply := do(t, conn, "CONFIG", "GET", "dir"); string(reply.Items[1].Text) != want {
				t.Errorf("%s: in %s, not %s", kind, reply.Items[1].Text, want)
			}
		}
		expectOK(t, conn, "SET", "key", "value")
		expectOK(t, conn, "CONFIG", "SET", "dbfilename", "other.rdb")
		saves("other.rdb")
		if err := os.MkdirAll(filepath.Join(directory, "below", "below"), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"below", "below/below"} {
			expectOK(t, conn, "CONFIG", "SET", "dir", "below")
			within(path)
			saves(path + "/other.rdb")
		}
		refused(t, conn, "dir", "none", "No such file or directory")
		refused(t, conn, "dir", "", "dir can't be empty")
		refused(t, conn, "dbfilename", "a/b", "dbfilename can't be a path, just a filename")
		refused(t, conn, "dbfilename", "", "dbfilename can't be empty")
		if reply, _ := conn.Do("CONFIG", "SET", "dir", directory, "hz", "x"); !reply.IsError() {
			t.Errorf("%s: %v", kind, reply)
		}
		within("below/below")
		expectOK(t, conn, "CONFIG", "SET", "dbfilename", "third.rdb", "dir", "..")
		within("below")
		expectOK(t, conn, "DEBUG", "RELOAD")
		if reply := do(t, conn, "GET", "key"); string(reply.Text) != "value" {
			t.Errorf("%s: %v", kind, reply)
		}
		saves("below/third.rdb")
		// Out of a directory that is no more there.
		if err := os.RemoveAll(filepath.Join(directory, "below")); err != nil {
			t.Fatal(err)
		}
		expectOK(t, conn, "CONFIG", "SET", "dir", directory)
		within("")
		saves("third.rdb")
	}
}

// A name that another server saves to is refused as at a start, and one that was left is free.
func TestConfigSet_TakesTheLockOfTheSnapshot(t *testing.T) {
	other := instance.Start(t, instance.Subject, "--save", "3600 1")
	server := instance.Start(t, instance.Subject, "--save", "3600 1",
		"--enable-protected-configs", "yes", "--unixsocket", "socket", "--pidfile", "pid")
	conn := server.Dial(t)
	refused(t, conn, "dir", other.Directory, "another server saves to")
	expectOK(t, conn, "SAVE")
	if err := os.Remove(filepath.Join(server.Directory, "dump.rdb")); err != nil {
		t.Error(err)
	}
	expectOK(t, conn, "CONFIG", "SET", "dbfilename", "other.rdb", "dir", other.Directory)
	third, err := instance.Launch(instance.Subject, server.Directory, "--save", "3600 1")
	if err != nil {
		t.Fatalf("the lock of the directory before: %v", err)
	}
	if err := third.Stop(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"socket", "pid"} {
		if err := os.WriteFile(filepath.Join(other.Directory, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"socket", "pid"} {
		if _, err := os.Stat(filepath.Join(other.Directory, name)); err != nil {
			t.Errorf("a file of another server: %v", err)
		}
		if _, err := os.Stat(filepath.Join(server.Directory, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}

// A save that was answered has its name, whatever is set behind it.
func TestConfigSet_LeavesASaveItsName(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--enable-protected-configs", "yes")
	conn := server.Dial(t)
	for range 50 {
		for _, words := range [][]string{{"CONFIG", "SET", "dbfilename", "first.rdb"}, {"BGSAVE"},
			{"CONFIG", "SET", "dbfilename", "second.rdb"}} {
			if err := conn.Send(words...); err != nil {
				t.Fatal(err)
			}
		}
		for index := range 3 {
			reply, err := conn.Receive()
			if err != nil || index < 2 && reply.IsError() {
				t.Fatalf("%d: %v, %v", index, reply, err)
			}
		}
		waitFor(t, "the end of the save", func() bool {
			return information(t, conn, "rdb_bgsave_in_progress") == 0
		})
		if err := os.Remove(filepath.Join(server.Directory, "first.rdb")); err != nil {
			t.Fatal(err)
		}
	}
}

// A directory that was moved away and made anew is entered by its name, as in Valkey.
func TestConfigSet_EntersADirectoryMadeAnew(t *testing.T) {
	for _, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		server := instance.Start(t, kind, "--enable-protected-configs", "yes")
		conn := server.Dial(t)
		directory := filepath.Join(server.Directory, "data")
		for _, moved := range []string{"", ".before"} {
			if moved != "" {
				if err := os.Rename(directory, directory+moved); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir(directory, 0o700); err != nil {
				t.Fatal(err)
			}
			expectOK(t, conn, "CONFIG", "SET", "dir", directory)
			expectOK(t, conn, "SAVE")
			if _, err := os.Stat(filepath.Join(directory, "dump.rdb")); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
}

// A snapshot keeps to its directory when that is moved.
func TestSave_WithinADirectoryThatWasMoved(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "before")
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	server, err := instance.Launch(instance.Subject, directory, "--save", "3600 1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	if err := os.Rename(directory, directory+".moved"); err != nil {
		t.Fatal(err)
	}
	expectOK(t, server.Dial(t), "SAVE")
	if _, err := os.Stat(filepath.Join(directory+".moved", "dump.rdb")); err != nil {
		t.Error(err)
	}
}

// The files of a log stay where they are: its next base would be apart from what goes on from it.
func TestConfigSet_KeepsTheDirectoryOfALog(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--enable-protected-configs", "yes",
		"--appendonly", "yes")
	conn := server.Dial(t)
	refused(t, conn, "dir", "/", "the append only file is in the present directory")
	for _, here := range []string{server.Directory, ".", server.Directory + "/"} {
		expectOK(t, conn, "CONFIG", "SET", "dir", here)
	}
	expectOK(t, conn, "CONFIG", "SET", "appendonly", "no")
	below := filepath.Join(server.Directory, "below")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	expectOK(t, conn, "CONFIG", "SET", "dir", "below")
	expectOK(t, conn, "CONFIG", "SET", "appendonly", "yes")
	// Until then a signal does not end it, as in Valkey.
	waitFor(t, "the first base", func() bool {
		return information(t, conn, "aof_rewrite_in_progress") == 0 &&
			information(t, conn, "aof_rewrite_scheduled") == 0
	})
	names, _ := filepath.Glob(filepath.Join(below, "appendonlydir", "*.base.rdb"))
	if len(names) != 1 {
		t.Errorf("bases: %q", names)
	}
}

// isIn requires the working directory of a server.
func isIn(t *testing.T, server *instance.Server, want string) {
	t.Helper()
	want, err := filepath.EvalSymlinks(want)
	if err != nil {
		t.Fatal(err)
	}
	link := fmt.Sprintf("/proc/%d/cwd", server.PID)
	if directory, err := os.Readlink(link); err != nil || directory != want {
		t.Errorf("in %s, %v; want %s", directory, err, want)
	}
}

// A directory goes back with all that a refused command names, wherever its path is by then; locks
// go back with it.
func TestConfigSet_RefusedGoesBackToADirectoryThatWasMoved(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	directory, other := filepath.Join(t.TempDir(), "before"), t.TempDir()
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	server, err := instance.Launch(instance.Subject, directory, "--save", "3600 1",
		"--enable-protected-configs", "yes")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	conn := server.Dial(t)
	moved := directory + ".moved"
	if err := os.Rename(directory, moved); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"dir", other}, {"dir", other, "dbfilename", "next.rdb"},
		{"dbfilename", "next.rdb"}} {
		words = append(append([]string{"CONFIG", "SET"}, words...), "port", port)
		if reply := do(t, conn, words...); !strings.Contains(string(reply.Text), "'port'") {
			t.Errorf("%q: %s", words, reply)
		}
		isIn(t, server, moved)
	}
	// Before a save, which takes a lock that was lost.
	for _, place := range []struct {
		directory, name string
		isLocked        bool
	}{{moved, "dump.rdb", true}, {moved, "next.rdb", false}, {other, "dump.rdb", false}} {
		second, err := instance.Launch(instance.Subject, place.directory, "--save", "3600 1",
			"--dbfilename", place.name)
		if err == nil {
			err = second.Stop()
		}
		if (err != nil) != place.isLocked ||
			err != nil && !strings.Contains(err.Error(), "another server saves to") {
			t.Errorf("second server in %v: %v", place, err)
		}
	}
	expectOK(t, conn, "SAVE")
	if _, err := os.Stat(filepath.Join(moved, "dump.rdb")); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(moved); err != nil {
		t.Fatal(err)
	}
	if reply := do(t, conn, "CONFIG", "SET", "dir", other, "port", port); !reply.IsError() {
		t.Error(reply)
	}
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", server.PID))
	if err != nil || !strings.HasSuffix(link, "before.moved (deleted)") {
		t.Errorf("in %s, %v", link, err)
	}
	expectOK(t, conn, "CONFIG", "SET", "dir", other)
	isIn(t, server, other)
}

// The directory of a log that is off is free for another server once it is left, and so is one that
// could not be entered.
func TestConfigSet_GivesBackTheLocksOfALog(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--enable-protected-configs", "yes",
		"--appendonly", "yes")
	conn := server.Dial(t)
	expectOK(t, conn, "CONFIG", "SET", "appendonly", "no")
	isFree := func(directory string) {
		t.Helper()
		other, err := instance.Launch(instance.Subject, directory, "--appendonly", "yes")
		if err == nil {
			err = other.Stop()
		}
		if err != nil {
			t.Error(err)
		}
	}
	// Its own lock beside the directory is taken before that fails.
	refusing := t.TempDir()
	file := filepath.Join(refusing, "appendonlydir")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	reply := do(t, conn, "CONFIG", "SET", "dir", refusing, "appendonly", "yes")
	if !strings.Contains(string(reply.Text), "Unable to turn on AOF") {
		t.Errorf("%s", reply)
	}
	isIn(t, server, server.Directory)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	isFree(refusing)
	next := t.TempDir()
	expectOK(t, conn, "CONFIG", "SET", "dir", next)
	isFree(server.Directory)
	expectOK(t, conn, "CONFIG", "SET", "dir", server.Directory, "appendonly", "yes")
	waitFor(t, "the first base", func() bool {
		return information(t, conn, "aof_rewrite_in_progress") == 0 &&
			information(t, conn, "aof_rewrite_scheduled") == 0
	})
	_, err := instance.Launch(instance.Subject, server.Directory, "--appendonly", "yes")
	if err == nil || !strings.Contains(err.Error(), "another server uses the append only files") {
		t.Errorf("a second server in the directory of a log: %v", err)
	}
}

// Files of a log's past are not looked for in a directory that is entered later: it may have the
// log of another server.
func TestConfigSet_RemovesNoHistoryOfAnotherLog(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--enable-protected-configs", "yes",
		"--appendonly", "yes", "--aof-disable-auto-gc", "yes")
	other := instance.Start(t, instance.Subject, "--appendonly", "yes")
	conn := server.Dial(t)
	do(t, conn, "BGREWRITEAOF")
	waitFor(t, "the end of the rewrite", func() bool {
		return information(t, conn, "aof_rewrite_in_progress") == 0
	})
	own, before := logFiles(t, server.Directory), logFiles(t, other.Directory)
	if !strings.Contains(own, "appendonly.aof.1.base.rdb:") {
		t.Fatalf("no history:\n%s", own)
	}
	expectOK(t, conn, "CONFIG", "SET", "appendonly", "no")
	expectOK(t, conn, "CONFIG", "SET", "dir", other.Directory)
	expectOK(t, conn, "CONFIG", "SET", "aof-disable-auto-gc", "no")
	if behind := logFiles(t, other.Directory); behind != before {
		t.Errorf("before:\n%sbehind:\n%s", before, behind)
	}
}

// Nor in one that has the log of a server that has ended, when the log is to be switched on there
// once a save is over.
func TestConfigSet_RemovesNoHistoryOfAnOlderLog(t *testing.T) {
	older := instance.Start(t, instance.Subject, "--appendonly", "yes")
	do(t, older.Dial(t), "SET", "k", "v")
	if err := older.Stop(); err != nil {
		t.Fatal(err)
	}
	server := instance.Start(t, instance.Subject, "--enable-protected-configs", "yes",
		"--appendonly", "yes", "--aof-disable-auto-gc", "yes")
	conn := server.Dial(t)
	do(t, conn, "BGREWRITEAOF")
	waitFor(t, "the end of the rewrite", func() bool {
		return information(t, conn, "aof_rewrite_in_progress") == 0
	})
	for number := range 50 {
		do(t, conn, "SET", strconv.Itoa(number), "v")
	}
	before := logFiles(t, older.Directory)
	expectOK(t, conn, "CONFIG", "SET", "appendonly", "no", "rdb-key-save-delay", "200000")
	expectOK(t, conn, "CONFIG", "SET", "dir", older.Directory)
	do(t, conn, "BGSAVE")
	expectOK(t, conn, "CONFIG", "SET", "appendonly", "yes", "aof-disable-auto-gc", "no")
	behind := logFiles(t, older.Directory)
	if information(t, conn, "rdb_bgsave_in_progress") != 1 {
		t.Fatal("the save is over")
	}
	if behind != before {
		t.Errorf("before:\n%sbehind:\n%s", before, behind)
	}
	expectOK(t, conn, "CONFIG", "SET", "rdb-key-save-delay", "0")
}

// logFiles returns names and contents of the files of a log.
func logFiles(t *testing.T, directory string) string {
	t.Helper()
	var all strings.Builder
	names, err := filepath.Glob(filepath.Join(directory, "appendonlydir", "*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s: %q\n", filepath.Base(name), text)
	}
	return all.String()
}

// No rewrite of the log begins in a directory that the process may leave again.
func TestConfigSet_KeepsRewritesOutOfAMove(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--enable-protected-configs", "yes")
	below, pipe := filepath.Join(server.Directory, "below"), filepath.Join(server.Directory, "pipe")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	port, err := instance.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	conn := server.Dial(t)
	// The certificate is read behind the move, and lasts until the pipe has a writer.
	if err := conn.Send("CONFIG", "SET", "dir", below, "tls-port", strconv.Itoa(port),
		"tls-cert-file", pipe, "tls-key-file", "/dev/null"); err != nil {
		t.Fatal(err)
	}
	endPipe := sync.OnceFunc(func() {
		if writer, err := os.OpenFile(pipe, os.O_WRONLY, 0); err == nil {
			writer.Close()
		}
	})
	defer time.AfterFunc(5*time.Second, endPipe).Stop()
	waitFor(t, "the move", func() bool {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", server.PID))
		return err == nil && filepath.Base(link) == "below"
	})
	// The other worker has a client that comes now.
	text := string(do(t, server.Dial(t), "BGREWRITEAOF").Text)
	if !strings.Contains(text, "The working directory is being changed") {
		t.Errorf("BGREWRITEAOF: %s", text)
	}
	endPipe()
	if reply, err := conn.Receive(); err != nil || !strings.Contains(string(reply.Text), "TLS") {
		t.Errorf("%s, %v", reply, err)
	}
	isIn(t, server, server.Directory)
	do(t, conn, "BGREWRITEAOF")
	waitFor(t, "the end of the rewrite", func() bool {
		return information(t, conn, "aof_rewrite_in_progress") == 0
	})
	if _, err := os.Stat(filepath.Join(server.Directory, "appendonlydir")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(below, "appendonlydir")); err == nil {
		t.Error("a rewrite has begun in a directory that was left again")
	}
}

// The socket of a relative path goes with its server, whatever the path of its directory is.
func TestUnixSocket_IsRemovedInADirectoryWithoutItsPath(t *testing.T) {
	for _, moves := range []bool{false, true} {
		parent := filepath.Join(t.TempDir(), "parent")
		directory := filepath.Join(parent, "\xff")
		if err := os.MkdirAll(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		server, err := instance.Launch(instance.Subject, directory, "--unixsocket", "socket",
			"--enable-protected-configs", "yes")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Stop() })
		if moves {
			expectOK(t, server.Dial(t), "CONFIG", "SET", "dir", t.TempDir())
			if err := os.Rename(parent, parent+".moved"); err != nil {
				t.Fatal(err)
			}
			directory = filepath.Join(parent+".moved", "\xff")
		}
		path := filepath.Join(directory, "socket")
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("moves %v: the socket is still there", moves)
		}
	}
}

// Names that the start refuses are refused by the check, each with its directive.
func TestCheckConfig_JudgesNamesOfFiles(t *testing.T) {
	for directive, values := range map[string][]string{
		"dbfilename":     {"a/b", "", ".."},
		"appendfilename": {"../x.aof", "", "/x"},
		"appenddirname":  {"/tmp/x", "", "."},
		"logfile":        {"/no/where/log", "/tmp"},
	} {
		for _, value := range values {
			output, status := runServer(t, "--"+directive, value, "--check-config")
			if status != 2 || !strings.Contains(output, directive) {
				t.Errorf("--%s %q: status %d\n%s", directive, value, status, output)
			}
		}
	}
}

func TestACLSave_TellsTheLogWhatFailed(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	server := instance.Start(t, instance.Subject, "--aclfile", users)
	conn := server.Dial(t)
	if err := os.RemoveAll(filepath.Dir(users)); err != nil {
		t.Fatal(err)
	}
	if reply, _ := conn.Do("ACL", "SAVE"); !reply.IsError() {
		t.Fatalf("ACL SAVE: %v", reply)
	}
	waitFor(t, "a line of the log", func() bool {
		return strings.Contains(server.Log(),
			"for ACL SAVE to "+users+": No such file or directory")
	})
}
