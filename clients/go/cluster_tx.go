package tidemill

import (
	"context"
	"errors"
)

// RunTx executes a transaction on the node of its keys, which must share a slot. It follows a slot
// that moves: what the cluster refused was not executed.
func (c *Cluster) RunTx(ctx context.Context, tx *Tx) ([]Reply, error) {
	slot, err := tx.slot()
	if err != nil {
		return nil, err
	}
	var replies []Reply
	_ = observed(ctx, c.options.Hook, txInfo.name, tx.count, func(ctx context.Context) Reply {
		replies, err = c.followTx(ctx, tx, slot)
		return failedReply(err)
	})
	return replies, err
}

func (c *Cluster) followTx(ctx context.Context, tx *Tx, slot int) ([]Reply, error) {
	if c.cache != nil {
		defer c.cache.written(tx.wire)
	}
	chase := newPursuit(c.options)
	target, ask := c.pick(slot), false
	var outcome Reply // of all attempts so far
	for {
		replies, err := runTx(ctx, txRunner{c, target, slot, ask}, tx)
		if err == nil {
			return replies, nil
		}
		outcome = lastOutcome(outcome, failedReply(err), txInfo.flags, 1)
		if ctx.Err() != nil {
			return replies, outcome.Err()
		}
		next, nextAsk, again := (*clusterNode)(nil), false, ask && errors.Is(err, ErrNotSent)
		if reply := asReply(ctx, err); reply.kind == KindError {
			next, nextAsk, again = c.judge(ctx, reply, target, &txInfo, slot)
		}
		if !again || !chase.follow(ctx, next) {
			return replies, outcome.Err()
		}
		if target, ask = next, nextAsk; next == nil {
			target = c.pick(slot)
		}
	}
}

var txInfo = commandInfo{name: "TX", flags: commandWrites}

// slot is the one slot of all commands, -1 when none has a key.
func (b *Batch) slot() (slot int, err error) {
	slot = -1
	for wire, info := range b.each() {
		at := info.slotOf(wire)
		if at >= 0 && slot >= 0 && at != slot {
			return 0, notSent(ErrCrossSlot)
		}
		slot = max(slot, at)
	}
	return slot, nil
}

// txRunner sends a transaction once to a node, after ASKING when it was sent there by ASK: the
// server forgets that only after EXEC. Failures of the connection are followed like any command's.
type txRunner struct {
	cluster *Cluster
	target  *clusterNode
	slot    int
	ask     bool
}

func (t txRunner) run(ctx context.Context, r *request, info *commandInfo) Reply {
	if !t.ask {
		return t.cluster.followFrom(ctx, t.target, r, info, t.slot)
	}
	reply, reusable := t.cluster.attempt(ctx, t.target, r, info, true)
	if reusable {
		r.recycle()
	}
	return reply
}

// Dedicate opens a connection for one user to the primary that serves key.
func (c *Cluster) Dedicate(ctx context.Context, key string) (*Dedicated, error) {
	return c.dedicate(ctx, slotOf([]byte(key)))
}

func (c *Cluster) dedicate(ctx context.Context, slot int) (*Dedicated, error) {
	n := c.pick(slot)
	if n == nil {
		return nil, notSent(ErrNoNode)
	}
	return dedicate(ctx, n.own, false)
}

// Watch is [Client.Watch] for keys of one slot. body runs once, on the node that accepted the
// WATCH; when the slot moves afterwards, the transaction fails with the server's redirection and
// nothing is executed.
func (c *Cluster) Watch(
	ctx context.Context, body func(d *Dedicated) (*Tx, error), keys ...string,
) ([]Reply, error) {
	if len(keys) == 0 {
		return nil, argumentError("Watch needs keys")
	}
	slot := slotOf([]byte(keys[0]))
	for _, key := range keys {
		if slotOf([]byte(key)) != slot {
			return nil, notSent(ErrCrossSlot)
		}
	}
	chase := newPursuit(c.options)
	for {
		n, err := c.pick(slot), notSent(ErrNoNode)
		if n != nil {
			var d *Dedicated
			if d, err = dedicate(ctx, n.own, true); err == nil {
				if err = d.Watch(ctx, keys...).Err(); err == nil {
					defer d.Close()
					return watched(ctx, d, body)
				}
				d.Close()
			}
			if _, _, again := c.judge(ctx, asReply(ctx, err), n, &watchInfo, slot); !again {
				return nil, err
			}
		}
		if !chase.wait(ctx) {
			return nil, err
		}
	}
}

// watchInfo: repeating a WATCH of unknown outcome on another connection is safe.
var watchInfo = commandInfo{name: "WATCH", flags: commandReads}

// asReply is the reply that an error came from. One behind an unknown outcome counts where that may
// be repeated.
func asReply(ctx context.Context, err error) Reply {
	var refused *ServerError
	counts := !errors.Is(err, ErrMaybeSent) || idempotent(ctx)
	if errors.As(err, &refused) && counts && !errors.Is(err, ErrNotSent) {
		return errorReply(refused)
	}
	return failedReply(err)
}
