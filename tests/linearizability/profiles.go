package linearizability

import (
	"strconv"
	"time"
)

// profiles are the mixes of operations. Each keeps few keys, in different slots, so that operations
// meet.
var profiles = []profile{
	{name: "strings", make: stringMix},
	{name: "lists", make: listMix},
	{name: "sets", make: setMix},
	{name: "streams", make: streamMix,
		prepare: []string{"XGROUP", "CREATE", "x1", "g", "0", "MKSTREAM"}},
	{name: "keyspace", make: keyspaceMix},
	{name: "transactions", make: transactionMix},
	{name: "expiry", make: expiryMix, pause: 8 * time.Millisecond,
		last: []string{"MGET", "e1", "e2"}},
	{name: "fields", make: fieldMix, pause: 8 * time.Millisecond, last: []string{"HGETALL", "h1"}},
	{name: "lone commands in EXEC", make: loneMix},
	{name: "scripts", make: scriptMix},
	{name: "scripts and expiry", make: expiringScriptMix, pause: 8 * time.Millisecond,
		last: []string{"MGET", "e1", "e2"}},
	{name: "random keys", make: randomMix, prepare: []string{"SET", "anchor", "v"}},
	{name: "pipelined lists", make: pipelinedListMix, pipelines: 3},
	{name: "half-closed", make: halfClosedMix, halfCloses: 3},
	{name: "flushes beside scrapes", make: flushMix, scrapes: true},
}

func single(words ...string) ([][]string, bool) { return [][]string{words}, false }

// blockTimeout is long enough to be served within a round and short enough not to dominate it.
const blockTimeout = "0.01"

func stringMix(c *client) ([][]string, bool) {
	switch c.random.IntN(8) {
	case 0:
		return single("SET", c.pick("s1", "s2"), c.unique())
	case 1:
		return single("APPEND", c.pick("s1", "s2"), c.unique())
	case 2, 3:
		return single("MSET", "s1", c.unique(), "s2", c.unique(), "s3", c.unique())
	case 4:
		return single("INCR", "n1")
	case 5, 6:
		return single("MGET", "s1", "s2", "s3", "n1")
	}
	return single("GET", c.pick("s1", "s2", "n1"))
}

func listMix(c *client) ([][]string, bool) {
	side := func() string { return c.pick("LEFT", "RIGHT") }
	switch c.random.IntN(10) {
	case 0, 1, 2:
		return single("LPUSH", c.pick("l1", "l2"), c.unique())
	case 3:
		return single("RPUSH", c.pick("l1", "l2"), c.unique(), c.unique())
	case 4:
		return single("LMOVE", c.pick("l1", "l2"), c.pick("l1", "l2"), side(), side())
	case 5, 6:
		return single("BLPOP", "l1", "l2", blockTimeout)
	case 7:
		return single("BLMOVE", c.pick("l1", "l2"), c.pick("l1", "l2", "l3"), side(), side(),
			blockTimeout)
	}
	return single("LRANGE", c.pick("l1", "l2", "l3"), "0", "-1")
}

// pipelinedListMix pushes to and pops from two lists, mostly one of them, which are read all the
// while: what a server carries out together it must show together, and before it answers.
func pipelinedListMix(c *client) ([][]string, bool) {
	key := func() string { return c.pick("p1", "p1", "p1", "p2") }
	switch c.random.IntN(12) {
	case 0, 1, 2:
		return single("RPUSH", key(), c.unique())
	case 3, 4:
		return single("LPUSH", key(), c.unique(), c.unique())
	case 5, 6:
		return single("LPOP", key())
	case 7:
		return single("RPOP", key())
	case 8:
		return single("BLPOP", "p1", "p2", blockTimeout)
	}
	return single("LRANGE", key(), "0", "-1")
}

