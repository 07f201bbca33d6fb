// Package observe compares what the server tells about itself and its commands with what Valkey
// tells.
package observe

import (
	"bufio"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

var directives = []string{"--enable-debug-command", "yes"}

// both starts Valkey and the server under test and connects to each.
func both(t *testing.T) (valkey, subject *wire.Conn) {
	t.Helper()
	return instance.Start(t, instance.Valkey, directives...).Dial(t),
		instance.Start(t, instance.Subject, directives...).Dial(t)
}

func do(t *testing.T, conn *wire.Conn, words ...string) wire.Reply {
	t.Helper()
	reply, err := conn.Do(words...)
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return reply
}

// words splits a line at spaces; `_` is an empty word.
func words(line string) []string {
	split := strings.Fields(line)
	for index := range split {
		if split[index] == "_" {
			split[index] = ""
		}
	}
	return split
}

// requireEqual runs each line on both servers and compares the replies.
func requireEqual(t *testing.T, lines string) {
	t.Helper()
	valkey, subject := both(t)
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		call := words(line)
		if want, got := do(t, valkey, call...).String(), do(t, subject,
			call...).String(); want != got {
			t.Errorf("%s\n  valkey:  %s\n  subject: %s", line, want, got)
		}
	}
}

func TestLogs_ArgumentsAndErrorsAreValkeys(t *testing.T) {
	requireEqual(t, `
SLOWLOG GET -2
SLOWLOG GET a
SLOWLOG GET 1 2
SLOWLOG get -1
SLOWLOG GET 9223372036854775807
SLOWLOG LEN x
SLOWLOG LEN
SLOWLOG RESET
SLOWLOG FOO
COMMANDLOG GET -2 slow
COMMANDLOG GET 1 foo
COMMANDLOG GET a foo
COMMANDLOG GET 1
COMMANDLOG LEN foo
COMMANDLOG RESET foo
COMMANDLOG LEN SLOW
COMMANDLOG LEN large-request
COMMANDLOG GET 10 Large-Reply
COMMANDLOG RESET LARGE-REPLY
COMMANDLOG FOO
CONFIG GET slowlog-*
CONFIG GET commandlog-*
CONFIG SET hz 10 timeout
CONFIG SET slowlog-max-len -1
CONFIG SET slowlog-log-slower-than -2
LATENCY LATEST
LATENCY HISTORY foo
LATENCY HISTORY
LATENCY GRAPH foo
LATENCY RESET
LATENCY RESET a b
LATENCY FOO
LATENCY HISTOGRAM nothing
`)
}

// entries renders a log without times and addresses: arguments and names, and values if they are
// bytes.
func entries(t *testing.T, conn *wire.Conn, kind string) []string {
	t.Helper()
	var rendered []string
	for _, entry := range do(t, conn, "COMMANDLOG", "GET", "-1", kind).Items {
		if len(entry.Items) != 6 {
			t.Fatalf("%s: an entry of %d items: %s", kind, len(entry.Items), entry)
		}
		text := entry.Items[3].String() + " " + entry.Items[5].String()
		if kind != "slow" {
			text = entry.Items[2].String() + " " + text
		}
		rendered = append(rendered, text)
	}
	return rendered
}

