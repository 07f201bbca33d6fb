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
	ran, _, err := threadTimes(pid)
	return ran, err
}

// RunDelay returns the time for which the living threads of a process were ready to run and had no
// CPU, in sum and to the nanosecond.
func RunDelay(pid int) (time.Duration, error) {
	_, delayed, err := threadTimes(pid)
	return delayed, err
}

func threadTimes(pid int) (ran, delayed time.Duration, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		return 0, 0, fmt.Errorf("/proc/%d has no schedstat: %v", pid, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // the thread has ended since
		}
		if err != nil {
			return 0, 0, err
		}
		var ranNs, delayedNs, slices int64
		if _, err := fmt.Sscan(string(text), &ranNs, &delayedNs, &slices); err != nil {
			return 0, 0, fmt.Errorf("%s: %q: %w", file, text, err)
		}
		ran += time.Duration(ranNs)
		delayed += time.Duration(delayedNs)
	}
	return ran, delayed, nil
}

// listens tells whether a process itself listens at a TCP port: who answers there may be another
// one, which got the port first.
func listens(pid, port int) bool {
	sockets := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		// A kernel without IPv6 has one of them.
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		for line := range strings.Lines(string(text)) {
			// Number, local address, remote address, state (0A: listening), ..., inode.
			fields := strings.Fields(line)
			if len(fields) > 9 && fields[3] == "0A" &&
				strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
				sockets["socket:["+fields[9]+"]"] = true
			}
		}
	}
	descriptors, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return slices.ContainsFunc(descriptors, func(descriptor string) bool {
		target, err := os.Readlink(descriptor)
		return err == nil && sockets[target]
	})
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
