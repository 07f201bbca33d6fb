package tls

import (
	"testing"
	"time"
)

// While one worker is inside a long command, the other serves all new clients, whose handshakes end
// meanwhile.
func TestTLS_StuckWorkerGetsNoNewConnections(t *testing.T) {
	const burst, seconds = 20, "4"
	server := start(t, "--worker-threads", "2", "--enable-debug-command", "yes")
	sleeper := server.Dial(t)
	sleeper.Timeout = time.Minute
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
	woken := make(chan time.Time, 1)
	go func() {
		for range 2 {
			if _, err := sleeper.Receive(); err != nil {
				t.Error(err)
			}
		}
		woken <- time.Now()
	}()
	// The first to see it has the other worker.
	if err := <-seen; err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
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
	served := time.Since(begin)
	if slept := (<-woken).Sub(begin); served > slept/2 {
		t.Errorf("connections were served %v after a worker got stuck for %v", served, slept)
	}
	for range cap(seen) - 1 {
		if err := <-seen; err != nil {
			t.Error(err)
		}
	}
}
