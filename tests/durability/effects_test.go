package durability

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemill/tests/differential"
	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

var (
	sequenceCount = flag.Int("sequences", 150, "sequences of random commands to replay")
	callCount     = flag.Int("calls", 120, "commands per sequence")
)

const databaseCount = 16

// Keys that expire within this time may be gone in one server and not yet in the other.
const settledAfter = 20 * time.Second

func do(t *testing.T, conn *wire.Conn, words ...string) wire.Reply {
	t.Helper()
	reply, err := conn.Do(words...)
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return reply
}

// dataset returns the digest and the expiry of each key, by database and key.
func dataset(t *testing.T, server *instance.Server) map[string]string {
	t.Helper()
	conn := server.Dial(t)
	// Some sequences end with a password; without one, the error changes nothing.
	do(t, conn, "AUTH", "secret")
	do(t, conn, "DEBUG", "SET-ACTIVE-EXPIRE", "0")
	found := map[string]string{}
	horizon := time.Now().Add(settledAfter).UnixMilli()
	for database := range databaseCount {
		do(t, conn, "SELECT", strconv.Itoa(database))
		for _, item := range do(t, conn, "KEYS", "*").Items {
			key := string(item.Text)
			expiry := do(t, conn, "PEXPIRETIME", key).Int()
			if expiry >= 0 && expiry < horizon {
				continue
			}
			digest := do(t, conn, "DEBUG", "DIGEST-VALUE", key)
			name := fmt.Sprintf("%d %q", database, key)
			found[name] = fmt.Sprintf("%v, expires at %d", digest, expiry)
		}
	}
	return found
}

func differences(before, after map[string]string) string {
	var lines []string
	for key, value := range before {
		if after[key] != value {
			lines = append(lines, fmt.Sprintf("%s: %s, then %q", key, value, after[key]))
		}
	}
	for key, value := range after {
		if _, ok := before[key]; !ok {
			lines = append(lines, fmt.Sprintf("%s: not there, then %s", key, value))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func subject(t *testing.T, directory string, directives ...string) *instance.Server {
	t.Helper()
	always := []string{"--appendonly", "yes", "--enable-debug-command", "yes"}
	directives = append(always, directives...)
	server, err := instance.Launch(instance.Subject, directory, directives...)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// copyOf copies a directory of a log into a new directory.
func copyOf(t *testing.T, directory string) string {
	t.Helper()
	target := t.TempDir()
	if err := os.CopyFS(filepath.Join(target, "appendonlydir"),
		os.DirFS(filepath.Join(directory, "appendonlydir"))); err != nil {
		t.Fatal(err)
	}
	return target
}

// The effects of random commands of all families, replayed by this server and by Valkey, make the
// dataset that the commands made.
func TestEffects_MakeTheSameDatasetAgain(t *testing.T) {
	oracle := instance.Start(t, instance.Valkey, "--enable-debug-command", "yes")
	commands, err := differential.Commands(oracle.Dial(t))
	if err != nil {
		t.Fatal(err)
	}
	random := seed(t)
	for range *sequenceCount {
		number := random.Uint64()
		if !t.Run(strconv.FormatUint(number, 10), func(t *testing.T) {
			sequence := differential.Generate(commands, number, *callCount)
			sequence.Calls = slices.DeleteFunc(sequence.Calls, hasNegativeZero)
			replay(t, sequence)
		}) {
			return
		}
	}
}

// hasNegativeZero tells of a score of -0: it is 0 in a listpack, and SORT makes a skiplist of a
// sorted set that it reads, in Valkey too. That is no change of data, so no log has it.
func hasNegativeZero(call differential.Call) bool {
	return slices.ContainsFunc(call.Arguments, func(argument []byte) bool {
		return strings.HasPrefix(string(argument), "-0")
	})
}

func replay(t *testing.T, sequence differential.Sequence) {
	directory := t.TempDir()
	server := subject(t, directory, "--worker-threads", "1")
	endpoint := differential.Endpoint{Address: server.Address}
	if _, err := endpoint.Run(sequence); err != nil {
		t.Fatal(err)
	}
	expectAgain(t, server, directory)
	if t.Failed() {
		log, _ := filepath.Glob(filepath.Join(directory, "appendonlydir", "*.incr.aof"))
		text, _ := os.ReadFile(log[0])
		t.Fatalf("log:\n%s", readable(text))
	}
}

// expectAgain kills a server, and expects its dataset of another one on its directory, which
// replays the log without an error, and of Valkey.
func expectAgain(t *testing.T, server *instance.Server, directory string) {
	t.Helper()
	original := dataset(t, server)
	server.Kill()
	explain := func(name string, found map[string]string) {
		t.Helper()
		if !maps.Equal(original, found) {
			t.Errorf("%s:\n%s", name, differences(original, found))
		}
	}
	copied := copyOf(t, directory)
	again := subject(t, directory)
	defer again.Kill()
	explain("replayed", dataset(t, again))
	if errors := strings.Count(again.Log(), "were answered by errors"); errors > 0 {
		t.Error(again.Log())
	}
	valkey, err := instance.Launch(instance.Valkey, copied, "--appendonly", "yes",
		"--enable-debug-command", "yes")
	if err != nil {
		t.Fatal(err)
	}
	defer valkey.Kill()
	explain("replayed by Valkey", dataset(t, valkey))
}

// readable shows a log with one command per line.
func readable(log []byte) string {
	var lines []string
	for _, command := range strings.Split(string(log), "\r\n*")[0:] {
		words := strings.Split(command, "\r\n")
		var line []string
		for index := 2; index < len(words); index += 2 {
			line = append(line, strconv.Quote(words[index]))
		}
		lines = append(lines, strings.Join(line, " "))
	}
	return strings.Join(lines, "\n")
}
