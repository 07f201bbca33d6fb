package durability

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// savedKeys is how many keys saveKeys makes.
const savedKeys = 2000

// saveKeys leaves a snapshot in a directory: a key in ten has an expiry that is over when it is
// loaded.
func saveKeys(t *testing.T, kind instance.Kind, directory string) {
	t.Helper()
	server, err := instance.Launch(kind, directory, "--rdbcompression", "no",
		"--enable-debug-command", "yes")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	conn := server.Dial(t)
	do(t, conn, "DEBUG", "SET-ACTIVE-EXPIRE", "0")
	for index := range savedKeys {
		words := []string{"SET", "key:" + strconv.Itoa(index), strings.Repeat("x", 500)}
		if index%10 == 0 {
			words = append(words, "PX", "1")
		}
		do(t, conn, words...)
	}
	time.Sleep(2 * time.Millisecond)
	if reply := do(t, conn, "SAVE"); string(reply.Text) != "OK" {
		t.Fatalf("SAVE answered %s", reply.Text)
	}
}

// slowly are directives by which loading takes seconds. What Valkey's servers look at clients by
// has to be short, for they load and answer by one thread.
func slowly() []string {
	return []string{"--key-load-delay", "5000",
		"--loading-process-events-interval-bytes", "1024", "--rdbcompression", "no",
		"--enable-debug-command", "yes"}
}

// firstWord of an error or of a status; the kind of any other reply.
func firstWord(reply wire.Reply) string {
	if len(reply.Text) == 0 {
		return "empty"
	}
	return strings.Fields(string(reply.Text))[0]
}

// fieldsOf INFO's section about persistence.
func fieldsOf(t *testing.T, conn *wire.Conn) map[string]string {
	t.Helper()
	fields := map[string]string{}
	for line := range strings.Lines(string(do(t, conn, "INFO", "persistence").Text)) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	return fields
}

