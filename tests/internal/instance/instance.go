// Package instance starts and stops the servers that the tests run against: the server under test
// and the two oracles.
//
// Every server runs in a directory of its own, on a port that was free a moment ago (retried when
// somebody was faster), and ends with the test: by Stop, or by the kernel when the test process
// dies first. Only processes started here are ever signalled.
package instance

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tidemill/tests/internal/wire"
)

// OtherPort is the word, among directives, for a port beside the server's own: that of metrics or
// of TLS. Each attempt to start the server draws a new one. A port that the test drew by itself,
// and that another process has taken meanwhile, would end all attempts.
const OtherPort = "{other-port}"

// Kind names which server program to start.
type Kind string

// The servers that tests know.
const (
	// Subject is the server under test: TIDEMILL_SERVER, by default target/release/tidemill.
	Subject Kind = "subject"
	// Valkey is the first oracle: VALKEY_SERVER, by default build/tools/bin/valkey-server.
	Valkey Kind = "valkey"
	// Redis is the second oracle: REDIS_SERVER, by default redis-server of the PATH.
	Redis Kind = "redis"
	// Floor is the do-nothing server of the benchmarks: FLOOR_SERVER, by default build/bench/floor.
	Floor Kind = "floor"
)

const (
	startAttemptsMax = 20
	startTimeout     = 20 * time.Second
	stopTimeout      = 30 * time.Second
)

// Root returns the top directory of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// Binary returns the program of a kind, as the environment or the default names it.
func Binary(kind Kind) string {
	choose := func(variable, fallback string) string {
		if path := os.Getenv(variable); path != "" {
			return path
		}
		return fallback
	}
	switch kind {
	case Subject:
		return choose("TIDEMILL_SERVER", filepath.Join(Root(), "target", "release", "tidemill"))
	case Valkey:
		return choose("VALKEY_SERVER",
			filepath.Join(Root(), "build", "tools", "bin", "valkey-server"))
	case Floor:
		return choose("FLOOR_SERVER", filepath.Join(Root(), "build", "bench", "floor"))
	default:
		return choose("REDIS_SERVER", "redis-server")
	}
}

// SubjectIsTidemill tells whether the server under test is Tidemill itself and not a stand-in: only
// it knows Tidemill's own directives.
func SubjectIsTidemill() bool {
	return strings.HasPrefix(filepath.Base(Binary(Subject)),
		"tidemill")
}

// Server is one running server.
type Server struct {
	Kind    Kind
	Address string
	Port    int
	// OtherPort is the port in the place of the word OtherPort; 0 without one.
	OtherPort int
	PID       int
	// Directory holds its log and is its working directory.
	Directory string

	process *exec.Cmd
	exited  chan struct{}
	exitErr error
	stop    sync.Once
}

var errPortTaken = errors.New("port was taken")

