package pubsub

import (
	"fmt"
	"math/rand"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

func TestTracking_IsValkeysInResp3(t *testing.T) {
	converse(t, `
a: HELLO 3 ; CLIENT TRACKING ON ; CLIENT TRACKINGINFO ; CLIENT GETREDIR
b: MSET k 1 l 2 m 3
a: GET k ; MGET l m nothing
b: SET k 2 ; SET k 3 ; DEL l ; SET nothing 1
a: GET k ; SET k own ; GET k ; GET k
a: MULTI ; GET k ; SET k x ; GET k ; EXEC ; PING
b: RENAME k r
a: GET r ; GET m
b: SELECT 3 ; SET r other ; SELECT 0
a: HSET h f v ; HGETALL h ; HGET h f
b: HDEL h f
a: GET m ; EXPIRE m 100 ; GET m ; PERSIST m ; GET m
b: APPEND m x ; COPY m n ; MOVE m 5
a: EVAL "return{redis.call('get','e'),redis.call('set','e','1')}" 1 e ; PING
a: EVAL "return(redis.call('get','e'))" 1 x ; PING
b: SET x 1 ; SET e 2
a: EVAL_RO "return(redis.call('get','e'))" 1 x
b: SET x 1 ; SET e 3
a: XADD s 1-1 f v ; XLEN s ; TYPE s ; EXISTS t
b: XADD s 1-2 f v ; SET t 1 ; SET s notastream
a: XLEN s ; LRANGE s 0 1
b: DEL s
a: GET k ; CLIENT REPLY OFF ; GET m ; CLIENT REPLY ON
b: SET m 1 ; SET k 1
a: GET k ; GET m
b: FLUSHDB
b: SET k 1
a: GET k ; FLUSHALL ; PING
a: CLIENT TRACKING ON BCAST ; CLIENT TRACKING ON OPTIN ; CLIENT TRACKING ON OPTOUT
a: CLIENT TRACKING ON PREFIX x ; CLIENT TRACKING ON OPTIN OPTOUT ; CLIENT TRACKING x
a: CLIENT TRACKING ON REDIRECT 0 ; CLIENT TRACKING ON REDIRECT x ; CLIENT TRACKING ON REDIRECT
a: CLIENT TRACKING ON PREFIX ; CLIENT TRACKING ON foo ; CLIENT TRACKING ; CLIENT TRACKING OFF foo
a: CLIENT CACHING YES ; CLIENT CACHING NO ; CLIENT CACHING x ; CLIENT TRACKINGINFO
a: CLIENT TRACKING OFF ; CLIENT CACHING YES ; CLIENT TRACKINGINFO ; CLIENT GETREDIR
b: SET k 2
`)
}

func TestTracking_OptionsAreValkeys(t *testing.T) {
	converse(t, `
a: HELLO 3 ; CLIENT TRACKING ON OPTIN ; CLIENT TRACKINGINFO
b: MSET k 1 l 2 m 3
a: GET k ; CLIENT CACHING YES ; CLIENT TRACKINGINFO ; GET l ; GET m
b: MSET k 1 l 2 m 3
a: CLIENT CACHING YES ; MULTI ; GET k ; CLIENT CACHING YES ; GET l ; EXEC ; GET m
b: SET k 1 ; SET l 1 ; SET m 1
a: CLIENT CACHING YES ; FOO ; GET k
a: CLIENT CACHING YES ; CLIENT GETNAME ; GET l
b: SET k 1 ; SET l 1
a: CLIENT TRACKING ON ; CLIENT TRACKINGINFO ; CLIENT TRACKING ON OPTOUT ; CLIENT TRACKINGINFO
a: CLIENT CACHING NO ; GET k ; GET l ; CLIENT CACHING YES
b: SET k 1 ; SET l 1
a: CLIENT TRACKING ON NOLOOP ; CLIENT TRACKINGINFO
a: GET k ; SET k own ; GET k ; EVAL "return(redis.call('set','k','2'))" 1 k ; GET k ; INCR k ; GET k
b: SET k 1
a: CLIENT TRACKING OFF ; CLIENT TRACKING ON BCAST PREFIX p: PREFIX q: ; CLIENT TRACKINGINFO
b: MSET p:1 1 k 1
b: SET q:1 1
b: MULTI ; SET p:3 1 ; SET p:3 2 ; SET z 1 ; EXEC
a: CLIENT TRACKING ON BCAST PREFIX p ; CLIENT TRACKING ON BCAST PREFIX q:1 ; CLIENT TRACKING ON
a: CLIENT TRACKING ON BCAST PREFIX a PREFIX b PREFIX ab ; CLIENT TRACKING ON BCAST PREFIX c NOLOOP
a: CLIENT TRACKINGINFO ; SET c 1 ; SET p:x 1 ; PING
b: SET c1 1
b: DEL p:1
b: FLUSHALL
a: RESET ; CLIENT TRACKINGINFO
b: SET p:1 1
a: GET p:1
b: SET p:1 2
`)
}

func TestTracking_OfBlockedClientsFollowsTheReply(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "2")
	for range 50 {
		blocked, other := server.Dial(t), server.Dial(t)
		do(t, blocked, "HELLO", "3")
		do(t, blocked, "CLIENT", "TRACKING", "ON")
		do(t, other, "DEL", "from{t}", "to{t}")
		do(t, blocked, "LRANGE", "to{t}", "0", "-1")
		if err := blocked.Send("BLMOVE", "from{t}", "to{t}", "LEFT", "LEFT", "0"); err != nil {
			t.Fatal(err)
		}
		await(t, "the client is not blocked", func() bool {
			return info(t, other, "blocked_clients") == "1"
		})
		do(t, other, "RPUSH", "from{t}", "x")
		for _, want := range []string{"x", "invalidate"} {
			reply, err := blocked.Receive()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(reply.String(), want) {
				t.Fatalf("%s instead of %s", reply, want)
			}
		}
		_ = blocked.Close()
		_ = other.Close()
	}
}

