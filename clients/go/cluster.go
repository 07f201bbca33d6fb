package tidemill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Cluster routes commands to the nodes of a cluster. The topology is an immutable value behind an
// atomic pointer: a request loads it, indexes an array by slot and takes no lock.
type Cluster struct {
	Commands
	options    *Options
	seeds      []string
	topology   atomic.Pointer[topology]
	cache      *cache
	suspect    chan struct{} // asks for a refresh
	life       context.Context
	endLife    context.CancelFunc
	background sync.WaitGroup
	draining   context.Context // of nodes that left the cluster
	endDrains  context.CancelFunc
	arranging  sync.Mutex // one choice of readers at a time, so that the last saw the latest health
	mu         sync.Mutex // guards nodes and closed
	nodes      map[string]*clusterNode
	closed     bool
}

const (
	clusterRefreshEvery = 30 * time.Second
	// The pause between refreshes on suspicion grows while the topology stays the same.
	clusterRefreshPause    = 50 * time.Millisecond
	clusterRefreshPauseMax = 250 * time.Millisecond
	// for a while afterwards, because changes come one after another
	clusterRefreshSoon = time.Second
	clusterSettles     = 15
	// clusterRefreshWait is the least time for a refresh, clusterRefreshShare for one node's
	// answer: a node that hangs must leave time for the others.
	clusterRefreshWait  = 5 * time.Second
	clusterRefreshShare = time.Second
	clusterNodeWait     = 500 * time.Millisecond
	clusterWaitDefault  = 15 * time.Second // a failover takes longer than a reconnection
)

// NewCluster reads the topology from the first seed that answers. options.Address is not used;
// ConnectWait, 15s by default here, bounds how long a request follows a cluster that changes.
func NewCluster(ctx context.Context, seeds []string, options Options) (*Cluster, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	if len(seeds) == 0 || options.Database != 0 {
		return nil, argumentError("a cluster needs seeds and database 0")
	}
	setDefault(&options.ConnectWait, clusterWaitDefault)
	c := &Cluster{options: options.withDefaults(), seeds: seeds, suspect: make(chan struct{}, 1),
		nodes: map[string]*clusterNode{}}
	c.Commands = Commands{c}
	c.cache = newCache(options.Cache)
	c.life, c.endLife = context.WithCancel(context.Background())
	c.draining, c.endDrains = context.WithCancel(context.Background())
	if _, err := c.refresh(ctx); err != nil {
		_ = c.Shutdown(ctx)
		return nil, err
	}
	c.background.Go(func() { c.refreshLoop(c.life) })
	if c.options.ReadFrom != ReadPrimary {
		c.background.Go(func() { c.probeLoop(c.life) })
	}
	return c, nil
}

// Do runs one command on the node of its first key. Without a key it runs on every primary where
// Valkey's COMMAND says that it concerns all (DBSIZE, FLUSHALL, KEYS, SCRIPT LOAD, PING ...; see
// README.md), otherwise on any primary. What only reads may go to a replica, as Options.ReadFrom
// says.
func (c *Cluster) Do(ctx context.Context, args ...any) Reply { return doOn(ctx, c, args) }

func (c *Cluster) run(ctx context.Context, r *request, info *commandInfo) Reply {
	hook := c.options.Hook
	if info.inParts(ctx) {
		return c.runParts(ctx, r, info, hook)
	}
	slot := info.slotOf(r.wire)
	if hook == nil {
		return c.follow(ctx, r, info, slot)
	}
	return observe(ctx, hook, info.name, r.want, func(ctx context.Context) Reply {
		return c.follow(ctx, r, info, slot)
	})
}

// follow sends r to where its slot is, after redirections, and after failures if repeating is safe.
func (c *Cluster) follow(ctx context.Context, r *request, info *commandInfo, slot int) Reply {
	return c.followFrom(ctx, c.target(slot, info, r.wire), r, info, slot)
}

// followFrom is follow with a given first target.
func (c *Cluster) followFrom(
	ctx context.Context, target *clusterNode, r *request, info *commandInfo, slot int,
) Reply {
	if c.cache != nil {
		defer c.cache.afterWrite(r, info)()
	}
	reply, reusable := c.attempt(ctx, target, r, info, false)
	if !reusable {
		return reply
	}
	return c.followOn(ctx, target, r, reply, info, slot)
}

