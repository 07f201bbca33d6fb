// Package leakcheck lets tests fail that leave goroutines or descriptors behind. It is by hand
// because the client has no dependencies, not even in tests.
package leakcheck

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is how long goroutines may take to end after everything was closed.
const patience = 5 * time.Second

// Check fails the test when goroutines of this project, or descriptors, outlive it. Call it before
// anything that registers a cleanup: cleanups run in reverse order, so it looks last.
func Check(t testing.TB) {
	t.Helper()
	check(t, patience)
}

func check(t testing.TB, patience time.Duration) {
	t.Helper()
	openPoller(t)
	before := len(descriptors())
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		deadline := time.Now().Add(patience)
		for {
			stacks, open := goroutines(), descriptors()
			if stacks == "" && len(open) <= before {
				return
			}
			if time.Now().After(deadline) {
				t.Errorf("leak: %d descriptors before, now %v; goroutines:\n%s", before, open,
					stacks)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// openPoller makes the runtime open its own descriptors, which stay.
func openPoller(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
}

// descriptors says what is open, so that a leak tells what leaked. Empty where there is no /proc.
func descriptors() (names []string) {
	entries, _ := filepath.Glob("/proc/self/fd/*")
	for _, entry := range entries {
		name, err := os.Readlink(entry)
		if err == nil { // else it was closed meanwhile, as the one that lists is
			names = append(names, name)
		}
	}
	return names
}

// goroutines returns the stacks of this project's goroutines, but for those that run tests.
func goroutines() string {
	buffer := make([]byte, 1<<20)
	buffer = buffer[:runtime.Stack(buffer, true)]
	var own []string
	for _, stack := range strings.Split(string(buffer), "\n\n")[1:] {
		if strings.Contains(stack, "go.tidemill.dev/client") &&
			!strings.Contains(stack, "testing.tRunner") {
			own = append(own, stack)
		}
	}
	return strings.Join(own, "\n\n")
}
