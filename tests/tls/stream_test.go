package tls

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// chopped writes every piece in parts of random lengths, so that records arrive cut anywhere. It
// rests now and then: a server that is kept from running would read all parts together.
type chopped struct {
	net.Conn
	random *rand.Rand
}

func (c *chopped) Write(bytes []byte) (int, error) {
	for rest := bytes; len(rest) > 0; {
		count := min(len(rest), 1+c.random.IntN(40))
		if _, err := c.Conn.Write(rest[:count]); err != nil {
			return len(bytes) - len(rest), err
		}
		rest = rest[count:]
		if c.random.IntN(32) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return len(bytes), nil
}

func TestTLS_RecordsMayArriveCutAnywhere(t *testing.T) {
	server := start(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	socket, err := net.Dial("tcp", server.address())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	slow := &chopped{socket, rand.New(rand.NewPCG(seed, 0))}
	conn := wire.New(tls.Client(slow, server.config()))
	var pipeline []byte
	const count = 300
	for number := range count {
		value := strings.Repeat("v", number)
		pipeline = wire.AppendCommand(pipeline, wire.Arguments("SET", fmt.Sprint(number), value)...)
	}
	go conn.SendRaw(pipeline)
	for range count {
		if reply, err := conn.Receive(); err != nil || string(reply.Text) != "OK" {
			t.Fatal(reply, err)
		}
	}
	expect(t, conn, fmt.Sprint(count-1), "STRLEN", fmt.Sprint(count-1))
	expect(t, conn, fmt.Sprint(count), "DBSIZE")
}

func TestTLS_LargeValuesAndLongPipelinesReachReadersThatBeginLate(t *testing.T) {
	server := start(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := server.config()
		config.MinVersion, config.MaxVersion = version, version
		conn := server.mustDial(t, config)
		value := make([]byte, 9_000_001)
		for index := range value {
			value[index] = byte(rand.Uint32())
		}
		set := wire.AppendCommand(nil, []byte("SET"), []byte("large"), value)
		if err := conn.SendRaw(set); err != nil {
			t.Fatal(err)
		}
		if reply, err := conn.Receive(); err != nil || string(reply.Text) != "OK" {
			t.Fatal(reply, err)
		}
		const count = 5
		for range count {
			conn.Send("GET", "large")
			conn.Send("ECHO", strings.Repeat("small", 100))
		}
		eventually(t, "the server has more than the sockets take", func() bool {
			clients := do(t, server.Dial(t), "CLIENT", "LIST").String()
			return strings.Contains(clients, "events=rw") || strings.Contains(clients, "omem=") &&
				!strings.Contains(clients, "omem=0 ")
		})
		for range count {
			reply, err := conn.Receive()
			if err != nil || !bytes.Equal(reply.Text, value) {
				t.Fatalf("%d bytes, %v", len(reply.Text), err)
			}
			if reply, err := conn.Receive(); err != nil || len(reply.Text) != 500 {
				t.Fatal(reply, err)
			}
		}
	}
}

func TestTLS_UnreadRepliesCountForTheOutputLimit(t *testing.T) {
	server := start(t, "--client-output-buffer-limit", "normal 1mb 0 0")
	conn := server.mustDial(t, server.config())
	do(t, conn, "SET", "key", strings.Repeat("x", 100_000))
	go func() {
		for range 2000 {
			if conn.Send("GET", "key") != nil {
				return
			}
		}
	}()
	eventually(t, "the client is cut off", func() bool {
		return server.info(t, "client_output_buffer_limit_disconnections") == 1
	})
	server.mustDial(t, server.config())
}

func TestTLS_ClientThatHasSentAllGetsAllReplies(t *testing.T) {
	server := start(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := server.config()
		config.MinVersion, config.MaxVersion = version, version
		socket, err := tls.Dial("tcp", server.address(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		socket.Write([]byte(strings.Repeat("PING\r\n", 1000)))
		// close_notify alone: the TCP connection stays open both ways.
		if err := socket.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		socket.SetDeadline(time.Now().Add(30 * time.Second))
		replies, err := io.ReadAll(socket)
		if err != nil || string(replies) != strings.Repeat("+PONG\r\n", 1000) {
			t.Errorf("%s: %d bytes of replies, %v", tls.VersionName(version), len(replies), err)
		}
	}
	// The first requests may come with the end of the handshake, and be the last.
	raw, err := net.Dial("tcp", server.address())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	together := &gathered{Conn: raw}
	socket := tls.Client(together, server.config())
	if err := socket.Handshake(); err != nil {
		t.Fatal(err)
	}
	socket.Write([]byte("PING\r\nPING\r\n"))
	socket.CloseWrite()
	together.release()
	socket.SetDeadline(time.Now().Add(30 * time.Second))
	if replies, err := io.ReadAll(socket); err != nil || string(replies) != "+PONG\r\n+PONG\r\n" {
		t.Errorf("behind the handshake: %q, %v\n%s", replies, err, server.Log())
	}
}

// gathered keeps what is written behind the first message until it is released.
type gathered struct {
	net.Conn
	writes     int
	kept       []byte
	isReleased bool
}

func (g *gathered) Write(bytes []byte) (int, error) {
	if g.writes++; g.writes == 1 || g.isReleased {
		return g.Conn.Write(bytes)
	}
	g.kept = append(g.kept, bytes...)
	return len(bytes), nil
}

func (g *gathered) release() {
	g.isReleased = true
	// CloseWrite lets nothing be written after it.
	g.Conn.SetWriteDeadline(time.Time{})
	g.Conn.Write(g.kept)
}

func TestTLS_ServerSaysThatItCloses(t *testing.T) {
	server := start(t)
	socket, err := tls.Dial("tcp", server.address(), server.config())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	socket.Write([]byte("QUIT\r\n"))
	socket.SetDeadline(time.Now().Add(30 * time.Second))
	// Go reports an end without close_notify as an error.
	if replies, err := io.ReadAll(socket); err != nil || string(replies) != "+OK\r\n" {
		t.Errorf("%q, %v", replies, err)
	}
}

func TestTLS_DamagedRecordEndsTheConnectionAlone(t *testing.T) {
	server := start(t)
	raw, err := net.Dial("tcp", server.address())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	conn := wire.New(tls.Client(raw, server.config()))
	expect(t, conn, "PONG", "PING")
	neighbour := server.mustDial(t, server.config())
	raw.Write([]byte("\x17\x03\x03\x00\x20" + strings.Repeat("x", 32)))
	raw.SetDeadline(time.Now().Add(30 * time.Second))
	rest, _ := io.ReadAll(raw)
	if len(rest) == 0 || rest[0] != 21 && rest[0] != 23 {
		t.Errorf("no alert: %q", rest)
	}
	expect(t, neighbour, "PONG", "PING")
}

func TestTLS_BlockedClientsAndSubscribersAreWoken(t *testing.T) {
	server := start(t)
	blocked := server.mustDial(t, server.config())
	subscriber := server.mustDial(t, server.config())
	blocked.Send("BLPOP", "queue", "0")
	expect(t, subscriber, "channel", "SUBSCRIBE", "channel")
	eventually(t, "it is blocked", func() bool { return server.info(t, "blocked_clients") == 1 })
	other := server.Dial(t)
	do(t, other, "RPUSH", "queue", "element")
	if reply, err := blocked.Receive(); err != nil || !strings.Contains(reply.String(), "element") {
		t.Error(reply, err)
	}
	do(t, other, "PUBLISH", "channel", strings.Repeat("m", 50_000))
	if reply, err := subscriber.Receive(); err != nil || len(reply.String()) < 50_000 {
		t.Error(reply, err)
	}
}

func TestTLS_ClientWithoutPasswordSendsItBehindAnyPipeline(t *testing.T) {
	server := start(t)
	do(t, server.Dial(t), "CONFIG", "SET", "requirepass", "secret")
	socket, err := tls.Dial("tcp", server.address(), server.config())
	if err != nil {
		t.Fatal(err)
	}
	conn := wire.New(socket)
	defer conn.Close()
	// Records larger than what is read of a client without authentication.
	pipeline := wire.AppendCommand(nil, wire.Arguments("AUTH", "secret")...)
	const count = 20_000
	for range count {
		pipeline = wire.AppendCommand(pipeline, wire.Arguments("PING")...)
	}
	go conn.SendRaw(pipeline)
	if reply, err := conn.Receive(); err != nil || string(reply.Text) != "OK" {
		t.Fatal(reply, err)
	}
	for range count {
		if reply, err := conn.Receive(); err != nil || string(reply.Text) != "PONG" {
			t.Fatal(reply, err)
		}
	}
	hostile, err := tls.Dial("tcp", server.address(), server.config())
	if err != nil {
		t.Fatal(err)
	}
	defer hostile.Close()
	hostile.SetDeadline(time.Now().Add(30 * time.Second))
	hostile.Write([]byte("*2\r\n$4\r\nAUTH\r\n$16000\r\n" + strings.Repeat("x", 15_000)))
	hostile.Write([]byte(strings.Repeat("*", 100_000)))
	if _, err := io.ReadAll(hostile); err != nil {
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			t.Error("a client without password is kept although it sends without end")
		}
	}
}

func TestTLS_IdleConnectionsAreSmall(t *testing.T) {
	server := start(t, "--worker-threads", "1")
	const count, bytesMax = 1000, 8 << 10
	// Buffers that the first connections bring along are not theirs.
	server.mustDial(t, server.config())
	before, err := instance.ResidentBytes(server.PID)
	if err != nil {
		t.Fatal(err)
	}
	for range count {
		server.mustDial(t, server.config())
	}
	after, _ := instance.ResidentBytes(server.PID)
	each := (after - before) / count
	t.Logf("%d bytes for each idle connection", each)
	if each > bytesMax {
		t.Errorf("an idle connection takes %d bytes", each)
	}
}

func TestTLS_LargeArgumentArrivesWhole(t *testing.T) {
	server := start(t)
	conn := server.mustDial(t, server.config())
	value := strings.Repeat("0123456789\r\n", 200_000)
	for range 3 {
		expect(t, conn, "OK", "SET", "k", value)
		if reply := do(t, conn, "GET", "k"); string(reply.Text) != value {
			t.Errorf("%d bytes, not %d", len(reply.Text), len(value))
		}
	}
}

// Replies that no socket takes for a while, of all sizes, come whole and in order behind that.
func TestTLS_RepliesOutlastSocketsThatTakeNothing(t *testing.T) {
	const small, large = 10 << 10, 10 << 20
	server := start(t, "--enable-debug-command", "yes")
	control, conn := server.Dial(t), server.mustDial(t, server.config())
	do(t, control, "SET", "small", strings.Repeat("s", small))
	do(t, control, "SET", "large", strings.Repeat("l", large))
	expect(t, conn, "OK", "CLIENT", "SETNAME", "slow")
	expect(t, control, "OK", "DEBUG", "FORCE-TLS-WRITE-ERROR", "1")
	for _, step := range []struct {
		calls  []string
		unsent int
	}{{[]string{"small", "small"}, 2 * small}, {[]string{"large"}, large}} {
		var batch []byte
		for _, key := range step.calls {
			batch = wire.AppendCommand(batch, []byte("GET"), []byte(key))
		}
		if err := conn.SendRaw(batch); err != nil {
			t.Fatal(err)
		}
		eventually(t, "its replies pile up", func() bool {
			list := string(do(t, control, "CLIENT", "LIST").Text)
			for _, line := range strings.Split(list, "\n") {
				_, after, _ := strings.Cut(line, " omem=")
				omem, _ := strconv.Atoi(strings.Fields(after + " 0")[0])
				if strings.Contains(line, " name=slow ") && omem >= step.unsent {
					return true
				}
			}
			return false
		})
	}
	expect(t, control, "OK", "DEBUG", "FORCE-TLS-WRITE-ERROR", "0")
	for _, want := range []string{
		strings.Repeat("s", small), strings.Repeat("s", small), strings.Repeat("l", large),
	} {
		if reply, err := conn.Receive(); err != nil || string(reply.Text) != want {
			t.Errorf("%d bytes, %v", len(reply.Text), err)
		}
	}
	expect(t, conn, "PONG", "PING")
}
