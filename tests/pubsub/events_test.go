package pubsub

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// await waits until something is so.
func await(t *testing.T, otherwise string, isSo func() bool) {
	t.Helper()
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); {
		if isSo() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error(otherwise)
}

// eventCalls fire all events that there are, and calls beside them that fire none.
const eventCalls = `
SET k v
SET k v EX 100
SET k v NX
SET k v KEEPTTL
SETNX k2 v
SETNX k2 v
SETEX k3 100 v
PSETEX k3 100000 v
GETSET k3 x
GETDEL k3
GETDEL k3
GETEX k2 EX 100
GETEX k2 PERSIST
GETEX no
GETEX k2 PXAT 1
GET no
MGET k no no2
STRLEN no
EXISTS no no2 k
TYPE no
TTL no
PTTL no
EXPIRETIME no
TOUCH no
OBJECT ENCODING no
OBJECT IDLETIME no
OBJECT REFCOUNT no
SUBSTR no 0 1
GETRANGE no 0 1
LCS no no2
APPEND a x
APPEND a y
SETRANGE sr 2 hello
SETRANGE sr2 0 _
INCR n
INCRBY n 4
DECR n
DECRBY n 2
INCRBYFLOAT n 1.5
MSET m1 a m2 b
MSETNX m1 a m3 b
MSETNX m4 a m5 b
MSETEX 2 e1 a e2 b EX 100
MSETEX 1 e1 x KEEPTTL
SETBIT bit 3 1
SETBIT bit 3 1
BITOP AND bd bit bit
BITOP AND bd no no2
BITFIELD bf SET u8 0 5 INCRBY u8 0 1
BITFIELD bf GET u8 0
BITCOUNT no
BITPOS no 1
GETBIT no 1
LPUSH l a b c
RPUSH l d
LPUSHX l z
LPUSHX nol z
LINSERT l BEFORE a q
LSET l 0 y
LREM l 1 y
LTRIM l 0 2
LPOP l
RPOP l
LPOP l 5
LPOP l
LRANGE no 0 1
LLEN no
LINDEX no 1
LPOS no 1
RPUSH l1 a b
LMOVE l1 l2 LEFT RIGHT
RPOPLPUSH l1 l2
RPOPLPUSH l2 l2
LMPOP 1 l2 LEFT COUNT 10
RPUSH bl a
BLPOP bl 0
RPUSH bl a
BLMOVE bl bl2 LEFT LEFT 0
BRPOPLPUSH bl2 bl 0
BLMPOP 0 1 bl LEFT
RPUSH lt a
LTRIM lt 0 -1
LTRIM lt 5 6
HSET h f v g w
HSET h f v
HSETNX h z 1
HSETNX h z 1
HMSET h a b
HINCRBY h n 1
HINCRBYFLOAT h n 1.5
HDEL h f g
HDEL h f
HGET no f
HMGET no f
HGETALL no
HLEN no
HEXISTS no f
HKEYS no
HSTRLEN no f
HRANDFIELD no
HSCAN no 0
HEXPIRE h 100 FIELDS 1 z
HPEXPIRE h 100000 FIELDS 1 z
HPERSIST h FIELDS 1 z
HTTL h FIELDS 1 z
HEXPIRE h 0 FIELDS 1 z
HGETDEL h FIELDS 1 a
HSETEX h EX 100 FIELDS 1 e v
HGETEX h PERSIST FIELDS 1 e
HGETEX h EX 100 FIELDS 1 e
HSET hg e v f v
HGETEX hg EX 0 FIELDS 1 e
HGETEX hg PXAT 1 FIELDS 1 f
HDEL h e n
HSET h3 f v
HEXPIRE h3 0 FIELDS 1 f
HSET hw f v g w
HSETEX hw FXX EX 0 FIELDS 1 f v
HEXPIREAT hw 99999999999 FIELDS 1 g
HSETEX hw PXAT 1 FIELDS 1 none v
HSETEX nohash PXAT 1 FIELDS 1 f v
HSETEX hw PXAT 1 FIELDS 2 none v g v
XAUTOCLAIM no g c bad 0
COPY no nohash
DEL k k2 no
UNLINK m1 m2
SET r1 v
RENAME r1 r2
SET r1 v
RENAME r1 r2
RENAMENX r2 r3
SET c1 v
COPY c1 c2
COPY c1 c2 REPLACE
COPY c1 c3 DB 1
MOVE c1 2
EXPIRE c2 100
EXPIRE c2 100 NX
PEXPIRE c2 100000
EXPIREAT c2 99999999999
PERSIST c2
PERSIST c2
EXPIRE c2 -1
RPUSH so 3 1 2
SORT so STORE so2
SORT no STORE so2
SORT no
SORT_RO no
MULTI
SET t 1
DEL t
GET no
EXEC
SET ie v
SET ie w IFEQ v
SET ie w IFEQ zzz
DELIFEQ ie w
SET g1 v GET
SET g1 v GET
FLUSHDB
FLUSHALL
CONFIG SET notify-keyspace-events Kg
SET kg v
DEL kg
CONFIG SET notify-keyspace-events Elx
LPUSH el a
LPOP el
CONFIG SET notify-keyspace-events KE
SET kk v
CONFIG SET notify-keyspace-events A
SET kk v
CONFIG SET notify-keyspace-events AnK
CONFIG GET notify-keyspace-events
SET new v
CONFIG SET notify-keyspace-events nE
SET newer v
CONFIG SET notify-keyspace-events _
SET kk v
`

