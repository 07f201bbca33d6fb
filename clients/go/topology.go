package tidemill

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// topology says who serves each slot. It is never changed once it can be seen, but for the choice
// of readers in its shards.
type topology struct {
	slots     [slotCount]*shard
	primaries []*clusterNode
	shards    []*shard
}

// same is true when both send everything to the same nodes.
func (t *topology) same(other *topology) bool {
	if other == nil || len(t.shards) != len(other.shards) {
		return false
	}
	for slot, s := range t.slots {
		if o := other.slots[slot]; s != o && (s == nil || o == nil || s.primary != o.primary ||
			!slices.Equal(s.replicas, o.replicas)) {
			return false
		}
	}
	return true
}

// shard is a primary with its replicas.
type shard struct {
	slot     int // one of those it serves
	primary  *clusterNode
	replicas []*clusterNode
	readers  atomic.Pointer[[]*clusterNode] // who answers reads, by policy and health; never empty
}

// clusterNode is a node as the cluster's client sees it.
type clusterNode struct {
	*node
	own     *ownPool
	down    atomic.Bool            // a connection was lost and no probe succeeded since
	latency atomic.Int64           // nanoseconds, moving average of probes; 0: not measured
	zone    atomic.Pointer[string] // nil: not asked yet
}

// seedPeriod is how long the choice among equal nodes stays the same. A choice per request would
// halve the number of requests in each write; no change at all would leave one node with all the
// load.
const seedPeriod = 32 * time.Millisecond

func seed() int { return int(now() / seedPeriod) }

// pick returns the primary of a slot, nil when there is none; for slot -1 any primary.
func (c *Cluster) pick(slot int) *clusterNode {
	t := c.topology.Load()
	if slot >= 0 {
		if s := t.slots[slot]; s != nil {
			return s.primary
		}
		return nil
	}
	if len(t.primaries) == 0 {
		return nil
	}
	return t.primaries[seed()%len(t.primaries)]
}

// target returns the node for a command: the primary, or for reads who the policy names.
func (c *Cluster) target(slot int, info *commandInfo, wire []byte) *clusterNode {
	if c.options.ReadFrom == ReadPrimary || slot < 0 || info.flags&commandReads == 0 ||
		info.needsOwn(wire) {
		return c.pick(slot)
	}
	s := c.topology.Load().slots[slot]
	if s == nil {
		return nil
	}
	readers := *s.readers.Load()
	return readers[seed()%len(readers)]
}

// install makes t the topology.
func (c *Cluster) install(t *topology) {
	c.arranging.Lock()
	defer c.arranging.Unlock()
	for _, s := range t.shards {
		c.arrange(s)
	}
	c.topology.Store(t)
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
	known := map[*clusterNode]*shard{}
	for _, item := range ranges {
		first, last, addresses, err := slotRange(item, from)
		if err != nil {
			return nil, nil, err
		}
		members := make([]*clusterNode, len(addresses))
		for i, address := range addresses {
			used[address] = true
			if members[i] = c.nodeAt(address); members[i] == nil {
				return nil, nil, notSent(ErrClosed)
			}
		}
		s := known[members[0]]
		if s == nil {
			s = &shard{slot: int(first), primary: members[0], replicas: members[1:]}
			known[members[0]] = s
			t.shards = append(t.shards, s)
			t.primaries = append(t.primaries, s.primary)
		}
		for slot := first; slot <= last; slot++ {
			t.slots[slot] = s
		}
	}
	return t, used, nil
}

// slotRange reads one range of CLUSTER SLOTS; the primary's address comes first.
func slotRange(item Reply, from string) (first, last int64, addresses []string, err error) {
	fields, err := item.Array()
	if err != nil || len(fields) < 3 {
		return 0, 0, nil, fmt.Errorf("%w: CLUSTER SLOTS", ErrProtocol)
	}
	first, firstErr := fields[0].Int64()
	last, lastErr := fields[1].Int64()
	if firstErr != nil || lastErr != nil || first < 0 || last >= slotCount {
		return 0, 0, nil, fmt.Errorf("%w: CLUSTER SLOTS range", ErrProtocol)
	}
	for _, member := range fields[2:] {
		address, err := memberAddress(member, from)
		if err != nil {
			return 0, 0, nil, err
		}
		addresses = append(addresses, address)
	}
	return first, last, addresses, nil
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
	return absoluteAddress(net.JoinHostPort(host, strconv.FormatInt(port, 10)), from), nil
}

// absoluteAddress completes ":6379", which means the host that said so, and writes IPv6 as it is
// dialed: redirections say ::1:6379, without brackets.
func absoluteAddress(address, from string) string {
	colon := strings.LastIndexByte(address, ':')
	if colon < 0 {
		return address
	}
	host, port := strings.Trim(address[:colon], "[]"), address[colon+1:]
	if host == "" || host == "?" { // the server does not know its own name
		host, _, _ = net.SplitHostPort(from)
	}
	return net.JoinHostPort(host, port)
}
