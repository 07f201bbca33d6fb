package tidemill

import (
	"context"
	"time"
)

// Message is one published message. Pattern is set when it came by a pattern.
type Message struct {
	Pattern string
	Channel string
	Payload string
}

// Overflow says what happens to a message when the subscriber's buffer is full.
type Overflow uint8

// The overflow policies. None drops silently: Dropped counts.
const (
	// stop reading; past its output limit the server closes the connection
	OverflowBlock      Overflow = iota
	OverflowDropNewest          // the new message is dropped
	OverflowDropOldest          // the oldest buffered message is dropped
)

// SubscribeOptions name the channels of a subscription. Channels and Patterns may be mixed; Shard
// (SSUBSCRIBE) excludes both.
type SubscribeOptions struct {
	Channels []string
	Patterns []string
	Shard    []string
	Buffer   int // messages [256]
	Overflow Overflow
	// EveryNode listens on every primary of a cluster, for what each tells only by itself, such as
	// keyspace notifications. Not for Shard, whose channels have one node each.
	EveryNode bool
}

const subscribeBufferDefault = 256

// topic is one thing to subscribe to: a command and its argument.
type topic struct{ command, name string }

// topics checks the options.
func (o *SubscribeOptions) topics() (topics []topic, err error) {
	setDefault(&o.Buffer, subscribeBufferDefault)
	for _, group := range []struct {
		command string
		names   []string
	}{{"SUBSCRIBE", o.Channels}, {"PSUBSCRIBE", o.Patterns}, {"SSUBSCRIBE", o.Shard}} {
		for _, name := range group.names {
			topics = append(topics, topic{group.command, name})
		}
	}
	mixed := len(o.Shard) > 0 && (len(topics) > len(o.Shard) || o.EveryNode)
	if len(topics) == 0 || o.Buffer < 0 || mixed {
		return nil, argumentError("nothing to subscribe to, or shard channels mixed with others")
	}
	return topics, nil
}

// Subscribe connects, subscribes and returns once the server confirmed. Close must be called.
func (c *Client) Subscribe(ctx context.Context, options SubscribeOptions) (*Subscription, error) {
	return subscribe(ctx, options, c.options, onePlace{c.node, c.life})
}

// onePlace: one node has everything.
type onePlace struct {
	node *node
	ends context.Context
}

func (p onePlace) place(lost []topic, _ map[topic]bool, _ map[*leg]bool) map[*node][]topic {
	if len(lost) == 0 {
		return nil
	}
	return map[*node][]topic{p.node: lost}
}

func (p onePlace) stale(*leg) bool         { return false }
func (p onePlace) interval() time.Duration { return 0 }
func (p onePlace) life() context.Context   { return p.ends }
func (p onePlace) failed(error)            {}

// Subscribe subscribes on any primary, with EveryNode on each, and to shard channels where their
// slots are.
func (c *Cluster) Subscribe(ctx context.Context, options SubscribeOptions) (*Subscription, error) {
	if options.EveryNode {
		return subscribe(ctx, options, c.options, everyPrimary{slotPlaces{c}})
	}
	return subscribe(ctx, options, c.options, slotPlaces{c})
}

// slotPlaces sends shard channels to their slots' primaries, other topics to any.
type slotPlaces struct{ cluster *Cluster }

func (p slotPlaces) place(lost []topic, _ map[topic]bool, legs map[*leg]bool) map[*node][]topic {
	divided := map[*node][]topic{}
	if len(lost) == 0 {
		return divided
	}
	anywhere := p.anywhere(legs)
	for _, t := range lost {
		n := anywhere
		if t.command == "SSUBSCRIBE" {
			n = nil // nobody serves the slot for now
			if target := p.cluster.pick(slotOf([]byte(t.name))); target != nil {
				n = target.node
			}
		}
		divided[n] = append(divided[n], t)
	}
	return divided
}

// anywhere is the node for topics that every node tells: the one that is connected, or any.
func (p slotPlaces) anywhere(legs map[*leg]bool) *node {
	for l := range legs {
		if !l.ending {
			return l.node
		}
	}
	if target := p.cluster.pick(-1); target != nil {
		return target.node
	}
	return nil
}

func (p slotPlaces) stale(*leg) bool         { return false }
func (p slotPlaces) interval() time.Duration { return 0 }
func (p slotPlaces) life() context.Context   { return p.cluster.life }
func (p slotPlaces) failed(error)            { p.cluster.suspicion() }

// everyPrimary has all topics on each primary there is.
type everyPrimary struct{ slotPlaces }

// everyPrimaryInterval is how soon a new primary is noticed.
const everyPrimaryInterval = 200 * time.Millisecond

func (p everyPrimary) interval() time.Duration { return everyPrimaryInterval }

func (p everyPrimary) place(
	_ []topic, wanted map[topic]bool, legs map[*leg]bool,
) map[*node][]topic {
	has := map[*node]map[topic]bool{}
	for l := range legs {
		has[l.node] = l.topics
	}
	divided := map[*node][]topic{}
	for _, n := range p.cluster.topology.Load().primaries {
		for t := range wanted {
			if !has[n.node][t] {
				divided[n.node] = append(divided[n.node], t)
			}
		}
	}
	return divided
}

func (p everyPrimary) stale(l *leg) bool {
	for _, n := range p.cluster.topology.Load().primaries {
		if n.node == l.node {
			return false
		}
	}
	return true
}

// parseMessage recognises a message in RESP2's array or RESP3's push.
func parseMessage(reply Reply) (Message, bool) {
	if reply.kind != KindArray && reply.kind != KindPush {
		return Message{}, false
	}
	items := reply.items()
	if len(items) < 3 {
		return Message{}, false
	}
	switch kind, _ := items[0].Text(); {
	case kind == "message" || kind == "smessage":
		return Message{Channel: items[1].text, Payload: items[2].text}, true
	case kind == "pmessage" && len(items) == 4:
		return Message{Pattern: items[1].text, Channel: items[2].text, Payload: items[3].text}, true
	}
	return Message{}, false
}

// parseConfirmation recognises what the server says to SUBSCRIBE, UNSUBSCRIBE and their like, and
// that it ended the subscription to a shard channel, whose slot it lost.
func parseConfirmation(reply Reply) (kind, name string, ok bool) {
	items := reply.items()
	if len(items) != 3 || (reply.kind != KindArray && reply.kind != KindPush) {
		return "", "", false
	}
	switch kind, _ = items[0].Text(); kind {
	case "subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe":
		return kind, items[1].text, true
	}
	return "", "", false
}