// eventDifferences are calls whose events differ by intent, each with the reason.
var eventDifferences = map[string]string{}

func TestKeyspaceEvents_AreValkeys(t *testing.T) {
	var rooms []*room
	for _, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		server := instance.Start(t, kind, "--notify-keyspace-events", "KEAmn")
		listener := server.Dial(t)
		do(t, listener, "PSUBSCRIBE", "__key*__:*")
		clients := map[string]*wire.Conn{"caller": server.Dial(t), "listener": listener}
		rooms = append(rooms, &room{server: server, clients: clients})
	}
	for _, line := range strings.Split(strings.TrimSpace(eventCalls), "\n") {
		var replies, heard [2]string
		for index, room := range rooms {
			words := strings.Fields(strings.ReplaceAll(line, " _", " \"\""))
			for index := range words {
				words[index] = strings.Trim(words[index], `"`)
			}
			replies[index] = do(t, room.clients["caller"], words...).String()
			heard[index] = strings.Join(room.heard(t, "listener"), "\n    ")
		}
		if replies[0] != replies[1] {
			t.Errorf("%s is answered %s instead of %s", line, replies[1], replies[0])
		}
		if heard[0] != heard[1] && eventDifferences[line] == "" {
			t.Errorf("%s\n  valkey:\n    %s\n  subject:\n    %s", line, heard[0], heard[1])
		}
	}
}

// TestExpiry_IsHeardOf looks at events of keys and fields that nobody touches when they expire.
func TestExpiry_IsHeardOf(t *testing.T) {
	for _, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		server := instance.Start(t, kind, "--notify-keyspace-events", "EAm")
		listener, caller := server.Dial(t), server.Dial(t)
		do(t, listener, "PSUBSCRIBE", "__keyevent@*")
		for _, call := range []string{
			"SET gone v PX 1", "HSET hash f v g w", "HPEXPIRE hash 1 FIELDS 1 f",
			"HSET whole f v", "HPEXPIRE whole 1 FIELDS 1 f", "SET read v PX 1",
		} {
			do(t, caller, strings.Fields(call)...)
		}
		time.Sleep(5 * time.Millisecond)
		do(t, caller, "GET", "read")
		wanted := []string{"expired gone", "expired read", "hexpired hash", "hexpired whole",
			"del whole"}
		for len(wanted) > 0 {
			reply, err := listener.Receive()
			if err != nil {
				t.Fatalf("%v: %v, before %q", kind, err, wanted)
			}
			channel, subject := string(reply.Items[2].Text), string(reply.Items[3].Text)
			event := strings.TrimPrefix(channel, "__keyevent@0__:") + " " + subject
			wanted = slices.DeleteFunc(wanted, func(other string) bool { return other == event })
		}
	}
}

// TestEvents_AreHeardBehindTheirChange reads each key that an event tells of.
func TestEvents_AreHeardBehindTheirChange(t *testing.T) {
	const keys = 3000
	server := instance.Start(t, instance.Subject, "--worker-threads", "2",
		"--notify-keyspace-events", "E$")
	listener, reader := server.Dial(t), server.Dial(t)
	do(t, listener, "SUBSCRIBE", "__keyevent@0__:set")
	for writer := range 2 {
		conn := server.Dial(t)
		go func() {
			var request []byte
			for key := range keys {
				name := fmt.Sprintf("%d-%d", writer, key)
				request = wire.AppendCommand(request, wire.Arguments("SET", name, "v")...)
			}
			_ = conn.SendRaw(request)
		}()
	}
	for range 2 * keys {
		reply, err := listener.Receive()
		if err != nil {
			t.Fatal(err)
		}
		key := string(reply.Items[2].Text)
		if value := do(t, reader, "GET", key); string(value.Text) != "v" {
			t.Fatalf("%s is told of and is %s", key, value)
		}
	}
}