func awaitLoaded(t *testing.T, conn *wire.Conn) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); fieldsOf(t, conn)["loading"] != "0"; {
		if time.Now().After(deadline) {
			t.Fatal("it loads for a minute")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A server that loads a snapshot answers what Valkey answers then, tells how far it is, and lets
// clients watch keys and come and go meanwhile.
func TestLoading_AnswersAsValkeyDoes(t *testing.T) {
	answerAsValkeyDoes(t, saveKeys, func(kind instance.Kind, fields map[string]string) int {
		if fields["rdb_last_load_keys_loaded"] != strconv.Itoa(savedKeys*9/10) ||
			fields["rdb_last_load_keys_expired"] != strconv.Itoa(savedKeys/10) {
			t.Errorf("%s: %v", kind, fields)
		}
		return savedKeys * 9 / 10
	}, slowly()...)
}

// answerAsValkeyDoes compares answers while data is loaded that was prepared in a directory.
// `judge` looks at INFO's fields behind it, and says how many keys there are.
func answerAsValkeyDoes(
	t *testing.T, prepare func(t *testing.T, kind instance.Kind, directory string),
	judge func(kind instance.Kind, fields map[string]string) int, directives ...string,
) {
	requests := [][]string{
		{"PING"}, {"GET", "key:1"}, {"SET", "a", "1"}, {"BGSAVE"}, {"SAVE"}, {"FLUSHALL"},
		{"DBSIZE"}, {"BGREWRITEAOF"},
		{"CONFIG", "GET", "port"}, {"CLIENT", "GETNAME"}, {"MULTI"}, {"SET", "a", "1"}, {"EXEC"},
		{"MULTI"}, {"EXEC"}, {"WATCH", "key:3"}, {"UNWATCH"}, {"EVAL", "return 1", "0"},
		{"ECHO", "a"},
		{"PUBLISH", "a", "b"}, {"OBJECT", "ENCODING", "key:1"}, {"TIME"},
		{"BGSAVE", "SCHEDULE"}, {"FUNCTION", "LIST"}, {"SCRIPT", "FLUSH"}, {"SLOWLOG", "LEN"},
		{"MEMORY", "USAGE", "key:1"}, {"KEYS", "*"}, {"SELECT", "1"}, {"SWAPDB", "0", "1"},
		{"ACL", "WHOAMI"}, {"BLPOP", "a", "1"}, {"HELLO"},
	}
	answers := map[instance.Kind][]string{}
	names := map[instance.Kind]string{}
	for _, kind := range []instance.Kind{instance.Subject, instance.Valkey} {
		directory := t.TempDir()
		prepare(t, kind, directory)
		server, err := instance.LaunchLoading(kind, directory, directives...)
		if err != nil {
			t.Fatal(err)
		}
		conn := server.Dial(t)
		for _, words := range requests {
			answers[kind] = append(answers[kind], words[0]+": "+firstWord(do(t, conn, words...)))
		}
		fields := fieldsOf(t, conn)
		if fields["loading"] != "1" {
			t.Fatalf("%s loads no longer: the answers prove nothing", kind)
		}
		for _, name := range []string{"loading_start_time", "loading_total_bytes",
			"loading_loaded_bytes", "loading_loaded_perc", "loading_eta_seconds"} {
			names[kind] += " " + name + strconv.FormatBool(fields[name] != "")
		}
		total, _ := strconv.Atoi(fields["loading_total_bytes"])
		loaded, _ := strconv.Atoi(fields["loading_loaded_bytes"])
		if total < savedKeys*500 || loaded > total {
			t.Errorf("%s: %d of %d bytes", kind, loaded, total)
		}
		do(t, conn, "CONFIG", "SET", "key-load-delay", "0")
		awaitLoaded(t, conn)
		fields = fieldsOf(t, conn)
		if fields["loading_total_bytes"] != "" {
			t.Errorf("%s: %v", kind, fields)
		}
		want := judge(kind, fields)
		do(t, conn, "SELECT", "0")
		if count := do(t, conn, "DBSIZE").Int(); int(count) != want {
			t.Errorf("%s has %d keys", kind, count)
		}
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}
	for index, theirs := range answers[instance.Valkey] {
		if ours := answers[instance.Subject][index]; ours != theirs {
			t.Errorf("%v: %s, Valkey's is %s", requests[index], ours, theirs)
		}
	}
	if names[instance.Subject] != names[instance.Valkey] {
		t.Errorf("%s, Valkey's are %s", names[instance.Subject], names[instance.Valkey])
	}
}

// endBy ends a server by SIGTERM or by a command, at once.
func endBy(t *testing.T, server *instance.Server, how string) {
	t.Helper()
	conn := server.Dial(t)
	begun := time.Now()
	if how == "SIGTERM" {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	} else {
		// Its answer is the end of the connection.
		_, _ = conn.Do(strings.Fields(how)...)
		await(t, how+" ends the server", func() bool { return !server.Running() })
	}
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("%s took %v", how, took)
	}
}

// SIGTERM and SHUTDOWN end a server that loads at once, and nothing is saved over the snapshot.
func TestLoading_IsEndedWithoutASave(t *testing.T) {
	for _, how := range []string{"SIGTERM", "SHUTDOWN", "SHUTDOWN SAVE"} {
		directory := t.TempDir()
		saveKeys(t, instance.Subject, directory)
		snapshot := filepath.Join(directory, "dump.rdb")
		before, err := os.ReadFile(snapshot)
		if err != nil {
			t.Fatal(err)
		}
		directives := append(slowly(), "--save", "3600 1", "--key-load-delay", "100000")
		server, err := instance.LaunchLoading(instance.Subject, directory, directives...)
		if err != nil {
			t.Fatal(err)
		}
		endBy(t, server, how)
		after, err := os.ReadFile(snapshot)
		if err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s changed the snapshot: %v", how, err)
		}
	}
}

