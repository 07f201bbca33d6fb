package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// Databases are flushed and exchanged while metrics are read: a scrape never meets what was freed.
func TestFlushAll_BesideScrapes(t *testing.T) {
	const keys, databases = 3000, 16
	hosts := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"}
	server := instance.Start(t, instance.Subject, "--metrics-port", instance.OtherPort,
		"--worker-threads", "2",
		"--metrics-bind", strings.Join(hosts, " "))
	var ended atomic.Bool
	var scrapes atomic.Int64
	var group sync.WaitGroup
	run := func(body func() error) {
		group.Add(1)
		go func() {
			defer group.Done()
			defer ended.Store(true)
			for !ended.Load() {
				if err := body(); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	for _, host := range hosts {
		run(func() error {
			return scrapeKeys(host+":"+strconv.Itoa(server.OtherPort), keys, &scrapes)
		})
	}
	// Values as large as the counts of a database, so that they take the place of what a flush has
	// freed.
	writer, flusher := server.Dial(t), server.Dial(t)
	value := strings.Repeat("v", 65520)
	number := 0
	run(func() error {
		number += databases
		return setInEachDatabase(writer, databases, func(database int) string {
			return "key:" + strconv.Itoa((number+database)%keys)
		}, value)
	})
	const flushes = 4000
	for count := 0; (count < flushes || scrapes.Load() < 20) && !ended.Load(); count++ {
		command := []string{"FLUSHALL", "ASYNC"}
		switch count % 10 {
		case 3:
			command = []string{"SWAPDB", "0", "1"}
		case 7:
			command = []string{"FLUSHALL", "SYNC"}
		}
		if err := call(flusher, command...); err != nil {
			t.Error(err)
			break
		}
	}
	ended.Store(true)
	group.Wait()
	if !server.Running() {
		t.Fatalf("the server has ended: %s", server.Log())
	}
	waitFor(t, "all that was flushed is freed", func() bool {
		return information(t, flusher, "lazyfree_pending_objects") == 0 &&
			information(t, flusher, "lazyfree_pending_bytes") == 0
	})
}

// setInEachDatabase sets one key of each database, in one pipeline.
func setInEachDatabase(
	conn *wire.Conn, databases int, key func(database int) string, value string,
) error {
	var requests []byte
	for database := range databases {
		requests = wire.AppendCommand(requests,
			wire.Arguments("SELECT", strconv.Itoa(database))...)
		requests = wire.AppendCommand(requests, wire.Arguments("SET", key(database), value)...)
	}
	if err := conn.SendRaw(requests); err != nil {
		return err
	}
	for range 2 * databases {
		if reply, err := conn.Receive(); err != nil || reply.IsError() {
			return fmt.Errorf("%v, %w", reply, err)
		}
	}
	return nil
}

var keysSample = regexp.MustCompile(`(?m)^tidemill_keys\{db="\d+"\} (\d+)$`)

func scrapeKeys(address string, keysMax int, scrapes *atomic.Int64) error {
	client := http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true},
	}
	response, err := client.Get("http://" + address + "/metrics")
	if errors.Is(err, io.EOF) {
		// The request did not arrive within a second: that ends a connection.
		return nil
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	scrapes.Add(1)
	var text strings.Builder
	scanner := bufio.NewScanner(response.Body)
	for scanner.Scan() {
		text.WriteString(scanner.Text() + "\n")
	}
	for _, match := range keysSample.FindAllStringSubmatch(text.String(), -1) {
		if count, err := strconv.ParseUint(match[1], 10, 64); err != nil ||
			count > uint64(keysMax) {
			return fmt.Errorf("impossible count of keys: %s", match[0])
		}
	}
	return scanner.Err()
}

func call(conn *wire.Conn, words ...string) error {
	reply, err := conn.Do(words...)
	if err == nil && reply.IsError() {
		err = fmt.Errorf("%s: %s", words[0], reply)
	}
	return err
}

func information(t *testing.T, conn *wire.Conn, field string) int64 {
	t.Helper()
	reply, err := conn.Do("INFO", "all")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(reply.Text), "\n"+field+":")
	if !found {
		t.Fatalf("INFO has no %s", field)
	}
	value, _, _ := strings.Cut(rest, "\r")
	number, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// Flushed data does not count as live although it is freed later: the next write has room, in the
// same request already.
func TestFlush_LeavesRoomAtMaxmemoryAtOnce(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--maxmemory", "48mb", "--worker-threads", "2")
	conn := server.Dial(t)
	must := func(words ...string) {
		t.Helper()
		if err := call(conn, words...); err != nil {
			t.Fatal(err)
		}
	}
	for _, flush := range [][]string{{"FLUSHALL", "ASYNC"}, {"FLUSHDB", "ASYNC"},
		{"FLUSHALL", "SYNC"}} {
		// Some in another database, so that what a FLUSHDB takes out is not all there is.
		must("SELECT", "1")
		for number := range 1000 {
			must("SET", "kept:"+strconv.Itoa(number), strings.Repeat("k", 100))
		}
		must("SELECT", "0")
		full := false
		for number := 0; !full; number++ {
			words := []string{"MSET"}
			for index := range 2000 {
				words = append(words, fmt.Sprintf("key:%d:%d", number, index),
					strings.Repeat("v", 50))
			}
			reply, err := conn.Do(words...)
			if err != nil || number > 1000 {
				t.Fatal(err, number)
			}
			full = strings.HasPrefix(reply.String(), "OOM") ||
				strings.Contains(reply.String(), "OOM command")
		}
		requests := wire.AppendCommand(nil, wire.Arguments(flush...)...)
		requests = wire.AppendCommand(requests, wire.Arguments("SET", "after", "flush")...)
		if err := conn.SendRaw(requests); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if reply, err := conn.Receive(); err != nil || reply.IsError() {
				t.Fatalf("%v and SET: %v, %v", flush, reply, err)
			}
		}
		must("SET", "more", "room")
		if flush[1] == "SYNC" && information(t, conn, "lazyfree_pending_objects") != 0 {
			// A neighbour's reader may have been late: then it is freed in the background.
			t.Log("SYNC left it to the background")
		}
		waitFor(t, "what was flushed is freed", func() bool {
			return information(t, conn, "lazyfree_pending_bytes") == 0
		})
		must("FLUSHALL")
		waitFor(t, "nothing is left", func() bool {
			return information(t, conn, "used_memory") < 1<<20
		})
	}
}

// One worker is busy with a long command; writers of the other retire more than the least that may
// be retired, and less than the share of 4 GiB, and go on.
func TestWriters_GoOnBesideALongCommand(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "2", "--enable-debug-command",
		"yes")
	control := server.Dial(t)
	sleeper := onWorker(t, server, control, 0)
	const writers, megabytes = 4, 48
	var conns [writers]*wire.Conn
	for index := range conns {
		conns[index] = onWorker(t, server, control, 1)
	}
	if err := sleeper.Send("DEBUG", "SLEEP", "60"); err != nil {
		t.Fatal(err)
	}
	awake := make(chan struct{})
	go func() {
		defer close(awake)
		_, _ = sleeper.Receive()
	}()
	first := make(chan error, writers)
	value := strings.Repeat("v", 1<<20)
	for index, conn := range conns {
		go func() {
			var err error
			for count := 0; count < megabytes && err == nil; count++ {
				err = call(conn, "SET", "key:"+strconv.Itoa(index), value)
			}
			first <- err
		}()
	}
	// It would sleep on.
	defer server.Kill()
	select {
	case err := <-first:
		if err != nil {
			t.Fatal(err)
		}
	case <-awake:
		t.Fatalf("no writer replaced %d MiB before the long command ended", megabytes)
	}
}

