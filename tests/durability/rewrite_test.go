package durability

import (
	"bufio"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidemill/tests/differential"
	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// rewriteAgainAndAgain rewrites the log without pause until the server is gone, and lets it be of
// commands or a snapshot by turns.
func rewriteAgainAndAgain(address string) {
	conn, err := wire.Dial(address)
	if err != nil {
		return
	}
	defer conn.Close()
	for round := 0; ; round++ {
		preamble := []string{"yes", "no"}[round%2]
		if _, err := conn.Do("CONFIG", "SET", "aof-use-rdb-preamble", preamble); err != nil {
			return
		}
		if _, err := conn.Do("BGREWRITEAOF"); err != nil {
			return
		}
	}
}

// A server that is killed at any moment of a rewrite has all that it has answered, and nothing
// twice.
func TestRewrite_KilledAnywhereLosesNothing(t *testing.T) {
	for _, policy := range []string{"always", "everysec"} {
		t.Run(policy, func(t *testing.T) {
			killAgainAndAgain(t, policy, 2**killCount, rewriteAgainAndAgain)
		})
	}
}

func info(t *testing.T, conn *wire.Conn, field string) string {
	t.Helper()
	for _, line := range strings.Split(string(do(t, conn, "INFO", "all").Text), "\r\n") {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return value
		}
	}
	t.Fatalf("INFO has no %s", field)
	return ""
}

// awaitInfo waits until a field of INFO has a value.
func awaitInfo(t *testing.T, conn *wire.Conn, field, want string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); info(t, conn, field) != want; {
		if time.Now().After(deadline) {
			t.Fatalf("%s is %s, want %s", field, info(t, conn, field), want)
		}
		time.Sleep(time.Millisecond)
	}
}

func rewrite(t *testing.T, conn *wire.Conn) {
	t.Helper()
	do(t, conn, "BGREWRITEAOF")
	awaitInfo(t, conn, "aof_rewrite_in_progress", "0")
	if status := info(t, conn, "aof_last_bgrewrite_status"); status != "ok" {
		t.Fatalf("the rewrite ended with %s", status)
	}
}

// A base has the dataset that random commands made: for this server and for Valkey, as a snapshot
// and as commands, and this server reads Valkey's.
func TestBase_MakesTheSameDatasetAgain(t *testing.T) {
	oracle := instance.Start(t, instance.Valkey, "--enable-debug-command", "yes")
	commands, err := differential.Commands(oracle.Dial(t))
	if err != nil {
		t.Fatal(err)
	}
	random := seed(t)
	for index := range max(*sequenceCount/10, 6) {
		number := random.Uint64()
		kind := []instance.Kind{instance.Subject, instance.Valkey}[index/2%2]
		preamble := []string{"yes", "no"}[index%2]
		name := strconv.FormatUint(number, 10) + "/" + string(kind) + "/" + preamble
		if !t.Run(name, func(t *testing.T) {
			sequence := differential.Generate(commands, number, *callCount)
			sequence.Calls = slices.DeleteFunc(sequence.Calls, hasNegativeZero)
			base(t, sequence, kind, preamble)
		}) {
			return
		}
	}
}

func base(t *testing.T, sequence differential.Sequence, kind instance.Kind, preamble string) {
	directory := t.TempDir()
	directives := []string{"--appendonly", "yes", "--enable-debug-command", "yes",
		"--aof-use-rdb-preamble", preamble}
	server, err := instance.Launch(kind, directory, directives...)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := differential.Endpoint{Address: server.Address}
	if _, err := endpoint.Run(sequence); err != nil {
		t.Fatal(err)
	}
	conn := server.Dial(t)
	do(t, conn, "AUTH", "secret")
	rewrite(t, conn)
	original := dataset(t, server)
	server.Kill()
	for _, reader := range []instance.Kind{instance.Subject, instance.Valkey} {
		if kind == instance.Valkey && reader == instance.Valkey {
			continue
		}
		again, err := instance.Launch(reader, copyOf(t, directory), directives...)
		if err != nil {
			t.Fatal(err)
		}
		if found := dataset(t, again); !maps.Equal(original, found) {
			t.Errorf("read by %s:\n%s", reader, differences(original, found))
		}
		again.Kill()
	}
}

// The log grows by writes of one key, and is rewritten by itself.
func TestRewrite_BeginsByItselfWhenTheLogHasGrown(t *testing.T) {
	server := subject(t, t.TempDir(), "--auto-aof-rewrite-min-size", "20kb")
	defer server.Kill()
	conn := server.Dial(t)
	for info(t, conn, "aof_rewrites") == "0" {
		do(t, conn, "SET", "key", strings.Repeat("x", 1000))
	}
	awaitInfo(t, conn, "aof_rewrite_in_progress", "0")
	if size, err := strconv.Atoi(info(t, conn, "aof_base_size")); err != nil || size > 20_000 {
		t.Fatalf("aof_base_size is %d, %v", size, err)
	}
}

