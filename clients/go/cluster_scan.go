package tidemill

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// Iterate walks all keys of the cluster that match pattern ("" for all). Like SCAN it may yield a
// key twice, and yields each that is there all the time, also when slots move or a primary is
// replaced meanwhile: a slot counts as walked when one node owned it from the first to the last
// step of its SCAN. The exception is a slot that is being moved key by key all the while. A failed
// step that stays so for ConnectWait yields one error and ends: without an error all was walked.
func (c *Cluster) Iterate(ctx context.Context, pattern string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		walk := &clusterWalk{cluster: c, yield: yield, line: scanArgs([]any{"SCAN"}, pattern)}
		chase := newPursuit(c.options)
		for walk.left() {
			before := walk.count
			err := walk.nextNode(ctx)
			if walk.stopped {
				return
			}
			if walk.count > before {
				chase = newPursuit(c.options)
				continue
			}
			if err == nil {
				// All steps succeeded, but the slots moved meanwhile: their next owner is walked.
				chase = newPursuit(c.options)
			}
			c.suspicion()
			if c.isClosed() || !chase.wait(ctx) {
				yield("", walk.failure(ctx, err))
				return
			}
		}
	}
}

// IterateMembers is [Client.IterateMembers].
func (c *Cluster) IterateMembers(
	ctx context.Context, command, key, pattern string,
) iter.Seq2[string, error] {
	return scanWith(ctx, c, scanArgs([]any{command, key}, pattern))
}

// clusterWalk is one walk over all slots.
type clusterWalk struct {
	cluster *Cluster
	yield   func(string, error) bool
	line    scanLine
	walked  [slotCount]bool
	count   int // of slots walked
	stopped bool
}

// failure is why a walk ends whose last step returned err, which may be nil.
func (w *clusterWalk) failure(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		return notSent(endOf(ctx))
	case err == nil:
		return notSent(ErrClosed)
	}
	return err
}

func (w *clusterWalk) left() bool { return w.count < slotCount }

var errNothingNew = errors.New("tidemill: the node owns no slot that is left")

// nextNode walks the node that the topology gives for the first slot left. What it owns it is asked
// itself, because the topology may be old.
func (w *clusterWalk) nextNode(ctx context.Context) error {
	slot := 0
	for w.walked[slot] {
		slot++
	}
	n := w.cluster.pick(slot)
	if n == nil {
		return fmt.Errorf("%w %d", ErrNoNode, slot)
	}
	p, err := n.acquire(ctx)
	if err != nil {
		return err
	}
	// One connection for the whole walk: cursors of a restarted server mean nothing to the next.
	on := pipeRunner{p}
	before, err := ownSlots(ctx, on, n.address)
	if err != nil {
		return err
	}
	fresh := false
	for slot, owned := range before {
		fresh = fresh || (owned && !w.walked[slot])
	}
	if !fresh {
		return errNothingNew
	}
	for key, err := range scanWith(ctx, on, w.line) {
		if err != nil {
			return err
		}
		if slot := slotOf([]byte(key)); !w.walked[slot] && !w.yield(key, nil) {
			w.stopped = true
			return nil
		}
	}
	after, err := ownSlots(ctx, on, n.address)
	if err != nil {
		return err
	}
	for slot := range w.walked {
		if before[slot] && after[slot] && !w.walked[slot] {
			w.walked[slot] = true
			w.count++
		}
	}
	return nil
}

// ownSlots asks a node which slots it serves as primary.
func ownSlots(ctx context.Context, on pipeRunner, address string) (*[slotCount]bool, error) {
	owned := &[slotCount]bool{}
	id, err := on.Do(ctx, "CLUSTER", "MYID").Text()
	if err != nil {
		return nil, err
	}
	ranges, err := on.Do(ctx, "CLUSTER", "SLOTS").Array()
	if err != nil {
		return nil, err
	}
	for _, item := range ranges {
		first, last, _, err := slotRange(item, address)
		if err != nil {
			return nil, err
		}
		primary, _ := item.items()[2].Array()
		if len(primary) < 3 {
			return nil, fmt.Errorf("%w: CLUSTER SLOTS node", ErrProtocol)
		}
		if name, _ := primary[2].Text(); name == id {
			for slot := first; slot <= last; slot++ {
				owned[slot] = true
			}
		}
	}
	return owned, nil
}

// pipeRunner runs commands on one connection and no other.
type pipeRunner struct{ pipe *pipe }

func (p pipeRunner) run(ctx context.Context, r *request, _ *commandInfo) Reply {
	reply, reusable := p.pipe.do(ctx, r)
	if reusable {
		r.recycle()
	}
	return reply
}

func (p pipeRunner) Do(ctx context.Context, args ...any) Reply { return doOn(ctx, p, args) }
