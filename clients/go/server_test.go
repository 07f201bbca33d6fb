package tidemill

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.tidemill.dev/client/internal/leakcheck"
	"go.tidemill.dev/client/internal/listening"
)

// testServer is a server process that a test started and ends.
type testServer struct {
	address       string
	port, busPort int
	command       *exec.Cmd
	ended         chan struct{} // closed when the process has ended
	binary        string
	args          []string // with portWord and busPortWord in place of its ports
}

// Words in the arguments of a server in place of its port and of its port for the cluster's bus.
const (
	portWord    = "PORT"
	busPortWord = "BUS-PORT"
)

// serverBinaries lists what the tests run against, the newest first and the oldest last; an absent
// one is reported and skipped. docs/versions.md says which versions these are.
var serverBinaries = []string{
	"valkey-server", "redis-server", "valkey-server-9.0", "redis-server-6.2",
}

func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// tidemillServer is the server of this project; TIDEMILL_SERVER names its program.
const tidemillServer = "tidemill-server"

// findServer looks for a server on PATH and where `make setup` puts it.
func findServer(t testing.TB, binary string) string {
	t.Helper()
	if binary == tidemillServer {
		path := os.Getenv("TIDEMILL_SERVER")
		if path == "" {
			t.Skip("TIDEMILL_SERVER is not set")
		}
		return path
	}
	installed, err := filepath.Abs(filepath.Join("../../build/tools/bin", binary))
	if err != nil {
		t.Fatal(err)
	}
	for _, candidate := range []string{binary, installed} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	t.Skipf("%s is neither on PATH nor at %s; `make setup` installs it", binary, installed)
	return ""
}

func startServer(t testing.TB, binary string, args ...string) *testServer {
	t.Helper()
	path := findServer(t, binary)
	args = append([]string{"--port", portWord, "--bind", "127.0.0.1", "--save", "",
		"--appendonly", "no",
		"--dir", t.TempDir(), "--loglevel", "warning"}, args...)
	if binary == tidemillServer {
		// Two on any machine: on two CPUs it has one by default.
		args = append([]string{"server", "--worker-threads", "2"}, args...)
	}
	s := &testServer{binary: path, args: args}
	s.startOnFreePorts(t)
	t.Cleanup(s.stop)
	return s
}

// startOnFreePorts starts the server on ports that were free a moment ago, and on others when one
// of them was taken since: by another server, or by an outgoing connection of anybody.
func (s *testServer) startOnFreePorts(t testing.TB) {
	t.Helper()
	for range 10 {
		s.port, s.busPort = freePort(t), freePort(t)
		s.address = fmt.Sprintf("127.0.0.1:%d", s.port)
		if s.tryStart(t) {
			return
		}
	}
	t.Fatalf("%s ends whatever its ports are: %q", s.binary, s.args)
}

// start starts the server again, where it was.
func (s *testServer) start(t testing.TB) {
	t.Helper()
	waitFor(t, 10*time.Second, "server at "+s.address, func() bool { return s.tryStart(t) })
}

// tryStart returns false if the server ended before it listened at its ports.
func (s *testServer) tryStart(t testing.TB) bool {
	t.Helper()
	args := slices.Clone(s.args)
	for i, arg := range args {
		switch arg {
		case portWord:
			args[i] = fmt.Sprint(s.port)
		case busPortWord:
			args[i] = fmt.Sprint(s.busPort)
		}
	}
	command, ended := exec.Command(s.binary, args...), make(chan struct{})
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	s.command, s.ended = command, ended
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	hasEnded := func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	ports := []int{s.port}
	if slices.Contains(s.args, busPortWord) {
		ports = append(ports, s.busPort)
	}
	waitFor(t, 10*time.Second, "server at "+s.address, func() bool {
		return hasEnded() || listening.At(command.Process.Pid, ports...)
	})
	return !hasEnded()
}

// stop kills the process; a test that wants a crash calls it too.
func (s *testServer) stop() {
	_ = s.command.Process.Kill()
	<-s.ended
}

// busyMachine is the least time that anything is waited for: limits find what hangs, not what is
// slow.
const busyMachine = time.Minute

func waitFor(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	limit = max(limit, busyMachine)
	deadline := time.Now().Add(limit)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", limit, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// eachServer runs a test against every server there is.
func eachServer(t *testing.T, test func(t *testing.T, s *testServer)) {
	for _, binary := range serverBinaries {
		t.Run(strings.TrimSuffix(binary, "-server"), func(t *testing.T) {
			checkLeaks(t)
			test(t, startServer(t, binary))
		})
	}
}

// eachCachingServer is eachServer with the server of this project among them.
func eachCachingServer(t *testing.T, test func(t *testing.T, s *testServer)) {
	eachServer(t, test)
	t.Run("tidemill", func(t *testing.T) {
		checkLeaks(t)
		test(t, startServer(t, tidemillServer))
	})
}

// checkLeaks comes first in every test that opens something.
func checkLeaks(t testing.TB) {
	t.Helper()
	leakcheck.Check(t)
}

func newTestClient(t testing.TB, address string, change ...func(*Options)) *Client {
	t.Helper()
	options := Options{Address: address}
	for _, apply := range change {
		apply(&options)
	}
	client, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func testContext(t testing.TB, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), max(limit, busyMachine))
	t.Cleanup(cancel)
	return ctx
}

func (s *testServer) resume(t testing.TB) { s.signal(t, syscall.SIGCONT) }

// pause returns once all threads have stopped, of which a server may have many.
func (s *testServer) pause(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGSTOP)
	waitFor(t, time.Second, "the server to stop", func() bool {
		states, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.command.Process.Pid))
		for _, path := range states {
			stat, err := os.ReadFile(path)
			_, state, found := strings.Cut(string(stat), ") ")
			if err == nil && found && !strings.HasPrefix(state, "T") {
				return false
			}
		}
		return true
	})
}

func (s *testServer) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := s.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}
