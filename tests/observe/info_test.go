package observe

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// perCall begins the fields of INFO that there are one of per command, error code, database or
// worker.
var perCall = regexp.MustCompile(`^(cmdstat_|errorstat_|latency_percentiles_usec_|worker\d)`)

// absent returns the patterns of fields that docs/observing.md says are not shown.
func absent(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(instance.Root(), "docs", "observing.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text),
		"\n## Fields of Valkey's INFO that are not shown\n")
	if !found {
		t.Fatal("docs/observing.md has no list of fields that are not shown")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var patterns []string
	for _, match := range regexp.MustCompile("`([a-z0-9_*]+)`").FindAllStringSubmatch(section, -1) {
		patterns = append(patterns, match[1])
	}
	return patterns
}

// TestInfo_ShowsValkeysFieldsButThoseDocumentedAsAbsent keeps the list in docs/observing.md exact
// in both directions.
func TestInfo_ShowsValkeysFieldsButThoseDocumentedAsAbsent(t *testing.T) {
	valkey, subject := both(t)
	for _, conn := range []*wire.Conn{valkey, subject} {
		do(t, conn, "SET", "key", "value", "EX", "1000")
	}
	sections := []string{"everything", "debug"}
	theirs, ours := info(t, valkey, sections...), info(t, subject, sections...)
	used := map[string]bool{}
	for name := range theirs {
		if _, shown := ours[name]; shown || perCall.MatchString(name) {
			continue
		}
		documented := false
		for _, pattern := range absent(t) {
			if matches, _ := path.Match(pattern, name); matches {
				documented, used[pattern] = true, true
			}
		}
		if !documented {
			t.Errorf("%s:%s is neither shown nor documented as absent", name, theirs[name])
		}
	}
	for _, pattern := range absent(t) {
		if !used[pattern] {
			t.Errorf("docs/observing.md lists %s, but no field of Valkey's is missing by that name",
				pattern)
		}
	}
	if len(theirs) < 150 {
		t.Errorf("Valkey shows %d fields only", len(theirs))
	}
}

// TestInfoKeyspace_CountsAreValkeys compares the counts of keys with an expiry and of hashes with
// fields that have one, after everything that may change them.
func TestInfoKeyspace_CountsAreValkeys(t *testing.T) {
	valkey, subject := both(t)
	averages := regexp.MustCompile(`avg_ttl=\d+`)
	for _, line := range strings.Split(strings.TrimSpace(`
DEBUG SET-ACTIVE-EXPIRE 0
HSET h a 1 b 2
HEXPIRE h 1000 FIELDS 1 a
HEXPIRE h 1000 FIELDS 2 a b
HSETEX g EX 1000 FIELDS 1 a 1
COPY h c
COPY h d DB 3
RENAME g r
EXPIRE r 1000
PERSIST r
HPERSIST c FIELDS 1 a
HPERSIST c FIELDS 1 b
HSET h a 3
HDEL h b
HEXPIRE h 1000 FIELDS 1 a
SET h 1
HSETEX m EX 1000 FIELDS 2 a 1 b 2
MOVE m 5
SWAPDB 0 5
HSETEX n PX 1 FIELDS 1 a 1
HEXPIRE r 0 FIELDS 1 a
SET s 1 EX 1000
SETEX q 1000 1
GETEX s PERSIST
RENAME q s
DEL s
FLUSHDB
SWAPDB 0 5
HSETEX big EX 1000 FIELDS 1 a 1
FLUSHALL
HSETEX last EX 1000 FIELDS 1 a 1
`), "\n") {
		var shown [2]string
		for index, conn := range []*wire.Conn{valkey, subject} {
			reply := do(t, conn, words(line)...).String()
			text := averages.ReplaceAllString(string(do(t, conn, "INFO", "keyspace").Text),
				"avg_ttl=_")
			shown[index] = reply + "\n" + text
		}
		if shown[0] != shown[1] {
			t.Errorf("%s\nvalkey:  %s\nsubject: %s", line, shown[0], shown[1])
		}
	}
}

// TestInfoKeyspace_AverageTimeToLiveIsThatOfTheKeys waits for the sweep, which measures it.
func TestInfoKeyspace_AverageTimeToLiveIsThatOfTheKeys(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "2")
	conn := server.Dial(t)
	for index := range 200 {
		do(t, conn, "SET", strconv.Itoa(index), "x", "EX", strconv.Itoa(10_000+100*index))
		do(t, conn, "SET", "forever"+strconv.Itoa(index), "x")
	}
	average := regexp.MustCompile(`avg_ttl=(\d+),`)
	var ms int
	const pause = 10 * time.Millisecond
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(
		pause) {
		ms, _ = strconv.Atoi(
			average.FindStringSubmatch(string(do(t, conn, "INFO", "keyspace").Text))[1])
		// 19,950 seconds on average, less those that the test took.
		if ms > 19_800_000 && ms <= 19_950_000 {
			return
		}
	}
	t.Errorf("an average of %d ms", ms)
}