// TestTracking_InvalidationsFollowTheRepliesOfTheirTurn has a key changed by another worker while a
// turn that has read it goes on: a client that is told before it has the old value keeps that.
func TestTracking_InvalidationsFollowTheRepliesOfTheirTurn(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "2",
		"--enable-debug-command", "yes")
	tracks := server.Dial(t)
	do(t, tracks, "HELLO", "3")
	do(t, tracks, "CLIENT", "TRACKING", "ON")
	for round := range 3 {
		old, begun := fmt.Sprintf("old-%d", round), fmt.Sprintf("begun-%d", round)
		do(t, server.Dial(t), "SET", "key", old)
		turn := wire.AppendCommand(nil, wire.Arguments("GET", "key")...)
		turn = wire.AppendCommand(turn, wire.Arguments("SET", begun, "1")...)
		turn = wire.AppendCommand(turn, wire.Arguments("DEBUG", "SLEEP", "0.5")...)
		if err := tracks.SendRaw(turn); err != nil {
			t.Fatal(err)
		}
		// A worker that sleeps gets no connections: this one is the other's.
		var other *wire.Conn
		await(t, "the turn has not begun", func() bool {
			other = server.Dial(t)
			return do(t, other, "EXISTS", begun).Int() == 1
		})
		do(t, other, "SET", "key", "new")
		for _, want := range []string{old, "OK", "OK", "invalidate"} {
			reply, err := tracks.Receive()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(reply.String(), want) {
				t.Fatalf("%s instead of %s", reply, want)
			}
		}
	}
}

