package process

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tidemill/tests/internal/instance"
)

// started returns a server with these directives once it is ready and its background thread runs.
func started(t *testing.T, directives ...string) *instance.Server {
	t.Helper()
	server := instance.Start(t, instance.Subject, directives...)
	waitFor(t, "ready server", func() bool {
		return strings.Contains(server.Log(), "Ready to accept connections")
	})
	waitFor(t, "thread called reclaim", func() bool {
		return len(threadIDs(t, server.PID, "reclaim")) == 1
	})
	return server
}

// threadIDs returns the threads of a process whose names begin so.
func threadIDs(t *testing.T, pid int, prefix string) (ids []int) {
	t.Helper()
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
	for _, path := range names {
		// A thread may have ended since.
		name, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(name), prefix) {
			continue
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

func scheduling(t *testing.T, thread int) *unix.SchedAttr {
	t.Helper()
	attributes, err := unix.SchedGetAttr(thread, 0)
	if err != nil {
		t.Fatal(err)
	}
	return attributes
}

// onOwnThread runs a function on a thread that ends with it, so that what it sets is nobody else's.
func onOwnThread(run func() bool) bool {
	result := make(chan bool)
	go func() {
		runtime.LockOSThread()
		result <- run()
	}()
	return <-result
}

// requireRefusal demands that the log tells once, and only when it is so, that a setting is not in
// force.
func requireRefusal(t *testing.T, server *instance.Server, setting string, isInForce bool) {
	t.Helper()
	lines := strings.Count(server.Log(), setting+" is not in force: ")
	if isInForce && lines != 0 || !isInForce && lines != 1 {
		t.Errorf("%s is in force: %v; %d lines say that it is not:\n%s", setting, isInForce, lines,
			server.Log())
	}
}

func TestResources_WorkersGetTheSlice(t *testing.T) {
	const sliceNs = 3_000_000
	hasSlices := onOwnThread(func() bool {
		attributes := scheduling(t, 0)
		attributes.Runtime = sliceNs
		return unix.SchedSetAttr(0, attributes, 0) == nil && scheduling(t, 0).Runtime == sliceNs
	})
	server := started(t, "--worker-threads", "2", "--worker-slice-us", "3000")
	workers := threadIDs(t, server.PID, "worker-")
	if len(workers) != 2 {
		t.Fatalf("workers: %v", workers)
	}
	for _, thread := range workers {
		if slice := scheduling(t, thread).Runtime; hasSlices != (slice == sliceNs) {
			t.Errorf("worker %d has a slice of %d ns; the kernel has slices: %v", thread, slice,
				hasSlices)
		}
	}
	for _, thread := range threadIDs(t, server.PID, "reclaim") {
		if slice := scheduling(t, thread).Runtime; slice == sliceNs {
			t.Errorf("the background thread has the workers' slice")
		}
	}
	requireRefusal(t, server, "worker-slice-us 3000", hasSlices)
}

func TestResources_BackgroundThreadsAreBatch(t *testing.T) {
	for setting, policy := range map[string]uint32{"other": unix.SCHED_NORMAL,
		"batch": unix.SCHED_BATCH} {
		server := started(t, "--background-scheduling", setting)
		for prefix, wanted := range map[string]uint32{"reclaim": policy,
			"worker-": unix.SCHED_NORMAL} {
			for _, thread := range threadIDs(t, server.PID, prefix) {
				if found := scheduling(t, thread).Policy; found != wanted {
					t.Errorf("background-scheduling %s: policy of %s is %d, not %d", setting,
						prefix, found, wanted)
				}
			}
		}
	}
}

func TestResources_MemoryComesFromTheNodesOfThePolicy(t *testing.T) {
	online, err := os.ReadFile("/sys/devices/system/node/online")
	if err != nil || strings.TrimSpace(string(online)) != "0" {
		t.Skipf("not a machine with the one node 0: %q, %v", online, err)
	}
	hasPolicies := onOwnThread(func() bool {
		var nodes unix.CPUSet
		nodes.Set(0)
		return unix.SetMemPolicy(unix.MPOL_BIND, &nodes) == nil
	})
	for _, policy := range []string{"default", "prefer", "bind", "interleave"} {
		server := started(t, "--memory-policy", policy)
		worker := threadIDs(t, server.PID, "worker-0")[0]
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/numa_maps", server.PID, worker))
		if err != nil {
			t.Skip(err)
		}
		word := map[string]string{
			"prefer": " prefer:0 ", "bind": " bind:0 ", "interleave": " interleave:0 ",
		}[policy]
		if policy == "default" {
			word = " default "
		}
		isInForce := strings.Contains(string(maps), word)
		if isInForce != (hasPolicies || policy == "default") {
			t.Errorf("memory-policy %s is in force: %v; the kernel has policies: %v\n%s", policy,
				isInForce, hasPolicies, maps)
		}
		requireRefusal(t, server, "memory-policy "+policy, isInForce)
	}
}

func TestResources_WorkersAskForHugePages(t *testing.T) {
	enabled, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	hasHugePages := err == nil && !strings.Contains(string(enabled), "[never]")
	for _, setting := range []string{"no", "yes"} {
		server := started(t, "--huge-pages", setting)
		conn := server.Dial(t)
		for key := range 64 {
			expectOK(t, conn, "SET", strconv.Itoa(key), strings.Repeat("x", 1<<20))
		}
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", server.PID))
		if err != nil {
			t.Fatal(err)
		}
		isAdvised := false
		for line := range strings.Lines(string(maps)) {
			isAdvised = isAdvised || strings.HasPrefix(line, "VmFlags:") &&
				strings.Contains(line, " hg")
		}
		if isAdvised != (hasHugePages && setting == "yes") {
			t.Errorf("huge-pages %s: memory is advised: %v; there are huge pages: %v", setting,
				isAdvised, hasHugePages)
		}
		requireRefusal(t, server, "huge-pages yes", hasHugePages || setting == "no")
	}
}

func TestResources_RefusesValuesThatAreNone(t *testing.T) {
	for _, directives := range [][]string{
		{"--worker-slice-us", "100001"}, {"--worker-slice-us", "-1"},
		{"--background-scheduling", "idle"},
		{"--memory-policy", "local"}, {"--huge-pages", "maybe"},
	} {
		output, err := startToEnd(t, directives...)
		if err == nil || !strings.Contains(output, directives[0][2:]) {
			t.Errorf("%v: %v:\n%s", directives, err, output)
		}
	}
}