func TestCommandLog_EntriesAreValkeys(t *testing.T) {
	valkey, subject := both(t)
	many := strings.Repeat("k v ", 18)
	calls := []string{
		"CONFIG SET slowlog-log-slower-than 0 commandlog-request-larger-than 0 " +
			"commandlog-reply-larger-than 0",
		"PING", "SET a b", "FOO", "GET", "INCR a", "CONFIG SET requirepass _ maxmemory 0",
		"AUTH foo", "HELLO 2 AUTH default x",
		"CLIENT SETNAME watcher", "SET long " + strings.Repeat("x", 154), "MSET " + many,
		"GET long", "LPUSH l a b c", "LRANGE l 0 -1",
		// Received into memory of its own.
		"SET large " + strings.Repeat("x", 400_000),
		"CONFIG SET slowlog-log-slower-than 10000 commandlog-request-larger-than -1 " +
			"commandlog-reply-larger-than -1",
	}
	for _, conn := range []*wire.Conn{valkey, subject} {
		for _, call := range calls {
			do(t, conn, words(call)...)
		}
	}
	for _, kind := range []string{"slow", "large-request", "large-reply"} {
		want, got := entries(t, valkey, kind), entries(t, subject, kind)
		for index := range max(len(want), len(got)) {
			// HELLO's reply differs in length by intent, and names no version of Valkey's.
			line := func(lines []string) string {
				if index >= len(lines) ||
					(kind == "large-reply" && strings.Contains(lines[index], "HELLO")) {
					return ""
				}
				return lines[index]
			}
			if line(want) != line(got) {
				t.Errorf("%s %d\n  valkey:  %s\n  subject: %s", kind, index, line(want), line(got))
			}
		}
		if len(want) < 10 {
			t.Errorf("%s: only %d entries", kind, len(want))
		}
	}
}

func TestSlowlog_LogsEachCommandOfATransactionAndOfAPipelineAtThresholdZero(t *testing.T) {
	valkey, subject := both(t)
	for _, conn := range []*wire.Conn{valkey, subject} {
		do(t, conn, "CONFIG", "SET", "slowlog-log-slower-than", "0")
		do(t, conn, "SLOWLOG", "RESET")
		for _, call := range []string{"MULTI", "SET a 1", "INCR a", "EXEC", "GET a", "GET a",
			"DEBUG SLEEP 0.01"} {
			if err := conn.Send(words(call)...); err != nil {
				t.Fatal(err)
			}
		}
		for range 7 {
			if _, err := conn.Receive(); err != nil {
				t.Fatal(err)
			}
		}
		do(t, conn, "CONFIG", "SET", "slowlog-log-slower-than", "-1")
	}
	want, got := entries(t, valkey, "slow"), entries(t, subject, "slow")
	if fmt.Sprint(want) != fmt.Sprint(got) {
		t.Errorf("valkey:  %v\nsubject: %v", want, got)
	}
}

