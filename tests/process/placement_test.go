package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tidemill/tests/internal/instance"
)

// cpus is a set of CPUs in ascending order.
type cpus []int

func parseCPUs(t *testing.T, text string) (set cpus) {
	t.Helper()
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, err := strconv.Atoi(first)
		if err != nil {
			t.Fatalf("CPU list %q: %v", text, err)
		}
		high, err := strconv.Atoi(last)
		if err != nil {
			t.Fatalf("CPU list %q: %v", text, err)
		}
		for cpu := low; cpu <= high; cpu++ {
			set = append(set, cpu)
		}
	}
	return set
}

func (c cpus) within(other cpus) bool {
	for _, cpu := range c {
		if index := sort.SearchInts(other, cpu); index == len(other) || other[index] != cpu {
			return false
		}
	}
	return true
}

func (c cpus) String() string { return fmt.Sprint([]int(c)) }

// allowed are the CPUs of the test process, which a server inherits.
func allowed(t *testing.T) (set cpus) {
	t.Helper()
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mask); err != nil {
		t.Fatal(err)
	}
	for cpu := range 1024 {
		if mask.IsSet(cpu) {
			set = append(set, cpu)
		}
	}
	return set
}

// core returns the CPUs that share a physical core with one.
func core(t *testing.T, cpu int) cpus {
	t.Helper()
	path := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("the kernel does not tell its topology: %v", err)
	}
	return parseCPUs(t, string(text))
}

// threads returns the CPUs of each thread of a process, by thread name.
func threads(t *testing.T, pid int) map[string]cpus {
	t.Helper()
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	byName := map[string]cpus{}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // the thread has ended since
		}
		if err != nil {
			t.Fatal(err)
		}
		var name string
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
			switch key {
			case "Name":
				name = value
			case "Cpus_allowed_list":
				byName[name] = parseCPUs(t, value)
			}
		}
	}
	return byName
}

// workersOf returns the CPUs of worker-0, worker-1, ...
func workersOf(t *testing.T, byName map[string]cpus) (workers []cpus) {
	t.Helper()
	for index := 0; ; index++ {
		set, exists := byName["worker-"+strconv.Itoa(index)]
		if !exists {
			break
		}
		workers = append(workers, set)
	}
	if len(workers) == 0 {
		t.Fatalf("no thread is called worker-0: %v", byName)
	}
	return workers
}

// planned is the directive by which the placement decides about the number of workers, as it does
// by default; instance would start two.
func planned(directives ...string) []string {
	return append([]string{"--worker-threads", "0"}, directives...)
}

func placed(t *testing.T, directives ...string) (map[string]cpus, []cpus) {
	t.Helper()
	return placedOf(t, instance.Start(t, instance.Subject, directives...))
}

// placedOf returns the CPUs of each thread of a server that starts, and those of its workers.
func placedOf(t *testing.T, server *instance.Server) (map[string]cpus, []cpus) {
	t.Helper()
	var byName map[string]cpus
	waitFor(t, "ready server", func() bool {
		return strings.Contains(server.Log(), "Ready to accept connections")
	})
	// A thread takes its name when it first runs, which one of low priority may do late.
	waitFor(t, "thread called reclaim", func() bool {
		byName = threads(t, server.PID)
		_, exists := byName["reclaim"]
		return exists
	})
	return byName, workersOf(t, byName)
}

func requireDistinct(t *testing.T, workers []cpus) {
	t.Helper()
	taken := map[int]int{}
	for index, set := range workers {
		for _, cpu := range set {
			if other, isTaken := taken[cpu]; isTaken {
				t.Errorf("workers %d and %d share CPU %d", other, index, cpu)
			}
			taken[cpu] = index
		}
	}
}

func TestPlacement_Off_SetsNoAffinity(t *testing.T) {
	all := allowed(t)
	byName, _ := placed(t, "--cpu-placement", "off", "--worker-threads", "3")
	for name, set := range byName {
		if set.String() != all.String() {
			t.Errorf("%s may run on %v; the process on %v", name, set, all)
		}
	}
}