// followOn takes the outcome of a first attempt, which may have been blocked for long, and makes
// others until one is final or ConnectWait is over. It recycles r.
func (c *Cluster) followOn(
	ctx context.Context, target *clusterNode, r *request, reply Reply, info *commandInfo, slot int,
) Reply {
	if reply.kind != KindError && reply.kind != KindNone {
		r.recycle()
		return reply
	}
	chase, unknown := newPursuit(c.options), Reply{}
	for reply.kind == KindError || reply.kind == KindNone {
		next, ask, again := c.judge(ctx, reply, target, info, slot)
		if !again || !chase.follow(ctx, next) {
			break
		}
		if target = next; next == nil {
			target = c.pick(slot)
		}
		if errors.Is(reply.Err(), ErrMaybeSent) {
			unknown = reply // also behind a redirection that follows
		}
		r.rearm()
		last, reusable := c.attempt(ctx, target, r, info, ask)
		if reply = keepUnknown(unknown, last); !reusable {
			return reply
		}
	}
	count := r.want
	r.recycle()
	return lastOutcome(unknown, reply, info.flags, count)
}

// attempt sends r once. A redirected ASK travels with its ASKING as one request.
func (c *Cluster) attempt(
	ctx context.Context, target *clusterNode, r *request, info *commandInfo, ask bool,
) (Reply, bool) {
	if target == nil {
		return failedReply(notSent(ErrNoNode)), true
	}
	own := info.needsOwn(r.wire)
	if !ask && !own {
		return c.noticed(sendOnce(ctx, target.node, r))
	}
	sent := newRequest()
	sent.want, sent.wire = r.want, sent.wire[:0]
	if ask {
		sent.want++
		sent.wire = append(sent.wire, "*1\r\n$6\r\nASKING\r\n"...)
	}
	sent.wire = append(sent.wire, r.wire...)
	var reply Reply
	if own {
		reply = target.own.run(ctx, sent, info, info.mayBlock(r.wire))
	} else {
		var reusable bool
		if reply, reusable = c.noticed(sendOnce(ctx, target.node, sent)); reusable {
			sent.recycle()
		}
	}
	if items := reply.items(); ask && reply.kind == KindArray && len(items) > 1 {
		reply = items[1]
		if r.want > 1 {
			reply = Reply{kind: KindArray, extra: &extra{items: items[1:]}}
		}
	}
	return reply, true
}

// noticed takes what sendOnce returns. A request that its caller gave up goes no further; it may
// have waited for a node that hangs.
func (c *Cluster) noticed(reply Reply, reusable bool) (Reply, bool) {
	if !reusable {
		c.suspicion()
	}
	return reply, reusable
}

// sendOnce runs r on a node's pipe without repetition.
func sendOnce(ctx context.Context, n *node, r *request) (Reply, bool) {
	for {
		p, err := n.choose(ctx)
		if err != nil {
			return failedReply(err), true
		}
		reply, reusable := p.do(ctx, r)
		if !reusable || !retired(reply) {
			return reply, reusable
		}
		r.rearm()
	}
}

// judge decides what follows a failed attempt: another node, a pause (nil node), or the end.
func (c *Cluster) judge(
	ctx context.Context, reply Reply, from *clusterNode, info *commandInfo, slot int,
) (next *clusterNode, ask, again bool) {
	err := reply.Err()
	var refused *ServerError
	if !errors.As(err, &refused) || reply.kind == KindNone {
		c.suspicion()
		again = !c.isClosed() && mayRepeatOpen(ctx, err, info.flags, c.options)
		return c.avoid(from, slot), false, again
	}
	if redirected, ok := parseRedirection(refused); ok {
		if !redirected.ask {
			c.suspicion()
		}
		return c.nodeAt(absoluteAddress(redirected.address, from.address)), redirected.ask, true
	}
	switch refused.reason() {
	case "CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING":
		c.suspicion()
		return c.avoid(from, slot), false, true
	case "TRYAGAIN":
		return nil, false, true
	}
	return nil, false, false
}

// nodeAt returns the node of an address, made on first use; nil after Close.
func (c *Cluster) nodeAt(address string) *clusterNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	n := c.nodes[address]
	if n == nil {
		options := *c.options
		options.ConnectWait = min(options.ConnectWait, clusterNodeWait)
		base := newNode(address, &options)
		n = &clusterNode{node: base, own: newOwnPool(base)}
		base.onLost = func() { c.lost(n) }
		base.useCache(c.cache)
		if c.options.ReadFrom != ReadPrimary {
			base.extra = [][]any{{"READONLY"}}
		}
		c.nodes[address] = n
	}
	return n
}

