package tidemill

import (
	"bytes"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// Client-side caching. A read is sent after CLIENT CACHING YES on the shared pipe, whose connection
// has CLIENT TRACKING ON OPTIN; the server remembers the key and pushes an invalidation on the same
// connection when it changes. Why a stale reply cannot stay:
//
//   - Replies and invalidations come in one stream, in the order of execution. An invalidation
//     removes the key's entries and also the flights whose reply is still on its way or not stored
//     yet; a reply is stored only when its flight was not removed.
//   - An entry belongs to the connection it was read on and is never served for another, because
//     nobody tells what changed between two connections.
//   - What this client writes itself is removed again once the write is answered, before the caller
//     sees that: the server tells about it only after the reply.
//
// The rest is bounded by time: the key's own TTL, asked for in the same write, and the cache's.

// CacheOptions turn on client-side caching for what is asked for through Cached.
type CacheOptions struct {
	// MaxBytes bounds keys, replies and their bookkeeping, estimated; the least recently used go
	// first [64 MiB].
	MaxBytes int
	// TTL bounds how long a reply is served; it is also the bound on staleness when a connection is
	// dead and nobody noticed yet [1m].
	TTL time.Duration
}

// CacheStats count what a cache did.
type CacheStats struct {
	Hits          uint64 // served from memory, or by somebody else's request that was under way
	Misses        uint64 // sent to the server
	Invalidations uint64 // keys the server named, and flushes
	Evictions     uint64 // entries that made room for others
	Entries       int
	Bytes         int // estimate
}

const (
	cacheBytesDefault = 64 << 20
	cacheTTLDefault   = time.Minute
	cacheParts        = 16
	cacheEntryBytes   = 256 // bookkeeping of one entry, roughly
)

// cache is divided by key, so that goroutines seldom wait for each other.
type cache struct {
	hash      maphash.Seed
	ttl       time.Duration
	partBytes int
	keyMax    atomic.Int64 // the longest key ever stored: longer arguments need not be looked up
	parts     [cacheParts]cachePart

	hits, misses, invalidations, evictions atomic.Uint64
}

type cachePart struct {
	mu     sync.Mutex
	chains map[string]*cacheEntry // by key; its commands are linked by sibling
	newest cacheEntry             // of a ring in order of use; holds no reply
	bytes  int
	count  int
}

// cacheEntry is a reply, or a flight: a request whose reply is awaited.
type cacheEntry struct {
	key, wire    string
	pipe         *pipe
	ttl          time.Duration
	sibling      *cacheEntry
	older, newer *cacheEntry // nil for a flight
	bytes        int
	until        time.Duration // on now's clock
	reply        Reply
	landed       chan struct{} // closed once reply is set
	dropped      bool          // not in its chain any more
}

func newCache(options *CacheOptions) *cache {
	if options == nil {
		return nil
	}
	filled := *options
	setDefault(&filled.MaxBytes, cacheBytesDefault)
	setDefault(&filled.TTL, cacheTTLDefault)
	k := &cache{hash: maphash.MakeSeed(), ttl: filled.TTL, partBytes: filled.MaxBytes / cacheParts}
	for i := range k.parts {
		k.parts[i].reset()
	}
	return k
}

func (c *cachePart) reset() {
	c.chains = map[string]*cacheEntry{}
	c.newest.older, c.newest.newer = &c.newest, &c.newest
	c.bytes, c.count = 0, 0
}

func (k *cache) part(key []byte) *cachePart {
	return &k.parts[maphash.Bytes(k.hash, key)%cacheParts]
}

// find returns the entry of a command on a pipe. first is true when it is a new flight: the caller
// has to send the command and to land it.
func (k *cache) find(p *pipe, key, wire []byte, ttl time.Duration) (e *cacheEntry, first bool) {
	part := k.part(key)
	part.mu.Lock()
	defer part.mu.Unlock()
	for e = part.chains[string(key)]; e != nil; e = e.sibling {
		if e.wire == string(wire) {
			break
		}
	}
	if e != nil && (e.pipe != p || (e.until > 0 && e.until <= now())) {
		part.remove(e)
		e = nil
	}
	if e != nil {
		if e.older != nil {
			e.unlink()
			part.pushNewest(e)
		}
		k.hits.Add(1)
		return e, false
	}
	k.misses.Add(1)
	e = &cacheEntry{
		key: string(key), wire: string(wire), pipe: p, ttl: ttl, landed: make(chan struct{}),
	}
	e.sibling = part.chains[e.key]
	part.chains[e.key] = e
	if length := int64(len(key)); length > k.keyMax.Load() {
		k.raiseKeyMax(length)
	}
	return e, true
}

func (k *cache) raiseKeyMax(length int64) {
	for before := k.keyMax.Load(); before < length; before = k.keyMax.Load() {
		if k.keyMax.CompareAndSwap(before, length) {
			return
		}
	}
}

// land ends a flight: the reply is stored, unless it was invalidated meanwhile, and given to all
// waiting callers. left is how long the reply may be served; 0: not at all.
func (k *cache) land(e *cacheEntry, reply Reply, left time.Duration) {
	part := k.part([]byte(e.key))
	part.mu.Lock()
	e.reply = reply.share() // by those who wait, though it may not be stored
	if left > 0 {
		e.bytes = cacheEntryBytes + len(e.key) + len(e.wire) + reply.bytes()
	}
	switch {
	case e.dropped:
	case left <= 0 || e.bytes > k.partBytes:
		part.remove(e)
	default:
		e.until = now() + min(left, e.ttl)
		part.pushNewest(e)
		part.bytes += e.bytes
		part.count++
		for part.bytes > k.partBytes {
			part.remove(part.newest.newer) // the ring's other end: the oldest
			k.evictions.Add(1)
		}
	}
	part.mu.Unlock()
	close(e.landed)
}

func (c *cachePart) pushNewest(e *cacheEntry) {
	e.older, e.newer = c.newest.older, &c.newest
	e.older.newer, c.newest.older = e, e
}

func (e *cacheEntry) unlink() {
	e.older.newer, e.newer.older = e.newer, e.older
	e.older, e.newer = nil, nil
}

// remove takes one entry out.
func (c *cachePart) remove(e *cacheEntry) {
	link := c.chains[e.key]
	if link == e {
		if e.sibling == nil {
			delete(c.chains, e.key)
		} else {
			c.chains[e.key] = e.sibling
		}
	} else {
		for link.sibling != e {
			link = link.sibling
		}
		link.sibling = e.sibling
	}
	c.forget(e)
}

// forget counts out an entry whose chain does not hold it any more.
func (c *cachePart) forget(e *cacheEntry) {
	e.dropped = true
	if e.older != nil {
		e.unlink()
		c.bytes -= e.bytes
		c.count--
	}
}

// drop removes all entries and flights of a key.
func (k *cache) drop(key []byte) {
	if int64(len(key)) > k.keyMax.Load() {
		return
	}
	part := k.part(key)
	part.mu.Lock()
	defer part.mu.Unlock()
	first := part.chains[string(key)]
	if first == nil {
		return
	}
	delete(part.chains, string(key))
	for e := first; e != nil; e = e.sibling {
		part.forget(e)
	}
}

// clear removes everything.
func (k *cache) clear() {
	for i := range k.parts {
		part := &k.parts[i]
		part.mu.Lock()
		for _, first := range part.chains {
			for e := first; e != nil; e = e.sibling {
				part.forget(e)
			}
		}
		part.reset()
		part.mu.Unlock()
	}
}

// pushed takes the server's invalidations: keys, or nil after a flush.
func (k *cache) pushed(push Reply) {
	items := push.items()
	if len(items) < 2 || items[0].text != "invalidate" {
		return
	}
	if items[1].IsNil() {
		k.invalidations.Add(1)
		k.clear()
		return
	}
	for _, key := range items[1].items() {
		k.invalidations.Add(1)
		k.drop([]byte(key.text))
	}
}

// written drops what commands that were answered may have changed: any argument may be a key, which
// needs no knowledge of STORE options and the like; commands without keys, such as FLUSHALL, drop
// everything.
func (k *cache) written(wire []byte) {
	inside := false // a transaction, whose commands are all here
	for len(wire) > 0 {
		var name, sub string
		used, index := 0, 0
		for arg, end := range wireArgEnds(wire) {
			switch index {
			case 0:
				name = string(bytes.ToUpper(arg))
			case 1:
				sub = string(arg)
			}
			if index > 0 {
				k.drop(arg)
			}
			index++
			used = end
		}
		if used == 0 {
			return
		}
		wire = wire[used:]
		info := describe([]any{name, sub})
		keyless := info.firstKey == 0 && info.countAt == 0 && info.keyword == ""
		inside = inside || name == "MULTI"
		if info == unknownCommand || (info.flags&commandWrites != 0 && keyless) ||
			(name == "EXEC" && !inside) {
			k.clear()
		}
	}
}

// afterWrite returns what has to run once a command is answered, before its caller sees that.
func (k *cache) afterWrite(r *request, info *commandInfo) func() {
	if k == nil || info.flags&commandReads != 0 {
		return func() {}
	}
	wire := bytes.Clone(r.wire)
	return func() { k.written(wire) }
}

func (k *cache) stats() (stats CacheStats) {
	if k == nil {
		return stats
	}
	stats = CacheStats{Hits: k.hits.Load(), Misses: k.misses.Load(),
		Invalidations: k.invalidations.Load(), Evictions: k.evictions.Load()}
	for i := range k.parts {
		part := &k.parts[i]
		part.mu.Lock()
		stats.Entries += part.count
		stats.Bytes += part.bytes
		part.mu.Unlock()
	}
	return stats
}