func TestSlowlog_FindsTheSlowCommandInAPipeline(t *testing.T) {
	subject := instance.Start(t, instance.Subject, directives...).Dial(t)
	do(t, subject, "SET", "a", "1")
	for _, call := range []string{"GET a", "GET a", "DEBUG SLEEP 0.03", "GET a"} {
		if err := subject.Send(words(call)...); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		if _, err := subject.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	log := do(t, subject, "SLOWLOG", "GET").Items
	if len(log) != 1 || string(log[0].Items[3].Items[0].Text) != "DEBUG" ||
		log[0].Items[2].Int() < 30_000 {
		t.Errorf("expected DEBUG SLEEP alone, of at least 30,000 us: %v", log)
	}
}

func TestSlowlog_KeepsTheNewest(t *testing.T) {
	requireEqual(t, `
CONFIG SET slowlog-log-slower-than 0
CONFIG SET slowlog-max-len 3
PING
PING
PING
PING
SLOWLOG LEN
CONFIG SET slowlog-max-len 0
SLOWLOG LEN
CONFIG SET slowlog-max-len 128
SLOWLOG RESET
SLOWLOG LEN
`)
}

func TestLatency_EventsAreKeptAsInValkey(t *testing.T) {
	valkey, subject := both(t)
	for _, conn := range []*wire.Conn{valkey, subject} {
		do(t, conn, "CONFIG", "SET", "latency-monitor-threshold", "20")
		for _, seconds := range []string{"0.03", "0.06", "0.001"} {
			do(t, conn, "DEBUG", "SLEEP", seconds)
		}
		latest := do(t, conn, "LATENCY", "LATEST").Items
		if len(latest) != 1 || string(latest[0].Items[0].Text) != "command" {
			t.Fatalf("LATENCY LATEST: %v", latest)
		}
		event := latest[0].Items
		// A busy machine can make the briefest sleep one of 20 ms and more.
		brief := len(event) == 6 && event[5].Int() == 3 && event[2].Int() >= 20
		if len(event) != 6 || event[3].Int() < 60 || event[4].Int() < event[3].Int()+30 ||
			(event[5].Int() != 2 && !brief) {
			t.Errorf("time, latest, max, sum, count: %v", event)
		}
		if history := do(t, conn, "LATENCY", "HISTORY", "command").Items; len(history) == 0 ||
			len(history) > 3 {
			t.Errorf("LATENCY HISTORY: %v", history)
		}
		graph := string(do(t, conn, "LATENCY", "GRAPH", "command").Text)
		if matched, _ := regexp.MatchString(
			`^command - high \d+ ms, low \d+ ms \(all time high \d+ ms\)\n-{80}\n`,
			graph); !matched {
			t.Errorf("LATENCY GRAPH: %s", graph)
		}
		doctor := string(do(t, conn, "LATENCY", "DOCTOR").Text)
		if !strings.Contains(doctor, "1. command: ") {
			t.Errorf("LATENCY DOCTOR: %s", doctor)
		}
		if removed := do(t, conn, "LATENCY", "RESET", "command", "foo").Int(); removed != 1 {
			t.Errorf("LATENCY RESET: %d", removed)
		}
	}
}

func TestLatencyHistogram_CountsEveryCall(t *testing.T) {
	valkey, subject := both(t)
	for _, conn := range []*wire.Conn{valkey, subject} {
		for range 100 {
			if err := conn.Send("SET", "a", "1"); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 {
			if _, err := conn.Receive(); err != nil {
				t.Fatal(err)
			}
		}
		do(t, conn, "MULTI")
		do(t, conn, "SET", "a", "2")
		do(t, conn, "EXEC")
		do(t, conn, "CONFIG", "GET", "port")
		reply := do(t, conn, "LATENCY", "HISTOGRAM", "set", "config", "nothing").Items
		if len(reply) != 4 || string(reply[0].Text) != "set" ||
			string(reply[2].Text) != "config|get" {
			t.Fatalf("LATENCY HISTOGRAM: %v", reply)
		}
		inOrder := do(t, conn, "LATENCY", "HISTOGRAM", "config", "set", "set").Items
		if len(inOrder) != 6 || string(inOrder[0].Text) != "config|get" ||
			string(inOrder[2].Text) != "set" || string(inOrder[4].Text) != "set" {
			t.Errorf("LATENCY HISTOGRAM in another order: %v", inOrder)
		}
		histogram := reply[1].Items
		points := histogram[3].Items
		if histogram[1].Int() != 101 || points[len(points)-1].Int() != 101 {
			t.Errorf("calls of SET: %v", histogram)
		}
		info := string(do(t, conn, "INFO", "latencystats").Text)
		if matched, _ := regexp.MatchString(
			`latency_percentiles_usec_set:p50=\d+\.\d{3},p99=\d+\.\d{3},p99\.9=\d+\.\d{3}\r\n`,
			info); !matched {
			t.Errorf("INFO latencystats: %s", info)
		}
		do(t, conn, "CONFIG", "SET", "latency-tracking", "no")
		if info := string(do(t, conn, "INFO", "latencystats").Text); info != "# Latencystats\r\n" {
			t.Errorf("INFO latencystats without tracking: %q", info)
		}
		do(t, conn, "CONFIG", "RESETSTAT")
		if reply := do(t, conn, "LATENCY", "HISTOGRAM", "set"); len(reply.Items) != 0 {
			t.Errorf("after CONFIG RESETSTAT: %v", reply)
		}
	}
}

// monitor is a connection that reads lines.
type monitor struct {
	conn  net.Conn
	lines *bufio.Scanner
}

func newMonitor(t *testing.T, address string) *monitor {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	m := &monitor{conn: conn, lines: bufio.NewScanner(conn)}
	m.send(t, "MONITOR")
	if line := m.next(t); line != "+OK" {
		t.Fatalf("MONITOR answered %s", line)
	}
	return m
}

func (m *monitor) send(t *testing.T, line string) {
	t.Helper()
	if _, err := m.conn.Write([]byte(line + "\r\n")); err != nil {
		t.Fatal(err)
	}
}

func (m *monitor) next(t *testing.T) string {
	t.Helper()
	_ = m.conn.SetReadDeadline(time.Now().Add(time.Minute))
	if !m.lines.Scan() {
		t.Fatalf("the monitor got no line: %v", m.lines.Err())
	}
	return m.lines.Text()
}

var source = regexp.MustCompile(`^\+\d{10}\.\d{6} \[(\d+) 127\.0\.0\.1:\d+\]`)

// linesUntil returns lines without times and ports, up to the one that holds `last`.
func (m *monitor) linesUntil(t *testing.T, last string) []string {
	t.Helper()
	var lines []string
	for {
		line := source.ReplaceAllString(m.next(t), "$1")
		if strings.Contains(line, last) {
			return lines
		}
		lines = append(lines, line)
	}
}

func TestMonitor_LinesAreValkeys(t *testing.T) {
	var seen [2][]string
	for index, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		server := instance.Start(t, kind, directives...)
		monitor, conn := newMonitor(t, server.Address), server.Dial(t)
		for _, call := range []string{
			"PING", "AUTH foo", "HELLO 3 AUTH default x", "HELLO 2", "CONFIG GET port",
			"CLIENT SETNAME q", "MULTI", "SET q 1",
			"incr q", "EXEC", "FOO", "GET", "INCR nn x", "SELECT 3", "GET a", "SLOWLOG LEN",
			"LATENCY RESET", "MEMORY USAGE a",
			"DEBUG SLEEP 0", "LPUSH l 1", "BLPOP l 0", "BLPOP nothing 0.01", "COMMAND COUNT",
			"MULTI", "EXEC", "MULTI", "MONITOR",
			"EXEC", "WATCH a", "UNWATCH", "RESET", "DISCARD", "MULTI", "GET", "EXEC",
			"OBJECT FREQ a", "EVAL ( 0", "EVAL ( x", "EVALSHA x 0", "FCALL f 0", "EVAL",
			"MULTI", "EVAL ( 0", "EVALSHA x 0", "EXEC",
		} {
			do(t, conn, words(call)...)
		}
		do(t, conn, "SET", "\x00\a\b\x1b\xff\t\r k", "'\"\\\n")
		do(t, conn, "ECHO", "done")
		seen[index] = monitor.linesUntil(t, `"done"`)
	}
	if want, got := strings.Join(seen[0], "\n"), strings.Join(seen[1], "\n"); want != got {
		t.Errorf("valkey:\n%s\nsubject:\n%s", want, got)
	}
	if len(seen[0]) < 20 {
		t.Errorf("only %d lines", len(seen[0]))
	}
}

func TestMonitor_MayNotTouchDataAndEndsByReset(t *testing.T) {
	for _, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		server := instance.Start(t, kind, directives...)
		monitor, conn := newMonitor(t, server.Address), server.Dial(t)
		const refusal = "-ERR Replica can't interact with the keyspace"
		// A second MONITOR is not answered.
		for _, step := range []struct{ call, reply string }{{"MONITOR\r\nGET a", refusal},
			{"SET a b", refusal}, {"CLIENT ID", ":"}} {
			monitor.send(t, step.call)
			if line := monitor.next(t); !strings.HasPrefix(line, step.reply) {
				t.Errorf("%s: %s answered %s", kind, step.call, line)
			}
		}
		if line := monitor.next(t); !strings.HasSuffix(line, `"CLIENT" "ID"`) {
			t.Errorf("%s: a monitor sees its own commands, got %s", kind, line)
		}
		if list := string(do(t, conn, "CLIENT", "LIST").Text); !strings.Contains(list, "flags=O") {
			t.Errorf("%s: CLIENT LIST shows no monitor: %s", kind, list)
		}
		monitor.send(t, "RESET")
		if line := monitor.next(t); line != "+RESET" {
			t.Errorf("%s: RESET answered %s", kind, line)
		}
		do(t, conn, "PING")
		monitor.send(t, "GET a")
		if line := monitor.next(t); line != "$-1" {
			t.Errorf("%s: after RESET a monitor got %s", kind, line)
		}
	}
}

