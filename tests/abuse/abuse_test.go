// Package abuse sends a server what no client should, and demands that it neither ends, nor grows,
// nor answers another client wrongly.
//
// Each attack runs beside a neighbour: a connection that sets and reads its own keys all the time
// and checks every reply. After the attacks the connections are gone from the process's descriptors
// and its memory has come back. It is no fuzzer of the parser: that one lives beside the parser, in
// crates/resp.
package abuse

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	droppedConnections = 10_000
	largeValueBytes    = 1 << 20
	// residentGrowthMax is what caches, allocator and statistics may keep after an attack.
	residentGrowthMax = 32 << 20
	// warmUpRuns is how often an attack runs before memory is compared: allocators settle slowly.
	warmUpRuns = 3
	// ownFiles are connections that the test itself still holds when it counts.
	ownFiles      = 4
	settleTimeout = time.Minute
	// servedMin is how often a neighbour is served before it counts as unharmed.
	servedMin = 10
)

// neighbour checks that others are served rightly meanwhile. Its check fails the test on the first
// wrong reply.
type neighbour struct {
	stop  chan struct{}
	done  chan error
	count atomic.Int64
}

func startNeighbour(t *testing.T, server *instance.Server) *neighbour {
	t.Helper()
	conn := server.Dial(t)
	n := &neighbour{stop: make(chan struct{}), done: make(chan error, 1)}
	go func() { n.done <- n.run(conn) }()
	return n
}

func (n *neighbour) run(conn *wire.Conn) error {
	for {
		select {
		case <-n.stop:
			return nil
		default:
		}
		value := "value-" + strconv.FormatInt(n.count.Add(1), 10)
		if reply, err := conn.Do("SET", "neighbour", value); err != nil ||
			string(reply.Text) != "OK" {
			return fmt.Errorf("SET answered %v, %v", reply, err)
		}
		if reply, err := conn.Do("GET", "neighbour"); err != nil || string(reply.Text) != value {
			return fmt.Errorf("GET answered %v, %v; want %s", reply, err, value)
		}
	}
}

func (n *neighbour) check(t *testing.T) {
	t.Helper()
	// Some attacks are over at once.
	for end := time.Now().Add(settleTimeout); n.count.Load() < servedMin &&
		time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	close(n.stop)
	if err := <-n.done; err != nil {
		t.Errorf("neighbour after %d requests: %v", n.count.Load(), err)
	}
	if n.count.Load() < servedMin {
		t.Errorf("neighbour was served %d times only", n.count.Load())
	}
}

func TestServer_SurvivesAbuse(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--maxclients", "12000")
	warmUp(t, server)
	attacks := []struct {
		name string
		run  func(*testing.T, *instance.Server)
	}{
		{"garbage", sendGarbage},
		{"half requests", sendHalves},
		{"huge headers", sendHugeHeaders},
		{"HTTP", speakHTTP},
		{"deep inline junk", sendInlineJunk},
		{"connections opened and dropped", openAndDrop},
		{"slow readers", readSlowly},
		{"killed in mid-pipeline", dieInPipeline},
	}
	for _, attack := range attacks {
		t.Run(attack.name, func(t *testing.T) {
			// Memory that the allocator keeps after the first run serves the second; a leak takes
			// more each time.
			_, files := footprint(t, server)
			var resident int64
			for range warmUpRuns {
				attack.run(t, server)
				resident = settle(t, server, files)
			}
			beside := startNeighbour(t, server)
			attack.run(t, server)
			beside.check(t)
			requireFootprint(t, server, resident, files)
			if !server.Running() {
				t.Fatalf("the server ended:\n%s", server.Log())
			}
		})
	}
}

// warmUp makes the server allocate what it keeps for good.
func warmUp(t *testing.T, server *instance.Server) {
	t.Helper()
	conn := server.Dial(t)
	for _, command := range [][]string{
		{"SET", "large", strings.Repeat("x", largeValueBytes)},
		{"GET", "large"},
	} {
		if reply, err := conn.Do(command...); err != nil || reply.IsError() {
			t.Fatalf("%s: %v %v", command[0], reply, err)
		}
	}
}

func footprint(t *testing.T, server *instance.Server) (resident int64, files int) {
	t.Helper()
	resident, err := instance.ResidentBytes(server.PID)
	if err != nil {
		t.Fatal(err)
	}
	if files, err = instance.OpenFiles(server.PID); err != nil {
		t.Fatal(err)
	}
	return resident, files
}

// settle waits until an attack's connections are closed and returns the memory then in use.
func settle(t *testing.T, server *instance.Server, files int) (resident int64) {
	t.Helper()
	const pollPause = 50 * time.Millisecond
	for end := time.Now().Add(settleTimeout); time.Now().Before(end); time.Sleep(pollPause) {
		var filesNow int
		if resident, filesNow = footprint(t, server); filesNow <= files+ownFiles {
			return resident
		}
	}
	t.Errorf("descriptors are not closed after %v", settleTimeout)
	return resident
}

