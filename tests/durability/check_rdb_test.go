package durability

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// The statistics of a file are those that Valkey's tool tells, but for sorted sets, of which it
// counts scores as elements while they are small.
func TestCheckRDB_TellsStatisticsAsValkeyDoes(t *testing.T) {
	if !instance.SubjectIsTidemill() {
		t.Skip("the tool is Tidemill's")
	}
	directory := t.TempDir()
	server, err := instance.Launch(instance.Valkey, directory, "--enable-debug-command", "yes")
	if err != nil {
		t.Fatal(err)
	}
	conn := server.Dial(t)
	fillWithAllTypes(t, conn)
	do(t, conn, "SAVE")
	server.Kill()
	snapshot := filepath.Join(directory, "dump.rdb")
	tool := func(kind instance.Kind, arguments ...string) string {
		t.Helper()
		name := filepath.Join(t.TempDir(), "valkey-check-rdb")
		if err := exec.Command("ln", "-s", instance.Binary(kind), name).Run(); err != nil {
			t.Fatal(err)
		}
		words := append([]string{snapshot, "--stats"}, arguments...)
		output, err := exec.Command(name, words...).Output()
		if err != nil {
			t.Fatalf("%v: %v: %s", kind, err, output)
		}
		return string(output)
	}
	scoresCount := regexp.MustCompile(`zset\.(keys.value_size|elements)`)
	values := func(output string) map[string]string {
		found := map[string]string{}
		for _, line := range strings.Split(output, "\n") {
			name, value, _ := strings.Cut(strings.TrimPrefix(line, "[info] "), ":")
			isOfKeys := strings.HasPrefix(name, "db.0.") || strings.HasPrefix(name, "db.9.")
			if isOfKeys && !scoresCount.MatchString(name) {
				found[name] = value
			}
		}
		return found
	}
	ours, theirs := values(tool(instance.Subject, "--format", "info")),
		values(tool(instance.Valkey, "--format", "info"))
	if len(theirs) != 2*(7*17-13) {
		t.Errorf("Valkey tells %d values", len(theirs))
	}
	for name, value := range theirs {
		if ours[name] != value {
			t.Errorf("%s is %s, Valkey says %s", name, ours[name], value)
		}
	}
	// The other forms have the same values.
	for _, arguments := range [][]string{{}, {"--format", "csv"}} {
		rows := func(output string) string {
			pattern := regexp.MustCompile(`(?m)^db\.[09]\.(type|keys\.total|expire|already).*$`)
			return strings.Join(pattern.FindAllString(output, -1), "\n")
		}
		ours, theirs := rows(tool(instance.Subject, arguments...)),
			rows(tool(instance.Valkey, arguments...))
		if ours != theirs || theirs == "" {
			t.Errorf("%v:\n%s\nValkey:\n%s", arguments, ours, theirs)
		}
	}
}

// fillWithAllTypes makes keys of all types in two databases, some of which expire.
func fillWithAllTypes(t *testing.T, conn *wire.Conn) {
	t.Helper()
	for index := range 40 {
		size := strings.Repeat("v", index)
		do(t, conn, "SET", "string:"+size, strings.Repeat("x", index*index))
		do(t, conn, "RPUSH", "list", size)
		do(t, conn, "SADD", "set:"+size, "1", size+"member")
		do(t, conn, "HSET", "hash", size+"field", size)
		do(t, conn, "XADD", "stream", "*", "field", size)
	}
	do(t, conn, "SET", "number", "-12345")
	do(t, conn, "SET", "expiring", "value", "EX", "1000")
	do(t, conn, "DEBUG", "SET-ACTIVE-EXPIRE", "0")
	do(t, conn, "SET", "expired", "value", "PX", "1")
	do(t, conn, "SELECT", "9")
	do(t, conn, "ZADD", "zset", "1", "member", "2", "another")
	do(t, conn, "SADD", "intset", "1", "22", "-333")
	for index := range 3000 {
		do(t, conn, "RPUSH", "long", strings.Repeat("e", index%100))
	}
}
