package tidemill

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// RunBatch sends the batch, divided by node, to all nodes at the same time, and returns one reply
// per command. Order holds among commands of the same slot; while that slot moves, commands with
// several keys may fall behind. A batch of reads only may go to replicas. What the cluster
// redirects is sent again. An error means that some command has no answer: ErrNotSent that none was
// executed, ErrMaybeSent that some may have been.
func (c *Cluster) RunBatch(ctx context.Context, b *Batch) ([]Reply, error) {
	if b.err != nil || b.count == 0 {
		return nil, b.err
	}
	var replies []Reply
	outcome := observed(ctx, c.options.Hook, "BATCH", b.count, func(ctx context.Context) Reply {
		replies = c.runDivided(ctx, b)
		return batchFailure(replies, b.flags)
	})
	return replies, outcome.Err()
}

// runDivided sends what is pending, round by round, until nothing may or need be repeated.
func (c *Cluster) runDivided(ctx context.Context, b *Batch) []Reply {
	if c.cache != nil && b.flags&commandReads == 0 {
		defer c.cache.written(b.wire)
	}
	replies := make([]Reply, b.count)
	pending := make([]batchItem, 0, b.count)
	var everywhere sync.WaitGroup
	defer everywhere.Wait()
	index := 0
	for wire, info := range b.each() {
		item := batchItem{index, wire, info}
		if index++; info.flags&commandAllShards == 0 {
			pending = append(pending, item)
			continue
		}
		everywhere.Go(func() { replies[item.index] = c.runEverywhere(ctx, wire, info) })
	}
	chase := newPursuit(c.options)
	// Attempts of unknown outcome by index, kept also behind a redirection that follows.
	type lostAttempt struct {
		reply Reply
		flags commandFlags
	}
	unknown := map[int]lostAttempt{}
	for {
		c.sendParts(ctx, b.flags, pending, replies)
		pending = slices.DeleteFunc(pending, func(item batchItem) bool {
			reply := &replies[item.index]
			*reply = keepUnknown(unknown[item.index].reply, *reply)
			return !c.pendsAgain(ctx, item, reply)
		})
		if len(pending) == 0 || !chase.wait(ctx) {
			break
		}
		for _, item := range pending {
			if reply := replies[item.index]; errors.Is(reply.Err(), ErrMaybeSent) {
				unknown[item.index] = lostAttempt{reply, item.info.flags}
			}
		}
	}
	for index, lost := range unknown {
		replies[index] = lastOutcome(lost.reply, replies[index], lost.flags, 1)
	}
	return replies
}

type batchItem struct {
	index int
	wire  []byte
	info  *commandInfo
}

func (item batchItem) request() *request {
	r := newRequest()
	r.wire = append(r.wire[:0], item.wire...)
	return r
}

// pendsAgain decides whether a command is sent again in the next round.
func (c *Cluster) pendsAgain(ctx context.Context, item batchItem, reply *Reply) bool {
	if reply.kind != KindNone && reply.kind != KindError {
		return false
	}
	slot := item.info.slotOf(item.wire)
	from := c.pick(slot)
	if from == nil {
		c.suspicion()
		return !c.isClosed() && reply.kind == KindNone && ctx.Err() == nil
	}
	_, ask, again := c.judge(ctx, *reply, from, item.info, slot)
	if ask {
		*reply = c.follow(ctx, item.request(), item.info, slot)
		return false
	}
	return again
}

// sendParts sends each node its commands as one request.
func (c *Cluster) sendParts(
	ctx context.Context, flags commandFlags, pending []batchItem, replies []Reply,
) {
	parts := map[*clusterNode][]batchItem{}
	for _, item := range pending {
		slot := item.info.slotOf(item.wire)
		target := c.pick(slot)
		if flags&commandReads != 0 {
			target = c.target(slot, item.info, item.wire)
		}
		parts[target] = append(parts[target], item)
	}
	if len(parts) == 1 {
		for target, items := range parts {
			c.sendPart(ctx, target, flags, items, replies)
		}
		return
	}
	var group sync.WaitGroup
	for target, items := range parts {
		group.Go(func() { c.sendPart(ctx, target, flags, items, replies) })
	}
	group.Wait()
}

func (c *Cluster) sendPart(
	ctx context.Context, target *clusterNode, flags commandFlags, items []batchItem,
	replies []Reply,
) {
	r := newRequest()
	r.want = len(items)
	r.wire = r.wire[:0]
	for _, item := range items {
		r.wire = append(r.wire, item.wire...)
	}
	if len(r.wire) > batchOwnBytes {
		flags |= commandAlone
	}
	reply, reusable := c.attempt(ctx, target, r, &commandInfo{name: "BATCH", flags: flags}, false)
	if reusable {
		r.recycle()
	}
	if target != nil && reply.kind == KindNone {
		c.avoid(target, items[0].info.slotOf(items[0].wire))
	}
	if len(items) == 1 {
		replies[items[0].index] = reply
		return
	}
	came := reply.items()
	for i, item := range items {
		if i < len(came) {
			replies[item.index] = came[i]
		} else {
			replies[item.index] = failedReply(reply.Err())
		}
	}
}

type splitKey struct{}