// TestMonitor_SeesEveryClientInOrder runs clients on several workers.
func TestMonitor_SeesEveryClientInOrder(t *testing.T) {
	const clients, calls = 8, 500
	server := instance.Start(t, instance.Subject, "--worker-threads", "2")
	monitor := newMonitor(t, server.Address)
	for client := range clients {
		conn := server.Dial(t)
		go func() {
			for call := range calls {
				_ = conn.Send("SET", strconv.Itoa(client), strconv.Itoa(call))
			}
			for range calls {
				_, _ = conn.Receive()
			}
		}()
	}
	var next [clients]int
	line := regexp.MustCompile(` "SET" "(\d+)" "(\d+)"$`)
	for range clients * calls {
		text := monitor.next(t)
		found := line.FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("unexpected line %s", text)
		}
		client, _ := strconv.Atoi(found[1])
		if call, _ := strconv.Atoi(found[2]); call != next[client] {
			t.Fatalf("client %d: call %d came where %d was next", client, call, next[client])
		}
		next[client]++
	}
}

func TestMemoryAndDebug_ArgumentsAndErrorsAreValkeys(t *testing.T) {
	requireEqual(t, `
SET a b
MEMORY STATS x
MEMORY PURGE
MEMORY PURGE x
MEMORY DOCTOR x
MEMORY USAGE nothing
MEMORY USAGE a SAMPLES
MEMORY USAGE a SAMPLES -1
MEMORY USAGE a SAMPLES x
MEMORY USAGE a FOO 0
MEMORY FOO
DEBUG OBJECT nothing
DEBUG OBJECT
DEBUG OBJECT a fast x
DEBUG SET-ACTIVE-EXPIRE 0
DEBUG SET-ACTIVE-EXPIRE 1
DEBUG SET-ACTIVE-EXPIRE 2
DEBUG SET-ACTIVE-EXPIRE x
DEBUG SET-ACTIVE-EXPIRE
DEBUG SLEEP
DEBUG SLEEP x
DEBUG SLEEP -1
DEBUG SLEEP 0.001
DEBUG SLEEP 0 1
DEBUG HELP x
LOLWUT VERSION x
LOLWUT foo bar
LOLWUT 10
LOLWUT 1 2 3
LOLWUT 1 2 3 4 5
LOLWUT 10 2 x 0.2
LOLWUT 2 1 nan 0
LOLWUT VERSION
`)
}

