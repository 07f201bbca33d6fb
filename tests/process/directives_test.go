package process

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// oomScore returns the kernel's score of a server.
func oomScore(t *testing.T, server *instance.Server) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", server.PID))
	if err != nil {
		t.Fatal(err)
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return score
}

// The score counts from the one that the process was started with, comes back when it is switched
// off, and when another directive of the same CONFIG SET is refused.
func TestOOMScore_FollowsItsDirectives(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind)
		conn := server.Dial(t)
		base := oomScore(t, server)
		set := func(words ...string) wire.Reply {
			return do(t, conn, append([]string{"CONFIG", "SET"}, words...)...)
		}
		for _, step := range []struct {
			directives string
			want       int
		}{
			{"oom-score-adj-values=1 2 3", base},
			{"oom-score-adj=yes", base + 1},
			{"oom-score-adj-values=15 20 30", base + 15},
			{"oom-score-adj=absolute", 15},
			{"oom-score-adj=relative", base + 15},
			{"oom-score-adj=no", base},
		} {
			name, value, _ := strings.Cut(step.directives, "=")
			if reply := set(name, value); string(reply.Text) != "OK" {
				t.Errorf("%s answered %s", step.directives, reply)
			}
			if got := oomScore(t, server); got != step.want {
				t.Errorf("%s: score %d, not %d", step.directives, got, step.want)
			}
		}
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		_, port, _ := net.SplitHostPort(taken.Addr().String())
		if reply := set("oom-score-adj", "yes", "port", port); !reply.IsError() {
			t.Errorf("a taken port answered %s", reply)
		}
		if got := oomScore(t, server); got != base {
			t.Errorf("score %d behind a refused change, not %d", got, base)
		}
		for value, want := range map[string]string{
			"-2001 0 0": "must be between -2000 and 2000", "1 2": "wrong number of arguments",
		} {
			reply := set("oom-score-adj-values", value)
			if !strings.Contains(reply.String(), want) {
				t.Errorf("%s answered %s", value, reply)
			}
		}
	})
}

// At start the score is set too.
func TestOOMScore_IsSetAtStart(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind, "--oom-score-adj", "absolute", "--oom-score-adj-values",
			"600", "700", "800")
		if got := oomScore(t, server); got != 600 {
			t.Errorf("score %d", got)
		}
	})
}

func TestUnixSocket_HasTheConfiguredGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give a file to any group")
	}
	for _, group := range []string{"daemon", "1"} {
		path := filepath.Join(t.TempDir(), "socket")
		directives := []string{"--unixsocket", path, "--unixsocketgroup", group, "--unixsocketperm",
			"770"}
		instance.Start(t, instance.Subject, directives...)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if stat := info.Sys().(*syscall.Stat_t); stat.Gid != 1 || info.Mode().Perm() != 0o770 {
			t.Errorf("%s: group %d, mode %v", group, stat.Gid, info.Mode())
		}
	}
	path := filepath.Join(t.TempDir(), "socket")
	output, err := startToEnd(t, "--unixsocket", path, "--unixsocketgroup", "nobody-at-all")
	if err == nil || !strings.Contains(output, "there is no group 'nobody-at-all'") {
		t.Errorf("%v:\n%s", err, output)
	}
}

// Lines have one form and one form of time, which CONFIG SET changes.
func TestLog_HasTheConfiguredForm(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		file := filepath.Join(t.TempDir(), "server.log")
		server := instance.Start(t, kind, "--logfile", file, "--loglevel", "verbose",
			"--log-format", "json", "--log-timestamp-format", "milliseconds")
		conn := server.Dial(t)
		lines := func() []string {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Split(strings.TrimSpace(string(text)), "\n")
		}
		for _, line := range lines() {
			var fields struct {
				PID                             int
				Role, Timestamp, Level, Message string
			}
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			ms, err := strconv.ParseInt(fields.Timestamp, 10, 64)
			age := time.Since(time.UnixMilli(ms))
			if fields.PID != server.PID || fields.Role != "primary" || fields.Message == "" ||
				fields.Level == "" || err != nil || age.Abs() > time.Minute {
				t.Errorf("%q: %+v", line, fields)
			}
		}
		expectOK(t, conn, "CONFIG", "SET", "log-format", "logfmt",
			"log-timestamp-format", "iso8601")
		form := regexp.MustCompile(`^pid=\d+ role=primary timestamp="\d{4}-\d\d-\d\dT` +
			`\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d" level=info message="Accepted [^"]*"$`)
		waitFor(t, "a line of the new form", func() bool {
			server.Dial(t).Close()
			all := lines()
			for _, line := range all[max(0, len(all)-4):] {
				if form.MatchString(line) {
					return true
				}
			}
			return false
		})
	})
}

// Servers with one seed tell keys in one order, others do not.
func TestHashSeed_DecidesTheOrderOfKeys(t *testing.T) {
	order := func(directives ...string) string {
		conn := instance.Start(t, instance.Subject, directives...).Dial(t)
		for number := range 100 {
			// Keys of one slot: the seed has no say in the order of slots.
			expectOK(t, conn, "SET", fmt.Sprintf("{slot}%d", number), "x")
		}
		return do(t, conn, "KEYS", "*").String()
	}
	one, same := order("--hash-seed", "a"), order("--hash-seed", "a")
	other := order("--hash-seed", "b")
	if one != same {
		t.Errorf("one seed, two orders:\n%s\n%s", one, same)
	}
	if one == other {
		t.Error("two seeds, one order")
	}
}