// keyspaceMix moves values of all types between names and databases.
func keyspaceMix(c *client) ([][]string, bool) {
	key := func() string { return c.pick("k1", "k2", "k3") }
	switch c.random.IntN(14) {
	case 0, 1:
		return single("SET", key(), c.unique())
	case 2:
		return single("HSET", key(), c.pick("f", "g"), c.unique(), "h", c.unique())
	case 3, 4:
		return single("HGETALL", key())
	case 5:
		return single("LPUSH", key(), c.unique())
	case 6, 7:
		return single("RENAME", key(), key())
	case 8:
		return single("COPY", "k1", "k2", "DB", strconv.Itoa(c.random.IntN(databaseCount)),
			"REPLACE")
	case 9:
		return single("COPY", "k2", "k3", "DB", strconv.Itoa(c.random.IntN(databaseCount)))
	case 10:
		if c.random.IntN(3) == 0 {
			return single("FLUSHALL")
		}
		return single("SWAPDB", "0", "1")
	case 11:
		return single("MGET", "k1", "k2", "k3")
	case 12:
		return single("MSET", "k1", c.unique(), "k2", c.unique())
	}
	return single("GET", key())
}

// transactionMix runs MULTI with and without WATCH beside plain commands.
func transactionMix(c *client) ([][]string, bool) {
	key := func() string { return c.pick("t1", "t2", "t3") }
	if c.watching {
		if c.random.IntN(3) == 0 {
			return single("GET", key())
		}
		c.watching = false
		return [][]string{{"GET", "t1"}, {"SET", key(), c.unique()}}, true
	}
	switch c.random.IntN(10) {
	case 0, 1:
		c.watching = true
		return single("WATCH", key())
	case 2, 3:
		return [][]string{{"GET", key()}, {"SET", "t1", c.unique()}, {"SET", "t2", c.unique()},
			{"APPEND", "t3", "x"}}, true
	case 4:
		return [][]string{{"LPUSH", "u1", c.unique()}, {"LMOVE", "u1", "u2", "LEFT", "RIGHT"},
			{"MGET", "t1", "t2", "t3"}}, true
	case 5:
		return single("MGET", "t1", "t2", "t3")
	case 6:
		return single("BLPOP", "u2", "u1", blockTimeout)
	case 7:
		if c.random.IntN(4) == 0 {
			return single("FLUSHALL")
		}
		return single("RENAME", key(), key())
	}
	return single("SET", key(), c.unique())
}

// scripted makes a script of commands, which declares the keys that it is given or some of them.
func scripted(
	c *client, script string, declared []string, commands ...[]string,
) ([][]string, bool) {
	c.script, c.declared = script, declared[:c.random.IntN(len(declared)+1)]
	c.queued = c.random.IntN(4) == 0
	return commands, true
}

// scriptMix runs scripts that declare their keys, or not, beside transactions and plain commands.
func scriptMix(c *client) ([][]string, bool) {
	keys := []string{"t1", "t2", "t3"}
	key := func() string { return c.pick(keys...) }
	switch c.random.IntN(12) {
	case 0, 1, 2:
		return scripted(c, "EVAL", keys, []string{"GET", key()}, []string{"SET", "t1", c.unique()},
			[]string{"SET", "t2", c.unique()}, []string{"APPEND", "t3", "x"})
	case 3, 4:
		return scripted(c, "EVAL_RO", keys, []string{"GET", "t1"}, []string{"GET", "t2"},
			[]string{"MGET", "t1", "t2", "t3"})
	case 5:
		return scripted(c, "EVAL", []string{"u1", "u2"}, []string{"LPUSH", "u1", c.unique()},
			[]string{"LMOVE", "u1", "u2", "LEFT", "RIGHT"}, []string{"MGET", "t1", "t2", "t3"},
			[]string{"APPEND", key(), "y"})
	case 6:
		return scripted(c, "EVAL", nil, []string{"RENAME", key(), key()},
			[]string{"COPY", "t1", "t2", "DB", "1", "REPLACE"}, []string{"SET", key(), c.unique()})
	case 7:
		if c.random.IntN(4) == 0 {
			return scripted(c, "EVAL", keys, []string{"SET", "t1", c.unique()},
				[]string{"FLUSHALL"}, []string{"SET", "t2", c.unique()})
		}
		return [][]string{{"SET", "t1", c.unique()}, {"APPEND", "t2", "+"}, {"GET", "t3"}}, true
	case 8:
		return single("BLPOP", "u2", "u1", blockTimeout)
	case 9:
		return single("MSET", "t1", c.unique(), "t2", c.unique(), "t3", c.unique())
	}
	return single("MGET", "t1", "t2", "t3")
}

