package durability

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tidemill/tests/internal/instance"
)

// writeLog has a server write a log of commands, and stops it: killed, Valkey loses what it has
// answered while it waited for a sync of what came before.
func writeLog(t *testing.T, kind instance.Kind, directory string, commands ...[]string) {
	t.Helper()
	server, err := instance.Launch(kind, directory, "--appendonly", "yes")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	conn := server.Dial(t)
	for _, words := range commands {
		if reply := do(t, conn, words...); reply.IsError() {
			t.Fatalf("%.80q: %v", words, reply)
		}
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
}

// incrementOf has the path of the only increment of a log.
func incrementOf(t *testing.T, directory string) string {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(directory, "appendonlydir", "*.incr.aof"))
	if len(names) != 1 {
		t.Fatal(names)
	}
	return names[0]
}

// Commands of a log are no calls: no statistics of calls and no log of commands has them.
func TestLogReplay_HasNoCalls(t *testing.T) {
	commands := [][]string{
		{"MULTI"}, {"SET", "a", "1"}, {"INCR", "a"}, {"EXEC"},
		{"EVAL", "return redis.call('RPUSH', 'list', 'x')", "0"},
	}
	for index := range 200 {
		commands = append(commands, []string{"SET", "key:" + strconv.Itoa(index), "value"},
			[]string{"HSET", "hash", strconv.Itoa(index), "value"})
	}
	for _, kind := range []instance.Kind{instance.Subject, instance.Valkey} {
		directory := t.TempDir()
		writeLog(t, kind, directory, commands...)
		failing, err := os.OpenFile(incrementOf(t, directory), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(failing, "*3\r\n$5\r\nLPUSH\r\n$1\r\na\r\n$1\r\nx\r\n")
		failing.Close()
		server, err := instance.Launch(kind, directory, "--appendonly", "yes",
			"--slowlog-log-slower-than", "0", "--commandlog-request-larger-than", "1")
		if err != nil {
			t.Fatal(err)
		}
		defer server.Kill()
		conn := server.Dial(t)
		for _, name := range []string{"slow", "large-request"} {
			for _, entry := range do(t, conn, "COMMANDLOG", "GET", "-1", name).Items {
				command := strings.ToLower(string(entry.Items[3].Items[0].Text))
				replayed := strings.Fields("set incr rpush hset lpush multi exec select")
				if slices.Contains(replayed, command) {
					t.Errorf("%s: %s is in the log %s", kind, command, name)
				}
			}
		}
		fields := fieldsOf(t, conn)
		if count, _ := strconv.Atoi(fields["total_commands_processed"]); count > 100 {
			t.Errorf("%s: %d commands processed", kind, count)
		}
		for _, section := range []string{"commandstats", "latencystats"} {
			text := string(do(t, conn, "INFO", section).Text)
			for _, command := range []string{"set", "incr", "rpush", "hset", "lpush"} {
				if strings.Contains(text, "_"+command+":") {
					t.Errorf("%s: %s has %s: %s", kind, section, command, text)
				}
			}
		}
		if text := string(do(t, conn, "INFO", "errorstats").Text); !strings.Contains(text,
			"errorstat_WRONGTYPE:count=1") {
			t.Errorf("%s: %s", kind, text)
		}
		if size := do(t, conn, "DBSIZE").Int(); size != 203 {
			t.Errorf("%s: %d keys", kind, size)
		}
	}
}

// A log is loaded whole although proto-max-bulk-len is lower by now than some of its values are.
func TestLogReplay_TakesWhatWasTaken(t *testing.T) {
	large := strings.Repeat("x", 3<<20)
	commands := [][]string{
		{"SET", "set", large}, {"APPEND", "appended", large}, {"APPEND", "appended", "tail"},
		{"SETRANGE", "range", "3000000", "tail"}, {"SETBIT", "bit", "24000000", "1"},
		{"BITFIELD", "field", "SET", "u8", "24000000", "7"}, {"RPUSH", "list", "a", large, "b"},
		{"MULTI"}, {"SET", "of-multi", large}, {"APPEND", "of-multi", "tail"}, {"EXEC"},
		{"SET", "last", "v"},
	}
	for _, kind := range []instance.Kind{instance.Subject, instance.Valkey} {
		directory := t.TempDir()
		writeLog(t, kind, directory, commands...)
		server, err := instance.Launch(kind, directory, "--appendonly", "yes",
			"--proto-max-bulk-len", "1mb")
		if err != nil {
			t.Fatal(err)
		}
		defer server.Kill()
		conn := server.Dial(t)
		for key, length := range map[string]int64{
			"set": 3 << 20, "appended": 3<<20 + 4, "range": 3_000_004, "bit": 3_000_001,
			"field": 3_000_001, "of-multi": 3<<20 + 4, "last": 1,
		} {
			if got := do(t, conn, "STRLEN", key).Int(); got != length {
				t.Errorf("%s: %s has %d bytes, want %d", kind, key, got, length)
			}
		}
		if count := do(t, conn, "LLEN", "list").Int(); count != 3 {
			t.Errorf("%s: the list has %d elements", kind, count)
		}
	}
}

// Commands that are answered by errors are named with their places, and counted.
func TestLogReplay_NamesWhatIsAnsweredByErrors(t *testing.T) {
	directory := t.TempDir()
	writeLog(t, instance.Subject, directory, []string{"SET", "a", "1"}, []string{"SET", "b", "1"})
	path := incrementOf(t, directory)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Without the annotations, behind which no command may be added.
	var commands []byte
	for _, line := range bytes.SplitAfter(text, []byte("\n")) {
		if !bytes.HasPrefix(line, []byte("#")) {
			commands = append(commands, line...)
		}
	}
	wrong := []byte("*3\r\n$5\r\nLPUSH\r\n$1\r\na\r\n$1\r\nx\r\n")
	stamp := []byte("#TS:1700000000\r\n")
	multi, exec := []byte("*1\r\n$5\r\nMULTI\r\n"), []byte("*1\r\n$4\r\nEXEC\r\n")
	first := len(commands) + len(stamp)
	commands = bytes.Join([][]byte{commands, wrong, multi, wrong, exec}, nil)
	second := first + len(wrong) + len(multi)
	commands = append(commands[:first-len(stamp)],
		append(bytes.Clone(stamp), commands[first-len(stamp):]...)...)
	commands = append(commands, bytes.Repeat(wrong, 20)...)
	if err := os.WriteFile(path, commands, 0o600); err != nil {
		t.Fatal(err)
	}
	server := subject(t, directory)
	defer server.Kill()
	for _, offset := range []int{first, second, second + len(wrong) + len(exec)} {
		line := fmt.Sprintf("Command 'lpush' at offset %d of %s was answered: WRONGTYPE", offset,
			filepath.Base(path))
		if !strings.Contains(server.Log(), line) {
			t.Errorf("no line %q:\n%s", line, server.Log())
		}
	}
	if count := strings.Count(server.Log(), "Command 'lpush'"); count != 10 {
		t.Errorf("%d commands are named", count)
	}
	if !strings.Contains(server.Log(), "22 command(s) of the append only file were answered") {
		t.Error(server.Log())
	}
}

// The flush of a log leaves the snapshot as it is, which may be newer.
func TestLogReplay_LeavesTheSnapshot(t *testing.T) {
	directory := t.TempDir()
	writeLog(t, instance.Subject, directory, []string{"SET", "a", "1"}, []string{"FLUSHALL"},
		[]string{"SET", "b", "1"}, []string{"SAVE"})
	snapshot := filepath.Join(directory, "dump.rdb")
	before, err := os.ReadFile(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	server := subject(t, directory, "--save", "3600 1")
	defer server.Kill()
	if after, err := os.ReadFile(snapshot); err != nil || !bytes.Equal(before, after) {
		t.Errorf("%v; %d bytes, then %d", err, len(before), len(after))
	}
	if size := do(t, server.Dial(t), "DBSIZE").Int(); size != 1 {
		t.Errorf("%d keys", size)
	}
}

// A log that no server of today has written may have relative expiries: scripts and RESTORE of
// older servers, or what a tool has written. They count from the start.
func TestLogReplay_RelativeExpiriesCountFromNow(t *testing.T) {
	for _, kind := range []instance.Kind{instance.Subject, instance.Valkey} {
		directory := t.TempDir()
		writeLog(t, kind, directory, []string{"SET", "dumped", "value"})
		log, err := os.OpenFile(incrementOf(t, directory), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range [][]string{
			{"SET", "a", "value"}, {"EXPIRE", "a", "3600"},
			{"SETEX", "b", "3600", "value"},
			{"EVAL", "return redis.call('PSETEX', KEYS[1], 3600000, 'value')", "1", "c"},
			{"HSET", "h", "f", "value"}, {"HEXPIRE", "h", "3600", "FIELDS", "1", "f"},
			{"SET", "d", "value"}, {"PEXPIREAT", "d", "1"},
		} {
			fmt.Fprintf(log, "*%d\r\n", len(words))
			for _, word := range words {
				fmt.Fprintf(log, "$%d\r\n%s\r\n", len(word), word)
			}
		}
		log.Close()
		server, err := instance.Launch(kind, directory, "--appendonly", "yes")
		if err != nil {
			t.Fatal(err)
		}
		defer server.Kill()
		conn := server.Dial(t)
		for _, key := range []string{"a", "b", "c"} {
			if seconds := do(t, conn, "TTL", key).Int(); seconds < 3000 || seconds > 3600 {
				t.Errorf("%s: %s has %d seconds left", kind, key, seconds)
			}
		}
		if reply := do(t, conn, "HTTL", "h", "FIELDS", "1", "f"); reply.Items[0].Int() < 3000 {
			t.Errorf("%s: the field has %v seconds left", kind, reply)
		}
		if reply := do(t, conn, "EXISTS", "d"); reply.Int() != 0 {
			t.Errorf("%s: what has expired is there", kind)
		}
	}
}