// An unused database costs at most 16 bytes, and the largest count of databases works.
func TestDatabases_CostLittleUntilUsed(t *testing.T) {
	resident := func(databases int) int64 {
		server := instance.Start(t, instance.Subject, "--databases", strconv.Itoa(databases),
			"--worker-threads", "2")
		defer server.Stop()
		conn := server.Dial(t)
		bytes, err := instance.ResidentBytes(server.PID)
		if err != nil {
			t.Fatal(err)
		}
		last := strconv.Itoa(databases - 1)
		for _, words := range [][]string{
			{"SELECT", last}, {"SET", "key", "value"}, {"SWAPDB", "0", last}, {"SELECT", "0"},
			{"GET", "key"}, {"SELECT", last},
		} {
			if err := call(conn, words...); err != nil {
				t.Fatal(err)
			}
		}
		// The sweep passes over what was never written.
		for number := range 1000 {
			expectOK(t, conn, "SET", strconv.Itoa(number), "value", "PX", "10")
		}
		for end := time.Now().Add(time.Minute); do(t, conn, "DBSIZE").Int() != 0; {
			if time.Now().After(end) {
				t.Fatalf("of %d databases, two of them written, keys do not expire", databases)
			}
			time.Sleep(50 * time.Millisecond)
		}
		swept, err := instance.ResidentBytes(server.PID)
		if err != nil {
			t.Fatal(err)
		}
		if grown := swept - bytes; grown > 16<<20 {
			t.Errorf("%d databases take %d bytes more once they were swept", databases, grown)
		}
		for _, words := range [][]string{{"INFO"}, {"MEMORY", "STATS"}, {"FLUSHALL"}, {"PING"}} {
			if err := call(conn, words...); err != nil {
				t.Fatal(err)
			}
		}
		return bytes
	}
	const most = 1_000_000
	few, many := resident(16), resident(most)
	if grown := many - few; grown > 16*most+4<<20 {
		t.Errorf("%d databases take %d bytes more than 16", most, grown)
	}
	for _, databases := range []string{"1000001", "2147483647"} {
		output, err := startToEnd(t, "--databases", databases)
		if err == nil || !strings.Contains(output, "between 1 and 1000000") {
			t.Errorf("databases %s: %v, %q", databases, err, output)
		}
	}
}

