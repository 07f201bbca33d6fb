package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// kindsWithUsers are the servers that have users: what is said of one is asked of both.
var kindsWithUsers = []instance.Kind{instance.Valkey, instance.Subject}

// described returns the answer to ACL LIST.
func described(t *testing.T, conn *wire.Conn) string {
	t.Helper()
	var lines []string
	for _, item := range do(t, conn, "ACL", "LIST").Items {
		lines = append(lines, string(item.Text))
	}
	return strings.Join(lines, "\n") + "\n"
}

func expectText(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("got:\n%s\nwant:\n%s", got, want)
	}
}

// A file of users is loaded at start and by ACL LOAD, as a whole or not at all; ACL SAVE writes it.
func TestACL_FileOfUsers(t *testing.T) {
	for _, kind := range kindsWithUsers {
		t.Run(string(kind), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "users.acl")
			write := func(text string) {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("user app on nopass ~* +@all\nuser gone on nopass ~* +@all\n")
			server := instance.Start(t, kind, append(workers(kind), "--aclfile", file)...)
			conn, stays, ends := server.Dial(t), server.Dial(t), server.Dial(t)
			expectOK(t, stays, "AUTH", "app", "x")
			expectOK(t, ends, "AUTH", "gone", "x")
			before := described(t, conn)

			write("user app on +nope\nuser\n")
			errors := fmt.Sprintf("ERR %[1]s:1: Error in applying operation '+nope': "+
				"Unknown command or category name in ACL. %[1]s:2 should start with user "+
				"keyword followed by the username. WARNING: ACL errors detected, no change "+
				"to the previously active ACL rules was performed", file)
			expectText(t, string(do(t, conn, "ACL", "LOAD").Text), errors)
			expectText(t, described(t, conn), before)

			write("user app on nopass ~a +get\nuser new off\n")
			expectOK(t, conn, "ACL", "LOAD")
			expectText(t, described(t, conn), "user app on nopass ~a resetchannels -@all +get\n"+
				"user default on nopass ~* &* +@all\nuser new off resetchannels -@all\n")
			if reply := do(t, stays, "GET", "b"); !strings.HasPrefix(string(reply.Text), "NOPERM") {
				t.Errorf("GET by new rules answered %s", reply)
			}
			if _, err := ends.Do("PING"); err == nil {
				t.Error("a client of a user who is gone goes on")
			}

			expectOK(t, conn, "ACL", "SETUSER", "new", "on", "(+set ~k)")
			expectOK(t, conn, "ACL", "SAVE")
			saved, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			expectText(t, string(saved), described(t, conn))
		})
	}
}

// CONFIG REWRITE puts users into the lines that declared them, and what it writes is read back.
func TestACL_ConfigRewriteKeepsUsers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "redis.conf")
	text := "# first\nuser app on >x ~k +get (+set ~y)\n# second\nuser gone on\nuser zoe off\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func() *wire.Conn {
		port, err := instance.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		command := instance.Command(instance.Subject, port)
		// The file comes first.
		rest := append([]string{file}, command.Args[2:]...)
		command.Args = append(command.Args[:2:2], rest...)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = command.Process.Kill()
			_ = command.Wait()
		})
		return dialUntil(t, fmt.Sprintf("127.0.0.1:%d", port))
	}
	conn := start()
	do(t, conn, "ACL", "DELUSER", "gone")
	expectOK(t, conn, "ACL", "SETUSER", "new", "on", "~it's", "%R~\"q\"")
	expectOK(t, conn, "CONFIG", "REWRITE")
	want := described(t, conn)
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(written), "\n")
	beginnings := []string{
		"# first", "user app on #", "# second", "user default on nopass", "user new on",
	}
	for number, beginning := range beginnings {
		if !strings.HasPrefix(lines[number], beginning) {
			t.Errorf("line %d begins with no %q:\n%s", number+1, beginning, written)
		}
	}
	expectText(t, described(t, start()), want)
}