// requireFootprint waits until connections are closed and memory is back.
func requireFootprint(t *testing.T, server *instance.Server, resident int64, files int) {
	t.Helper()
	var residentNow int64
	var filesNow int
	const pollPause = 50 * time.Millisecond
	for end := time.Now().Add(settleTimeout); time.Now().Before(end); time.Sleep(pollPause) {
		residentNow, filesNow = footprint(t, server)
		if residentNow <= resident+residentGrowthMax && filesNow <= files+ownFiles {
			return
		}
	}
	t.Errorf("%v later: resident %d MiB (before %d), descriptors %d (before %d)",
		settleTimeout, residentNow>>20, resident>>20, filesNow, files)
}

// expectClosed sends bytes and demands that the server closes the connection, after an error reply
// when one is named.
func expectClosed(t *testing.T, server *instance.Server, request []byte, wantError string) {
	t.Helper()
	conn, err := wire.Dial(server.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Timeout = 10 * time.Second
	// The server may close before it has read all: what counts is what it says.
	_ = conn.SendRaw(request)
	var last wire.Reply
	for {
		reply, err := conn.Receive()
		if err != nil {
			if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
				t.Errorf("%.60q: the connection is still open after %v", request, conn.Timeout)
			}
			break
		}
		last = reply
	}
	if !strings.Contains(string(last.Text), wantError) {
		t.Errorf("%.60q: last reply %.200s, want %q", request, last, wantError)
	}
}

func sendGarbage(t *testing.T, server *instance.Server) {
	random := rand.New(rand.NewPCG(7, 7))
	var group sync.WaitGroup
	for range 200 {
		junk := make([]byte, 1+random.IntN(20_000))
		for index := range junk {
			junk[index] = byte(random.Uint32())
		}
		group.Go(func() { sendAndDrop(server, junk) })
	}
	group.Wait()
}

// sendAndDrop writes, reads whatever comes for a moment and closes.
func sendAndDrop(server *instance.Server, request []byte) {
	conn, err := net.Dial("tcp", server.Address)
	if err != nil {
		return
	}
	defer conn.Close()
	deadline := time.Now().Add(200 * time.Millisecond)
	_ = conn.SetDeadline(deadline)
	_, _ = conn.Write(request)
	buffer := make([]byte, 4096)
	for {
		if _, err := conn.Read(buffer); err != nil {
			return
		}
	}
}

func sendHalves(t *testing.T, server *instance.Server) {
	whole := wire.AppendCommand(nil, []byte("SET"), []byte("half"), bytes.Repeat([]byte("y"), 100))
	conn := server.Dial(t)
	defer conn.Close()
	// Byte by byte the request must still be understood.
	for _, each := range whole {
		if err := conn.SendRaw([]byte{each}); err != nil {
			t.Fatal(err)
		}
	}
	if reply, err := conn.Receive(); err != nil || string(reply.Text) != "OK" {
		t.Errorf("a request sent byte by byte got %v, %v", reply, err)
	}
	// Cut anywhere and dropped it must have no effect.
	for length := range len(whole) {
		half, err := net.Dial("tcp", server.Address)
		if err != nil {
			t.Fatal(err)
		}
		cut := bytes.Replace(whole, []byte("half"), []byte("HALF"), 1)[:length]
		_, _ = half.Write(cut)
		half.Close()
	}
	time.Sleep(100 * time.Millisecond)
	if reply, err := conn.Do("EXISTS", "HALF"); err != nil || reply.Int() != 0 {
		t.Errorf("half a request took effect: %v, %v", reply, err)
	}
}

// speakHTTP sends what a browser would on behalf of a hostile web page: the command in the body
// must not run.
func speakHTTP(t *testing.T, server *instance.Server) {
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET http 1\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nSET http 1\r\n",
		"post / HTTP/1.1\nSET http 1\n",
		"MULTI\r\nhost: localhost\r\nSET http 1\r\nEXEC\r\n",
	} {
		expectClosed(t, server, []byte(request), "")
	}
	conn := server.Dial(t)
	defer conn.Close()
	if reply, err := conn.Do("EXISTS", "http"); err != nil || reply.Int() != 0 {
		t.Errorf("what a web page sent was executed: %v, %v", reply, err)
	}
	if !strings.Contains(server.Log(), "# Possible SECURITY ATTACK detected") {
		t.Error("the log does not warn of it")
	}
}

