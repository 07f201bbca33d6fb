package process

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// crashes are ways to crash a server, each with the reason that the log gives and the signal that
// ends the process.
var crashes = map[string]struct {
	reason string
	signal syscall.Signal
}{
	"PANIC":    {`panic at \S+debug\.rs:\d+:\d+: DEBUG PANIC was called`, syscall.SIGABRT},
	"OOM":      {`memory allocation of 9223372036854775807 bytes failed`, syscall.SIGABRT},
	"SEGFAULT": {`signal 11 SIGSEGV at address 0x[0-9a-f]+`, syscall.SIGSEGV},
}

const crashedLine = `(?m)^\d+:M \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d\.\d{3} # Tidemill ` +
	`\d+\.\d+\.\d+ commit ([0-9a-f]{12}|unknown) crashed in thread `

// requireCrash wants exactly one line about a crash, with its reason.
func requireCrash(t *testing.T, text, thread, reason string) {
	t.Helper()
	if !regexp.MustCompile(crashedLine + thread + ": " + reason + "$").MatchString(text) {
		t.Errorf("no reason in the log:\n%s", text)
	}
	if count := strings.Count(text, " crashed in thread "); count != 1 {
		t.Errorf("%d reasons in the log:\n%s", count, text)
	}
}

// crash makes the server crash by a command, which is never answered.
func crash(t *testing.T, address, how string) {
	t.Helper()
	conn, err := wire.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if reply, err := conn.Do("DEBUG", how); err == nil {
		t.Errorf("DEBUG %s answered %s", how, reply)
	}
}

// In the background there is no standard error: the log file has the reason, also one that was
// rotated, and one whose folder has gone.
func TestCrash_LeavesItsReasonInTheLogFile(t *testing.T) {
	for how, want := range crashes {
		for _, place := range []string{"log", "rotated", "folder renamed"} {
			t.Run(how+" "+place, func(t *testing.T) {
				socket := filepath.Join(t.TempDir(), "socket")
				directory := filepath.Join(t.TempDir(), "here")
				if err := os.Mkdir(directory, 0o700); err != nil {
					t.Fatal(err)
				}
				pidFile, logFile := filepath.Join(t.TempDir(), "pid"),
					filepath.Join(directory, "log")
				command := instance.Command(instance.Subject, 0, "--unixsocket", socket,
					"--daemonize", "yes", "--pidfile", pidFile,
					"--logfile", logFile, "--enable-debug-command", "yes", "--worker-threads", "2")
				output, err := runToEnd(t, command)
				if err != nil {
					t.Fatalf("the first process: %v:\n%s", err, output)
				}
				pid := 0
				waitFor(t, "answer", func() bool {
					text, _ := os.ReadFile(pidFile)
					pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
					return pid > 1 && answers(socket)
				})
				switch place {
				case "rotated":
					err = os.Rename(logFile, logFile+".1")
				case "folder renamed":
					err = os.Rename(directory, directory+".1")
					logFile = filepath.Join(directory+".1", "log")
				}
				if err != nil {
					t.Fatal(err)
				}
				crash(t, socket, how)
				waitFor(t, "end", func() bool { return isGone(pid) })
				text, err := os.ReadFile(logFile)
				if err != nil {
					t.Fatal(err)
				}
				requireCrash(t, string(text), `worker-\d`, want.reason)
			})
		}
	}
}

