package tidemill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Cluster routes commands to the primaries of a cluster. The topology is an immutable value behind an
// atomic pointer: a request loads it, indexes an array by slot and takes no lock.
//
// It is not yet: reading from replicas, splitting of multi-key commands, batches across nodes, pub/sub.
type Cluster struct {
	Commands
	options  *Options
	seeds    []string
	topology atomic.Pointer[topology]
	suspect  chan struct{} // asks for a refresh
	stop     context.CancelFunc
	done     chan struct{}
	mu       sync.Mutex // guards nodes
	nodes    map[string]*clusterNode
	closed   bool
}

type clusterNode struct {
	*node
	own *ownPool
}

// topology says which primary serves each slot.
type topology struct {
	slots     [slotCount]*clusterNode
	primaries []*clusterNode
}

const (
	clusterRefreshEvery    = 30 * time.Second
	clusterRefreshPause    = 50 * time.Millisecond // between refreshes on suspicion
	clusterRedirectionsMax = 16
	clusterRetryPause      = 20 * time.Millisecond
	clusterNodeWait        = 500 * time.Millisecond
	clusterWaitDefault     = 15 * time.Second // a failover takes longer than a reconnection
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
		done: make(chan struct{}), nodes: map[string]*clusterNode{}}
	c.Commands = Commands{c}
	if err := c.refresh(ctx); err != nil {
		c.closeNodes(ctx, func(*clusterNode) bool { return true })
		return nil, err
	}
	background, stop := context.WithCancel(context.Background())
	c.stop = stop
	go c.refreshLoop(background)
	return c, nil
}

// Do runs one command on the primary of its first key; without a key, on any.
func (c *Cluster) Do(ctx context.Context, args ...any) Reply { return doOn(ctx, c, args) }

func (c *Cluster) run(ctx context.Context, r *request, info *commandInfo) Reply {
	slot := -1
	if key, ok := info.firstKeyOf(r.wire); ok {
		slot = slotOf(key)
	}
	if c.options.Hook == nil {
		return c.follow(ctx, r, info, slot)
	}
	return observe(ctx, c.options.Hook, info.name, commandCount(r, info), func(ctx context.Context) Reply { return c.follow(ctx, r, info, slot) })
}

// follow sends r to where its slot is, after redirections and failures as far as repeating is safe.
func (c *Cluster) follow(ctx context.Context, r *request, info *commandInfo, slot int) Reply {
	until := time.Now().Add(c.options.ConnectWait)
	target, ask := c.pick(slot), false
	for redirections := 0; ; {
		reply, reusable := c.attempt(ctx, target, r, info, ask)
		if !reusable || (reply.kind != KindError && reply.kind != KindNone) {
			if reusable {
				r.recycle()
			}
			return reply
		}
		next, nextAsk, again := c.judge(ctx, reply, target, info, slot)
		redirections++
		if !again || time.Now().After(until) || (next != nil && redirections > clusterRedirectionsMax) {
			r.recycle()
			return reply
		}
		if target, ask = next, nextAsk; next == nil {
			select {
			case <-time.After(clusterRetryPause):
			case <-ctx.Done():
				r.recycle()
				return reply
			}
			target = c.pick(slot)
		}
		r.rearm()
	}
}

// attempt sends r once. A redirected ASK travels with its ASKING as one request.
func (c *Cluster) attempt(ctx context.Context, target *clusterNode, r *request, info *commandInfo, ask bool) (Reply, bool) {
	if target == nil {
		return failedReply(notSent(ErrNoNode)), true
	}
	if info.needsOwn(r.wire) {
		copied := newRequest()
		copied.wire = append(copied.wire[:0], r.wire...)
		return target.own.run(ctx, copied, info), true
	}
	p, err := target.acquire(ctx)
	if err != nil {
		return failedReply(err), true
	}
	if !ask {
		return p.do(ctx, r)
	}
	asking := newRequest()
	asking.want = r.want + 1
	asking.wire = append(append(asking.wire[:0], "*1\r\n$6\r\nASKING\r\n"...), r.wire...)
	reply, reusable := p.do(ctx, asking)
	if items := reply.items(); reply.kind == KindArray && len(items) > 1 {
		reply = items[1]
		if r.want > 1 {
			reply = Reply{kind: KindArray, extra: &extra{items: items[1:]}}
		}
	}
	if reusable {
		asking.recycle()
	}
	return reply, true
}

// judge decides what follows a failed attempt: another node, a pause (nil node), or the end.
func (c *Cluster) judge(ctx context.Context, reply Reply, from *clusterNode, info *commandInfo, slot int) (next *clusterNode, ask, again bool) {
	err := reply.Err()
	var refused *ServerError
	if !errors.As(err, &refused) || reply.kind == KindNone {
		c.suspicion()
		return nil, false, !errors.Is(err, ErrClosed) && mayRepeat(ctx, err, info.flags, c.options)
	}
	if redirected, ok := parseRedirection(refused); ok {
		if !redirected.ask {
			c.suspicion()
		}
		return c.nodeAt(absoluteAddress(redirected.address, from.address)), redirected.ask, true
	}
	switch refused.Code {
	case "CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING":
		c.suspicion()
		return nil, false, true
	case "TRYAGAIN":
		return nil, false, true
	}
	return nil, false, false
}

// pick returns the primary of a slot; for no slot any primary, the same for some tens of milliseconds so
// that its pipe stays full.
func (c *Cluster) pick(slot int) *clusterNode {
	t := c.topology.Load()
	if slot >= 0 {
		return t.slots[slot]
	}
	if len(t.primaries) == 0 {
		return nil
	}
	return t.primaries[int(now()/(32*time.Millisecond))%len(t.primaries)]
}

