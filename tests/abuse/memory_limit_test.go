package abuse

import (
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	// headroomBytes is what the server may map beyond what it has when the limit comes: far more
	// than all that is small takes.
	headroomBytes = 32 << 20
	// roomBytesMax is the most that the server may find: what it has free by then, and the
	// headroom. What is asked for in fixed sizes takes more.
	roomBytesMax = 255 << 20
	// sparseBytes is the length of a string of zeros, which are not stored: a copy does not fit.
	sparseBytes = 400 << 20
	// plainBytes is the length of a string that is stored: its conversion into chunks does not fit.
	plainBytes = 256 << 20
	// elementBytes is of the elements of a list and a hash, and of the keys of a database: few
	// requests bring many of them, and none is large. The allocator makes little more of it.
	elementBytes = 236 << 10
	// elementsTogether is how many elements are added to each before it is asked again whether they
	// exceed the room.
	elementsTogether = 16
	// elementsMax bounds them: half a gigabyte each of the list, the hash and the keys.
	elementsMax = 2048
	// copiedBytes is the length of a string that is short enough to be copied into a reply.
	copiedBytes  = 16_000
	numbersCount = 200_000
)

// limitMemory lets the server map this number of bytes beyond what it has mapped.
func limitMemory(t *testing.T, server *instance.Server, beyondBytes int64) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Prlimit(server.PID, unix.RLIMIT_AS, nil, &limit); err != nil {
		t.Skipf("the memory of another process cannot be limited here: %v", err)
	}
	limit.Cur = uint64(mappedBytes(t, server.PID) + beyondBytes)
	if err := unix.Prlimit(server.PID, unix.RLIMIT_AS, &limit, nil); err != nil {
		t.Skipf("the memory of another process cannot be limited here: %v", err)
	}
}