// A damaged snapshot ends the start with the file, the offset and what to do, and stays as it is.
func TestLoading_OfDamageEndsTheStart(t *testing.T) {
	directory := t.TempDir()
	saveKeys(t, instance.Subject, directory)
	snapshot := filepath.Join(directory, "dump.rdb")
	whole, err := os.ReadFile(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(text []byte) []byte{
		"cut":      func(text []byte) []byte { return text[:len(text)/2] },
		"changed":  func(text []byte) []byte { text[len(text)-20] ^= 1; return text },
		"no magic": func(text []byte) []byte { text[0] = 'X'; return text },
		"empty":    func([]byte) []byte { return nil },
	} {
		damaged := damage(bytes.Clone(whole))
		if err := os.WriteFile(snapshot, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := instance.Launch(instance.Subject, directory, "--save", "3600 1")
		if err == nil {
			t.Fatalf("%s: the server started", name)
		}
		verdict := "Terminating server after rdb file reading failure."
		if name == "no magic" {
			verdict = "Fatal error loading the DB"
		}
		for _, part := range []string{snapshot + ": offset ", "restore the file", verdict} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is missing in %v", name, part, err)
			}
		}
		if strings.Contains(err.Error(), "Received SIGTERM") {
			t.Errorf("%s: the log tells of a signal that nobody sent: %v", name, err)
		}
		if after, err := os.ReadFile(snapshot); err != nil || !bytes.Equal(after, damaged) {
			t.Errorf("%s: the snapshot was changed: %v", name, err)
		}
	}
}

// Little data is loaded before anybody is answered, of a snapshot and of a log: who starts a server
// and connects finds all of it.
func TestLoading_NobodySeesThatOfLittleData(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T, instance.Kind, string){
		"no": saveKeys, "yes": logKeys,
	} {
		directory := t.TempDir()
		prepare(t, instance.Subject, directory)
		server, err := instance.LaunchLoading(instance.Subject, directory,
			"--appendonly", name, "--key-load-delay", "1000")
		if err != nil {
			t.Fatal(err)
		}
		conn := server.Dial(t)
		if reply := do(t, conn, "GET", "key:1"); string(reply.Text) != strings.Repeat("x", 500) {
			t.Errorf("appendonly %s: the first reply is %.60s", name, reply.Text)
		}
		fields := fieldsOf(t, conn)
		if fields["loading"] != "0" || fields["async_loading"] != "0" {
			t.Errorf("appendonly %s: %v", name, fields)
		}
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// SIGTERM ends a server that loads little data for long, while a client waits to be accepted.
func TestLoading_ThatNobodySeesIsEndedBySIGTERM(t *testing.T) {
	directory := t.TempDir()
	saveKeys(t, instance.Subject, directory)
	port, err := instance.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	server := instance.Command(instance.Subject, port, "--key-load-delay", "100000")
	log := &strings.Builder{}
	server.Dir, server.Stderr = directory, log
	output, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // ends with the thread that started it
	defer runtime.UnlockOSThread()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Process.Kill()
	lines := bufio.NewScanner(output)
	for lines.Scan() && !strings.Contains(lines.Text(), "worker(s), placement") {
		log.WriteString(lines.Text() + "\n")
	}
	client, err := wire.Dial("127.0.0.1:" + strconv.Itoa(port))
	if err != nil {
		t.Fatal(err, log)
	}
	defer client.Close()
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(20*time.Second, func() { server.Process.Kill() })
	defer timer.Stop()
	for lines.Scan() {
		log.WriteString(lines.Text() + "\n")
	}
	if err := server.Wait(); err != nil {
		t.Errorf("%v: %s", err, log)
	}
}

// awaitLoading waits until data is loaded.
func awaitLoading(t *testing.T, conn *wire.Conn) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for firstWord(do(t, conn, "GET", "key:1")) != "LOADING" {
		if time.Now().After(deadline) {
			t.Fatal("nobody is answered LOADING")
		}
	}
}

// requireLoading sends a command that is refused while data is loaded.
func requireLoading(t *testing.T, conn *wire.Conn, words ...string) {
	t.Helper()
	if word := firstWord(do(t, conn, words...)); word != "LOADING" {
		t.Fatalf("%v was answered %s", words, word)
	}
}

// reloadBeside lets a client load all data anew by a subcommand of DEBUG, and another one send what
// is refused meanwhile.
func reloadBeside(
	t *testing.T, conn, other *wire.Conn, subcommand string, refused [][]string,
) {
	t.Helper()
	do(t, conn, "CONFIG", "SET", "key-load-delay", "10000")
	if err := conn.Send("DEBUG", subcommand); err != nil {
		t.Fatal(err)
	}
	awaitLoading(t, other)
	for _, words := range refused {
		requireLoading(t, other, words...)
	}
	do(t, other, "CONFIG", "SET", "key-load-delay", "0")
	if reply, err := conn.Receive(); err != nil || string(reply.Text) != "OK" {
		t.Fatalf("DEBUG %s answered %s, %v", subcommand, reply.Text, err)
	}
}