// cores are the first allowed CPUs of as many physical cores.
func cores(t *testing.T) (first cpus) {
	t.Helper()
	seen := map[string]bool{}
	for _, cpu := range allowed(t) {
		if name := core(t, cpu).String(); !seen[name] {
			seen[name] = true
			first = append(first, cpu)
		}
	}
	return first
}

// By default a server leaves one core to the load, to interrupts and to background threads, unless
// it has but one. CPUs of different cores, so that a core has no sibling to leave to them.
func TestPlacement_DefaultLeavesOneCoreFree(t *testing.T) {
	if !instance.SubjectIsTidemill() {
		t.Skip("the server under test is a stand-in")
	}
	own := cores(t)
	for count := 1; count <= min(len(own), 4); count++ {
		own := own[:count]
		t.Run(strconv.Itoa(count), func(t *testing.T) {
			list := strings.Trim(strings.ReplaceAll(own.String(), " ", ","), "[]")
			server, err := instance.LaunchOn(list, instance.Subject, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer server.Kill()
			byName, workers := placedOf(t, server)
			requireDistinct(t, workers)
			want := max(1, count-1)
			if len(workers) != want {
				t.Fatalf("%d workers on CPUs %v: %v", len(workers), own, workers)
			}
			for index, set := range workers {
				if len(set) != 1 || !set.within(own) {
					t.Errorf("worker %d runs on %v, not on one of %v", index, set, own)
				}
				if count > 1 && !disjoint(set, byName["reclaim"]) {
					t.Errorf("worker %d runs on %v, background threads on %v", index, set,
						byName["reclaim"])
				}
			}
			told := fmt.Sprintf("%d worker(s), placement auto", want)
			if log := server.Log(); !strings.Contains(log, told) ||
				strings.Contains(log, "Too few CPUs") != (count == 1) {
				t.Errorf("on CPUs %v the log tells:\n%s", own, log)
			}
			shown := fmt.Sprintf("worker_threads:%d\r\n", want)
			if text := string(do(t, server.Dial(t), "INFO", "server").Text); !strings.Contains(
				text, shown) {
				t.Errorf("INFO server without %q:\n%s", shown, text)
			}
		})
	}
}

func TestPlacement_PinsWorkersToCores(t *testing.T) {
	for _, mode := range []string{"auto", "logical", "physical", "split"} {
		// The default, and one on each core, so that there are several to keep apart.
		for _, count := range []int{0, len(cores(t))} {
			t.Run(fmt.Sprint(mode, " ", count), func(t *testing.T) {
				byName, workers := placed(t, "--cpu-placement", mode, "--worker-threads",
					strconv.Itoa(count))
				requireDistinct(t, workers)
				requirePinned(t, mode, byName, workers)
			})
		}
	}
}

func requirePinned(t *testing.T, mode string, byName map[string]cpus, workers []cpus) {
	t.Helper()
	all := allowed(t)
	for index, set := range workers {
		siblings := core(t, set[0])
		if !set.within(all) || !set.within(siblings) {
			t.Errorf("worker %d runs on %v: not one core of %v", index, set, all)
		}
		if (mode == "logical" || mode == "auto") && len(set) != 1 {
			t.Errorf("worker %d runs on %v: not one CPU", index, set)
		}
		if mode == "physical" && siblings.within(all) && set.String() != siblings.String() {
			t.Errorf("worker %d runs on %v, its core is %v", index, set, siblings)
		}
		if mode == "split" && len(all) > len(workers)*len(siblings) &&
			!disjoint(set, byName["reclaim"]) {
			t.Errorf("worker %d runs on %v, background threads on %v", index, set,
				byName["reclaim"])
		}
	}
}

func disjoint(one, other cpus) bool {
	for _, cpu := range one {
		if (cpus{cpu}).within(other) {
			return false
		}
	}
	return true
}

func TestPlacement_WorkerThreadsAreCounted(t *testing.T) {
	for _, count := range []int{1, 2, 5} {
		if _, workers := placed(t, "--worker-threads", strconv.Itoa(count)); len(workers) != count {
			t.Errorf("worker-threads %d: %d workers", count, len(workers))
		}
	}
}

func TestPlacement_TwoWorkersPerCore(t *testing.T) {
	_, one := placed(t, planned("--workers-per-core", "1")...)
	_, two := placed(t, planned("--workers-per-core", "2")...)
	perCore := map[string]int{}
	for _, set := range two {
		perCore[core(t, set[0]).String()]++
	}
	for name, count := range perCore {
		if count > 2 {
			t.Errorf("%d workers on core %s", count, name)
		}
	}
	if len(two) != 2*len(one) {
		t.Errorf("%d workers, with one per core %d", len(two), len(one))
	}
}

func TestPlacement_ListsOfCPUs(t *testing.T) {
	all := allowed(t)
	first, last := strconv.Itoa(all[0]), strconv.Itoa(all[len(all)-1])
	for _, directive := range []string{"server-cpulist", "server_cpulist"} {
		_, workers := placed(t, planned("--"+directive, last)...)
		if len(workers) != 1 || workers[0].String() != (cpus{all[len(all)-1]}).String() {
			t.Errorf("%s %s: %v", directive, last, workers)
		}
	}
	byName, _ := placed(t, "--bio-cpulist", first, "--bgsave-cpulist", last,
		"--aof-rewrite-cpulist", last)
	if byName["reclaim"].String() != (cpus{all[0]}).String() {
		t.Errorf("bio-cpulist %s: the background thread runs on %v", first, byName["reclaim"])
	}
	if byName["snapshot"].String() != (cpus{all[len(all)-1]}).String() {
		t.Errorf("bgsave-cpulist %s: the saving thread runs on %v", last, byName["snapshot"])
	}
}

// The allocator makes that thread, in the place of the one that asks for it.
func TestPlacement_AllocatorsThreadIsABackgroundThread(t *testing.T) {
	const name = "jemalloc_bg_thd"
	last := cpus{allowed(t)[len(allowed(t))-1]}
	server := instance.Start(t, instance.Subject, "--bio-cpulist", strconv.Itoa(last[0]))
	conn := server.Dial(t)
	for range 3 {
		waitFor(t, "thread of the allocator", func() bool {
			return threads(t, server.PID)[name].String() == last.String()
		})
		expectOK(t, conn, "CONFIG", "SET", "jemalloc-bg-thread", "no")
		waitFor(t, "end of the allocator's thread", func() bool {
			return len(threadIDs(t, server.PID, name)) == 0
		})
		expectOK(t, conn, "CONFIG", "SET", "jemalloc-bg-thread", "yes")
	}
	without := instance.Start(t, instance.Subject, "--jemalloc-bg-thread", "no")
	do(t, without.Dial(t), "PING")
	if left := threadIDs(t, without.PID, name); len(left) > 0 {
		t.Errorf("jemalloc-bg-thread no: %v", left)
	}
}

func TestPlacement_RefusesCPUsThatAreNotThere(t *testing.T) {
	output, err := startToEnd(t, "--server-cpulist", "1000")
	if err == nil || !strings.Contains(output, "server-cpulist") {
		t.Errorf("%v:\n%s", err, output)
	}
}

// A server that shares its CPU with everything else says so in one line that tells what to do; the
// decisions of the plan are for those who ask.
func TestPlacement_SmallHostIsToldInOneLine(t *testing.T) {
	if !instance.SubjectIsTidemill() {
		t.Skip("the server under test is a stand-in")
	}
	own := allowed(t)
	one := strconv.Itoa(own[0])
	for level, wantReasons := range map[string]bool{"notice": false, "verbose": true} {
		server, err := instance.LaunchOn(one, instance.Subject, t.TempDir(), "--loglevel", level)
		if err != nil {
			t.Fatal(err)
		}
		// It answers before its main thread has logged the start; once it has stopped, all is
		// written.
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
		log := server.Log()
		advice := "Too few CPUs: interrupts and background threads share those of the workers. " +
			"For steadier latency give the server more cores than workers (details: loglevel " +
			"verbose, or `tidemill tune plan`)"
		if count := strings.Count(log, advice); count != 1 {
			t.Errorf("loglevel %s: the advice is there %d times:\n%s", level, count, log)
		}
		if hasReasons := strings.Contains(log,
			"online CPUs may be used"); hasReasons != wantReasons {
			t.Errorf("loglevel %s: reasons of the plan: %v, want %v:\n%s", level, hasReasons,
				wantReasons, log)
		}
	}
}
