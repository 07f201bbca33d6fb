package process

import (
	"path/filepath"
	"strconv"
	"testing"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// onWorker dials until the connection is one of a worker's; those before stay, so that the next
// ones go elsewhere.
func onWorker(t *testing.T, server *instance.Server, control *wire.Conn, worker int) *wire.Conn {
	t.Helper()
	for range 100 {
		conn := server.Dial(t)
		if ownerOf(t, control, conn) == worker {
			return conn
		}
	}
	t.Fatalf("no connection goes to worker %d", worker)
	return nil
}

// While one worker is inside a long command, the other accepts and serves all new clients, at every
// address. The command outlasts the test by far: a client that was answered did not wait for it,
// on however busy a machine.
func TestStuckWorker_GetsNoNewConnections(t *testing.T) {
	const burst, seconds = 20, "600"
	for stuck := range 2 {
		t.Run("worker "+strconv.Itoa(stuck), func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "socket")
			server := instance.Start(t, instance.Subject, "--worker-threads", "2", "--unixsocket",
				socket, "--enable-debug-command", "yes")
			first := server.Dial(t)
			control := onWorker(t, server, first, 1-stuck)
			sleeper := onWorker(t, server, control, stuck)
			// In one turn of the worker, which takes nothing in between.
			requests := "SET begun 1\r\nDEBUG SLEEP " + seconds + "\r\n"
			if err := sleeper.SendRaw([]byte(requests)); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "the long command to begin", func() bool {
				return do(t, control, "EXISTS", "begun").Int() == 1
			})
			answered := make(chan error, 2*burst)
			for _, address := range []string{server.Address, socket} {
				for range burst {
					go func() {
						conn, err := wire.Dial(address)
						if err == nil {
							defer conn.Close()
							conn.Timeout = 2 * closeTimeout
							_, err = conn.Do("PING")
						}
						answered <- err
					}()
				}
			}
			for range 2 * burst {
				if err := <-answered; err != nil {
					t.Error(err)
				}
			}
			server.Kill()
		})
	}
}