// While one client reloads all data, others are answered that it is loaded; nothing is lost, and a
// file of a version that is not read loses nothing either.
func TestReload_AnswersOthers(t *testing.T) {
	directory := t.TempDir()
	saveKeys(t, instance.Subject, directory)
	directives := []string{"--enable-debug-command", "yes", "--rdbcompression", "no"}
	server, err := instance.Launch(instance.Subject, directory, directives...)
	if err != nil {
		t.Fatal(err)
	}
	conn, other := server.Dial(t), server.Dial(t)
	before := string(do(t, conn, "DEBUG", "DIGEST").Text)
	reloadBeside(t, conn, other, "RELOAD", [][]string{
		{"GET", "key:1"}, {"DEBUG", "RELOAD"}, {"SET", "a", "b"}, {"CONFIG", "SET", "dir", "/"},
		{"CONFIG", "SET", "hz", "10", "appendonly", "yes"},
	})
	if after := string(do(t, other, "DEBUG", "DIGEST").Text); after != before {
		t.Errorf("the digest was %s and is %s", before, after)
	}
	snapshot := filepath.Join(directory, "dump.rdb")
	if err := os.WriteFile(snapshot, []byte("REDIS0987 of the future"), 0o600); err != nil {
		t.Fatal(err)
	}
	reply := do(t, conn, "DEBUG", "RELOAD", "NOSAVE")
	if !strings.Contains(string(reply.Text), "Error trying to load") {
		t.Errorf("a file of another version was answered %s", reply.Text)
	}
	if after := string(do(t, other, "DEBUG", "DIGEST").Text); after != before {
		t.Errorf("the digest was %s and is %s", before, after)
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
}

// Loaded data counts for maxmemory: it may be more, and then the first write evicts.
func TestLoading_CountsForMaxmemory(t *testing.T) {
	directory := t.TempDir()
	saveKeys(t, instance.Subject, directory)
	server, err := instance.Launch(instance.Subject, directory, "--maxmemory", "500kb",
		"--maxmemory-policy", "allkeys-random")
	if err != nil {
		t.Fatal(err)
	}
	conn := server.Dial(t)
	for index := range 1000 {
		do(t, conn, "SET", "more:"+strconv.Itoa(index), "value")
	}
	if count := do(t, conn, "DBSIZE").Int(); count >= savedKeys*9/10 {
		t.Errorf("%d keys fit into 500 kB", count)
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
}

// DEBUG RELOAD empties the keyspace before it loads: who watches a key that was there, or keeps a
// copy, learns of it as of a flush. Valkey says the same.
func TestReload_TouchesWatchedKeysThatExist(t *testing.T) {
	for _, kind := range []instance.Kind{instance.Subject, instance.Valkey} {
		server := instance.Start(t, kind, "--enable-debug-command", "yes")
		conn, other := server.Dial(t), server.Dial(t)
		do(t, conn, "HELLO", "3")
		do(t, conn, "CLIENT", "TRACKING", "ON")
		do(t, conn, "SET", "present", "value")
		do(t, conn, "GET", "present")
		for _, each := range []struct{ key, want string }{
			{"absent", "*[+PONG]"}, {"present", "_"},
		} {
			do(t, other, "HELLO", "3")
			do(t, other, "WATCH", each.key)
			if reply := do(t, other, "DEBUG", "RELOAD"); string(reply.Text) != "OK" {
				t.Fatalf("%s: DEBUG RELOAD answered %s", kind, reply)
			}
			do(t, other, "MULTI")
			do(t, other, "PING")
			if reply := do(t, other, "EXEC"); reply.String() != each.want {
				t.Errorf("%s: EXEC behind a reload answered %s to a client that watches the key %s",
					kind, reply, each.key)
			}
		}
		push, err := conn.Receive()
		if err != nil || push.String() != `>[$"invalidate" _]` {
			t.Errorf("%s: a client that tracks got %s, %v", kind, push, err)
		}
	}
}