func TestDebugForms_AnswerAsValkeys(t *testing.T) {
	requireEqual(t, `
SET a b
DEBUG POPULATE
DEBUG POPULATE -1
DEBUG POPULATE x
DEBUG POPULATE 3 b x
DEBUG POPULATE 3 b -1
DEBUG POPULATE 1 b 1 1
SET key:1 mine
DEBUG POPULATE 2
MGET key:0 key:1 key:2
DEBUG POPULATE 2 short 3
MGET short:0 short:1
DEBUG POPULATE 2 long 10
MGET long:0 long:1
OBJECT ENCODING long:1
DBSIZE
MULTI
DEBUG POPULATE 2 queued
EXEC
DBSIZE
DEBUG HTSTATS x
DEBUG HTSTATS 99
DEBUG HTSTATS 5
DEBUG HTSTATS-KEY nothing
DEBUG HTSTATS-KEY a
RPUSH small 1 2 3
DEBUG HTSTATS-KEY small
DEBUG LISTPACK small
DEBUG LISTPACK a
DEBUG QUICKLIST small
DEBUG QUICKLIST nothing
DEBUG QUICKLIST a 1
DEBUG SDSLEN nothing
DEBUG SDSLEN small
DEBUG CHANGE-REPL-ID x
DEBUG SET-SKIP-CHECKSUM-VALIDATION 1
DEBUG SET-SKIP-CHECKSUM-VALIDATION
DEBUG STRINGMATCH-TEST
DEBUG STRINGMATCH-LEN 1 2
DEBUG PROTECT-CLIENT x
DEBUG PROTECT-CLIENT 0
DEBUG PROTECT-CLIENT 999999
DEBUG REPLYBUFFER PEAK-RESET-TIME NEVER
DEBUG REPLYBUFFER PEAK-RESET-TIME 100
DEBUG REPLYBUFFER PEAK-RESET-TIME x
DEBUG REPLYBUFFER RESIZING 1
DEBUG REPLYBUFFER FOO 1
DEBUG LOG hello
DEBUG LEAK hello
DEBUG PAUSE-CRON 0
DEBUG PAUSE-AFTER-FORK 0
DEBUG HASHTABLE-CAN-ABORT-SHRINK 1
`)
}

