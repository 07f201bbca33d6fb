package observe

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// requireEqualCalls is requireEqual of calls that lines cannot tell: with bytes of all kinds.
func requireEqualCalls(t *testing.T, valkey, subject *wire.Conn, calls [][]string) {
	t.Helper()
	for _, call := range calls {
		if want, got := do(t, valkey, call...).String(), do(t, subject,
			call...).String(); want != got {
			t.Errorf("%.200q\n  valkey:  %.300s\n  subject: %.300s", call, want, got)
		}
	}
}

// TestOptions_RepeatedAndConflictingAreReadAsByValkey tries all sequences of up to three options of
// the commands that set an expiry. The differential test does it with all commands, by chance.
func TestOptions_RepeatedAndConflictingAreReadAsByValkey(t *testing.T) {
	valkey, subject := both(t)
	times := "EX 1000|EX 9000|PX 5000000|EXAT 4102444800|PXAT 4102444800000|EX abc|EX"
	for _, command := range []struct{ head, options, tail, look string }{
		{"SET s v", times + "|NX|XX|GET|KEEPTTL|IFEQ v", "", "TTL s"},
		{"GETEX s", times + "|PERSIST", "", "TTL s"},
		{"MSETEX 1 s v", times + "|NX|XX|KEEPTTL", "", "TTL s"},
		{"HGETEX h", times + "|PERSIST", "FIELDS 1 f", "HTTL h FIELDS 1 f"},
		{"HSETEX h", times + "|FNX|FXX|NX|XX|KEEPTTL", "FIELDS 1 f v", "HTTL h FIELDS 1 f"},
		{"EXPIRE s 3000", "NX|XX|GT|LT|zz", "", "TTL s"},
		{"HEXPIRE h 3000", "NX|XX|GT|LT|zz", "FIELDS 1 f", "HTTL h FIELDS 1 f"},
	} {
		options := strings.Split(command.options, "|")
		var pipeline [][]string
		for number := range (len(options) + 1) * (len(options) + 1) * (len(options) + 1) {
			line := command.head
			for range 3 {
				if choice := number % (len(options) + 1); choice > 0 {
					line += " " + options[choice-1]
				}
				number /= len(options) + 1
			}
			pipeline = append(pipeline,
				words("SET s v"), words("DEL h"), words("HSET h f v"), words(line+" "+command.tail),
				words(command.look))
		}
		want, got := pipelined(t, valkey, pipeline), pipelined(t, subject, pipeline)
		for index := range pipeline {
			if want[index] != got[index] && !(index%5 == 4 && sameTimes(want[index], got[index])) {
				t.Fatalf("%q behind %q\n  valkey:  %s\n  subject: %s", pipeline[index],
					pipeline[max(index-1, 0)], want[index], got[index])
			}
		}
	}
}

// sameTimes tells whether two times to live differ by no more than the moments at which they were
// read.
func sameTimes(want, got string) bool {
	const toleranceS = 300
	seconds := func(reply string) int {
		number, err := strconv.Atoi(strings.Trim(reply, "*[:]"))
		if err != nil {
			return -1
		}
		return number
	}
	left, right := seconds(want), seconds(got)
	return left >= 0 && right >= 0 && max(left, right)-min(left, right) <= toleranceS
}

// pipelined sends all calls before it reads the replies.
func pipelined(t *testing.T, conn *wire.Conn, calls [][]string) []string {
	t.Helper()
	var request []byte
	for _, call := range calls {
		request = wire.AppendCommand(request, wire.Arguments(call...)...)
	}
	go func() { _ = conn.SendRaw(request) }()
	replies := make([]string, len(calls))
	for index := range calls {
		reply, err := conn.Receive()
		if err != nil {
			t.Fatalf("%v: %v", calls[index], err)
		}
		replies[index] = reply.String()
	}
	return replies
}