// TestTracking_EndsHoweverTheClientEnds watches what is left in the tables.
func TestTracking_EndsHoweverTheClientEnds(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "2")
	other := server.Dial(t)
	ends := map[string]func(*wire.Conn){
		"closed": func(conn *wire.Conn) { _ = conn.Close() },
		"quit":   func(conn *wire.Conn) { do(t, conn, "QUIT") },
		"reset":  func(conn *wire.Conn) { do(t, conn, "RESET") },
		"off":    func(conn *wire.Conn) { do(t, conn, "CLIENT", "TRACKING", "OFF") },
		"killed": func(*wire.Conn) { do(t, other, "CLIENT", "KILL", "FLAGS", "t") },
		"broken": func(conn *wire.Conn) { _ = conn.SendRaw([]byte("*1\r\nx\r\n")) },
	}
	for name, end := range ends {
		keys, prefixes := server.Dial(t), server.Dial(t)
		do(t, keys, "CLIENT", "TRACKING", "ON")
		do(t, prefixes, "CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a", "PREFIX", "b")
		for number := range 100 {
			do(t, keys, "GET", strconv.Itoa(number))
		}
		before := info(t, other, "tracking_total_keys") + " " + info(t, other, "tracking_clients") +
			" " + info(t, other, "tracking_total_prefixes")
		if before != "100 2 2" {
			t.Errorf("%s: keys, clients and prefixes are %s", name, before)
		}
		end(keys)
		end(prefixes)
		t.Run(name, func(t *testing.T) {
			await(t, "something is left", func() bool {
				left := ""
				for _, field := range []string{
					"tracking_total_keys", "tracking_total_items", "tracking_clients",
					"tracking_total_prefixes",
				} {
					left += info(t, other, field)
				}
				return left == "0000"
			})
		})
	}
}

func TestTracking_TableIsBounded(t *testing.T) {
	const limit = 100
	server := instance.Start(t, instance.Subject, "--tracking-table-max-keys", strconv.Itoa(limit))
	reader, other := server.Dial(t), server.Dial(t)
	do(t, reader, "HELLO", "3")
	do(t, reader, "CLIENT", "TRACKING", "ON")
	var request []byte
	for number := range 10 * limit {
		key := fmt.Sprintf("key{%d}", number%3)
		request = wire.AppendCommand(request, wire.Arguments("GET", key+strconv.Itoa(number))...)
	}
	request = wire.AppendCommand(request, wire.Arguments("PING")...)
	if err := reader.SendRaw(request); err != nil {
		t.Fatal(err)
	}
	invalidated := 0
	for {
		reply, err := reader.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if reply.Kind == '>' {
			invalidated++
		} else if string(reply.Text) == "PONG" {
			break
		}
	}
	if keys := info(t, other, "tracking_total_keys"); keys != strconv.Itoa(limit) {
		t.Errorf("%s keys are tracked", keys)
	}
	if invalidated != 9*limit {
		t.Errorf("%d keys were invalidated", invalidated)
	}
	do(t, other, "CONFIG", "SET", "tracking-table-max-keys", "1")
	await(t, "the table does not shrink", func() bool {
		return info(t, other, "tracking_total_keys") == "1"
	})
}

// Keys read before the limit was lowered are invalidated before the next reply, although nothing is
// done from time to time.
func TestTracking_ALoweredBoundHoldsAtOnce(t *testing.T) {
	for _, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		server := instance.Start(t, kind, "--enable-debug-command", "yes")
		reader, other := server.Dial(t), server.Dial(t)
		do(t, other, "DEBUG", "PAUSE-CRON", "1")
		do(t, reader, "HELLO", "3")
		do(t, reader, "CLIENT", "TRACKING", "ON")
		do(t, reader, "MGET", "1", "2")
		do(t, reader, "MULTI")
		do(t, other, "CONFIG", "SET", "tracking-table-max-keys", "1")
		if first := do(t, reader, "PING"); first.Kind != '>' {
			t.Errorf("%v: %s comes first", kind, first)
		}
		if second, err := reader.Receive(); err != nil || string(second.Text) != "QUEUED" {
			t.Errorf("%v: then %s, %v", kind, second, err)
		}
		do(t, other, "DEBUG", "PAUSE-CRON", "0")
	}
}