// names returns every second item: the names of a map in RESP2.
func names(reply wire.Reply) []string {
	var found []string
	for index := 0; index < len(reply.Items); index += 2 {
		found = append(found, string(reply.Items[index].Text))
	}
	return found
}

func TestMemoryStats_FieldsAreValkeys(t *testing.T) {
	valkey, subject := both(t)
	for _, conn := range []*wire.Conn{valkey, subject} {
		for index := range 1000 {
			do(t, conn, "SET", strconv.Itoa(index), strings.Repeat("x", 1000))
		}
		do(t, conn, "SELECT", "3")
		do(t, conn, "SET", "a", "b")
	}
	want, got := do(t, valkey, "MEMORY", "STATS"), do(t, subject, "MEMORY", "STATS")
	if fmt.Sprint(names(want)) != fmt.Sprint(names(got)) {
		t.Errorf("valkey:  %v\nsubject: %v", names(want), names(got))
	}
	value := map[string]int64{}
	for index, name := range names(got) {
		value[name] = got.Items[2*index+1].Int()
	}
	if value["keys.count"] != 1001 || value["total.allocated"] < 1e6 ||
		value["dataset.bytes"] < 1e6 ||
		value["peak.allocated"] < value["total.allocated"] ||
		value["allocator.allocated"] < value["dataset.bytes"] ||
		value["allocator.active"] < value["allocator.allocated"] {
		t.Errorf("figures that cannot be: %s", got)
	}
	report := string(do(t, subject, "MEMORY", "MALLOC-STATS").Text)
	if !strings.Contains(report, "jemalloc") {
		t.Errorf("MEMORY MALLOC-STATS: %.200s", report)
	}
}

func TestDebugObject_IsWrittenAsInValkey(t *testing.T) {
	valkey, subject := both(t)
	shape := regexp.MustCompile(`at:0x[0-9a-f]+|lru:\d+|lru_seconds_idle:\d+`)
	for _, call := range []string{"SET a 1", "SET b text", "RPUSH l a", "HSET h f v", "SADD s 1 2",
		"SADD t a b", "ZADD z 1 a 2.5 b", "SET long " + strings.Repeat("x", 1000),
		"DEBUG OBJECT a", "DEBUG OBJECT b", "DEBUG OBJECT b fast", "DEBUG OBJECT l",
		"DEBUG OBJECT h x", "DEBUG OBJECT s", "DEBUG OBJECT t", "DEBUG OBJECT z",
		"DEBUG OBJECT long"} {
		rendered := func(conn *wire.Conn) string {
			return shape.ReplaceAllString(do(t, conn, words(call)...).String(), "_")
		}
		if want, got := rendered(valkey), rendered(subject); want != got {
			t.Errorf("%s\n  valkey:  %s\n  subject: %s", call, want, got)
		}
	}
}

