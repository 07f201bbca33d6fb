package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