// Two workers crash together, and the file of the log opens late: the second one waits until the
// first has told its reason.
func TestCrash_OfTwoThreadsTellsTheReasonOfTheFirst(t *testing.T) {
	log, socket := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "socket")
	command := instance.Command(instance.Subject, 0, "--unixsocket", socket, "--logfile", log,
		"--enable-debug-command", "yes", "--worker-threads", "2")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	waitFor(t, "answer", func() bool { return answers(socket) })
	var conns []*wire.Conn
	// Enough for each worker to get some.
	for range 16 {
		conn, err := wire.Dial(socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		do(t, conn, "PING")
		conns = append(conns, conn)
	}
	// Opening it for writing blocks until there is a reader.
	if err := errors.Join(syscall.Mkfifo(log+"2", 0o600), os.Rename(log+"2", log)); err != nil {
		t.Fatal(err)
	}
	for _, conn := range conns {
		if err := conn.Send("DEBUG", "SEGFAULT"); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(200 * time.Millisecond)
	reader, err := os.OpenFile(log, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var text []byte
	// Nothing is there before one of them has opened it.
	waitFor(t, "reason", func() bool {
		text, err = io.ReadAll(reader)
		return err != nil || len(text) > 0
	})
	if err != nil {
		t.Fatal(err)
	}
	requireCrash(t, string(text), `worker-\d`, crashes["SEGFAULT"].reason)
}

// isGone tells whether a process that is no child of the test has ended; its parent may not have
// asked for its status.
func isGone(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(text), ") Z ")
}

// Without a log file the reason is where the log is, and the process ends by the signal, as a core
// file needs.
func TestCrash_EndsByItsSignal(t *testing.T) {
	for how, want := range crashes {
		t.Run(how, func(t *testing.T) {
			text, status := crashed(t, func(server *instance.Server) {
				crash(t, server.Address, how)
			})
			requireCrash(t, text, `worker-\d`, want.reason)
			if status.Signal() != want.signal {
				t.Errorf("ended by %v", status)
			}
		})
	}
	for _, signal := range []syscall.Signal{syscall.SIGSEGV, syscall.SIGABRT, syscall.SIGBUS} {
		t.Run("sent "+signal.String(), func(t *testing.T) {
			text, status := crashed(t, func(server *instance.Server) {
				if err := syscall.Kill(server.PID, signal); err != nil {
					t.Error(err)
				}
			})
			requireCrash(t, text, `\S+`, sentReason)
			if status.Signal() != signal {
				t.Errorf("ended by %v", status)
			}
		})
	}
}

// Whichever thread crashes, the reason says which.
func TestCrash_NamesItsThread(t *testing.T) {
	var names []string
	for first := true; first || len(names) > 0; first = false {
		var name string
		text, status := crashed(t, func(server *instance.Server) {
			pid := server.PID
			threads := threadsByName(t, pid)
			if first {
				// jemalloc lets no signal reach its own thread.
				delete(threads, "jemalloc_bg_thd")
				names = slices.Sorted(maps.Keys(threads))
			}
			name, names = names[0], names[1:]
			// A thread that was just started may not have its name yet.
			waitFor(t, "thread "+name, func() bool {
				threads = threadsByName(t, pid)
				return threads[name] != 0
			})
			_, _, errno := syscall.Syscall(syscall.SYS_TGKILL, uintptr(pid),
				uintptr(threads[name]), uintptr(syscall.SIGSEGV))
			if errno != 0 {
				t.Errorf("%s: %v", name, errno)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
		requireCrash(t, text, regexp.QuoteMeta(name), sentReason)
		if status.Signal() != syscall.SIGSEGV {
			t.Errorf("%s: ended by %v", name, status)
		}
	}
}

// threadsByName has the number of a thread of each name.
func threadsByName(t *testing.T, pid int) map[string]int {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
	if err != nil {
		t.Fatal(err)
	}
	threads := make(map[string]int)
	for _, file := range files {
		number, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		// One that has ended meanwhile has no name.
		if name, err := os.ReadFile(file); err == nil {
			threads[strings.TrimSpace(string(name))] = number
		}
	}
	return threads
}

// sentReason is the reason of a crash by a signal that this process sent.
var sentReason = `signal SIG[A-Z]+ from process ` + strconv.Itoa(os.Getpid())

// crashed runs a server until it has ended by what end does. It returns the server's output and how
// it ended.
func crashed(
	t *testing.T, end func(server *instance.Server),
) (string, syscall.WaitStatus) {
	t.Helper()
	server, err := instance.Launch(instance.Subject, t.TempDir(), "--enable-debug-command", "yes",
		"--metrics-port", instance.OtherPort, "--appendonly", "yes")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	end(server)
	err = server.AwaitEnd(closeTimeout)
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("the server ended with %v", err)
	}
	return server.Log(), exit.Sys().(syscall.WaitStatus)
}