// WithSplit allows a cluster to take DEL, UNLINK, EXISTS, TOUCH, MGET and MSET under ctx apart by
// slot. The parts are not atomic together: when only some succeed, the error is ErrMaybeSent and
// says how many.
func WithSplit(ctx context.Context) context.Context {
	return context.WithValue(ctx, splitKey{}, true)
}

func splitAllowed(ctx context.Context) bool { return ctx.Value(splitKey{}) != nil }

// runSplit sends one command per slot and joins the replies.
func (c *Cluster) runSplit(ctx context.Context, r *request, info *commandInfo, hook Hook) Reply {
	parts, positions := split(r.wire, info)
	if len(parts.commands) < 2 {
		return observed(ctx, hook, info.name, 1, func(ctx context.Context) Reply {
			return c.follow(ctx, r, info, info.slotOf(r.wire))
		})
	}
	r.recycle()
	return observed(ctx, hook, info.name, parts.count, func(ctx context.Context) Reply {
		replies := c.runDivided(ctx, parts)
		if failed := splitFailure(replies, info); failed != nil {
			return *failed
		}
		return joinReplies(replies, positions, info)
	})
}

// split builds a command per slot; positions tells for each of them which keys it took.
func split(wire []byte, info *commandInfo) (parts *Batch, positions [][]int) {
	args := slices.Collect(wireArgs(wire))
	step := int(info.keyStep)
	bySlot, slots := map[int][]int{}, []int(nil)
	for i := int(info.firstKey); i+step <= len(args); i += step {
		slot := slotOf(args[i])
		if bySlot[slot] == nil {
			slots = append(slots, slot)
		}
		bySlot[slot] = append(bySlot[slot], i)
	}
	if (len(args)-int(info.firstKey))%step != 0 {
		return &Batch{}, nil // the server refuses it as a whole
	}
	parts = &Batch{flags: info.flags & commandReads}
	for _, slot := range slots {
		taken := bySlot[slot]
		parts.wire = appendHeader(parts.wire, '*', 1+step*len(taken))
		parts.wire = appendString(parts.wire, info.name)
		for k, i := range taken {
			for _, arg := range args[i : i+step] {
				parts.wire = append(append(appendHeader(parts.wire, '$', len(arg)), arg...), '\r',
					'\n')
			}
			taken[k] = (i - int(info.firstKey)) / step
		}
		parts.commands = append(parts.commands, batchCommand{info, len(parts.wire)})
		parts.count++
		positions = append(positions, taken)
	}
	return parts, positions
}

// splitFailure is the outcome when a part failed, nil when none did. Only when no part can have
// been executed is it "not sent" or, where all were refused, the server's own error.
func splitFailure(replies []Reply, info *commandInfo) *Reply {
	var first *Reply
	hasFailed := func(reply Reply) bool { return reply.Err() != nil }
	if i := slices.IndexFunc(replies, hasFailed); i >= 0 {
		first = &replies[i]
	}
	refused, unsent := countUnexecuted(replies)
	harmless := info.flags&commandReads != 0 && first != nil && first.kind == KindError
	if first == nil || refused == len(replies) || unsent == len(replies) || harmless {
		return first
	}
	stage, unexecuted := maybeSent, refused+unsent
	if unexecuted == len(replies) {
		stage = notSent
	}
	failed := failedReply(stage(&splitError{len(replies), unexecuted, causeOf(first.Err())}))
	return &failed
}

// batchFailure is the failure of a batch of which some command has no answer, else no failure. What
// was not sent tells nothing of the other commands, unless those only read.
func batchFailure(replies []Reply, flags commandFlags) Reply {
	var failed Reply
	for _, reply := range replies {
		isFirst := failed.Err() == nil
		if reply.kind == KindNone && (isFirst || !errors.Is(reply.Err(), ErrNotSent)) {
			failed = reply
		}
	}
	refused, unsent := countUnexecuted(replies)
	unexecuted := refused + unsent
	if !errors.Is(failed.Err(), ErrNotSent) || unexecuted == len(replies) ||
		flags&commandReads != 0 {
		return failed
	}
	return failedReply(maybeSent(&splitError{len(replies), unexecuted, causeOf(failed.Err())}))
}

// countUnexecuted counts the commands that the server refused and those that were not sent.
func countUnexecuted(replies []Reply) (refused, unsent int) {
	for _, reply := range replies {
		if reply.kind == KindError {
			refused++
		} else if errors.Is(reply.Err(), ErrNotSent) {
			unsent++
		}
	}
	return refused, unsent
}

// joinReplies merges the parts' replies as the server would have answered the whole.
func joinReplies(replies []Reply, positions [][]int, info *commandInfo) Reply {
	if info.flags&commandSums != 0 {
		return sumReplies(replies)
	}
	if replies[0].kind != KindArray {
		return replies[0] // OK from all
	}
	count := 0
	for _, taken := range positions {
		count += len(taken)
	}
	items := make([]Reply, count)
	for part, taken := range positions {
		values := replies[part].items()
		if len(values) != len(taken) {
			return failedReply(maybeSent(ErrProtocol))
		}
		for k, position := range taken {
			items[position] = values[k]
		}
	}
	return Reply{kind: KindArray, extra: &extra{items: items}}
}