// suspicion asks for a refresh; many at once are one.
func (c *Cluster) suspicion() {
	select {
	case c.suspect <- struct{}{}:
	default:
	}
}

func (c *Cluster) refreshLoop(ctx context.Context) {
	timer := time.NewTimer(clusterRefreshEvery)
	defer timer.Stop()
	pause, suspected := clusterRefreshPause, time.Time{}
	for settling := 0; ; settling-- {
		every := clusterRefreshEvery
		if settling > 0 {
			every = clusterRefreshSoon
		}
		timer.Reset(every)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-c.suspect:
			settling = clusterSettles
			if time.Since(suspected) > steadyTime {
				pause = clusterRefreshPause
			}
			suspected = time.Now()
		}
		attempt, cancel := context.WithTimeout(ctx,
			max(c.options.DialTimeout, clusterRefreshWait))
		changed, err := c.refresh(attempt)
		cancel()
		if err != nil && ctx.Err() == nil {
			c.options.Logger.Warn("tidemill: cluster refresh", "error", err)
			settling = max(settling, 2) // the next attempt comes soon
		}
		if changed {
			pause = clusterRefreshPause
		}
		if pauseFor(ctx, jittered(pause)) != nil {
			return
		}
		pause = doubled(pause, clusterRefreshPauseMax)
	}
}

// refresh asks nodes in random order, then the seeds, for the topology until one answers.
func (c *Cluster) refresh(ctx context.Context) (changed bool, err error) {
	var addresses []string
	c.mu.Lock()
	for address := range c.nodes {
		addresses = append(addresses, address)
	}
	c.mu.Unlock()
	rand.Shuffle(len(addresses), func(i, j int) {
		addresses[i], addresses[j] = addresses[j], addresses[i]
	})
	for _, seed := range c.seeds {
		if !slices.Contains(addresses, seed) {
			addresses = append(addresses, seed)
		}
	}
	share := max(clusterRefreshShare,
		max(c.options.DialTimeout, clusterRefreshWait)/time.Duration(len(addresses)))
	var failures []error
	for _, address := range addresses {
		n := c.nodeAt(address)
		if n == nil {
			return false, notSent(ErrClosed)
		}
		t, used, err := c.parseTopology(askSlots(ctx, n.node, share), address)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		changed = !t.same(c.topology.Load())
		c.install(t)
		c.background.Go(func() {
			ctx, cancel := context.WithTimeout(c.draining, c.options.DialTimeout)
			defer cancel()
			_ = c.closeNodes(ctx, func(n *clusterNode) bool { return !used[n.address] })
		})
		return changed, nil
	}
	return false, fmt.Errorf("no node told the cluster's topology: %w", joinFailures(failures...))
}

// askSlots asks one node for the topology.
func askSlots(ctx context.Context, n *node, limit time.Duration) Reply {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r := newRequest()
	r.wire = append(r.wire[:0], "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n"...)
	return sendTo(ctx, n, r, commandReads, n.options)
}

// closeNodes closes and forgets the nodes that which selects, letting their requests end first
// while ctx lasts.
func (c *Cluster) closeNodes(ctx context.Context, which func(*clusterNode) bool) (err error) {
	var gone []*clusterNode
	c.mu.Lock()
	for address, n := range c.nodes {
		if which(n) {
			gone = append(gone, n)
			delete(c.nodes, address)
		}
	}
	c.mu.Unlock()
	for _, n := range gone {
		n.refuse()
		n.own.refuse()
	}
	for _, n := range gone {
		err = errors.Join(err, n.own.drain(ctx), n.close(ctx))
		n.own.close()
	}
	return err
}

func (c *Cluster) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Shutdown is [Client.Shutdown].
func (c *Cluster) Shutdown(ctx context.Context) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	c.endLife()
	err := c.closeNodes(ctx, func(*clusterNode) bool { return true })
	defer context.AfterFunc(ctx, c.endDrains)()
	c.background.Wait()
	c.endDrains()
	return err
}

// Close is Shutdown with the IO timeout as deadline, at least a second.
func (c *Cluster) Close() error { return closeWithin(c.options, c.Shutdown) }
