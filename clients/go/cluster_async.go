package tidemill

import "context"

// Go sends a command to the node of its first key without waiting for its reply; see
// [Cluster.Async].
func (c *Cluster) Go(ctx context.Context, args ...any) *Future {
	return future(func(callback func(Reply)) { c.Async(ctx, callback, args...) })
}

// Async sends a command and calls callback once with its reply, usually on a connection's reader:
// it must be quick and must not wait for other commands of this cluster. A panic in it is contained
// and logged. Async waits only for room in the node's queue and for a connection. Once sent, the
// context no longer ends the command.
//
// Commands that one goroutine sends this way to one slot are executed in order, as long as that
// slot's primary and the connection to it stay. What the cluster redirects, and what failed and may
// be repeated, goes on like a command of Do, on a goroutine of its own and out of order.
func (c *Cluster) Async(ctx context.Context, callback func(Reply), args ...any) {
	ctx, r, info, guarded := beginAsync(ctx, c.options, callback, args)
	if r == nil {
		return
	}
	if info.inParts(ctx) {
		go func() { guarded(c.runParts(ctx, r, info, nil)) }()
		return
	}
	slot := info.slotOf(r.wire)
	if info.needsOwn(r.wire) {
		go func() { guarded(c.follow(ctx, r, info, slot)) }()
		return
	}
	target := c.target(slot, info, r.wire)
	written := c.cache.afterWrite(r, info)
	finish := func(reply Reply) {
		written()
		guarded(reply)
	}
	goOn := func(reply Reply) {
		r.notify = nil
		finish(c.followOn(ctx, target, r, reply, info, slot))
	}
	if target == nil {
		go goOn(failedReply(notSent(ErrNoNode)))
		return
	}
	target.unawaited.Add(1) // from here on everybody uses the node's first pipe
	r.notify = func(r *request) {
		reply := r.reply
		target.unawaited.Add(-1)
		if reply.kind == KindError || reply.kind == KindNone {
			go goOn(reply)
			return
		}
		r.recycle()
		finish(reply)
	}
	p, err := target.acquire(ctx)
	if err == nil {
		_, err = p.enqueue(ctx, r, false)
	}
	if err != nil {
		target.unawaited.Add(-1)
		go goOn(failedReply(err))
	}
}

// Stats returns what the pipes to all nodes counted since they were connected. Nodes that left the
// cluster, and pipes that were lost, are counted no more.
func (c *Cluster) Stats() (total PipeStats) {
	for _, stats := range c.NodeStats() {
		total.add(stats)
	}
	return total
}

// NodeStats is Stats by address of the node.
func (c *Cluster) NodeStats() map[string]PipeStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]PipeStats, len(c.nodes))
	for address, n := range c.nodes {
		var stats PipeStats
		for _, p := range n.pipes() {
			stats.add(p.snapshot())
		}
		all[address] = stats
	}
	return all
}
