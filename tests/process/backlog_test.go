package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tidemill/tests/internal/instance"
)

// queueLimits returns, by listening socket, how many connections the kernel lets wait there to be
// accepted: what listen(2) was told, or less. The arguments are ss's and choose the sockets.
func queueLimits(t *testing.T, choice ...string) (limits []int) {
	t.Helper()
	output, err := exec.Command("ss", append([]string{"--no-header", "--numeric", "--listening"},
		choice...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(output)) {
		// The columns behind the state: how many wait now, how many may.
		fields := strings.Fields(line)
		state := slices.Index(fields, "LISTEN")
		if state < 0 || len(fields) < state+3 {
			t.Fatalf("ss says %q", line)
		}
		limit, err := strconv.Atoi(fields[state+2])
		if err != nil {
			t.Fatalf("ss says %q", line)
		}
		limits = append(limits, limit)
	}
	return limits
}

// requireQueue checks the one queue at a port.
func requireQueue(t *testing.T, port, want int) {
	t.Helper()
	limits := queueLimits(t, "--tcp", fmt.Sprint("sport = :", port))
	if !slices.Equal(limits, []int{want}) {
		t.Errorf("%v connections may wait at port %d, not %d", limits, port, want)
	}
}

// Values that no kernel's own bound cuts short.
func TestTCPBacklog_IsWhatTheKernelIsTold(t *testing.T) {
	for _, backlog := range []int{7, 90} {
		t.Run(strconv.Itoa(backlog), func(t *testing.T) {
			both(t, func(t *testing.T, kind instance.Kind) {
				socket := filepath.Join(t.TempDir(), "socket")
				directives := append(workers(kind), "--tcp-backlog", strconv.Itoa(backlog),
					"--unixsocket", socket)
				server := instance.Start(t, kind, directives...)
				requireQueue(t, server.Port, backlog)
				limits := queueLimits(t, "--unix", "src "+socket)
				if !slices.Equal(limits, []int{backlog}) {
					t.Errorf("%v connections may wait at the Unix socket, not %d", limits, backlog)
				}
				conn := server.Dial(t)
				if reply := do(t, conn, "CONFIG", "SET", "bind", "192.0.2.1"); !reply.IsError() {
					t.Errorf("an address of another host can be bound: %s", reply)
				}
				requireQueue(t, server.Port, backlog)
				requireQueue(t, move(t, conn), backlog)
				if log := server.Log(); strings.Contains(log, "backlog") {
					t.Errorf("a warning without need:\n%s", log)
				}
			})
		})
	}
}

// The kernel's bound is the network's own.
func TestTCPBacklog_WarnsWhenTheKernelKeepsFewer(t *testing.T) {
	inOwnNetwork(t, func(t *testing.T) {
		if err := os.WriteFile("/proc/sys/net/core/somaxconn", []byte("100"), 0); err != nil {
			t.Fatal(err)
		}
		both(t, func(t *testing.T, kind instance.Kind) {
			server := instance.Start(t, kind, workers(kind)...)
			requireQueue(t, server.Port, 100)
			requireLog(t, server,
				`# WARNING: The TCP backlog setting of 511 cannot be enforced because `+
					`/proc/sys/net/core/somaxconn is set to the lower value of 100\.\n`)
			fitting := instance.Start(t, kind, append(workers(kind), "--tcp-backlog", "100")...)
			requireQueue(t, fitting.Port, 100)
			if log := fitting.Log(); strings.Contains(log, "backlog") {
				t.Errorf("a warning without need:\n%s", log)
			}
		})
	})
}
