package process

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

func freePort(t *testing.T) int {
	t.Helper()
	port, err := instance.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// move lets a server listen on another port and nowhere else.
func move(t *testing.T, conn *wire.Conn) (port int) {
	t.Helper()
	var reply wire.Reply
	// Another process may take the port first.
	for range 5 {
		port = freePort(t)
		if reply = do(t, conn, "CONFIG", "SET", "port", strconv.Itoa(port)); !reply.IsError() {
			return port
		}
	}
	t.Fatal(reply)
	return 0
}

// isOpen tells whether a socket listens on a port at this moment.
func isOpen(port int) bool {
	conn, err := net.DialTimeout("tcp", fmt.Sprint("127.0.0.1:", port), closeTimeout)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// requireService uses 16 connections to a port: enough for each of two workers to get some from the
// kernel.
func requireService(t *testing.T, port int) {
	t.Helper()
	for range 16 {
		conn, err := wire.Dial(fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.Timeout = closeTimeout
		if reply := do(t, conn, "PING"); string(reply.Text) != "PONG" {
			t.Error(reply)
		}
	}
}

// workers are the directives that give the server under test two workers.
func workers(kind instance.Kind) []string {
	if kind == instance.Subject && instance.SubjectIsTidemill() {
		return []string{"--worker-threads", "2"}
	}
	return nil
}

// A port that is refused with the rest of its CONFIG SET is not taken: the server listens where it
// did.
func TestConfigSetPort_StaysWhenTheRestFails(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		directory := t.TempDir()
		if err := os.WriteFile(filepath.Join(directory, "appendonlydir"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		server, err := instance.Launch(kind, directory, workers(kind)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Kill)
		conn := server.Dial(t)
		port := strconv.Itoa(freePort(t))
		reply := do(t, conn, "CONFIG", "SET", "port", port, "appendonly", "yes")
		if !reply.IsError() {
			t.Fatalf("a log was opened in a file: %v", reply)
		}
		_, present, _ := strings.Cut(server.Address, ":")
		number, err := strconv.Atoi(present)
		if err != nil {
			t.Fatal(err)
		}
		requireService(t, number)
	})
}

// A time of keepalive that the kernel refuses is no reason to refuse clients.
func TestKeepalive_LongerThanTheKernelTakes(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind, "--tcp-keepalive", "86400")
		conn := server.Dial(t)
		if reply := do(t, conn, "PING"); string(reply.Text) != "PONG" {
			t.Error(reply)
		}
	})
}

func TestConfigSetPort_MovesListenersAndKeepsConnections(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind, workers(kind)...)
		conn := server.Dial(t)
		for range 3 {
			port := move(t, conn)
			if isOpen(server.Port) {
				t.Errorf("port %d is still open", server.Port)
			}
			requireService(t, port)
			if shown := field(t, conn, "server", "tcp_port"); shown != port {
				t.Errorf("INFO shows port %d after CONFIG SET port %d", shown, port)
			}
			want := fmt.Sprintf("listener0:name=tcp,bind=127.0.0.1,port=%d\r\n", port)
			if info := string(do(t, conn, "INFO", "server").Text); !strings.Contains(info, want) {
				t.Errorf("INFO shows no %s", want)
			}
			server.Port = port
		}
		expectOK(t, conn, "CONFIG", "SET", "port", "0")
		if isOpen(server.Port) {
			t.Error("CONFIG SET port 0 leaves the port open")
		}
		if reply := do(t, conn, "PING"); string(reply.Text) != "PONG" {
			t.Error(reply)
		}
	})
}

func TestConfigSetBind_ThatCannotBeHadChangesNothing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, takenPort, _ := net.SplitHostPort(taken.Addr().String())
	var replies [2]string
	for index, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		server := instance.Start(t, kind, workers(kind)...)
		conn, free := server.Dial(t), strconv.Itoa(freePort(t))
		for _, call := range [][]string{
			{"port", takenPort}, {"PORT", takenPort}, {"bind", "192.0.2.1"},
			{"bind", "127.0.0.1 192.0.2.1"},
			{"bind", "127.0.0.1 127.0.0.1"}, {"bind", "no..host"},
			{"bind", "192.0.2.1", "port", free},
			{"port", free, "bind", "192.0.2.1"}, {"port", "65536"}, {"port", takenPort, "hz", "20"},
			{"bind", strings.Repeat("127.0.0.1 ", 17)},
		} {
			reply := do(t, conn, append([]string{"CONFIG", "SET"}, call...)...)
			replies[index] += strings.ReplaceAll(fmt.Sprintf("%.40q %s\n", call, reply), free,
				"free")
			requireService(t, server.Port)
		}
		for _, name := range []string{"bind", "port", "hz"} {
			value := do(t, conn, "CONFIG", "GET", name).String()
			replies[index] += strings.ReplaceAll(value, strconv.Itoa(server.Port), "own") + "\n"
		}
		expectOK(t, conn, "CONFIG", "SET", "bind", "-192.0.2.1 127.0.0.1")
		requireService(t, server.Port)
	}
	want, got := strings.ReplaceAll(replies[0], takenPort, "taken"),
		strings.ReplaceAll(replies[1], takenPort, "taken")
	if want != got {
		t.Errorf("valkey:\n%s\nsubject:\n%s", want, got)
	}
}

// While listeners come and go, connections that are there are served.
func TestConfigSetPort_BesideTraffic(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "2")
	conn := server.Dial(t)
	stop, ended := make(chan struct{}), make(chan error)
	const clients = 4
	for range clients {
		busy := server.Dial(t)
		// A connection that nobody has accepted yet goes with its listener, as in Valkey.
		do(t, busy, "PING")
		go func() {
			for {
				select {
				case <-stop:
					ended <- nil
					return
				default:
				}
				if _, err := busy.Do("INCR", "counter"); err != nil {
					ended <- err
					return
				}
			}
		}()
	}
	for range 50 {
		requireService(t, move(t, conn))
	}
	close(stop)
	for range clients {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestDirectory_IsTheOneThatRelativePathsBeginIn(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		shown := func(server *instance.Server) string {
			return string(do(t, server.Dial(t), "CONFIG", "GET", "dir").Items[1].Text)
		}
		server := instance.Start(t, kind)
		if want, _ := filepath.EvalSymlinks(server.Directory); shown(server) != want {
			t.Errorf("started in %s, CONFIG GET dir shows %s", want, shown(server))
		}
		directory, _ := filepath.EvalSymlinks(t.TempDir())
		other := instance.Start(t, kind, "--dir", directory, "--pidfile", "here.pid", "--daemonize",
			"no")
		if shown(other) != directory {
			t.Errorf("CONFIG GET dir shows %s, not %s", shown(other), directory)
		}
		for deadline := time.Now().Add(closeTimeout); ; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(directory, "here.pid")); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the process's number is not in its directory")
			}
		}
		const refusal = "-ERR CONFIG SET failed (possibly related to argument 'dir') - " +
			"can't set protected config"
		reply := do(t, other.Dial(t), "CONFIG", "SET", "dir", "/")
		if reply.String() != refusal {
			t.Error(reply)
		}
	})
}