func TestErrors_QuoteWhatWasSentAsValkeyDoes(t *testing.T) {
	valkey, subject := both(t)
	long := strings.Repeat("x", 300)
	var calls [][]string
	for _, odd := range []string{"x\r\ny", "\r\nx\r\n", "\n", "x\x00y", "\x00", "\xff'\"\t", long,
		long[:127], long[:128], long[:129]} {
		for _, line := range []string{
			"ODD", "ODD a", "NOTHING ODD ODD ODD", "CLIENT ODD", "CONFIG ODD", "OBJECT ODD a",
			"COMMAND ODD", "DEBUG ODD", "DEBUG ODD ODD",
			"CONFIG SET ODD 1", "CONFIG SET loglevel ODD", "CONFIG GET ODD", "EXPIRE a 1 ODD",
			"HEXPIRE a 1 ODD FIELDS 1 f", "HELLO 3 ODD",
			"HELLO ODD", "CLIENT SETINFO ODD a", "CLIENT LIST TYPE ODD", "CLIENT KILL USER ODD",
			"CLIENT KILL FLAGS ODD", "SCAN 0 TYPE ODD",
			"LATENCY GRAPH ODD", "SLOWLOG GET ODD ODD", "COMMAND GETKEYS ODD", "DEBUG ERROR ODD",
			"SET a b ODD", "ACL ODD", "MODULE ODD",
		} {
			call := strings.Fields(line)
			for index := range call {
				call[index] = strings.ReplaceAll(call[index], "ODD", odd)
			}
			calls = append(calls, call)
		}
	}
	requireEqualCalls(t, valkey, subject, calls)
}

func TestConfigGet_AnswersTheSpellingOfTheClient(t *testing.T) {
	valkey, subject := both(t)
	requireEqualCalls(t, valkey, subject, [][]string{
		{"CONFIG", "GET", "TimeOut"}, {"CONFIG", "GET", "timeout", "TIMEOUT"},
		{"CONFIG", "GET", "TIMEOUT", "timeo*"},
		{"CONFIG", "GET", "timeo*", "TIMEOUT"}, {"CONFIG", "GET", "databases", "TIMEOUT", "a"},
		{"CONFIG", "GET", "\\timeout"},
		{"CONFIG", "GET", "Slave-Priority", "replica-priority"},
		// A name with a NUL is not compared: Valkey finds "timeout\x00" or not by where its seed
		// puts the name in a table (11 of 2,416 starts). A pattern ends at the NUL.
		{"CONFIG", "GET", "timeo*\x00x"},
		{"CONFIG", "SET", "Slave-Priority", "abc"}, {"CONFIG", "SET", "LOGLEVEL", "x"},
		{"CONFIG", "SET", "timeout", "1", "TIMEOUT", "2"},
		{"CONFIG", "SET", "slave-priority", "1", "replica-priority", "2"},
		{"CONFIG", "GET", "*-priority"}, {"CONFIG", "SET", "DIR", "/"},
	})
}

// TestStranger_IsToldNothingBeforeItAuthenticates: neither which commands there are nor what they
// take.
func TestStranger_IsToldNothingBeforeItAuthenticates(t *testing.T) {
	valkey, subject := both(t)
	for _, conn := range []*wire.Conn{valkey, subject} {
		do(t, conn, "CONFIG", "SET", "requirepass", "secret")
		do(t, conn, "RESET")
	}
	var calls [][]string
	for _, line := range strings.Split(
		"nothing|nothing a|GET|GET a|GET a b c|MULTI|MULTI x|EXEC|EXEC "+
			"x|DISCARD|WATCH|CLIENT|CLIENT x|CLIENT ID|"+
			"CLIENT KILL|CONFIG GET|OBJECT x|MONITOR|MONITOR x|DEBUG x|SHUTDOWN x|ROLE|ROLE "+
			"x|ACL WHOAMI|BLPOP a|BLPOP a 0|SELECT 99|PING|PING a b|"+
			"AUTH|AUTH a|AUTH a b|AUTH a b c|HELLO|HELLO x|HELLO 9|HELLO 3 AUTH default x|HELLO "+
			"2 SETNAME a|RESET|RESET x|AUTH secret|GET|nothing|MULTI|"+
			"GET|EXEC|MULTI|AUTH nope|EXEC|ACL WHOAMI|RESET|GET", "|") {
		calls = append(calls, words(line))
	}
	requireEqualCalls(t, valkey, subject, calls)
	for _, conn := range []*wire.Conn{valkey, subject} {
		do(t, conn, "AUTH", "secret")
		defer do(t, conn, "CONFIG", "SET", "requirepass", "")
		info := string(do(t, conn, "INFO", "commandstats").Text)
		if !strings.Contains(info,
			"cmdstat_get:calls=0,usec=0,usec_per_call=0.00,rejected_calls=6,") {
			t.Errorf("GET was refused six times:\n%s", info)
		}
	}
}

