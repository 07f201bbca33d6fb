package goredis

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

	"github.com/redis/go-redis/v9"
	"go.tidemill.dev/client/internal/leakcheck"
	"go.tidemill.dev/client/internal/listening"
)

// testServer is a server process that a test started and ends.
type testServer struct {
	address string
	command *exec.Cmd
}

// serverBinary prefers the server that the project builds with, then what is installed.
func serverBinary(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"valkey-server", "../../../build/tools/bin/valkey-server",
		"redis-server"} {
		if path, err := exec.LookPath(name); err == nil {
			path, _ = filepath.Abs(path)
			return path
		}
	}
	t.Skip("no valkey-server or redis-server is installed")
	return ""
}

func startServer(t testing.TB, arguments ...string) *testServer {
	t.Helper()
	return startServerWith(t, "", append([]string{"--save", "", "--appendonly", "no"},
		arguments...)...)
}

// freePort is free together with the one 10,000 above, on which a cluster's nodes talk.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := listener.Addr().(*net.TCPAddr).Port
		above, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+10000))
		listener.Close()
		if err == nil {
			above.Close()
			return port
		}
	}
	t.Fatal("no free ports")
	return 0
}

// startServerWith takes a configuration file, or none. It starts the server again when its port was
// taken since it was chosen.
func startServerWith(t testing.TB, config string, arguments ...string) *testServer {
	t.Helper()
	for range 10 {
		if s := tryStart(t, config, arguments); s != nil {
			return s
		}
	}
	t.Fatalf("the server ends whatever its port is: %q", arguments)
	return nil
}

// tryStart returns nil if the server ended before it listened.
func tryStart(t testing.TB, config string, arguments []string) *testServer {
	t.Helper()
	port := freePort(t)
	s := &testServer{address: fmt.Sprintf("127.0.0.1:%d", port)}
	arguments = append([]string{"--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--dir",
		t.TempDir(),
		"--loglevel", "warning"}, arguments...)
	if config != "" {
		arguments = append([]string{config}, arguments...)
	}
	s.command = exec.Command(serverBinary(t), arguments...)
	s.command.Stderr = os.Stderr
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = s.command.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = s.command.Process.Kill()
		<-ended
	})
	ports := []int{port}
	if slices.Contains(arguments, "--cluster-enabled") {
		ports = append(ports, port+10000)
	}
	listens := false
	waitFor(t, "the server", func() bool {
		select {
		case <-ended:
			return true
		default:
			listens = listening.At(s.command.Process.Pid, ports...)
			return listens
		}
	})
	if !listens {
		return nil
	}
	return s
}

func (s *testServer) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := s.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// plain is a client of go-redis itself, to look at the server from outside. It is named "outside".
func (s *testServer) plain(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.address, ClientName: "outside", PoolSize: 1})
	t.Cleanup(func() { client.Close() })
	return client
}

// connections counts the real connections to the server, that of outside excluded.
func connections(t testing.TB, outside *redis.Client) (count int) {
	t.Helper()
	list, err := outside.ClientList(context.Background()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(list), "\n") {
		if !strings.Contains(line, "name=outside") {
			count++
		}
	}
	return count
}

func newTestClient(t testing.TB, s *testServer, change ...func(*redis.Options)) *redis.Client {
	t.Helper()
	options := &redis.Options{Addr: s.address}
	for _, apply := range change {
		apply(options)
	}
	client := NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

func waitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute) // finds what hangs, not what is slow
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// checkLeaks comes first in every test that opens something.
func checkLeaks(t testing.TB) {
	t.Helper()
	leakcheck.Check(t)
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