// absoluteAddress completes ":6379", which means the host that said so.
func absoluteAddress(address, from string) string {
	host, port, err := net.SplitHostPort(address)
	if err == nil && host == "" {
		host, _, _ = net.SplitHostPort(from)
		return net.JoinHostPort(host, port)
	}
	return address
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
		base.onLost = c.suspicion
		n = &clusterNode{base, newOwnPool(base)}
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
	defer close(c.done)
	timer := time.NewTicker(clusterRefreshEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-c.suspect:
		}
		attempt, cancel := context.WithTimeout(ctx, c.options.DialTimeout)
		if err := c.refresh(attempt); err != nil && ctx.Err() == nil {
			c.options.Logger.Warn("tidemill: cluster refresh", "error", err)
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-time.After(clusterRefreshPause):
		}
	}
}

// refresh asks nodes in random order, then the seeds, for the topology until one answers.
func (c *Cluster) refresh(ctx context.Context) error {
	var addresses []string
	c.mu.Lock()
	for address := range c.nodes {
		addresses = append(addresses, address)
	}
	c.mu.Unlock()
	rand.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	var failures error
	for _, address := range append(addresses, c.seeds...) {
		n := c.nodeAt(address)
		if n == nil {
			return notSent(ErrClosed)
		}
		r := newRequest()
		r.wire = append(r.wire[:0], "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n"...)
		t, used, err := c.parseTopology(sendTo(ctx, n.node, r, commandReads, n.options), address)
		if err != nil {
			failures = errors.Join(failures, err)
			continue
		}
		c.topology.Store(t)
		go c.closeNodes(context.Background(), func(n *clusterNode) bool { return !used[n.address] })
		return nil
	}
	return fmt.Errorf("no node told the cluster's topology: %w", failures)
}

// parseTopology reads CLUSTER SLOTS; used holds the addresses of all nodes in it, replicas too.
func (c *Cluster) parseTopology(reply Reply, from string) (*topology, map[string]bool, error) {
	ranges, err := reply.Array()
	if err != nil {
		return nil, nil, err
	}
	if len(ranges) == 0 {
		return nil, nil, fmt.Errorf("%w: %s serves no slots", ErrNoNode, from)
	}
	t, used := &topology{}, map[string]bool{from: true}
	known := map[*clusterNode]bool{}
	for _, item := range ranges {
		fields, err := item.Array()
		if err != nil || len(fields) < 3 {
			return nil, nil, fmt.Errorf("%w: CLUSTER SLOTS", ErrProtocol)
		}
		first, firstErr := fields[0].Int64()
		last, lastErr := fields[1].Int64()
		if firstErr != nil || lastErr != nil || first < 0 || last >= slotCount {
			return nil, nil, fmt.Errorf("%w: CLUSTER SLOTS range", ErrProtocol)
		}
		for i, member := range fields[2:] {
			address, err := memberAddress(member, from)
			if err != nil {
				return nil, nil, err
			}
			used[address] = true
			if i > 0 {
				continue
			}
			primary := c.nodeAt(address)
			if primary == nil {
				return nil, nil, notSent(ErrClosed)
			}
			if !known[primary] {
				known[primary] = true
				t.primaries = append(t.primaries, primary)
			}
			for slot := first; slot <= last; slot++ {
				t.slots[slot] = primary
			}
		}
	}
	return t, used, nil
}

func memberAddress(member Reply, from string) (string, error) {
	parts, err := member.Array()
	if err != nil || len(parts) < 2 {
		return "", fmt.Errorf("%w: CLUSTER SLOTS node", ErrProtocol)
	}
	host, _ := parts[0].Text() // nil or empty: the host that was asked
	port, err := parts[1].Int64()
	if err != nil {
		return "", err
	}
	if host == "?" {
		host = ""
	}
	return absoluteAddress(net.JoinHostPort(host, strconv.FormatInt(port, 10)), from), nil
}

// closeNodes closes and forgets the nodes that which selects, letting their requests end first.
func (c *Cluster) closeNodes(ctx context.Context, which func(*clusterNode) bool) {
	ctx, cancel := context.WithTimeout(ctx, c.options.DialTimeout)
	defer cancel()
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
		_ = n.close(ctx)
		n.own.close()
	}
}

// RunTx executes a transaction on the node of its keys, which must share a slot.
func (c *Cluster) RunTx(ctx context.Context, tx *Tx) ([]Reply, error) {
	slot := -1
	for _, key := range tx.keys {
		if at := slotOf([]byte(key)); slot >= 0 && at != slot {
			return nil, notSent(ErrCrossSlot)
		} else {
			slot = at
		}
	}
	for range clusterRedirectionsMax {
		replies, err := runTx(ctx, slotRunner{c, slot}, tx)
		var refused *ServerError
		if !errors.As(err, &refused) || refused.Code != "MOVED" || ctx.Err() != nil {
			return replies, err
		}
		c.suspicion() // a refused command aborts the whole transaction: nothing was executed
		time.Sleep(clusterRetryPause)
	}
	return nil, notSent(ErrNoNode)
}

// slotRunner runs requests on the node of one slot.
type slotRunner struct {
	cluster *Cluster
	slot    int
}

func (s slotRunner) run(ctx context.Context, r *request, info *commandInfo) Reply {
	return s.cluster.follow(ctx, r, info, s.slot)
}

// Close refuses new operations, lets pending ones end and closes all connections.
func (c *Cluster) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	c.stop()
	<-c.done
	c.closeNodes(context.Background(), func(*clusterNode) bool { return true })
	return nil
}
