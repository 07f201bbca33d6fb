package observe

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

func TestSort_RepliesAreValkeys(t *testing.T) { requireEqual(t, sortCalls) }

// sortCalls are calls of SORT, and of commands that show its keys and its result, one per line.
const sortCalls = `
RPUSH l 3 1 2
SORT l
SORT l DESC
SORT l ALPHA DESC LIMIT 1 1
SORT l ALPHA LIMIT -1 2
SORT l LIMIT 5 2
SORT l LIMIT 1 -1
SORT l LIMIT 1 -2
SORT l LIMIT 0 0
SORT l LIMIT 9223372036854775807 9223372036854775807
SORT l LIMIT -9223372036854775808 9223372036854775807
SORT l LIMIT 1
SORT l LIMIT a b
SORT l FOO
SORT l BY
SORT l GET
SORT l STORE
SORT_RO l STORE x
SORT_RO l BY nosort GET # GET x
SORT nokey
SORT nokey STORE dst
SORT nokey FOO
SET str 1
SORT str
SORT str FOO
SORT_RO str
RPUSH bad a 1 b
SORT bad
SORT bad STORE x
SORT bad ALPHA
SORT bad BY nosort
SORT bad BY nosort DESC
SORT bad BY nosort LIMIT 1 1
SORT bad BY nosort DESC LIMIT 0 2
SORT bad BY nosort GET # STORE out
LRANGE out 0 -1
MSET w_1 30 w_2 10 w_3 20
SORT l BY w_*
SORT l BY w_* GET # GET w_* GET nope_* GET const
SORT l BY w_* DESC LIMIT 0 2
HSET h_1 f 5 g x
HSET h_2 f 9
HSET h_3 f 7
SORT l BY h_*->f GET h_*->g GET #
SORT_RO l BY h_*->f DESC
SORT l BY h_*->
SORT l GET h_*->
SORT l GET h_*->f->x
SORT l GET *->f
SORT l GET h_*
SORT l GET w_*->f
SORT l BY h_*->nof ALPHA
SORT l BY missing_*
SORT l GET w_* STORE dst
TYPE dst
LRANGE dst 0 -1
SORT l GET nope_* STORE dst2
LRANGE dst2 0 -1
SORT l LIMIT 9 1 STORE dst2
EXISTS dst2
SORT l STORE l
LRANGE l 0 -1
RPUSH eq b a c a
SORT eq BY none_*
SORT eq BY none_* DESC
SORT eq BY none_* ALPHA
SORT eq BY none_* ALPHA DESC
SORT l BY str_* GET str ASC DESC
SORT l desc asc by nosort get #
SORT l BY nosort BY w_*
SORT l BY w_* BY nosort
SORT l BY nosort STORE dst3 LIMIT 0 1
SORT l STORE a STORE b
EXISTS a b
SET ex 1 EX 100
SORT l STORE ex
TTL ex
OBJECT ENCODING ex
COMMAND GETKEYS SORT l STORE b
COMMAND GETKEYS SORT l BY w_* STORE b STORE c
COMMAND GETKEYS SORT_RO l BY w_*
COMMAND GETKEYS SORT l GET STORE STORE
COMMAND GETKEYS SORT l STORE
COMMAND GETKEYS SORT l LIMIT STORE STORE store x
COMMAND GETKEYSANDFLAGS SORT l BY w STORE b STORE c
COMMAND GETKEYSANDFLAGS SET a b
COMMAND GETKEYSANDFLAGS SET a GET
COMMAND GETKEYSANDFLAGS SET a b IFEQ get
COMMAND GETKEYSANDFLAGS BITFIELD a
COMMAND GETKEYSANDFLAGS BITFIELD a OVERFLOW wrap GET u8 0
COMMAND GETKEYSANDFLAGS BITFIELD a GET u8 0 SET u8 0 1
COMMAND GETKEYSANDFLAGS BITFIELD a GET u8
COMMAND GETKEYSANDFLAGS BITFIELD a OVERFLOW
COMMAND GETKEYSANDFLAGS BITFIELD_RO a GET u8 0
MULTI
SORT l BY w_* STORE m
GET m
SORT_RO l BY w_* GET h_*->f
SORT l BY w_* LIMIT x 1
EXEC
`