func sendHugeHeaders(t *testing.T, server *instance.Server) {
	for _, each := range []struct{ request, want string }{
		{"*2147483648\r\n", "invalid multibulk length"},
		{"*99999999999999999999\r\n", "invalid multibulk length"},
		{"*1048577000\r\n$3\r\nGET\r\n", ""},
		{"*2\r\n$536870913\r\n", "invalid bulk length"},
		{"*2\r\n$-5\r\n", "invalid bulk length"},
		{"*2\r\n$99999999999999999999\r\n", "invalid bulk length"},
		{"*1\r\nPING\r\n", "expected '$'"},
		{"*" + strings.Repeat("1", 70_000), "too big mbulk count string"},
		{"*1\r\n$" + strings.Repeat("1", 70_000), "too big bulk count string"},
	} {
		if each.want == "" {
			sendAndDrop(server, []byte(each.request)) // a valid header without its arguments
			continue
		}
		expectClosed(t, server, []byte(each.request), each.want)
	}
	// Announced and never sent: memory must not be taken in advance.
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			sendAndDrop(server, []byte("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$500000000\r\nstart"))
		})
	}
	time.Sleep(100 * time.Millisecond)
	if resident, _ := footprint(t, server); resident > 2<<30 {
		t.Errorf("%d MiB resident for announced arguments", resident>>20)
	}
	group.Wait()
}

func sendInlineJunk(t *testing.T, server *instance.Server) {
	expectClosed(t, server, bytes.Repeat([]byte("a"), 100_000), "too big inline request")
	expectClosed(t, server, []byte("SET k \"unbalanced\r\n"), "unbalanced quotes")
	conn := server.Dial(t)
	defer conn.Close()
	if err := conn.SendRaw([]byte(strings.Repeat("\r\n", 1000) + strings.Repeat("nosuch ", 2000) +
		"\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	if reply, err := conn.Receive(); err != nil || !reply.IsError() {
		t.Errorf("an unknown inline command got %v, %v", reply, err)
	}
	if reply, err := conn.Receive(); err != nil || string(reply.Text) != "PONG" {
		t.Errorf("PING after inline junk got %v, %v", reply, err)
	}
	// Nested arrays are not a request.
	expectClosed(t, server, []byte(strings.Repeat("*1\r\n", 10_000)), "expected '$'")
}

func openAndDrop(t *testing.T, server *instance.Server) {
	opened := make([]net.Conn, 0, droppedConnections)
	for index := range droppedConnections {
		conn, err := net.Dial("tcp", server.Address)
		if err != nil {
			t.Fatalf("connection %d: %v", index, err)
		}
		// A reply shows that the connection was accepted: all of them live at once.
		reply := make([]byte, len("+PONG\r\n"))
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := conn.Write([]byte("PING\r\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, reply); err != nil || string(reply) != "+PONG\r\n" {
			t.Fatalf("connection %d: %q, %v", index, reply, err)
		}
		if index%3 == 0 {
			_, _ = conn.Write([]byte("*1\r\n$4\r\nPI"))
		}
		opened = append(opened, conn)
	}
	for index, conn := range opened {
		// A reset and not an orderly end for every other one.
		if index%2 == 0 {
			_ = conn.(*net.TCPConn).SetLinger(0)
		}
		conn.Close()
	}
}

// readSlowly asks for far more than the sockets hold and takes nothing, while the neighbour goes
// on.
func readSlowly(t *testing.T, server *instance.Server) {
	const readers, requests = 8, 40
	request := bytes.Repeat(wire.AppendCommand(nil, []byte("GET"), []byte("large")), requests)
	var slow []*wire.Conn
	for range readers {
		conn := server.Dial(t)
		if err := conn.SendRaw(request); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, conn)
	}
	time.Sleep(300 * time.Millisecond)
	for number, conn := range slow {
		if number%2 == 0 {
			conn.Close()
			continue
		}
		for index := range requests {
			reply, err := conn.Receive()
			if err != nil || len(reply.Text) != largeValueBytes {
				t.Fatalf("slow reader %d, reply %d: %d bytes, %v", number, index, len(reply.Text),
					err)
			}
		}
		conn.Close()
	}
}

// dieInPipeline closes connections with replies on their way. What was sent before must be applied
// whole or not at all, command by command.
func dieInPipeline(t *testing.T, server *instance.Server) {
	const clients, commands = 100, 500
	prefix := fmt.Sprintf("pipe%d.", time.Now().UnixNano())
	for number := range clients {
		conn, err := net.Dial("tcp", server.Address)
		if err != nil {
			t.Fatal(err)
		}
		key := []byte(prefix + strconv.Itoa(number))
		var request []byte
		for index := range commands {
			element := []byte(strconv.Itoa(index))
			request = wire.AppendCommand(request, []byte("RPUSH"), key, element)
			request = wire.AppendCommand(request, []byte("GET"), []byte("large"))
		}
		_ = conn.SetWriteDeadline(time.Now().Add(5 * time.Millisecond))
		_, _ = conn.Write(request)
		_ = conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	}
	time.Sleep(200 * time.Millisecond)
	conn := server.Dial(t)
	for number := range clients {
		reply, err := conn.Do("LRANGE", prefix+strconv.Itoa(number), "0", "-1")
		if err != nil {
			t.Fatal(err)
		}
		for index, element := range reply.Items {
			if string(element.Text) != strconv.Itoa(index) {
				t.Fatalf("client %d: element %d is %s", number, index, element)
			}
		}
	}
	conn.Close()
}