func TestInfo_CountsReadsWritesAndIterations(t *testing.T) {
	for _, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		conn := instance.Start(t, kind).Dial(t)
		const calls = 1000
		number := func(fields map[string]string, name string) int {
			value, err := strconv.Atoi(fields[name])
			if err != nil {
				t.Errorf("%s: %s is %q", kind, name, fields[name])
			}
			return value
		}
		before := info(t, conn, "stats")
		for range calls {
			do(t, conn, "PING")
		}
		after := info(t, conn, "stats")
		for _, name := range []string{"total_reads_processed", "total_writes_processed",
			"eventloop_cycles"} {
			if grown := number(after, name) - number(before, name); grown < calls ||
				grown > 2*calls {
				t.Errorf("%s: %s grew by %d in %d calls", kind, name, grown, calls)
			}
		}
		for _, name := range []string{"eventloop_duration_sum", "eventloop_duration_cmd_sum"} {
			if number(after, name) <= number(before, name) {
				t.Errorf("%s: %s did not grow", kind, name)
			}
		}
		if number(after, "eventloop_duration_sum") < number(after, "eventloop_duration_cmd_sum") {
			t.Errorf("%s: commands took longer than the event loop: %v", kind, after)
		}
		before = info(t, conn, "stats")
		for _, call := range []string{"MULTI", "SET a 1", "INCR a", "EXEC", "GET", "FOO"} {
			do(t, conn, words(call)...)
		}
		// INFO itself, MULTI, EXEC and what it ran; what was refused does not count.
		if grown := number(info(t, conn, "stats"), "total_commands_processed") - number(before,
			"total_commands_processed"); grown != 5 {
			t.Errorf("%s: a transaction of two commands counted as %d", kind, grown)
		}
		do(t, conn, "CONFIG", "RESETSTAT")
		if left := number(info(t, conn, "stats"), "total_reads_processed"); left > 10 {
			t.Errorf("%s: CONFIG RESETSTAT left %d reads", kind, left)
		}
	}
}

// TestClientList_CountsAreValkeys compares what a client did as others see it.
func TestClientList_CountsAreValkeys(t *testing.T) {
	shown := regexp.MustCompile(
		`(?:^| )((?:name|db|multi|watch|qbuf|omem|events|cmd|user|` +
			`resp|lib-name|lib-ver|tot-net-in|tot-net-out|tot-cmds)=\S*)`)
	names := regexp.MustCompile(`(?:^| )([a-z-]+)=`)
	valkey, subject := instance.Start(t, instance.Valkey), instance.Start(t, instance.Subject)
	seen := []*wire.Conn{valkey.Dial(t), subject.Dial(t)}
	observers := []*wire.Conn{valkey.Dial(t), subject.Dial(t)}
	ids := []string{}
	for _, conn := range seen {
		ids = append(ids, strconv.FormatInt(do(t, conn, "CLIENT", "ID").Int(), 10))
	}
	all := func(pattern *regexp.Regexp, line string) (found string) {
		for _, match := range pattern.FindAllStringSubmatch(line, -1) {
			found += match[1] + " "
		}
		return found
	}
	for _, call := range []string{
		"CLIENT SETINFO LIB-NAME lib", "CLIENT SETINFO LIB-VER 1.2", "CLIENT SETNAME me",
		"WATCH a b", "MULTI",
		"SET a 1", "INCR a", "EXEC", "GET", "FOO", "CLIENT FOO", "MULTI", "GET a", "DISCARD",
		"SELECT 3", "MULTI", "GET", "EXEC",
		"CLIENT SETNAME _", "RESET",
	} {
		var lines [2]string
		see := func(index int) string {
			lines[index] = string(do(t, observers[index], "CLIENT", "LIST", "ID", ids[index]).Text)
			return all(shown, lines[index])
		}
		do(t, seen[0], words(call)...)
		do(t, seen[1], words(call)...)
		want := see(0)
		// Counters that the server updates behind a reply may change a moment after it.
		got := see(1)
		for deadline := time.Now().Add(10 * time.Second); got != want &&
			time.Now().Before(deadline); got = see(1) {
			time.Sleep(time.Millisecond)
		}
		if want != got {
			t.Errorf("%s\nvalkey:  %s\nsubject: %s", call, want, got)
		}
		if want, got := all(names, lines[0]), all(names, lines[1]); want != got {
			t.Errorf("valkey:  %s\nsubject: %s", want, got)
		}
	}
}