// A log that is switched on has what was there before, and what is written beside its first base.
func TestAppendOnly_IsSwitchedOnAndOff(t *testing.T) {
	directory := t.TempDir()
	server := subject(t, directory, "--appendonly", "no", "--appendfsync", "always")
	conn := server.Dial(t)
	for index := range 1000 {
		do(t, conn, "SET", "before:"+strconv.Itoa(index), "value")
	}
	for round := range 3 {
		do(t, conn, "CONFIG", "SET", "rdb-key-save-delay", "100")
		do(t, conn, "CONFIG", "SET", "appendonly", "yes")
		if enabled := info(t, conn, "aof_enabled"); enabled != "1" {
			t.Fatal("it is not on")
		}
		do(t, conn, "INCR", "rounds")
		do(t, conn, "CONFIG", "SET", "rdb-key-save-delay", "0")
		awaitInfo(t, conn, "aof_rewrite_in_progress", "0")
		do(t, conn, "INCR", "rounds")
		if round < 2 {
			do(t, conn, "CONFIG", "SET", "appendonly", "no")
			do(t, conn, "INCR", "rounds")
		}
	}
	server.Kill()
	again := subject(t, directory)
	defer again.Kill()
	conn = again.Dial(t)
	if rounds := do(t, conn, "GET", "rounds"); string(rounds.Text) != "8" {
		t.Fatalf("rounds is %s", rounds)
	}
	if count := do(t, conn, "DBSIZE").Int(); count != 1001 {
		t.Fatalf("%d keys", count)
	}
}

// WAITAOF waits for the next sync, and for no longer than it was told.
func TestWaitAOF_WaitsUntilItIsDurable(t *testing.T) {
	server := subject(t, t.TempDir())
	defer server.Kill()
	conn := server.Dial(t)
	conn.Timeout = time.Minute
	for _, policy := range []string{"always", "everysec"} {
		do(t, conn, "CONFIG", "SET", "appendfsync", policy)
		do(t, conn, "INCR", "key")
		reply := do(t, conn, "WAITAOF", "1", "0", "0")
		if len(reply.Items) != 2 || reply.Items[0].Int() != 1 || reply.Items[1].Int() != 0 {
			t.Fatalf("%s: WAITAOF answered %s", policy, reply)
		}
	}
	do(t, conn, "CONFIG", "SET", "appendfsync", "no")
	// Syncs go on until the log's thread has heard of the change.
	for begun := time.Now(); ; {
		do(t, conn, "INCR", "key")
		reply := do(t, conn, "WAITAOF", "1", "0", "50")
		if reply.Items[0].Int() == 0 {
			break
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("without a sync: %s", reply)
		}
	}
	// One that waits is told when the log is switched off.
	waiting := server.Dial(t)
	if err := waiting.SendRaw(wire.AppendCommand(nil,
		wire.Arguments("WAITAOF", "1", "0", "0")...)); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(string(do(t, conn, "INFO", "clients").Text), "blocked_clients:1\r\n") {
		time.Sleep(time.Millisecond)
	}
	do(t, conn, "CONFIG", "SET", "appendonly", "no")
	waiting.Timeout = time.Minute
	reply, err := waiting.Receive()
	if err != nil || !strings.Contains(string(reply.Text), "appendonly is disabled") {
		t.Fatalf("%s, %v", reply, err)
	}
}

// A reply that waits for a sync does not leave with an older one that a slow client takes bit by
// bit.
func TestHeldReply_IsNotCarriedOutByAnOlderOne(t *testing.T) {
	directory := t.TempDir()
	server := subject(t, directory, "--appendfsync", "always")
	defer server.Kill()
	conn := server.Dial(t)
	conn.Timeout = time.Minute
	random := seed(t)
	log := filepath.Join(directory, "appendonlydir", "appendonly.aof.1.incr.aof")
	length := func() int64 {
		t.Helper()
		file, err := os.Stat(log)
		if err != nil {
			t.Fatal(err)
		}
		return file.Size()
	}
	for range 10 {
		do(t, conn, "DEBUG", "AOF-FLUSH-SLEEP", "0")
		do(t, conn, "DEL", "large")
		do(t, conn, "SETRANGE", "large", strconv.Itoa(10_000_000+random.IntN(5_000_000)), "x")
		do(t, conn, "DEBUG", "AOF-FLUSH-SLEEP", "200000")
		before := length()
		request := wire.AppendCommand(nil, wire.Arguments("GET", "large")...)
		if err := conn.SendRaw(request); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond)
		request = wire.AppendCommand(nil, wire.Arguments("INCR", "counter")...)
		if err := conn.SendRaw(request); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := conn.Receive(); err != nil {
				t.Fatal(err)
			}
		}
		if length() == before {
			t.Fatal("INCR was answered before it was written")
		}
	}
}