func dialUntil(t *testing.T, address string) *wire.Conn {
	t.Helper()
	deadline := time.Now().Add(closeTimeout)
	for {
		conn, err := wire.Dial(address)
		if err == nil {
			t.Cleanup(func() { conn.Close() })
			return conn
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Wrong declarations of users refuse the start, each with its place.
func TestACL_WrongDeclarationsRefuseTheStart(t *testing.T) {
	directory := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	lines := file("users.conf", "user a on\nuser b +nope\nuser a off\n")
	users := file("users.acl", "user a on\nuser a off\nuser b bogus\n")
	for _, test := range []struct {
		directives []string
		wanted     []string
	}{
		{[]string{"--include", lines}, []string{
			lines + ":2: directive 'user': Error in user declaration 'b': '+nope': Unknown command",
			lines + ":3: directive 'user': Error in user declaration 'a': Duplicate user found.",
		}},
		{[]string{"--aclfile", users}, []string{
			"WARNING: Duplicate user 'a' found on line 2.", users + ":3: Syntax error.",
		}},
		{[]string{"--aclfile", users + ".nope"}, []string{"No such file or directory"}},
		{[]string{"--include", lines, "--aclfile", users}, []string{
			lines + ":1: directive 'user': users are declared in aclfile",
		}},
	} {
		output, err := startToEnd(t, test.directives...)
		if err == nil {
			t.Errorf("%q: the server started", test.directives)
		}
		for _, wanted := range test.wanted {
			if !strings.Contains(output, wanted) {
				t.Errorf("%q: no %q in\n%s", test.directives, wanted, output)
			}
		}
	}
}

// Clients of a deleted user are closed, idle ones and blocked ones too, and are gone for CLIENT
// LIST once the deletion is answered.
func TestACL_DeletedUsersClientsAreClosed(t *testing.T) {
	for _, kind := range kindsWithUsers {
		t.Run(string(kind), func(t *testing.T) {
			server := instance.Start(t, kind, workers(kind)...)
			conn := server.Dial(t)
			expectOK(t, conn, "ACL", "SETUSER", "app", "on", "nopass", "~*", "+@all")
			var clients []*wire.Conn
			for index := range 6 {
				client := server.Dial(t)
				expectOK(t, client, "AUTH", "app", "x")
				if index%2 == 0 {
					if err := client.Send("BLPOP", "list", "0"); err != nil {
						t.Fatal(err)
					}
				}
				clients = append(clients, client)
			}
			awaitField(t, conn, "clients", "blocked_clients", 3)
			list := string(do(t, conn, "CLIENT", "LIST", "USER", "app").Text)
			if strings.Count(list, " user=app ") != 6 {
				t.Errorf("CLIENT LIST: %s", list)
			}
			if reply := do(t, conn, "ACL", "DELUSER", "app"); reply.Int() != 1 {
				t.Errorf("ACL DELUSER answered %s", reply)
			}
			list = string(do(t, conn, "CLIENT", "LIST").Text)
			if strings.Contains(list, "user=app") {
				t.Errorf("CLIENT LIST: %s", list)
			}
			for _, client := range clients {
				client.Timeout = closeTimeout
				if reply, err := client.Receive(); err == nil {
					t.Errorf("a client of a deleted user was answered %s", reply)
				}
			}
			do(t, conn, "RPUSH", "list", "v")
			if reply := do(t, conn, "LLEN", "list"); reply.Int() != 1 {
				t.Errorf("a client that was gone took an element: %s", reply)
			}
		})
	}
}

// TestACL_ProtectedClientOfADeletedUserIsShown until it goes by itself, and can do nothing.
func TestACL_ProtectedClientOfADeletedUserIsShown(t *testing.T) {
	for _, kind := range kindsWithUsers {
		t.Run(string(kind), func(t *testing.T) {
			directives := append(workers(kind), "--enable-debug-command", "yes")
			server := instance.Start(t, kind, directives...)
			conn, client := server.Dial(t), server.Dial(t)
			expectOK(t, conn, "ACL", "SETUSER", "app", "on", "nopass", "~*", "+@all")
			expectOK(t, client, "AUTH", "app", "x")
			id := fmt.Sprint(do(t, client, "CLIENT", "ID").Int())
			expectOK(t, conn, "DEBUG", "PROTECT-CLIENT", id)
			do(t, conn, "ACL", "DELUSER", "app")
			line := string(do(t, conn, "CLIENT", "LIST", "ID", id).Text)
			if !strings.Contains(line, " flags=A ") {
				t.Errorf("CLIENT LIST: %s", line)
			}
			client.Timeout = time.Second
			if reply, err := client.Do("SET", "k", "v"); err == nil {
				t.Errorf("it was answered %s", reply)
			}
			if reply := do(t, conn, "EXISTS", "k"); reply.Int() != 0 {
				t.Error("it has set a key")
			}
		})
	}
}

func awaitField(t *testing.T, conn *wire.Conn, section, name string, want int) {
	t.Helper()
	deadline := time.Now().Add(closeTimeout)
	for field(t, conn, section, name) != want {
		if time.Now().After(deadline) {
			t.Fatalf("%s is not %d", name, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
