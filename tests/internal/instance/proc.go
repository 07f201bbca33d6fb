package instance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clockTick is the unit of /proc/PID/stat's times: USER_HZ, 100 on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// CPUTime returns the user and the system time that a process has used, to 10 ms.
func CPUTime(pid int) (user, system time.Duration, err error) {
	fields, err := statFields(pid)
	if err != nil {
		return 0, 0, err
	}
	ticks := func(field string) time.Duration {
		count, _ := strconv.ParseInt(field, 10, 64)
		return time.Duration(count) * clockTick
	}
	return ticks(fields[11]), ticks(fields[12]), nil
}

// PageFaults returns the number of pages that the kernel gave to a process, without those read from
// a file.
func PageFaults(pid int) (int64, error) {
	fields, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(fields[7], 10, 64)
}

// statFields are the fields of /proc/PID/stat behind the command name, at least 13. The name may
// hold spaces and parentheses: fields are counted from its last parenthesis.
func statFields(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields, nil
}

// ScheduledTime returns the time for which the living threads of a process have run, to the
// nanosecond; what threads that have ended ran is not in it.
func ScheduledTime(pid int) (time.Duration, error) {
	times, err := threadTimes(pid)
	var ran time.Duration
	for _, thread := range times {
		ran += thread.ran
	}
	return ran, err
}

// RunDelay returns the time for which the living threads of a process were ready to run and had no
// CPU, in sum and to the nanosecond.
func RunDelay(pid int) (time.Duration, error) {
	delays, err := RunDelays(pid)
	return delays.Since(nil), err
}

// Delays are the times for which the threads of a process were ready to run and had no CPU.
type Delays map[string]time.Duration

// RunDelays returns the delays of the living threads of a process.
func RunDelays(pid int) (Delays, error) {
	times, err := threadTimes(pid)
	delays := make(Delays, len(times))
	for name, thread := range times {
		delays[name] = thread.delayed
	}
	return delays, err
}

// Since returns what has come to the delays since others, in sum. Threads that have ended since are
// left out: the difference of two sums would subtract all that they were ever delayed.
func (d Delays) Since(before Delays) (sum time.Duration) {
	for name, delayed := range d {
		sum += delayed - before[name]
	}
	return sum
}

// threadTime is the time for which a thread ran, and for which it was ready to run and had no CPU.
type threadTime struct{ ran, delayed time.Duration }

// threadTimes returns the times of the living threads of a process, by their files.
func threadTimes(pid int) (map[string]threadTime, error) {
	times := make(map[string]threadTime)
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("/proc/%d has no schedstat: %v", pid, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // the thread has ended since
		}
		if err != nil {
			return nil, err
		}
		var ranNs, delayedNs, slices int64
		if _, err := fmt.Sscan(string(text), &ranNs, &delayedNs, &slices); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, text, err)
		}
		times[file] = threadTime{time.Duration(ranNs), time.Duration(delayedNs)}
	}
	return times, nil
}

// listens tells whether a process itself listens at a TCP port: who answers there may be another
// one, which got the port first.
func listens(pid, port int) bool { return slices.Contains(ListenedPorts(pid), port) }

// ListenedPorts returns the TCP ports that a process itself listens at.
func ListenedPorts(pid int) (ports []int) {
	portOf := map[string]int{}
	for _, table := range []string{"tcp", "tcp6"} {
		// A kernel without IPv6 has one of them.
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		for line := range strings.Lines(string(text)) {
			// Number, local address, remote address, state (0A: listening), ..., inode.
			fields := strings.Fields(line)
			if len(fields) <= 9 || fields[3] != "0A" {
				continue
			}
			_, digits, _ := strings.Cut(fields[1], ":")
			if port, err := strconv.ParseUint(digits, 16, 16); err == nil {
				portOf["socket:["+fields[9]+"]"] = int(port)
			}
		}
	}
	descriptors, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, descriptor := range descriptors {
		target, err := os.Readlink(descriptor)
		if port, isListener := portOf[target]; err == nil && isListener {
			ports = append(ports, port)
		}
	}
	return ports
}

// ResidentBytes returns a process's resident set size.
func ResidentBytes(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm: %q", pid, text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// OpenFiles returns how many file descriptors a process holds.
func OpenFiles(pid int) (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(entries), err
}
