package tls

import (
	"testing"
	"time"
)

// While one worker is inside a long command, the other serves all new clients, whose handshakes end
// meanwhile. The command outlasts the test by far: a client that was answered did not wait for it,
// on however busy a machine.
func TestTLS_StuckWorkerGetsNoNewConnections(t *testing.T) {
	const burst, seconds = 20, "600"
	server := start(t, "--worker-threads", "2", "--enable-debug-command", "yes")
	sleeper := server.Dial(t)
	// Enough for each worker to get some.
	seen := make(chan error, 16)
	var controls []func()
	for range cap(seen) {
		conn := server.Dial(t)
		conn.Timeout = time.Minute
		controls = append(controls, func() {
			for {
				reply, err := conn.Do("EXISTS", "begun")
				if err != nil || reply.Int() == 1 {
					seen <- err
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	for _, control := range controls {
		go control()
	}
	// In one turn of the worker, which takes nothing in between.
	requests := "SET begun 1\r\nDEBUG SLEEP " + seconds + "\r\n"
	if err := sleeper.SendRaw([]byte(requests)); err != nil {
		t.Fatal(err)
	}
	// The first to see it has the other worker.
	if err := <-seen; err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, burst)
	for range burst {
		go func() {
			conn, err := server.dial(server.config())
			if err == nil {
				conn.Close()
			}
			answered <- err
		}()
	}
	for range burst {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
	// The clients of the stuck worker wait still.
	server.Kill()
}
