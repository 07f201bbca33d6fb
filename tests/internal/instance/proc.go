package instance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clockTick is the unit of /proc/PID/stat's times: USER_HZ, 100 on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// CPUTime returns the user and the system time that a process has used, to 10 ms.
func CPUTime(pid int) (user, system time.Duration, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The command name may hold spaces and parentheses: fields are counted from its last
	// parenthesis.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0, 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	ticks := func(field string) time.Duration {
		count, _ := strconv.ParseInt(field, 10, 64)
		return time.Duration(count) * clockTick
	}
	return ticks(fields[11]), ticks(fields[12]), nil
}

// ScheduledTime returns the time for which the living threads of a process have run, to the
// nanosecond; what threads that have ended ran is not in it.
func ScheduledTime(pid int) (time.Duration, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("/proc/%d has no schedstat: %v", pid, err)
	}
	var total time.Duration
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // the thread has ended since
		}
		fields := strings.Fields(string(text))
		if err != nil || len(fields) == 0 {
			return 0, fmt.Errorf("%s: %q: %v", file, text, err)
		}
		ns, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		total += time.Duration(ns)
	}
	return total, nil
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