// A read that shows what another client writes is answered when that is in the file, not before.
func TestHeldReply_OfAReadWaitsForWhatItShows(t *testing.T) {
	directory := t.TempDir()
	server := subject(t, directory, "--appendfsync", "always")
	defer server.Kill()
	writing, reading := server.Dial(t), server.Dial(t)
	writing.Timeout, reading.Timeout = time.Minute, time.Minute
	do(t, writing, "DEBUG", "AOF-FLUSH-SLEEP", "200000")
	log := filepath.Join(directory, "appendonlydir", "appendonly.aof.1.incr.aof")
	for round := range 5 {
		value := fmt.Sprintf("value-%d-%d", round, os.Getpid())
		request := wire.AppendCommand(nil, wire.Arguments("SET", "key", value)...)
		if err := writing.SendRaw(request); err != nil {
			t.Fatal(err)
		}
		for string(do(t, reading, "GET", "key").Text) != value {
		}
		content, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(content), value) {
			t.Fatalf("round %d: a read answered %s before it was written", round, value)
		}
		if _, err := writing.Receive(); err != nil {
			t.Fatal(err)
		}
	}
}

// limited starts a server on a file system of this size.
func limited(t *testing.T, size string, directives ...string) (*instance.Server, string) {
	t.Helper()
	directory := t.TempDir()
	place := filepath.Join(directory, "small")
	if err := os.Mkdir(place, 0o700); err != nil {
		t.Fatal(err)
	}
	script := `mount -t tmpfs -o size="$1" tmpfs "$0" && shift && exec "$@"`
	wrapper := []string{"unshare", "--map-root-user", "--mount", "sh", "-c", script, place, size}
	directives = append([]string{"--appendonly", "yes", "--dir", place}, directives...)
	server, err := instance.LaunchUnder(wrapper, instance.Subject, directory, directives...)
	if err != nil && strings.Contains(err.Error(), "unshare") {
		t.Skip("no mounts here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	// The mount as the server sees it.
	return server, filepath.Join("/proc", strconv.Itoa(server.PID), "root", place)
}

// fill takes all room of a file system by a file, which it returns.
func fill(t *testing.T, place string) string {
	t.Helper()
	name := filepath.Join(place, "filler")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	return name
}

// A full disk: writes are refused, reads go on, and nothing that was answered is missing once there
// is room again, without a restart.
func TestFullDisk_RefusesWritesUntilThereIsRoom(t *testing.T) {
	server, place := limited(t, "2m", "--appendfsync", "everysec")
	defer server.Kill()
	conn := server.Dial(t)
	conn.Timeout = time.Minute
	do(t, conn, "SET", "first", "value")
	filler := fill(t, place)
	full := time.Now()
	answered := 0
	for refused := false; !refused; {
		reply := do(t, conn, "SET", "key:"+strconv.Itoa(answered), strings.Repeat("x", 2000))
		refused = strings.HasPrefix(string(reply.Text), "MISCONF Errors writing to the AOF file")
		if !refused {
			answered++
		}
		if answered > 100_000 {
			t.Fatal("writes are answered although they cannot be written")
		}
	}
	t.Logf("refused after %v and %d writes", time.Since(full), answered)
	if reply := do(t, conn, "GET", "first"); string(reply.Text) != "value" {
		t.Fatalf("GET answered %s", reply)
	}
	if reply := do(t, conn, "PING"); !strings.HasPrefix(string(reply.Text), "MISCONF") {
		t.Fatalf("PING answered %s", reply)
	}
	if status := info(t, conn, "aof_last_write_status"); status != "err" {
		t.Fatal(status)
	}
	do(t, conn, "BGREWRITEAOF")
	awaitInfo(t, conn, "aof_rewrite_in_progress", "0")
	if status := info(t, conn, "aof_last_bgrewrite_status"); status != "err" {
		t.Fatalf("a rewrite on a full disk: %s", status)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	awaitInfo(t, conn, "aof_last_write_status", "ok")
	for deadline := time.Now().Add(time.Minute); ; {
		if reply := do(t, conn, "SET", "last", "value"); string(reply.Text) == "OK" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("writes are refused still")
		}
	}
	rewrite(t, conn)
	copied := copyOf(t, place)
	again := subject(t, copied)
	defer again.Kill()
	if count := do(t, again.Dial(t), "DBSIZE").Int(); int(count) < answered+2 {
		t.Fatalf("%d keys, %d writes were answered", count, answered)
	}
}

// Under `always` a write that cannot be made durable ends the server instead of its reply.
func TestFullDisk_EndsAServerThatAlwaysSyncs(t *testing.T) {
	server, place := limited(t, "2m", "--appendfsync", "always")
	defer server.Kill()
	conn := server.Dial(t)
	conn.Timeout = time.Minute
	do(t, conn, "SET", "first", "value")
	fill(t, place)
	var err error
	for count := 0; err == nil && count < 100_000; count++ {
		_, err = conn.Do("SET", "key:"+strconv.Itoa(count), strings.Repeat("x", 2000))
	}
	for deadline := time.Now().Add(time.Minute); server.Running(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server runs still")
		}
	}
	if !strings.Contains(server.Log(), "Can't recover from AOF write error") {
		t.Fatal(server.Log())
	}
}

// rewriteSteps are the system calls of the thread that rewrites, each of which is a step that a
// crash may come before.
var rewriteSteps = []string{
	"openat", "pwrite64", "fdatasync", "fsync", "rename", "unlink", "renameat2", "unlinkat",
}

// threadNamed is the id of a thread of the server. A thread gives itself its name, which may be
// behind the start of the server.
func threadNamed(t *testing.T, server *instance.Server, name string) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", server.PID))
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err == nil && strings.TrimSpace(string(text)) == name {
				return filepath.Base(filepath.Dir(path))
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("there is no thread %s", name)
		}
	}
}