// Start runs a server with further directives (`--name`, `value`, ...) and stops it when the test
// ends. A server that crashed in the meantime fails the test.
func Start(t testing.TB, kind Kind, directives ...string) *Server {
	t.Helper()
	server, err := Launch(kind, t.TempDir(), directives...)
	if err != nil {
		t.Fatalf("start %s: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	})
	return server
}

// Launch runs a server outside of a test; the caller stops it.
func Launch(kind Kind, directory string, directives ...string) (*Server, error) {
	return LaunchOn("", kind, directory, directives...)
}

// LaunchLoading is Launch for a server that has to load: it returns as soon as the server answers,
// and it may answer LOADING.
func LaunchLoading(kind Kind, directory string, directives ...string) (*Server, error) {
	return launch(kind, directory, nil, isLoadingOrReady, directives)
}

// LaunchOn runs a server on a list of CPUs as taskset names them; all CPUs when the list is empty.
// On a list its placement decides how many workers it has, unless the directives do.
func LaunchOn(cpus string, kind Kind, directory string, directives ...string) (*Server, error) {
	var wrapper []string
	if cpus != "" {
		wrapper = []string{"taskset", "-c", cpus}
		directives = append(workers(kind, 0), directives...)
	}
	return launch(kind, directory, wrapper, isReady, directives)
}

// LaunchUnder runs a server by a command that ends in executing its arguments.
func LaunchUnder(
	wrapper []string, kind Kind, directory string, directives ...string,
) (*Server, error) {
	return launch(kind, directory, wrapper, isReady, directives)
}

// isReady judges the answer to PING.
func isReady(answer string) bool { return answer == "PONG" }

func isLoadingOrReady(answer string) bool {
	return isReady(answer) || strings.HasPrefix(answer, "LOADING ")
}

func launch(
	kind Kind, directory string, wrapper []string, isEnough func(string) bool,
	directives []string,
) (*Server, error) {
	var err error
	for range startAttemptsMax {
		var server *Server
		server, err = launchOnce(kind, directory, wrapper, isEnough, directives)
		if err == nil {
			return server, nil
		}
		if !errors.Is(err, errPortTaken) {
			return nil, err
		}
	}
	return nil, err
}

// workers are the directives for a number of workers, which only Tidemill has; 0 is its default.
func workers(kind Kind, count int) []string {
	if kind != Subject || !SubjectIsTidemill() {
		return nil
	}
	return []string{"--worker-threads", strconv.Itoa(count)}
}

// Command builds the command line of a server without starting it. Tidemill has two workers, on
// any machine, unless the directives say otherwise (the last of a name counts): most races need
// two, and by default it has one on two CPUs.
func Command(kind Kind, port int, directives ...string) *exec.Cmd {
	arguments := []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", ""}
	arguments = append(arguments, workers(kind, 2)...)
	arguments = append(arguments, directives...)
	if kind == Subject && SubjectIsTidemill() {
		arguments = append([]string{"server"}, arguments...)
	}
	command := exec.Command(Binary(kind), arguments...)
	// Children die with the test process, however it ends.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}

// FreePort returns a port that nobody listened on a moment ago.
func FreePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// withOtherPort puts a port in the place of each word OtherPort, and returns it; 0 without one.
func withOtherPort(directives []string) (filled []string, port int, err error) {
	if !slices.Contains(directives, OtherPort) {
		return directives, 0, nil
	}
	if port, err = FreePort(); err != nil {
		return nil, 0, err
	}
	for _, word := range directives {
		if word == OtherPort {
			word = strconv.Itoa(port)
		}
		filled = append(filled, word)
	}
	return filled, port, nil
}

func launchOnce(
	kind Kind, directory string, wrapper []string, isEnough func(string) bool,
	directives []string,
) (*Server, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	directives, otherPort, err := withOtherPort(directives)
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp(directory, "server-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := Command(kind, port, directives...)
	if len(wrapper) > 0 {
		wrapped := exec.Command(wrapper[0], append(wrapper[1:len(wrapper):len(wrapper)],
			command.Args...)...)
		wrapped.SysProcAttr = command.SysProcAttr
		command = wrapped
	}
	command.Dir, command.Stdout, command.Stderr = directory, log, log
	server := &Server{
		Kind: kind, Port: port, Address: "127.0.0.1:" + strconv.Itoa(port),
		OtherPort: otherPort, Directory: directory, process: command, exited: make(chan struct{}),
	}
	started := make(chan error, 1)
	go server.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	server.PID = command.Process.Pid
	if err := server.awaitReady(log.Name(), isEnough); err != nil {
		_ = server.Stop()
		return nil, err
	}
	return server, nil
}

// run starts the process and waits for it on one thread that lives as long as the process: the
// parent-death signal is sent when the starting thread ends, and Go ends threads that it does not
// need.
func (s *Server) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := s.process.Start()
	started <- err
	if err != nil {
		return
	}
	s.exitErr = s.process.Wait()
	close(s.exited)
}

func (s *Server) awaitReady(log string, isEnough func(string) bool) error {
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		select {
		case <-s.exited:
			text, _ := os.ReadFile(log)
			if strings.Contains(strings.ToLower(string(text)), "address already in use") {
				return errPortTaken
			}
			return fmt.Errorf("ended at start (%v):\n%s", s.exitErr, tail(text))
		default:
		}
		if listens(s.PID, s.Port) && s.answersPing(isEnough) {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	text, _ := os.ReadFile(log)
	return fmt.Errorf("did not answer PING within %v:\n%s", startTimeout, tail(text))
}

func (s *Server) answersPing(isEnough func(string) bool) bool {
	conn, err := wire.Dial(s.Address)
	if err != nil {
		return false
	}
	conn.Timeout = time.Second
	reply, err := conn.Do("PING")
	if err != nil {
		conn.Close()
		return false
	}
	// A test that counts clients does not find this one.
	if err := conn.Finish(); err != nil {
		return false
	}
	return isEnough(string(reply.Text)) || s.Kind == Floor
}

func tail(text []byte) []byte { return text[max(0, len(text)-4000):] }

// Dial connects to the server and closes the connection when the test ends.
func (s *Server) Dial(t testing.TB) *wire.Conn {
	t.Helper()
	conn, err := wire.Dial(s.Address)
	if err != nil {
		t.Fatalf("connect to %s: %v", s.Kind, err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Running tells whether the process still runs.
func (s *Server) Running() bool {
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// Log returns all that the server has printed.
func (s *Server) Log() string {
	files, _ := filepath.Glob(filepath.Join(s.Directory, "server-*.log"))
	var all strings.Builder
	for _, file := range files {
		text, _ := os.ReadFile(file)
		all.Write(text)
	}
	return all.String()
}

// AwaitEnd waits until the server has ended by itself, and returns how; a server that still runs
// after the patience is killed.
func (s *Server) AwaitEnd(patience time.Duration) (err error) {
	s.stop.Do(func() {
		select {
		case <-s.exited:
		case <-time.After(patience):
			_ = s.process.Process.Kill()
			<-s.exited
		}
		err = s.exitErr
	})
	return err
}

// Stop ends the server by SIGTERM, then SIGKILL. The error tells of a server that had crashed
// before or that did not end by itself.
func (s *Server) Stop() (err error) {
	s.stop.Do(func() {
		select {
		case <-s.exited:
			err = fmt.Errorf("had ended before the test did (%v):\n%s", s.exitErr,
				tail([]byte(s.Log())))
			return
		default:
		}
		_ = s.process.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.exited:
		case <-time.After(stopTimeout):
			_ = s.process.Process.Kill()
			<-s.exited
			err = fmt.Errorf("did not end within %v of SIGTERM", stopTimeout)
		}
	})
	return err
}

// Kill ends the server by SIGKILL, as a crash would, and waits for its end.
func (s *Server) Kill() {
	s.stop.Do(func() {
		_ = s.process.Process.Kill()
		<-s.exited
	})
}