func mappedBytes(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(status))[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

func mustDo(t *testing.T, conn *wire.Conn, words ...string) wire.Reply {
	t.Helper()
	reply, err := conn.Do(words...)
	if err != nil || reply.IsError() {
		t.Fatalf("%.40q: %v, %v", words, reply, err)
	}
	return reply
}

var allocatorFigure = regexp.MustCompile(`\b(Allocated|mapped|retained): (\d+)`)

// freeBytes returns what the server's allocator has mapped and not given out, in pieces of any
// size: what it may find without asking the system.
func freeBytes(t *testing.T, conn *wire.Conn) int64 {
	t.Helper()
	report := mustDo(t, conn, "MEMORY", "MALLOC-STATS").Text
	figures := make(map[string]int64)
	// The totals come first.
	for _, figure := range allocatorFigure.FindAllSubmatch(report, 3) {
		number, err := strconv.ParseInt(string(figure[2]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		figures[string(figure[1])] = number
	}
	if len(figures) != 3 {
		t.Fatalf("the allocator does not tell what it has: %.400q", report)
	}
	return figures["mapped"] + figures["retained"] - figures["Allocated"]
}

// stored is what the commands under the limit work on, each larger than all that the server can
// find.
type stored struct {
	// roomBytes is what the server can find at most: no block of that size, and no blocks of that
	// size together.
	roomBytes    int64
	elementCount int
}

// loadLarge stores it. All of it is made without large requests, whose buffers the server's
// allocator would keep.
func loadLarge(t *testing.T, conn *wire.Conn) stored {
	t.Helper()
	// The table of LCS is limited by it.
	mustDo(t, conn, "CONFIG", "SET", "proto-max-bulk-len", "1gb")
	// Replies are made at once, and not in pieces, for clients whose unsent replies have a limit.
	mustDo(t, conn, "CONFIG", "SET", "client-output-buffer-limit", "normal 8gb 0 0")
	mustDo(t, conn, "SETBIT", "sparse", strconv.Itoa(sparseBytes*8-1), "1")
	left, right := strings.Repeat("l", 12_000), strings.Repeat("r", 12_000)
	mustDo(t, conn, "MSET", "left", left, "right", right)
	mustDo(t, conn, "SET", "copied", strings.Repeat("c", copiedBytes))
	push := append([]string{"RPUSH", "numbers"}, strings.Fields(strings.Repeat("17 ", 10_000))...)
	for range numbersCount / 10_000 {
		mustDo(t, conn, push...)
	}
	mustDo(t, conn, "RPUSH", "single", "se")
	mustDo(t, conn, "HSET", "small", "field", strings.Repeat("v", 100))
	mustDo(t, conn, "SET", "counter", "0")
	var made stored
	fillElements := func() {
		for {
			// Memory that the allocator maps ahead is less than a third of what it has given out,
			// and what it has free otherwise is taken by the elements: this ends.
			made.roomBytes = freeBytes(t, conn) + headroomBytes
			isMore := int64(made.elementCount)*elementBytes >= made.roomBytes*9/8
			if isMore && made.roomBytes <= roomBytesMax {
				return
			}
			if made.elementCount >= elementsMax {
				t.Fatalf("the server finds %d bytes beside %d elements", made.roomBytes,
					made.elementCount)
			}
			addElements(t, conn, made.elementCount, made.elementCount+elementsTogether)
			made.elementCount += elementsTogether
		}
	}
	fillElements()
	mustDo(t, conn, "SETBIT", "half", strconv.Itoa(plainBytes*8-1), "1")
	mustDo(t, conn, "BITOP", "NOT", "plain", "half")
	// For which more was mapped, too.
	fillElements()
	t.Logf("%d bytes can be had of the server, %d are in each collection",
		made.roomBytes, made.elementCount*elementBytes)
	return made
}

// addElements adds elements of these numbers to the list, the hash and the keys.
func addElements(t *testing.T, conn *wire.Conn, first, end int) {
	t.Helper()
	element := strings.Repeat("e", elementBytes)
	for index := first; index < end; index++ {
		mustDo(t, conn, "RPUSH", "list", element)
		mustDo(t, conn, "HSET", "hash", strconv.Itoa(index), element)
	}
	mustDo(t, conn, "SELECT", "1")
	for index := first; index < end; index++ {
		mustDo(t, conn, "SET", element[:elementBytes-8]+fmt.Sprintf("%08d", index), "")
	}
	mustDo(t, conn, "SELECT", "0")
}

// sortBy asks for a reply of twice this number of bytes.
func sortBy(pattern string, bytes int64) []string {
	words := []string{"SORT", "numbers", "BY", "nosort"}
	for range 1 + 2*bytes/(numbersCount*int64(len("$2\r\n17\r\n"))) {
		words = append(words, "GET", pattern)
	}
	return words
}

func TestServer_SurvivesMemoryLimit(t *testing.T) {
	// Each worker needs something small of its own, which the headroom has to cover.
	server := instance.Start(t, instance.Subject, "--worker-threads", "2")
	conn := server.Dial(t)
	made := loadLarge(t, conn)
	limitMemory(t, server, headroomBytes)
	beside := startNeighbour(t, server)
	requireErrorsWithinExec(t, server, conn, made)
	for _, words := range [][]string{
		{"LCS", "left", "right"},
		{"LCS", "left", "right", "LEN"},
		{"GET", "sparse"},
		{"GETRANGE", "sparse", "0", "-2"},
		{"MGET", "left", "sparse"},
		{"GETDEL", "sparse"},
		{"GETEX", "sparse", "PERSIST"},
		{"GETSET", "sparse", "new"},
		{"SET", "sparse", "new", "GET"},
		{"BITOP", "NOT", "other", "sparse"},
		{"BITOP", "XOR", "other", "sparse", "plain"},
		{"APPEND", "plain", "x"},
		{"SETRANGE", "plain", "5", "x"},
		{"SETBIT", "plain", "5", "0"},
		{"BITFIELD", "plain", "SET", "u8", "0", "1"},
		{"COPY", "list", "other"},
		{"LRANGE", "list", "0", "-1"},
		{"LPOP", "list", strconv.Itoa(made.elementCount)},
		{"HGETALL", "hash"},
		{"HVALS", "hash"},
		{"HRANDFIELD", "small", strconv.FormatInt(-made.roomBytes/50, 10), "WITHVALUES"},
		sortBy("#", made.roomBytes),
		{"SORT", "single", "BY", "nosort", "GET", "spar*"},
		{"SORT", "single", "BY", "nosort", "GET", "spar*", "STORE", "other"},
		{"SORT", "list", "BY", "nosort", "STORE", "other"},
		{"EVAL", "return redis.call('GET', KEYS[1])", "1", "sparse"},
		{"EVAL", "return redis.pcall('LRANGE', KEYS[1], 0, -1)", "1", "list"},
		{"EVAL", "return string.rep('x', " + strconv.FormatInt(made.roomBytes, 10) + ")", "0"},
	} {
		requireMemoryError(t, server, conn, words)
	}
	mustDo(t, conn, "SELECT", "1")
	requireMemoryError(t, server, conn, []string{"KEYS", "*"})
	requireMemoryError(t, server, conn, []string{"SCAN", "0", "COUNT", "100000"})
	mustDo(t, conn, "SELECT", "0")
	requireRefused(t, server, made, "SET", "other")
	requireRefused(t, server, made, "RPUSH", "other")
	endlessRequest(t, server)
	queueUntilRefused(t, server, made)
	requireUnchanged(t, conn, made)
	beside.check(t)
	// Without a thread of its own, for which jemalloc would need memory.
	mustDo(t, conn, "FLUSHALL", "ASYNC")
	if !server.Running() {
		t.Fatalf("the server ended:\n%s", server.Log())
	}
}

func requireMemoryError(t *testing.T, server *instance.Server, conn *wire.Conn, words []string) {
	t.Helper()
	reply, err := conn.Do(words...)
	if err != nil {
		t.Fatalf("%.60q: %v\n%s", words, err, server.Log())
	}
	if !reply.IsError() || !strings.Contains(strings.ToLower(string(reply.Text)), "memory") {
		t.Errorf("%.60q answered %.80q, want an error about memory", words, reply.String())
	}
}

// requireErrorsWithinExec checks that a transaction that is carried out answers each of its
// commands: what there is memory for, and an error in the place of each reply that there is none
// for.
func requireErrorsWithinExec(t *testing.T, server *instance.Server, conn *wire.Conn, made stored) {
	t.Helper()
	queued := [][]string{{"LRANGE", "list", "0", "-1"}, {"GET", "sparse"}, {"HGETALL", "hash"}}
	for index := range 2 * made.roomBytes / copiedBytes {
		queued = append(queued, []string{"GET", "copied"})
		if index%64 == 0 {
			queued = append(queued, []string{"INCR", "counter"})
		}
	}
	queued = append(queued, []string{"LRANGE", "list", "0", "-1"})
	transaction := wire.AppendCommand(nil, wire.Arguments("MULTI")...)
	for _, words := range queued {
		transaction = wire.AppendCommand(transaction, wire.Arguments(words...)...)
	}
	transaction = wire.AppendCommand(transaction, wire.Arguments("EXEC")...)
	sent := make(chan error, 1)
	go func() { sent <- conn.SendRaw(transaction) }()
	for range len(queued) + 1 {
		if reply, err := conn.Receive(); err != nil || reply.IsError() {
			t.Fatalf("queueing: %v %v\n%s", reply, err, server.Log())
		}
	}
	reply, err := conn.Receive()
	if err != nil {
		t.Fatalf("EXEC: %v\n%s", err, server.Log())
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if len(reply.Items) != len(queued) {
		t.Fatalf("EXEC answered %d replies to %d commands: %.200q",
			len(reply.Items), len(queued), reply.Text)
	}
	requireAnswersOrErrors(t, queued, reply.Items)
}

// requireAnswersOrErrors checks each command's reply. A short one takes no more than the error that
// there is room for.
func requireAnswersOrErrors(t *testing.T, queued [][]string, replies []wire.Reply) {
	t.Helper()
	var answered, refused, counted int64
	for index, reply := range replies {
		isShort, isCopied := queued[index][0] == "INCR", queued[index][1] == "copied"
		switch {
		case isShort && reply.Int() == counted+1:
			counted++
		case isCopied && len(reply.Text) == copiedBytes:
			answered++
		case !isShort && reply.IsError() && strings.Contains(string(reply.Text), "memory"):
			if isCopied {
				refused++
			}
		default:
			t.Fatalf("%q, number %d, answered %d bytes, %.80q",
				queued[index], index, len(reply.Text), reply.Text)
		}
	}
	if answered == 0 || refused == 0 {
		t.Errorf("%d of the replies found memory behind one that found none, and %d did not",
			answered, refused)
	}
}

// requireRefused sends a value of which there is no room for two, as a request or as its copy in
// the keyspace: the client is answered an error or loses its connection.
func requireRefused(t *testing.T, server *instance.Server, made stored, words ...string) {
	t.Helper()
	conn := server.Dial(t)
	valueBytes := int(made.roomBytes * 9 / 16)
	reply, err := conn.Do(append(words, strings.Repeat("x", valueBytes))...)
	if err == nil && !reply.IsError() {
		t.Errorf("%s of %d bytes found room: %v", words[0], valueBytes, reply)
	}
}

// endlessRequest announces the longest argument there is, and sends it until the server has enough.
func endlessRequest(t *testing.T, server *instance.Server) {
	t.Helper()
	conn := server.Dial(t)
	const announced = 512 << 20
	head := fmt.Sprintf("*3\r\n$3\r\nSET\r\n$5\r\nother\r\n$%d\r\n", announced)
	if err := conn.SendRaw([]byte(head)); err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 1<<20)
	for range announced / len(block) {
		if conn.SendRaw(block) != nil {
			requireLogged(t, server, "No memory for what client")
			return
		}
	}
	t.Errorf("%d bytes found room", announced)
}

func requireLogged(t *testing.T, server *instance.Server, text string) {
	t.Helper()
	if log := server.Log(); !strings.Contains(log, text) {
		t.Errorf("the log does not say %q:\n%s", text, log)
	}
}

// queueUntilRefused fills a transaction with more than there is.
func queueUntilRefused(t *testing.T, server *instance.Server, made stored) {
	t.Helper()
	conn := server.Dial(t)
	mustDo(t, conn, "MULTI")
	argument := strings.Repeat("q", 1<<20)
	for range made.roomBytes>>20 + 1 {
		reply, err := conn.Do("ECHO", argument)
		if err != nil {
			// Not even for the request.
			requireLogged(t, server, "No memory for what client")
			return
		}
		if reply.IsError() {
			reply, err := conn.Do("EXEC")
			if err != nil || !strings.HasPrefix(string(reply.Text), "EXECABORT") {
				t.Errorf("EXEC after a command was not queued: %v %v", reply, err)
			}
			return
		}
	}
	t.Errorf("%d bytes and more were queued", made.roomBytes)
}

const (
	// largeBytes is the length of an element, and of strings of which as many copies are taken as
	// fit.
	// An allocator that rounds a copy and a reply with the element up makes the same of both.
	largeBytes = 30 << 20
	// smallBytes and smallCount are of the elements before it: several pieces of a reply.
	smallBytes = 1 << 10
	smallCount = 1400
	// smallRoomBytes is what there is for all that is small, and not enough for anything large.
	smallRoomBytes = 8 << 20
	takersMax      = 64
)

// A reply of which a part was sent cannot become an error: its connection ends, and no other.
func TestServer_EndsReplyWithoutMemory(t *testing.T) {
	// One worker: the one that takes the copies would not know of the free memory of another.
	server := instance.Start(t, instance.Subject, "--worker-threads", "1")
	conn := server.Dial(t)
	element := strings.Repeat("e", smallBytes)
	for range smallCount {
		mustDo(t, conn, "RPUSH", "list", element)
	}
	mustDo(t, conn, "RPUSH", "list", strings.Repeat("l", largeBytes))
	mustDo(t, conn, "SETBIT", "zeros", strconv.Itoa(largeBytes*8-1), "1")
	limitMemory(t, server, smallRoomBytes)
	beside := startNeighbour(t, server)
	takers := takeMemory(t, server, "zeros")
	// Taking them may have used up what is for all that is small.
	limitMemory(t, server, smallRoomBytes)
	if reply, err := conn.Do("LRANGE", "list", "0", "-1"); err == nil {
		t.Errorf("a list with a large element was answered in full, or not at all: %.80q",
			reply.String())
	}
	requireLogged(t, server, "No memory for the rest of a reply")
	for _, taker := range takers {
		taker.Close()
	}
	beside.check(t)
	if reply := mustDo(t, server.Dial(t), "LLEN", "list"); reply.Int() != smallCount+1 {
		t.Errorf("the list has %d elements", reply.Int())
	}
}

// takeMemory lets clients ask for a string that has to be copied, and not take the copy, until the
// server has no memory for another one.
func takeMemory(t *testing.T, server *instance.Server, key string) (takers []net.Conn) {
	t.Helper()
	for range takersMax {
		taker, err := net.Dial("tcp", server.Address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { taker.Close() })
		takers = append(takers, taker)
		request := wire.AppendCommand(nil, wire.Arguments("GET", key)...)
		if _, err := taker.Write(request); err != nil {
			t.Fatal(err)
		}
		kind := make([]byte, 1)
		if _, err := io.ReadFull(taker, kind); err != nil {
			t.Fatalf("GET: %v\n%s", err, server.Log())
		}
		if kind[0] == '-' {
			return takers
		}
	}
	t.Fatalf("%d copies of %d bytes found memory", takersMax, largeBytes)
	return nil
}

func requireUnchanged(t *testing.T, conn *wire.Conn, made stored) {
	t.Helper()
	for _, want := range []struct {
		words []string
		reply int64
	}{
		{[]string{"STRLEN", "sparse"}, sparseBytes},
		{[]string{"GETBIT", "sparse", strconv.Itoa(sparseBytes*8 - 1)}, 1},
		{[]string{"STRLEN", "plain"}, plainBytes},
		{[]string{"BITCOUNT", "plain"}, plainBytes*8 - 1},
		{[]string{"LLEN", "list"}, int64(made.elementCount)},
		{[]string{"HLEN", "hash"}, int64(made.elementCount)},
		{[]string{"LLEN", "numbers"}, numbersCount},
		{[]string{"EXISTS", "other"}, 0},
	} {
		if reply := mustDo(t, conn, want.words...); reply.Int() != want.reply {
			t.Errorf("%q answers %d, want %d", want.words, reply.Int(), want.reply)
		}
	}
}