// Keys for which a write left no room are evicted, and their readers told, before the next reply.
func TestTracking_EvictedKeysAreToldBeforeTheNextReply(t *testing.T) {
	for _, kind := range []instance.Kind{instance.Valkey, instance.Subject} {
		server := instance.Start(t, kind)
		conn := server.Dial(t)
		do(t, conn, "HELLO", "3")
		do(t, conn, "CLIENT", "TRACKING", "ON")
		number := func(name string) int {
			value, err := strconv.Atoi(info(t, conn, name))
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
		do(t, conn, "SET", "source", strings.Repeat("x", 200<<10))
		limit := number("used_memory") - number("mem_not_counted_for_evict") + 100<<10
		do(t, conn, "CONFIG", "SET", "maxmemory-policy", "volatile-random", "maxmemory",
			strconv.Itoa(limit))
		do(t, conn, "SET", "volatile", "x", "EX", "10000")
		do(t, conn, "GET", "volatile")
		// Beyond the limit by itself; keys without an expiry stay.
		do(t, conn, "BITOP", "NOT", "large", "source")
		if first := do(t, conn, "STRLEN", "large"); first.Kind != '>' ||
			!strings.Contains(first.String(), "volatile") {
			t.Errorf("%v: %s comes first", kind, first)
		}
		if second, err := conn.Receive(); err != nil || second.Kind != ':' {
			t.Errorf("%v: then %s, %v", kind, second, err)
		}
	}
}

// A cache is a client that keeps copies of keys, and drops what it is told has changed.
type cache struct {
	mode  string
	conn  *wire.Conn
	told  *wire.Conn // tells in RESP2 what conn is to know; nil if that is told itself
	kept  map[string]int64
	hits  int
	drops int
}

// receive returns the next reply, and takes what comes before it.
func (c *cache) receive(conn *wire.Conn) (wire.Reply, error) {
	for {
		reply, err := conn.Receive()
		if err != nil || reply.IsError() {
			return reply, fmt.Errorf("%s: %s, %v", c.mode, reply, err)
		}
		var keys []wire.Reply
		switch {
		case reply.Kind == '>' && string(reply.Items[0].Text) == "invalidate":
			keys = reply.Items[1].Items
		case conn == c.told && string(reply.Items[0].Text) == "message":
			keys = reply.Items[2].Items
		default:
			return reply, nil
		}
		for _, key := range keys {
			delete(c.kept, string(key.Text))
			c.drops++
		}
	}
}

// read takes keys that are not kept, several in one write.
func (c *cache) read(keys []string) error {
	var request []byte
	var missing []string
	for _, key := range keys {
		if _, isKept := c.kept[key]; isKept {
			c.hits++
			continue
		}
		missing = append(missing, key)
		if c.mode == "OPTIN" {
			request = wire.AppendCommand(request, wire.Arguments("CLIENT", "CACHING", "YES")...)
		}
		request = wire.AppendCommand(request, wire.Arguments("GET", key)...)
	}
	if err := c.conn.SendRaw(request); err != nil {
		return err
	}
	for _, key := range missing {
		if c.mode == "OPTIN" {
			if _, err := c.receive(c.conn); err != nil {
				return err
			}
		}
		reply, err := c.receive(c.conn)
		if err != nil {
			return err
		}
		version, _ := strconv.ParseInt(string(reply.Text), 10, 64)
		c.kept[key] = version
	}
	return nil
}

// settle waits until the cache was told all that was posted by now.
func (c *cache) settle() error {
	for _, conn := range []*wire.Conn{c.conn, c.told} {
		if conn == nil {
			continue
		}
		if err := conn.Send("PING"); err != nil {
			return err
		}
		if _, err := c.receive(conn); err != nil {
			return err
		}
	}
	return nil
}

// TestTracking_NothingStaleIsKept writes and reads side by side: what was told is written must not
// be kept in an older version by a client that was told all that had been posted by then.
func TestTracking_NothingStaleIsKept(t *testing.T) {
	const (
		keys    = 12
		rounds  = 1500
		writers = 3
	)
	server := instance.Start(t, instance.Subject, "--worker-threads", "4")
	var written [keys]atomic.Int64
	var isOver atomic.Bool
	var writing, reading sync.WaitGroup
	name := func(index int) string { return fmt.Sprintf("p%d:key%d", index%2, index) }
	for writer := range writers {
		conn := server.Dial(t)
		random := rand.New(rand.NewSource(int64(writer)))
		writing.Go(func() {
			for version := int64(1); !isOver.Load(); version++ {
				index := writer + writers*random.Intn(keys/writers)
				if err := write(conn, random.Intn(4), name(index), version); err != nil {
					t.Error(err)
					return
				}
				written[index].Store(version)
			}
		})
	}
	caches := make([]*cache, 0, 10)
	for number := range 10 {
		c := &cache{conn: server.Dial(t), kept: map[string]int64{}}
		c.mode = []string{"", "OPTIN", "BCAST", "NOLOOP", "REDIRECT"}[number%5]
		begin(t, server, c)
		caches = append(caches, c)
	}
	for number, c := range caches {
		random := rand.New(rand.NewSource(int64(100 + number)))
		reading.Go(func() {
			for range rounds {
				var wanted []string
				for range 1 + random.Intn(4) {
					wanted = append(wanted, name(random.Intn(keys)))
				}
				if err := c.read(wanted); err != nil {
					t.Error(err)
					return
				}
				var least [keys]int64
				for index := range least {
					least[index] = written[index].Load()
				}
				if err := c.settle(); err != nil {
					t.Error(err)
					return
				}
				for index, least := range least {
					if kept, isKept := c.kept[name(index)]; isKept && kept < least {
						t.Errorf("%s: %s is kept as %d, not %d", c.mode, name(index), kept, least)
						return
					}
				}
			}
		})
	}
	reading.Wait()
	isOver.Store(true)
	writing.Wait()
	for _, c := range caches {
		if c.hits == 0 || c.drops == 0 {
			t.Errorf("%s: %d hits, %d keys dropped", c.mode, c.hits, c.drops)
		}
	}
}

// begin lets a cache be told of changes.
func begin(t *testing.T, server *instance.Server, c *cache) {
	t.Helper()
	call := []string{"CLIENT", "TRACKING", "ON"}
	switch c.mode {
	case "REDIRECT":
		c.told = server.Dial(t)
		id := do(t, c.told, "CLIENT", "ID").Int()
		do(t, c.told, "SUBSCRIBE", "__redis__:invalidate")
		call = append(call, "REDIRECT", strconv.FormatInt(id, 10))
	case "BCAST":
		do(t, c.conn, "HELLO", "3")
		call = append(call, "BCAST", "PREFIX", "p0:", "PREFIX", "p1:")
	default:
		do(t, c.conn, "HELLO", "3")
		if c.mode != "" {
			call = append(call, c.mode)
		}
	}
	do(t, c.conn, call...)
}

// write sets a key in one of several ways.
func write(conn *wire.Conn, way int, key string, version int64) error {
	value := strconv.FormatInt(version, 10)
	calls := [][]string{{"SET", key, value}}
	switch way {
	case 1:
		calls = [][]string{{"MULTI"}, {"DEL", key}, {"SET", key, value}, {"EXEC"}}
	case 2:
		script := "redis.call('set', KEYS[1], ARGV[1]) return redis.call('get', KEYS[1])"
		calls = [][]string{{"EVAL", script, "1", key, value}}
	case 3:
		calls = [][]string{{"SET", "of:" + key, value}, {"RENAME", "of:" + key, key}}
	}
	for _, call := range calls {
		if reply, err := conn.Do(call...); err != nil || reply.IsError() {
			return fmt.Errorf("%v: %s, %v", call, reply, err)
		}
	}
	return nil
}

// TestTracking_RedirectedIsToldAtOnce waits for what another connection is told, while the one that
// reads says nothing more.
func TestTracking_RedirectedIsToldAtOnce(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "2")
	for range 20 {
		reader, told := server.Dial(t), server.Dial(t)
		id := do(t, told, "CLIENT", "ID").Int()
		do(t, told, "SUBSCRIBE", "__redis__:invalidate")
		do(t, reader, "CLIENT", "TRACKING", "ON", "REDIRECT", strconv.FormatInt(id, 10))
		do(t, reader, "GET", "k")
		do(t, reader, "SET", "k", "v")
		reply, err := told.Receive()
		if err != nil || !strings.Contains(reply.String(), "invalidate") {
			t.Fatal(reply, err)
		}
		_ = reader.Close()
		_ = told.Close()
	}
}