func TestSort_ReadsNumbersAsValkey(t *testing.T) {
	valkey, subject := both(t)
	texts := []string{"1.5", "1e3", "-inf", "+inf", "infinity", "INF", "nan", "0x10", " 1", "1 ",
		"", "1e400", "1e-400", ".5", "5.",
		"1_0", "-", "--1", "-nan", "1e", "1.5e+3", "-0", "1\x00", "1\x002", "\x00",
		"9223372036854775808", "00"}
	for _, text := range texts {
		for _, options := range []string{"", "ALPHA", "ALPHA STORE out", "DESC"} {
			reply := func(conn *wire.Conn) string {
				do(t, conn, "DEL", "k", "out")
				do(t, conn, "RPUSH", "k", "1\x00b", text, "1\x00a", "1", "2")
				return do(t, conn, append([]string{"SORT", "k"}, words(options)...)...).String() +
					do(t, conn, "LRANGE", "out", "0", "-1").String()
			}
			if want, got := reply(valkey), reply(subject); want != got {
				t.Errorf("%q %s\n  valkey:  %s\n  subject: %s", text, options, want, got)
			}
		}
	}
}

// TestSort_SeesAllKeysAtOneMoment changes two keys together while their order is asked for; seen at
// different moments they would be equal.
func TestSort_SeesAllKeysAtOneMoment(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "2")
	setup := server.Dial(t)
	do(t, setup, "RPUSH", "l", "a", "b")
	do(t, setup, words("RPUSH long "+strings.Repeat("a b ", 200))...)
	do(t, setup, "MSET", "w_a", "0", "w_b", "1")
	stop := time.Now().Add(2 * time.Second)
	var group sync.WaitGroup
	work := func(call func(conn *wire.Conn, round int)) {
		conn := server.Dial(t)
		group.Go(func() {
			for round := 0; time.Now().Before(stop); round++ {
				call(conn, round)
			}
		})
	}
	for range 2 {
		work(func(conn *wire.Conn, round int) {
			_, _ = conn.Do("MSET", "w_a", strconv.Itoa(round%2), "w_b", strconv.Itoa(1-round%2))
		})
		work(func(conn *wire.Conn, round int) {
			for _, call := range []string{"SORT_RO l BY nosort GET w_*", "SORT l BY nosort GET w_*",
				"SORT_RO long BY nosort GET w_* LIMIT 0 2"} {
				reply, err := conn.Do(words(call)...)
				if err != nil || len(reply.Items) != 2 ||
					string(reply.Items[0].Text) == string(reply.Items[1].Text) {
					t.Errorf("%s saw two moments: %v %v", call, reply, err)
					return
				}
			}
		})
		work(func(conn *wire.Conn, round int) {
			for _, call := range []string{"MULTI", "SORT l BY w_* GET w_* STORE out" +
				strconv.Itoa(round%50), "SORT l BY nosort GET w_*"} {
				_, _ = conn.Do(words(call)...)
			}
			reply, err := conn.Do("EXEC")
			if err != nil || len(reply.Items) != 2 ||
				fmt.Sprint(reply.Items[1].Items[0]) == fmt.Sprint(reply.Items[1].Items[1]) {
				t.Errorf("EXEC saw two moments: %v %v", reply, err)
			}
		})
	}
	group.Wait()
}

func TestWait_AnswersAsWithoutReplicas(t *testing.T) {
	requireEqual(t, `
WAIT 0 0
WAIT 1 1
WAIT a 1
WAIT 1 a
WAIT -1 0
WAIT 1 -1
WAIT 1 9223372036854775807
WAIT 99999999999999999999 1
WAITAOF 0 0 0
WAITAOF 1 0 1
WAITAOF 1 0 -1
WAITAOF 0 1 1
WAITAOF 2 0 1
WAITAOF -1 0 1
WAITAOF x 0 1
WAITAOF 0 -1 1
WAITAOF 0 a 1
WAITAOF 0 99999999999 1
WAITAOF 0 0 -1
MULTI
WAIT 1 0
WAITAOF 0 1 0
WAITAOF 1 1 0
EXEC
`)
}

func TestWait_WaitsUntilItsTimeoutOrUntilItIsUnblocked(t *testing.T) {
	for _, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		server := instance.Start(t, kind)
		conn, other := server.Dial(t), server.Dial(t)
		begin := time.Now()
		if reply := do(t, conn, "WAIT", "1", "50"); reply.String() != ":0" ||
			time.Since(begin) < 40*time.Millisecond {
			t.Errorf("%s: %s after %v", kind, reply, time.Since(begin))
		}
		id := do(t, conn, "CLIENT", "ID").Int()
		if err := conn.Send("WAITAOF", "0", "1", "0"); err != nil {
			t.Fatal(err)
		}
		for do(t, other, "CLIENT", "UNBLOCK", strconv.FormatInt(id, 10)).Int() == 0 {
			time.Sleep(time.Millisecond)
		}
		if reply, err := conn.Receive(); err != nil || reply.String() != "*[:0 :0]" {
			t.Errorf("%s: unblocked, WAITAOF answered %s %v", kind, reply, err)
		}
	}
}
