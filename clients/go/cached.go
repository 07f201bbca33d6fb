package tidemill

import (
	"context"
	"time"
)

// Cached runs commands like its client, but answers reads of one key from memory when it can; see
// [CacheOptions]. Commands that write, have several keys, answer differently each time (TTL,
// SRANDMEMBER), or depend on more than their key's value (SORT_RO, XINFO) are sent as usual.
// Concurrent requests for the same thing are sent once. Hits do not call hooks. Hash fields that
// expire by themselves may be served until the server removes them.
type Cached struct {
	Commands
	cache *cache
	ttl   time.Duration
	plain runner
	place func(wire []byte, info *commandInfo) *node
	moves bool // another node may answer when this one cannot
}

// Cached returns a view of the client that caches replies for at most ttl (0: [CacheOptions].TTL).
// Keep it: it may be used by any number of goroutines. Without Options.Cache it caches nothing.
func (c *Client) Cached(ttl time.Duration) *Cached {
	return newCached(c.node.cache, ttl, c, func([]byte, *commandInfo) *node { return c.node })
}

// Cached is [Client.Cached]. Only primaries are asked, whatever ReadFrom says.
func (c *Cluster) Cached(ttl time.Duration) *Cached {
	d := newCached(c.cache, ttl, c, func(wire []byte, info *commandInfo) *node {
		if n := c.pick(info.slotOf(wire)); n != nil {
			return n.node
		}
		return nil
	})
	d.moves = true
	return d
}

// CacheStats returns what the cache counted since the client was made.
func (c *Client) CacheStats() CacheStats { return c.node.cache.stats() }

// CacheStats returns what the cache counted since the client was made.
func (c *Cluster) CacheStats() CacheStats { return c.cache.stats() }

func newCached(
	k *cache, ttl time.Duration, plain runner, place func([]byte, *commandInfo) *node,
) *Cached {
	d := &Cached{cache: k, ttl: ttl, plain: plain, place: place}
	if k != nil && (ttl <= 0 || ttl > k.ttl) {
		d.ttl = k.ttl
	}
	d.Commands = Commands{d}
	return d
}

// Do runs one command.
func (d *Cached) Do(ctx context.Context, args ...any) Reply { return doOn(ctx, d, args) }

func (d *Cached) run(ctx context.Context, r *request, info *commandInfo) Reply {
	if d.cache == nil || !info.cacheable() {
		return d.plain.run(ctx, r, info)
	}
	key, ok := info.firstKeyOf(r.wire)
	n := d.place(r.wire, info)
	if !ok || n == nil {
		return d.plain.run(ctx, r, info)
	}
	p, err := n.acquire(ctx)
	if err != nil && d.moves {
		return d.plain.run(ctx, r, info)
	}
	if err != nil {
		r.recycle()
		return failedReply(err)
	}
	e, first := d.cache.find(p, key, r.wire, d.ttl)
	if first {
		d.send(ctx, p, e)
	}
	select {
	case <-e.landed:
	default:
		select {
		case <-e.landed:
		case <-ctx.Done():
			r.recycle()
			return failedReply(maybeSent(endOf(ctx)))
		}
	}
	if e.reply.kind == KindNone || e.reply.kind == KindError {
		return d.plain.run(ctx, r, info) // lost, or redirected
	}
	r.recycle()
	return e.reply
}

// cacheable is true for reads of exactly one key whose reply depends on nothing else.
func (info *commandInfo) cacheable() bool {
	const unfit = commandBlocks | commandBlocksIf | commandVaries
	return info.flags&commandReads != 0 && info.flags&unfit == 0 && info.firstKey > 0 &&
		info.firstKey == info.lastKey
}

// send lets a flight take off. It lands on the connection's reader, whatever becomes of the caller.
// The key's TTL is asked for after the value: a change in between is pushed and drops the flight.
func (d *Cached) send(ctx context.Context, p *pipe, e *cacheEntry) {
	r := newRequest()
	r.want = 3
	r.wire = append(r.wire[:0], "*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n$3\r\nYES\r\n"...)
	r.wire = append(r.wire, e.wire...)
	r.wire = appendString(append(r.wire, "*2\r\n$4\r\nPTTL\r\n"...), e.key)
	r.notify = func(r *request) {
		reply := r.reply
		r.recycle()
		d.cache.landThree(e, reply)
	}
	if _, err := p.enqueue(ctx, r, false); err != nil {
		r.recycle()
		d.cache.land(e, failedReply(err), 0)
	}
}

// landThree reads the replies of CLIENT CACHING, the read and PTTL.
func (k *cache) landThree(e *cacheEntry, reply Reply) {
	items := reply.items()
	if reply.kind != KindArray || len(items) != 3 {
		k.land(e, failedReply(reply.Err()), 0)
		return
	}
	value, ttlMs := items[1], items[2].number
	left := time.Duration(0)
	switch {
	case items[0].Err() != nil || value.Err() != nil || items[2].kind != KindInt:
	case ttlMs == -1 || (ttlMs == -2 && value.IsNil()): // no expiry; no such key
		left = e.ttl
	case ttlMs > 0:
		left = min(e.ttl, time.Duration(ttlMs)*time.Millisecond)
	}
	k.land(e, value, left)
}

// share marks a reply as one that many hold, so that Bytes copies.
func (r Reply) share() Reply {
	r.shared = true
	if items := r.items(); len(items) > 0 {
		shared := make([]Reply, len(items))
		for i, item := range items {
			shared[i] = item.share()
		}
		r.extra = &extra{items: shared, err: r.extra.err}
	}
	return r
}

// bytes estimates the memory that a reply holds.
func (r Reply) bytes() int {
	total := len(r.text)
	for _, item := range r.items() {
		total += 48 + item.bytes()
	}
	return total
}