func TestDebug_IsRefusedUnlessEnabled(t *testing.T) {
	for _, enable := range []string{"no", "local", "yes"} {
		var replies [2]string
		for index, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
			conn := instance.Start(t, kind, "--enable-debug-command", enable).Dial(t)
			replies[index] = do(t, conn, "DEBUG", "SLEEP", "0").String()
		}
		if replies[0] != replies[1] || strings.HasPrefix(replies[0], "-") != (enable == "no") {
			t.Errorf("%s: valkey %s, subject %s", enable, replies[0], replies[1])
		}
	}
}

func TestLolwut_DrawsAsLargeAsAsked(t *testing.T) {
	valkey, subject := both(t)
	for _, call := range []string{
		"LOLWUT", "LOLWUT 10 3", "LOLWUT -1 -1", "LOLWUT 5000 5000",
		"LOLWUT VERSION 9 4 2 0.5 -0.25", "LOLWUT VERSION 7",
		"LOLWUT VERSION 7 x y z", "LOLWUT VERSION 10", "LOLWUT VERSION 95 7 3",
		"LOLWUT VERSION 9 x", "LOLWUT VERSION 6 1 x",
		"LOLWUT VERSION 5 1 1 x", "LOLWUT VERSION 9223372036854775807 x",
		"LOLWUT VERSION 4294967301 x",
	} {
		size := func(conn *wire.Conn) string {
			lines := strings.Split(string(do(t, conn, words(call)...).Text), "\n")
			if len(lines) < 4 {
				return strconv.Itoa(len(lines))
			}
			return fmt.Sprint(len(lines[0]), "x", len(lines))
		}
		if want, got := size(valkey), size(subject); want != got {
			t.Errorf("%s: valkey %s, subject %s", call, want, got)
		}
	}
}

// info returns the fields of INFO's sections.
func info(t *testing.T, conn *wire.Conn, sections ...string) map[string]string {
	t.Helper()
	fields := map[string]string{}
	for _, line := range strings.Split(
		string(do(t, conn, append([]string{"INFO"}, sections...)...).Text), "\r\n") {
		if name, value, found := strings.Cut(line, ":"); found {
			fields[name] = value
		}
	}
	return fields
}