// expiringScriptMix judges deadlines within scripts: all commands of one see one moment.
func expiringScriptMix(c *client) ([][]string, bool) {
	keys := []string{"e1", "e2"}
	switch c.random.IntN(8) {
	case 0, 1:
		ttl := strconv.FormatInt(expiryTTL.Milliseconds(), 10)
		return scripted(c, "EVAL", keys, []string{"GET", "e1"},
			[]string{"SET", c.pick(keys...), c.unique(), "PX", ttl}, []string{"GET", "e2"})
	case 2, 3, 4:
		return scripted(c, "EVAL_RO", keys, []string{"GET", "e1"}, []string{"GET", "e2"},
			[]string{"MGET", "e2", "e1"}, []string{"EXISTS", "e1"})
	case 5:
		return scripted(c, "EVAL", keys, []string{"EXISTS", "e1"}, []string{"APPEND", "e1", "+"},
			[]string{"PERSIST", "e2"}, []string{"MGET", "e1", "e2"})
	}
	return expiryMix(c)
}

// expiryMix needs deadlines to pass within the round.
func expiryMix(c *client) ([][]string, bool) {
	key := func() string { return c.pick("e1", "e2") }
	switch c.random.IntN(16) {
	case 0, 1, 8:
		return single("SET", key(), c.unique(), "PX",
			strconv.FormatInt(expiryTTL.Milliseconds(), 10))
	case 9:
		return single("SET", key(), c.unique(), "XX")
	case 10:
		return single("GETSET", key(), c.unique())
	case 11, 12:
		return single("PERSIST", key())
	case 13:
		return single("EXISTS", key())
	case 2:
		return single("SET", key(), c.unique())
	case 3:
		return single("APPEND", key(), "+")
	case 4:
		return single("RENAME", "e1", "e2")
	case 5:
		return single("COPY", "e1", "e2", "DB", "0", "REPLACE")
	case 6, 7:
		return single("MGET", "e1", "e2")
	}
	return single("GET", key())
}

// fieldMix gives fields deadlines of their own. The key has none, and is not looked at as a whole
// but by HGETALL.
func fieldMix(c *client) ([][]string, bool) {
	field := func() string { return c.pick("f", "g") }
	switch c.random.IntN(16) {
	case 0, 1, 2:
		ttl := strconv.FormatInt(expiryTTL.Milliseconds(), 10)
		return single("HSETEX", "h1", "PX", ttl, "FIELDS", "1", field(), c.unique())
	case 3:
		return single("HSET", "h1", field(), c.unique())
	case 4, 5:
		return single("HSETNX", "h1", field(), c.unique())
	case 6, 7:
		return single("HPERSIST", "h1", "FIELDS", "1", field())
	case 8:
		return single("HDEL", "h1", field())
	case 9:
		return single("HGETALL", "h1")
	case 10:
		return single("HEXISTS", "h1", field())
	case 11:
		return single("HMGET", "h1", "f", "g")
	case 12:
		return [][]string{{"HGET", "h1", "f"}, {"HGET", "h1", "g"}, {"HMGET", "h1", "g", "f"}}, true
	}
	return single("HGET", "h1", field())
}

// Keys that only wideMSET writes; the model leaves them out.
const (
	paddingPrefix = "pad"
	paddingCount  = 100
)

