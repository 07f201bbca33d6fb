package process

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// oneWorker returns directives by which clients that idle for equally long are closed together: one
// worker, and for Valkey a frequent timer.
func oneWorker(kind instance.Kind) []string {
	if kind == instance.Subject && instance.SubjectIsTidemill() {
		return []string{"--worker-threads", "1"}
	}
	return []string{"--hz", "100"}
}

// Only clients that neither send nor receive are closed. No claim here is that something
// is done in time: a connection that was closed must have been idle for long enough, however slow
// the machine is.
func TestTimeout_EndsClientsThatIdleAndNoOthers(t *testing.T) {
	const timeout = 2 * time.Second
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind, append(oneWorker(kind), "--timeout", "2", "--loglevel",
			"verbose")...)
		monitor, waiter, sender, idle := server.Dial(t), server.Dial(t), server.Dial(t),
			server.Dial(t)
		expectOK(t, monitor, "MONITOR")
		if err := waiter.Send("BLPOP", "list", "0"); err != nil {
			t.Fatal(err)
		}
		stop, sent := make(chan struct{}), make(chan error, 1)
		go func() { sent <- sendSlowly(sender, timeout/2, stop) }()
		began := time.Now()
		if count := drain(t, idle); count != 0 || time.Since(began) < timeout/2 {
			t.Errorf("a client that idles was closed after %v and %d bytes", time.Since(began),
				count)
		}
		requireLog(t, server, `- Closing idle client\n`)
		close(stop)
		if err := <-sent; err != nil {
			t.Errorf("a client that was sending a request: %v", err)
		}
		// Having waited for longer than the timeout is not having idled.
		served := time.Now()
		do(t, server.Dial(t), "RPUSH", "list", "element")
		if reply, err := waiter.Receive(); err != nil || len(reply.Items) != 2 {
			t.Errorf("a client that waited got %s, %v", reply, err)
		}
		if drain(t, waiter); time.Since(served) < timeout/2 {
			t.Errorf("a client that waited was closed %v after it was served", time.Since(served))
		}
		if reply, err := monitor.Receive(); err != nil ||
			!strings.Contains(string(reply.Text), `"BLPOP"`) {
			t.Errorf("a monitor got %s, %v", reply, err)
		}
		for line := ""; !strings.Contains(line, `"RPUSH"`); {
			reply, err := monitor.Receive()
			if err != nil {
				t.Fatalf("a monitor that saw nothing for longer than the timeout: %v", err)
			}
			line = string(reply.Text)
		}
	})
}

// sendSlowly sends a request byte by byte until it is told to stop, and then the rest, for the
// reply of which it waits. To be closed is an error unless it had paused for longer than it may.
func sendSlowly(conn *wire.Conn, pauseMax time.Duration, stop <-chan struct{}) error {
	last := time.Now()
	send := func(text string) error {
		paused := time.Since(last)
		if err := conn.SendRaw([]byte(text)); err != nil && paused < pauseMax {
			return fmt.Errorf("%w, %v after its last byte", err, paused)
		}
		last = time.Now()
		return nil
	}
	if err := send("*2\r\n$4\r\nECHO\r\n$1000\r\n"); err != nil {
		return err
	}
	for left := 1000; ; left-- {
		select {
		case <-stop:
			if err := send(strings.Repeat("x", left) + "\r\n"); err != nil {
				return err
			}
			reply, err := conn.Receive()
			if paused := time.Since(last); err != nil && paused < pauseMax {
				return fmt.Errorf("%w, %v after its last byte", err, paused)
			}
			if err == nil && len(reply.Text) != 1000 {
				return fmt.Errorf("ECHO answered %s", reply)
			}
			return nil
		case <-time.After(50 * time.Millisecond):
			if err := send("x"); err != nil {
				return err
			}
		}
	}
}

// keepaliveTicks returns what is left of the keepalive timer of a server's end of a connection, in
// hundredths of a second, if it runs: column `tr` of /proc/net/tcp is 02 then.
func keepaliveTicks(
	t *testing.T, server *instance.Server, conn net.Conn,
) (ticks uint64, runs bool) {
	t.Helper()
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	port := conn.LocalAddr().(*net.TCPAddr).Port
	local, remote := fmt.Sprintf("0100007F:%04X", server.Port), fmt.Sprintf("0100007F:%04X", port)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[1] != local || fields[2] != remote {
			continue
		}
		kind, left, _ := strings.Cut(fields[5], ":")
		ticks, err := strconv.ParseUint(left, 16, 64)
		if err != nil {
			t.Fatal(line)
		}
		return ticks, kind == "02"
	}
	t.Fatalf("the kernel does not list the connection from port %d", port)
	return 0, false
}

func TestTCPKeepalive_IsAskedOfTheKernel(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind, "--tcp-keepalive", "5000")
		conn := server.Dial(t)
		do(t, conn, "PING")
		waitFor(t, "keepalive timer", func() bool {
			ticks, runs := keepaliveTicks(t, server, conn)
			// Whatever else the timer is set to is far less or, as the kernel's default is two
			// hours, far more.
			return runs && 400_000 < ticks && ticks <= 501_000
		})
		expectOK(t, conn, "CONFIG", "SET", "tcp-keepalive", "0")
		next := server.Dial(t)
		do(t, next, "PING")
		if ticks, runs := keepaliveTicks(t, server, next); runs {
			t.Errorf("with tcp-keepalive 0 a timer of %d ticks runs", ticks)
		}
	})
}

// A script runs for longer than clients may be idle.
func TestTimeout_SparesAClientWhoseScriptRuns(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--timeout", "1")
	script := "local t = os.clock() while os.clock() < t + 3 do end " +
		"return redis.call('set', 'k', 'v')"
	expectOK(t, server.Dial(t), "EVAL", script, "1", "k")
	if reply := do(t, server.Dial(t), "GET", "k"); string(reply.Text) != "v" {
		t.Errorf("GET: %s", reply)
	}
}