func TestStanding_IsAnsweredAsByValkeyWithoutReplicasAndUsers(t *testing.T) {
	requireEqual(t, `
ROLE
ROLE x
LASTSAVE x
SAVE x
BGSAVE x
BGSAVE SCHEDULE x
BGREWRITEAOF x
REPLICAOF NO ONE
replicaof no one
SLAVEOF no ONE
REPLICAOF x
ACL WHOAMI
ACL WHOAMI x
ACL USERS
ACL
ACL x
MODULE
MODULE x
SCAN 0 NOVALUES
SCAN 0 MATCH * NOVALUES
CLIENT UNBLOCK 999 x ERROR
CLIENT PAUSE 1 x WRITE
`)
	_, subject := both(t)
	saved := do(t, subject, "LASTSAVE").Int()
	if age := time.Now().Unix() - saved; age < -60 || age > 3600 {
		t.Errorf("LASTSAVE is %d seconds ago", age)
	}
	for line, want := range map[string]string{
		"REPLICAOF a 1":     "-ERR REPLICAOF is not supported: there is no replication",
		"MODULE LIST":       "*[]",
		"SHUTDOWN FAILOVER": "-ERR SHUTDOWN FAILOVER is only supported in cluster mode.",
	} {
		if got := do(t, subject, words(line)...).String(); got != want {
			t.Errorf("%s answers %s", line, got)
		}
	}
}

// TestUnblock_LooksAtAReasonOnlyWithoutMoreBehindIt, and so does PAUSE at its mode.
func TestUnblock_LooksAtAReasonOnlyWithoutMoreBehindIt(t *testing.T) {
	for _, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		server := instance.Start(t, kind)
		conn, blocked := server.Dial(t), server.Dial(t)
		id := string(do(t, blocked, "CLIENT", "ID").String()[1:])
		for reason, want := range map[string]string{"ERROR": "-UNBLOCKED", "ERROR x": "*",
			"x ERROR": "*", "TIMEOUT": "*"} {
			if err := blocked.Send("BLPOP", "nothing", "0"); err != nil {
				t.Fatal(err)
			}
			unblock := append([]string{"CLIENT", "UNBLOCK", id}, words(reason)...)
			for deadline := time.Now().Add(time.Minute); do(t, conn, unblock...).Int() == 0; {
				if time.Now().After(deadline) {
					t.Fatal("it does not block")
				}
			}
			reply, err := blocked.Receive()
			if err != nil || !strings.HasPrefix(reply.String(), want) &&
				!(want == "*" && reply.Null) {
				t.Errorf("%s: UNBLOCK %s ended the wait with %s, %v", kind, reason, reply, err)
			}
		}
	}
}

func TestSlowlog_CutsANameWhereACStringEnds(t *testing.T) {
	for _, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		conn := instance.Start(t, kind, "--slowlog-log-slower-than", "0").Dial(t)
		for name, want := range map[string]string{"a\x00b c": "a",
			strings.Repeat("n", 1000): strings.Repeat("n", 1000)} {
			do(t, conn, "CLIENT", "SETNAME", name)
			do(t, conn, "GET", "a")
			entry := do(t, conn, "SLOWLOG", "GET", "1").Items[0]
			if got := string(entry.Items[5].Text); got != want {
				t.Errorf("%s: %q is logged as %q", kind, name, got)
			}
		}
	}
}
