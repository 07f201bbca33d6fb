// Package listening tells whether a server that a test started is the one that listens at a port:
// the port was free when it was chosen, and may be another process's since. The end-to-end tests,
// which this module's internal packages are closed to, ask the same in tests/internal/instance.
package listening

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// At tells whether the process listens itself at all of these TCP ports. Elsewhere than on Linux it
// is true as soon as anybody accepts a connection at each.
func At(pid int, ports ...int) bool {
	if runtime.GOOS != "linux" {
		return !slices.ContainsFunc(ports, func(port int) bool { return !isAccepted(port) })
	}
	own := sockets(pid)
	return !slices.ContainsFunc(ports, func(port int) bool {
		return !slices.ContainsFunc(listeners(pid, port), func(socket string) bool {
			return slices.Contains(own, socket)
		})
	})
}

func isAccepted(port int) bool {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// sockets lists a process's own, as its descriptors name them.
func sockets(pid int) (names []string) {
	descriptors, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, descriptor := range descriptors {
		// One that is closed by now is none.
		if name, err := os.Readlink(descriptor); err == nil && strings.HasPrefix(name, "socket:") {
			names = append(names, name)
		}
	}
	return names
}

// listeners lists the sockets at a port, of all processes that share the network of this one.
func listeners(pid, port int) (names []string) {
	for _, table := range []string{"tcp", "tcp6"} {
		// A kernel without IPv6 has one of them.
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		for line := range strings.Lines(string(text)) {
			// Number, local address, remote address, state (0A: listening), ..., inode.
			fields := strings.Fields(line)
			if len(fields) > 9 && fields[3] == "0A" &&
				strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
				names = append(names, "socket:["+fields[9]+"]")
			}
		}
	}
	return names
}