// awaitField waits until a field of INFO has a value.
func awaitField(t *testing.T, conn *wire.Conn, section, name, value string) {
	t.Helper()
	for range 10_000 {
		if info(t, conn, section)[name] == value {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%s is not %s in time", name, value)
}

// TestInfo_NamesAreValkeysOrDeclaredHere keeps a name from being invented where Valkey has one for
// the same thing.
func TestInfo_NamesAreValkeysOrDeclaredHere(t *testing.T) {
	valkey, subject := both(t)
	for _, conn := range []*wire.Conn{valkey, subject} {
		// The connection by which it was seen to be ready ends a moment later.
		awaitField(t, conn, "clients", "connected_clients", "1")
		for _, call := range []string{"SET a 1", "GET a", "AUTH a b", "CLIENT SETNAME x"} {
			do(t, conn, words(call)...)
		}
	}
	own := regexp.MustCompile(
		`^(tidemill_version|worker_threads|rcu_flavour|rcu_quiescent|rcu_read_section|` +
			`parked_sessions|coalesced_waits|restart_loses_all_data|` +
			`used_memory_retired(_max)?|lazyfree_pending_bytes|tls_handshakes_\w+|` +
			`worker\d+(_\w+)?)$`)
	// Valkey shows its own with more than one I/O thread.
	perThread := regexp.MustCompile(`^used_active_time_io_thread_\d+$`)
	sections := []string{"everything", "debug"}
	theirs, ours := info(t, valkey, sections...), info(t, subject, sections...)
	for name := range ours {
		if perThread.MatchString(name) {
			continue
		}
		if _, known := theirs[name]; !known && !own.MatchString(name) {
			t.Errorf("%s is no field of Valkey's INFO", name)
		}
	}
	for _, name := range []string{"acl_access_denied_auth", "total_error_replies",
		"connected_clients", "keyspace_hits", "clients_in_timeout_table", "db0"} {
		if name != "db0" && theirs[name] != ours[name] {
			t.Errorf("%s: valkey %s, subject %s", name, theirs[name], ours[name])
		}
		if ours[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
	if want, got := regexp.MustCompile(`port=\d+`).ReplaceAllString(theirs["listener0"],
		""), regexp.MustCompile(`port=\d+`).ReplaceAllString(ours["listener0"], ""); want != got {
		t.Errorf("listener0: valkey %s, subject %s", want, got)
	}
}

// ratesDeadline ends a test of a server that samples nothing.
const ratesDeadline = 30 * time.Second

func TestInfo_TellsOfWaitersPausesAndRates(t *testing.T) {
	for _, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		server := instance.Start(t, kind)
		conn := server.Dial(t)
		for _, call := range []string{"BLPOP k1 k2 0", "BLPOP k1 100", "BLMOVE k3 k1 LEFT LEFT 0"} {
			if err := server.Dial(t).Send(words(call)...); err != nil {
				t.Fatal(err)
			}
		}
		awaitField(t, conn, "clients", "blocked_clients", "3")
		do(t, conn, "CLIENT", "PAUSE", "100000", "WRITE")
		fields := info(t, conn, "clients")
		left, _ := strconv.Atoi(fields["paused_timeout_milliseconds"])
		got := fmt.Sprintf("%s %s %s %s %s %v", fields["blocked_clients"],
			fields["clients_in_timeout_table"], fields["total_blocking_keys"],
			fields["paused_reason"], fields["paused_actions"], left > 90_000)
		if want := "3 1 3 client_pause write true"; got != want {
			t.Errorf("%s: expected %s, got %s", kind, want, got)
		}
		do(t, conn, "CLIENT", "UNPAUSE")
		awaitRates(t, kind, conn)
	}
}

// awaitRates sends commands until the rates tell of them. They are means of samples of the last
// second or two: how soon enough samples are of commands, and how many commands a sample is of, is
// up to the machine.
func awaitRates(t *testing.T, kind instance.Kind, conn *wire.Conn) {
	t.Helper()
	var rate, kbps string
	for begin := time.Now(); time.Since(begin) < ratesDeadline; {
		for range 100 {
			do(t, conn, "PING")
		}
		fields := info(t, conn, "stats")
		rate, kbps = fields["instantaneous_ops_per_sec"], fields["instantaneous_input_kbps"]
		if count, _ := strconv.Atoi(rate); count >= 10 && kbps != "0.00" {
			return
		}
	}
	t.Errorf("%s: %s commands, %s KiB per second", kind, rate, kbps)
}

func TestKeyspaceEventsDirective_IsNormalizedAsInValkey(t *testing.T) {
	var lines strings.Builder
	for _, classes := range []string{"KEA", "AKE", "gxKE$lshzxetdnm", "Kn", "xg", "mAn", "q", "_",
		"g$lshzxetd", "g$lshzxed", "EK", "mKnt", "KK", "A", "AA", "Ke a"} {
		fmt.Fprintf(&lines,
			"CONFIG SET notify-keyspace-events %s\nCONFIG GET notify-keyspace-events\n",
			strings.ReplaceAll(classes, " ", ","))
	}
	requireEqual(t, lines.String())
}

func TestObject_AnswersUseUnderThePolicyInForce(t *testing.T) {
	requireEqual(t, `
SET s 1
OBJECT FREQ s
OBJECT FREQ nothing
OBJECT IDLETIME s
OBJECT IDLETIME nothing
OBJECT FREQ
`)
}
