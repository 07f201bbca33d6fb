package process

import (
	"strings"
	"testing"

	"tidemill/tests/internal/instance"
)

// renames are directives that give commands other names, take one's name for another, and disable
// one.
var renames = []string{
	"--rename-command", "CONFIG", "secret-config", "--rename-command", "get", "Hole",
	"--rename-command", "SET", "GET", "--rename-command", "FLUSHALL", "",
}

// conversation touches each place that reads the name of a command.
const conversation = `CONFIG GET maxmemory
secret-config GET maxmemory
SECRET-CONFIG
secret-config GET
secret-config nothing
GET a 1
HOLE a
hole
SET a 2
FLUSHALL
flushall async
COMMAND COUNT
COMMAND INFO get hole config secret-config flushall set secret-config|get config|get
COMMAND DOCS set flushall secret-config|nope
COMMAND GETKEYS hole a
COMMAND GETKEYS set a 1
COMMAND GETKEYSANDFLAGS get x y
COMMAND LIST FILTERBY PATTERN get
COMMAND LIST FILTERBY PATTERN flushall
COMMAND LIST FILTERBY PATTERN hole
ACL SETUSER bob on nopass ~* +config +get +flushall
ACL SETUSER bob +secret-config
ACL SETUSER bob +hole
ACL SETUSER bob -secret-config|get
ACL SETUSER bob +config|get
ACL LIST
ACL DRYRUN default hole a
ACL DRYRUN default get a
ACL DRYRUN default set a b
ACL DRYRUN bob get a 1
ACL DRYRUN bob hole a
ACL DRYRUN bob secret-config get
ACL DRYRUN bob secret-config get x
ACL DRYRUN bob config get x
LATENCY HISTOGRAM set
LATENCY HISTOGRAM flushall
LATENCY HISTOGRAM config
EVAL return(redis.call('hole','a')) 0
EVAL return(redis.call('set','a','b')) 0
EVAL return(redis.call('get','a','b')) 0
EVAL return(redis.call('flushall')) 0
MULTI
FLUSHALL
HOLE a
EXEC
MULTI
GET a 7
HOLE a
EXEC
AUTH bob x
hole a
get a 1
ACL LIST`

// Commands answer to their new names as in Valkey, and are called by their own ones where Valkey
// does so.
func TestRenameCommand_AnswersAsValkeyDoes(t *testing.T) {
	answers := map[instance.Kind][]string{}
	lines := strings.Split(conversation, "\n")
	for _, kind := range kindsWithUsers {
		conn := instance.Start(t, kind, append(workers(kind), renames...)...).Dial(t)
		for _, line := range lines {
			reply := do(t, conn, strings.Fields(line)...)
			answer := reply.String()
			if line == "COMMAND COUNT" {
				// The servers have different commands.
				answer = string(reply.Kind)
			}
			answers[kind] = append(answers[kind], answer)
		}
	}
	for index, line := range lines {
		got, want := answers[instance.Subject][index], answers[instance.Valkey][index]
		if got != want {
			t.Errorf("%s\nanswered %s\nValkey   %s", line, got, want)
		}
	}
}

// The log calls commands by their own names: it is loaded whatever they are called then.
func TestRenameCommand_LeavesTheLogAlone(t *testing.T) {
	directory := t.TempDir()
	logged := []string{"--appendonly", "yes"}
	start := func(directives ...string) *instance.Server {
		directives = append(directives, logged...)
		server, err := instance.Launch(instance.Subject, directory, directives...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Stop() })
		return server
	}
	more := []string{"--rename-command", "BLPOP", "TAKE", "--rename-command", "RPUSH", "PUT"}
	renamed := start(append(more, renames...)...)
	conn := renamed.Dial(t)
	expectOK(t, conn, "GET", "a", "1")
	// A transaction, and a client that waited.
	waiter := renamed.Dial(t)
	if err := waiter.Send("TAKE", "list", "0"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a client that waits", func() bool {
		return field(t, conn, "clients", "blocked_clients") == 1
	})
	for _, words := range [][]string{
		{"MULTI"}, {"PUT", "list", "1", "2"}, {"GET", "c", "1"}, {"EXEC"},
	} {
		if reply := do(t, conn, words...); reply.IsError() {
			t.Errorf("%q answered %s", words, reply)
		}
	}
	do(t, conn, "EVAL", "redis.call('get', 'b', redis.call('hole', 'a'))", "0")
	if err := renamed.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, directives := range [][]string{nil, {"--rename-command", "SET", "",
		"--rename-command", "RPUSH", "LPOP2", "--rename-command", "LPOP", "RPUSH"}} {
		server := start(directives...)
		conn := server.Dial(t)
		for _, key := range []string{"a", "b", "c"} {
			if reply := do(t, conn, "GET", key); string(reply.Text) != "1" {
				t.Errorf("%q: %s holds %s", directives, key, reply)
			}
		}
		if reply := do(t, conn, "LRANGE", "list", "0", "-1"); len(reply.Items) != 1 {
			t.Errorf("%q: the list holds %s", directives, reply)
		}
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// A line that names no command, or a name that is taken, stops the start; all such lines are told.
func TestRenameCommand_WrongLinesStopTheStart(t *testing.T) {
	output, err := startToEnd(t, "--rename-command", "nothing", "x", "--rename-command", "GET",
		"set", "--rename-command", "config|get", "y")
	if err == nil {
		t.Error("the server started")
	}
	for _, wanted := range []string{
		"*** FATAL COMMAND LINE ERROR (Tidemill ",
		`command line: 'rename-command "nothing" "x"': No such command in rename-command; ` +
			`accepted: a command and its new name, "" for none`,
		`command line: 'rename-command "GET" "set"': Target command name already exists`,
	} {
		if !strings.Contains(output, wanted) {
			t.Errorf("no %q in\n%s", wanted, output)
		}
	}
	if output, err = startToEnd(t, "--rename-command", "get"); err == nil ||
		!strings.Contains(output, "accepted: a command and its new name") {
		t.Errorf("a line without a new name: %v\n%s", err, output)
	}
}
