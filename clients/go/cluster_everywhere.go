package tidemill

import (
	"context"
	"sync"
)

// Commands that several nodes execute parts of: those that concern all shards, which every primary
// gets, and those with keys of several slots, which are taken apart on request. COMMAND's tips say
// which these are and how the answers become one.

// inParts is true for a command that is not for one node.
func (info *commandInfo) inParts(ctx context.Context) bool {
	return info.flags&commandAllShards != 0 || info.flags&commandSplits != 0 && splitAllowed(ctx)
}

// runParts runs such a command and recycles r.
func (c *Cluster) runParts(ctx context.Context, r *request, info *commandInfo, hook Hook) Reply {
	if info.flags&commandAllShards == 0 {
		return c.runSplit(ctx, r, info, hook)
	}
	defer r.recycle()
	return observed(ctx, hook, info.name, 1, func(ctx context.Context) Reply {
		return c.runEverywhere(ctx, r.wire, info)
	})
}

// runEverywhere runs a command on every primary at the same time. Each part is addressed by a slot
// of its shard, so that it follows a failover like any other command.
func (c *Cluster) runEverywhere(ctx context.Context, wire []byte, info *commandInfo) Reply {
	shards := c.topology.Load().shards
	replies := make([]Reply, len(shards))
	var group sync.WaitGroup
	for i, s := range shards {
		group.Go(func() {
			r := batchItem{wire: wire}.request()
			replies[i] = c.followFrom(ctx, c.target(s.slot, info, wire), r, info, s.slot)
		})
	}
	group.Wait()
	if info.flags&commandAny != 0 {
		for _, reply := range replies {
			if reply.Err() == nil {
				return reply
			}
		}
	}
	if failed := splitFailure(replies, info); failed != nil {
		return *failed
	}
	return joinShards(replies, info)
}

// joinShards merges what all primaries answered: sums, lists one behind the other, or what all said
// alike.
func joinShards(replies []Reply, info *commandInfo) Reply {
	first := replies[0]
	if first.kind != KindArray {
		if info.flags&commandSums != 0 {
			return sumReplies(replies)
		}
		return first
	}
	every := info.flags&commandEvery != 0
	var items []Reply
	for i, reply := range replies {
		if every && len(reply.items()) != len(first.items()) {
			return failedReply(maybeSent(ErrProtocol))
		}
		if i == 0 || !every {
			items = append(items, reply.items()...)
			continue
		}
		for k, item := range reply.items() {
			items[k].number = min(items[k].number, item.number)
		}
	}
	return Reply{kind: KindArray, extra: &extra{items: items}}
}

func sumReplies(replies []Reply) Reply {
	sum := int64(0)
	for _, reply := range replies {
		sum += reply.number
	}
	return Reply{kind: KindInt, number: sum}
}