// Freed memory goes back to the system although no command comes that the allocator could do it
// beside.
func TestFreedMemory_IsReturnedByAnIdleServer(t *testing.T) {
	const bytes, timeout = 100_000_000, time.Minute
	for _, size := range []int{500_000, 5_000} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			t.Parallel()
			server := instance.Start(t, instance.Subject)
			conn := server.Dial(t)
			resident := func() int64 {
				bytes, err := instance.ResidentBytes(server.PID)
				if err != nil {
					t.Fatal(err)
				}
				return bytes
			}
			before := resident()
			value := strings.Repeat("v", size)
			for index := range bytes / size {
				expectOK(t, conn, "SET", strconv.Itoa(index), value)
			}
			if taken := resident() - before; taken < bytes*9/10 {
				t.Fatalf("%d resident bytes for values of %d", taken, bytes)
			}
			expectOK(t, conn, "FLUSHALL")
			end := time.Now().Add(timeout)
			for resident()-before > bytes/4 {
				if time.Now().After(end) {
					t.Fatalf("%d bytes more than before are resident", resident()-before)
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
}

// A long value takes the memory of one that was freed: pages that the kernel gives anew cost more
// than the command. On one CPU the allocator is set up in another way.
func TestLongValues_ReuseFreedMemory(t *testing.T) {
	const bytes, rounds, pageBytes = 12 << 20, 40, 4096
	for _, cpus := range []string{"", strconv.Itoa(allowed(t)[0])} {
		t.Run("cpus="+cpus, func(t *testing.T) {
			server, err := instance.LaunchOn(cpus, instance.Subject, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := server.Stop(); err != nil {
					t.Error(err)
				}
			})
			conn := server.Dial(t)
			expectOK(t, conn, "SET", "first", strings.Repeat("v", bytes))
			run := func() {
				if reply := do(t, conn, "BITOP", "NOT", "result", "first"); reply.Int() != bytes {
					t.Fatal(reply)
				}
			}
			// Until there are as many pieces as there are at a time.
			for range 10 {
				run()
			}
			faults := func() int64 {
				count, err := instance.PageFaults(server.PID)
				if err != nil {
					t.Fatal(err)
				}
				return count
			}
			before := faults()
			for range rounds {
				run()
			}
			// Some for what the allocator gives back meanwhile.
			if count := faults() - before; count > rounds*bytes/pageBytes/4 {
				t.Errorf("%d page faults for %d values of %d bytes", count, rounds, bytes)
			}
		})
	}
}