// killBefore lets the server be killed when the thread that rewrites makes a system call for so
// many times. Returns what ends that.
func killBefore(t *testing.T, server *instance.Server, call string, count int) func() {
	t.Helper()
	thread := threadNamed(t, server, "snapshot")
	inject := fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", call, count)
	tracer := exec.Command("strace", "-p", thread, "-e", "trace="+call, "-e", inject)
	output, err := tracer.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tracer.Start(); err != nil {
		t.Skip(err)
	}
	lines := bufio.NewScanner(output)
	if !lines.Scan() || !strings.HasSuffix(lines.Text(), "attached") {
		_ = tracer.Wait()
		t.Skipf("strace cannot attach: %s", lines.Text())
	}
	ended := make(chan struct{})
	go func() {
		for lines.Scan() {
		}
		_ = tracer.Wait()
		close(ended)
	}()
	return func() {
		_ = tracer.Process.Signal(os.Interrupt)
		<-ended
	}
}

// A server that is killed before any step of a rewrite, while others write, has all that it has
// answered, and nothing twice.
func TestRewrite_KilledBeforeEachStepLosesNothing(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip(err)
	}
	random := seed(t)
	directory := t.TempDir()
	var writers []*writer
	for index := range writerCount {
		writers = append(writers, &writer{index: index})
	}
	killed := 0
	// rewriteOnce tells whether the rewrite was over before its end came.
	rewriteOnce := func(call string, count int, policy string) bool {
		server := subject(t, directory, "--appendfsync", policy, "--worker-threads", "2")
		conn := server.Dial(t)
		for _, writer := range writers {
			writer.check(t, conn, writers)
		}
		if t.Failed() {
			t.Fatalf("killed before %s number %d, %s: %s", call, count-1, policy, server.Log())
		}
		detach := killBefore(t, server, call, count)
		defer detach()
		var group sync.WaitGroup
		var answered atomic.Int64
		for _, writer := range writers {
			own := rand.New(rand.NewPCG(random.Uint64(), 0))
			group.Go(func() { writer.run(server.Address, own, &answered) })
		}
		isOver := rewriteToItsEnd(server.Address)
		server.Kill()
		group.Wait()
		return isOver
	}
	for round := range *stepKillCount {
		policy := []string{"everysec", "always"}[round%2]
		for _, call := range rewriteSteps {
			for count := 1; !rewriteOnce(call, count, policy); count++ {
				killed++
			}
		}
	}
	if killed < 12**stepKillCount {
		t.Errorf("%d kills: the steps are not those of a rewrite", killed)
	}
}

// rewriteToItsEnd rewrites once, and tells whether the server was there until its end.
func rewriteToItsEnd(address string) bool {
	conn, err := wire.Dial(address)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.Timeout = time.Minute
	if _, err := conn.Do("BGREWRITEAOF"); err != nil {
		return false
	}
	for {
		reply, err := conn.Do("INFO", "persistence")
		if err != nil {
			return false
		}
		if strings.Contains(string(reply.Text), "aof_rewrite_in_progress:0") {
			return true
		}
		time.Sleep(time.Millisecond)
	}
}