// loneMix queues one command on several keys, or with several changes, between MULTI and EXEC.
func loneMix(c *client) ([][]string, bool) {
	lone := func(words ...string) ([][]string, bool) { return [][]string{words}, true }
	key := func() string { return c.pick("x1", "x2", "x3") }
	side := func() string { return c.pick("LEFT", "RIGHT") }
	switch c.random.IntN(16) {
	case 0, 1, 2, 3:
		return lone(wideMSET(c)...)
	case 4:
		return lone("RENAME", key(), key())
	case 5:
		return lone("COPY", key(), c.pick("x4", "x5"), "DB",
			strconv.Itoa(c.random.IntN(databaseCount)), "REPLACE")
	case 6:
		return lone("LMOVE", c.pick("y1", "y2"), c.pick("y1", "y2"), side(), side())
	case 7:
		return lone("MOVE", key(), strconv.Itoa(1-c.database))
	case 8:
		return lone("RPUSH", c.pick("y1", "y2"), c.unique())
	case 9:
		return single("LRANGE", c.pick("y1", "y2"), "0", "-1")
	case 10:
		return lone("MGET", "x1", "x2", "x3")
	case 11:
		return single("SET", key(), c.unique())
	}
	return single("MGET", "x1", "x2", "x3", "x4", "x5")
}

// wideMSET writes keys that nobody reads between those that are read: the moment in which it could
// be seen in part is long.
func wideMSET(c *client) []string {
	words := []string{"MSET", "x1", c.unique()}
	for index := range paddingCount {
		if index == paddingCount/2 {
			words = append(words, "x2", c.unique())
		}
		words = append(words, paddingPrefix+strconv.Itoa(index), "v")
	}
	return append(words, "x3", c.unique())
}

// randomMix looks for keys that are there only within a transaction. One key is always there:
// RANDOMKEY answers nil never.
func randomMix(c *client) ([][]string, bool) {
	key := func() string { return c.pick("r1", "r2") }
	switch c.random.IntN(12) {
	case 0, 1:
		return [][]string{{"SET", "brief", c.unique()}, {"DEL", "brief"}}, true
	case 2:
		return [][]string{{"RENAME", "anchor", "brief"}, {"RENAME", "brief", "anchor"}}, true
	case 3:
		return [][]string{{"DEL", "anchor"}, {"SET", "anchor", c.unique()}}, true
	case 4:
		return single("SET", key(), c.unique())
	case 5:
		return single("DEL", key())
	case 6:
		return single("RENAME", key(), key())
	}
	return single("RANDOMKEY")
}

// halfClosedMix has commands on several slots, which have to wait for each other. A blocking
// command ends with a client that closes its side, in Valkey too.
func halfClosedMix(c *client) ([][]string, bool) {
	key := func() string { return c.pick("x1", "x2", "x3") }
	switch c.random.IntN(8) {
	case 0, 1, 2:
		return single(wideMSET(c)...)
	case 3:
		return single("RENAME", key(), key())
	case 4:
		return [][]string{{"APPEND", key(), "+"}, {"SET", key(), c.unique()}}, true
	case 5:
		return single("APPEND", key(), "+")
	case 6:
		return single("MGET", "x1", "x2", "x3")
	}
	return single("GET", key())
}

// flushKeys are all keys of flushMix: no scrape may ever count more, beside the fillers.
var flushKeys = []string{"f1", "f2", "f3", "f4"}

func flushMix(c *client) ([][]string, bool) {
	key := func() string { return c.pick(flushKeys...) }
	switch c.random.IntN(10) {
	case 0:
		return single("FLUSHALL", "ASYNC")
	case 1:
		return single("FLUSHALL", c.pick("SYNC", "ASYNC"))
	case 2, 3:
		return single("MSET", "f1", c.unique(), "f2", c.unique(), "f3", c.unique(), "f4",
			c.unique())
	case 4:
		return [][]string{
			{"SET", key(), c.unique()}, {"FLUSHALL", "ASYNC"}, {"SET", key(), c.unique()},
		}, true
	case 5:
		return single("GET", key())
	case 6:
		return single(append([]string{"MGET"}, flushKeys...)...)
	}
	return single("SET", key(), c.unique())
}
