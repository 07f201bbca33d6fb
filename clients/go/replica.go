package tidemill

import (
	"context"
	"strings"
	"sync"
	"time"
)

// ReadPolicy says which nodes of a cluster's shard answer commands that only read. Among equal
// nodes the choice changes every 32 ms, the same for all goroutines, so that pipelines stay full. A
// node whose connection was lost is left out until a probe succeeds; when none is left, the primary
// is asked.
type ReadPolicy uint8

// The read policies. All but ReadPrimary probe every node once per second.
const (
	ReadPrimary       ReadPolicy = iota // the primary
	ReadAny                             // primary and replicas alike
	ReadPreferReplica                   // replicas
	ReadLowestLatency                   // nodes whose probes return about as fast as the fastest's
	ReadSameZone                        // nodes in Options.Zone, replicas when there are none
)

const (
	probeEvery = time.Second
	probeWait  = 500 * time.Millisecond
	// latencyWeight is the share of a new probe in a node's average; latencyBand and latencyFloor
	// make nodes equal whose averages differ by noise only.
	latencyWeight = 4
	latencyBand   = 1.25
	latencyFloor  = 100 * time.Microsecond
)

// arrange chooses a shard's readers.
func (c *Cluster) arrange(s *shard) {
	all := append([]*clusterNode{s.primary}, s.replicas...)
	var chosen []*clusterNode
	switch c.options.ReadFrom {
	case ReadAny:
		chosen = healthy(all)
	case ReadPreferReplica:
		chosen = healthy(s.replicas)
	case ReadLowestLatency:
		chosen = fastest(healthy(all))
	case ReadSameZone:
		if chosen = inZone(healthy(all), c.options.Zone); len(chosen) == 0 {
			chosen = healthy(s.replicas)
		}
	}
	if len(chosen) == 0 {
		chosen = []*clusterNode{s.primary}
	}
	s.readers.Store(&chosen)
}

func healthy(nodes []*clusterNode) (up []*clusterNode) {
	for _, n := range nodes {
		if !n.down.Load() {
			up = append(up, n)
		}
	}
	return up
}

func fastest(nodes []*clusterNode) (chosen []*clusterNode) {
	best := int64(0)
	for _, n := range nodes {
		if latency := n.latency.Load(); latency > 0 && (best == 0 || latency < best) {
			best = latency
		}
	}
	limit := int64(float64(best)*latencyBand) + int64(latencyFloor)
	for _, n := range nodes {
		if latency := n.latency.Load(); best == 0 || (latency > 0 && latency <= limit) {
			chosen = append(chosen, n)
		}
	}
	return chosen
}

func inZone(nodes []*clusterNode, zone string) (chosen []*clusterNode) {
	for _, n := range nodes {
		if known := n.zone.Load(); known != nil && *known == zone {
			chosen = append(chosen, n)
		}
	}
	return chosen
}

// lost is called once for each lost connection.
func (c *Cluster) lost(n *clusterNode) {
	c.suspicion()
	c.setDown(n, true)
}

// setDown records a node's health and, where that is news, chooses readers anew.
func (c *Cluster) setDown(n *clusterNode, down bool) {
	if c.options.ReadFrom == ReadPrimary || n.down.Swap(down) == down {
		return
	}
	if down {
		n.zone.Store(nil) // another server may come up at the address
	}
	c.arrangeAll()
}

func (c *Cluster) arrangeAll() {
	c.arranging.Lock()
	defer c.arranging.Unlock()
	if t := c.topology.Load(); t != nil {
		for _, s := range t.shards {
			c.arrange(s)
		}
	}
}

// avoid names the primary to ask instead of a replica that failed; nil when it was the primary
// itself.
func (c *Cluster) avoid(failed *clusterNode, slot int) *clusterNode {
	if failed == nil || slot < 0 {
		return nil
	}
	primary := c.pick(slot)
	if primary == failed {
		return nil
	}
	c.setDown(failed, true)
	return primary
}

// probeLoop measures every node once per second.
func (c *Cluster) probeLoop(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		var group sync.WaitGroup
		for _, n := range c.members() {
			group.Go(func() { c.probe(ctx, n) })
		}
		group.Wait()
		c.arrangeAll()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *Cluster) members() (nodes []*clusterNode) {
	for _, s := range c.topology.Load().shards {
		nodes = append(append(nodes, s.primary), s.replicas...)
	}
	return nodes
}

func (c *Cluster) probe(ctx context.Context, n *clusterNode) {
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	if _, err := n.acquire(ctx); err != nil {
		c.setDown(n, true)
		return
	}
	if c.options.ReadFrom == ReadSameZone && n.zone.Load() == nil {
		if zone, ok := zoneOf(ctx, n.node); ok {
			n.zone.Store(&zone)
		}
	}
	started := now()
	r := newRequest()
	r.wire = append(r.wire[:0], "*1\r\n$4\r\nPING\r\n"...)
	err := sendTo(ctx, n.node, r, commandReads, n.options).Err()
	if err != nil {
		c.setDown(n, true)
		return
	}
	took := int64(now() - started)
	if before := n.latency.Load(); before > 0 {
		took = before + (took-before)/latencyWeight
	}
	n.latency.Store(max(took, 1))
	c.setDown(n, false)
}

// zoneOf asks a server for its availability zone, "" when it has none.
func zoneOf(ctx context.Context, n *node) (zone string, ok bool) {
	r := newRequest()
	r.wire = append(r.wire[:0], "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n"...)
	text, err := sendTo(ctx, n, r, commandReads, n.options).Text()
	if err != nil {
		return "", false
	}
	_, zone, _ = strings.Cut(text, "\navailability_zone:")
	zone, _, _ = strings.Cut(zone, "\r")
	return zone, true
}
