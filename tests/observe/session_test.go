package observe

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

func TestQuit_ClosesAlthoughRepliesAreOff(t *testing.T) {
	server := instance.Start(t, instance.Subject)
	for sent, want := range map[string]string{
		"QUIT\r\nPING\r\n":                              "+OK\r\n",
		"CLIENT REPLY OFF\r\nQUIT\r\nPING\r\n":          "",
		"CLIENT REPLY SKIP\r\nQUIT\r\nPING\r\n":         "",
		"MULTI\r\nQUIT\r\n":                             "+OK\r\n+OK\r\n",
		"CLIENT REPLY OFF\r\nPING\r\nRESET\r\nQUIT\r\n": "+RESET\r\n+OK\r\n",
	} {
		conn, err := net.Dial("tcp", server.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte(sent)); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		if got, err := io.ReadAll(conn); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", sent, got, err)
		}
	}
}

// TestHashFields_ExpiredOnesAreGoneAsInValkey has the sweep switched off, so that what has expired
// is still stored.
func TestHashFields_ExpiredOnesAreGoneAsInValkey(t *testing.T) {
	valkey, subject := both(t)
	const expire = "HPEXPIRE h 1 FIELDS"
	for _, line := range strings.Split(strings.TrimSpace(`
DEBUG SET-ACTIVE-EXPIRE 0
HSET h a 1 b 2 c 3 d 4
HPEXPIRE h 1 FIELDS 2 a b
HRANDFIELD h 10
HRANDFIELD h 3 WITHVALUES
HRANDFIELD h 2
HRANDFIELD h 0
HGETALL h
HKEYS h
HVALS h
HMGET h a b c
HTTL h FIELDS 2 a c
HPEXPIRE h 1 FIELDS 2 c d
HRANDFIELD h
HRANDFIELD h 5
HRANDFIELD h 1
HRANDFIELD h -5
HRANDFIELD h -2 WITHVALUES
HGETALL h
HEXISTS h a
HSTRLEN h a
HSCAN h 0
EXISTS h
TYPE h
HSETNX h a 5
HGETALL h
HINCRBY h b 2
HRANDFIELD h 9 WITHVALUES
DEL h
HSET h f0 0 f1 1 f2 2 f3 3 f4 4 f5 5 f6 6 f7 7 f8 8 f9 9
HPEXPIRE h 1 FIELDS 9 f0 f1 f2 f3 f4 f5 f6 f7 f8
HRANDFIELD h
HRANDFIELD h -3
HRANDFIELD h 3
HRANDFIELD h 10 WITHVALUES
`), "\n") {
		var shown [2]string
		for index, conn := range []*wire.Conn{valkey, subject} {
			reply := do(t, conn, words(line)...)
			shown[index] = reply.String()
			// Hashes have no order.
			if name := words(line)[0]; name == "HRANDFIELD" || name == "HGETALL" ||
				name == "HKEYS" || name == "HVALS" {
				items := reply.Items
				slices.SortFunc(items, func(a, b wire.Reply) int {
					return strings.Compare(a.String(), b.String())
				})
				shown[index] = reply.String()
			}
		}
		if shown[0] != shown[1] {
			t.Errorf("%s\n  valkey:  %s\n  subject: %s", line, shown[0], shown[1])
		}
		if strings.HasPrefix(line, expire) {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// TestAuth_LiftsTheLimitsOfWhatFollowsInItsPipeline: what a client may send before it is
// authenticated says nothing about the requests behind AUTH.
func TestAuth_LiftsTheLimitsOfWhatFollowsInItsPipeline(t *testing.T) {
	for _, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		server := instance.Start(t, kind)
		do(t, server.Dial(t), "CONFIG", "SET", "requirepass", "secret")
		conn := server.Dial(t)
		var pipeline []byte
		for _, call := range []string{"AUTH secret", "SET k v", "MGET" + strings.Repeat(" k", 20),
			"PING"} {
			pipeline = wire.AppendCommand(pipeline, wire.Arguments(words(call)...)...)
		}
		if err := conn.SendRaw(pipeline); err != nil {
			t.Fatal(err)
		}
		var last wire.Reply
		for range 4 {
			reply, err := conn.Receive()
			if err != nil {
				t.Fatalf("%s: %v after %s", kind, err, last)
			}
			last = reply
		}
		if string(last.Text) != "PONG" {
			t.Errorf("%s: the last reply is %s", kind, last)
		}
	}
}

// TestDebug_AnswersEveryTypeOfTheProtocolAsValkey and takes what suites of tests switch.
func TestDebug_AnswersEveryTypeOfTheProtocolAsValkey(t *testing.T) {
	for _, protocol := range []string{"2", "3"} {
		valkey, subject := both(t)
		do(t, valkey, "HELLO", protocol)
		do(t, subject, "HELLO", protocol)
		for _, line := range strings.Split(
			"string integer double bignum null array set map attrib push verbatim true false none",
			" ") {
			// A push or an attribute comes beside a reply: all is taken until the answer to the
			// request behind.
			var shown [2]string
			for index, conn := range []*wire.Conn{valkey, subject} {
				if err := conn.Send("DEBUG", "PROTOCOL", line); err != nil {
					t.Fatal(err)
				}
				reply := do(t, conn, "ECHO", "end")
				for string(reply.Text) != "end" {
					shown[index] += reply.String() + " "
					next, err := conn.Receive()
					if err != nil {
						t.Fatal(err)
					}
					reply = next
				}
			}
			if shown[0] != shown[1] {
				t.Errorf("RESP%s %s\n  valkey:  %s\n  subject: %s", protocol, line, shown[0],
					shown[1])
			}
		}
	}
	requireEqual(t, `
DEBUG ERROR text
DEBUG ERROR
DEBUG PROTOCOL
DEBUG QUICKLIST-PACKED-THRESHOLD 1b
DEBUG QUICKLIST-PACKED-THRESHOLD 4gb
DEBUG QUICKLIST-PACKED-THRESHOLD 5gb
DEBUG QUICKLIST-PACKED-THRESHOLD -1
DEBUG QUICKLIST-PACKED-THRESHOLD x
DEBUG CLIENT-ENFORCE-REPLY-LIST 0
DEBUG DICT-RESIZING 1
`)
}
