package tidemill

import (
	"context"
	"fmt"
	"iter"
)

// Batch collects commands that travel together: one queue entry, one write, replies in order. It is
// not atomic; see [Tx] for that. The zero value is ready to use, not safe for concurrent use.
type Batch struct {
	wire     []byte
	count    int
	flags    commandFlags
	err      error
	commands []batchCommand
}

type batchCommand struct {
	info *commandInfo
	end  int // in wire
}

// each walks the encoded commands.
func (b *Batch) each() iter.Seq2[[]byte, *commandInfo] {
	return func(yield func([]byte, *commandInfo) bool) {
		start := 0
		for _, command := range b.commands {
			if !yield(b.wire[start:command.end], command.info) {
				return
			}
			start = command.end
		}
	}
}

// batchOwnBytes is the size from which a batch gets a connection of its own, so that it does not
// make the shared pipe's other callers wait.
const batchOwnBytes = 256 << 10

// Add appends a command; a bad argument shows when the batch runs.
func (b *Batch) Add(args ...any) {
	if b.err != nil {
		return
	}
	before := len(b.wire)
	if b.wire, b.err = appendCommand(b.wire, args); b.err != nil {
		return
	}
	info := describe(args)
	if info.flags&(commandChanges|commandListens) != 0 {
		b.err = argumentError("%s cannot be part of a batch", info.name)
		return
	}
	if b.count == 0 {
		b.flags = info.flags & commandReads
	}
	b.flags &= info.flags | ^commandReads
	if info.needsOwn(b.wire[before:]) {
		b.flags |= commandBlocks
	}
	b.commands = append(b.commands, batchCommand{info, len(b.wire)})
	b.count++
}

// Len returns the number of commands.
func (b *Batch) Len() int { return b.count }

// RunBatch sends the batch and returns one reply per command. Its error is the batch's own failure;
// errors of single commands stand in their replies. A batch of reads only is repeated like a read.
// ErrNotSent means that not one command left whole.
func (c *Client) RunBatch(ctx context.Context, b *Batch) ([]Reply, error) {
	return runBatch(ctx, c, b)
}

func runBatch(ctx context.Context, to runner, b *Batch) ([]Reply, error) {
	if b.err != nil || b.count == 0 {
		return nil, b.err
	}
	r := newRequest()
	r.want = b.count
	r.wire = append(r.wire[:0], b.wire...)
	info := &commandInfo{name: "BATCH", flags: b.flags}
	if len(r.wire) > batchOwnBytes {
		info.flags |= commandAlone
	}
	return b.replies(to.run(ctx, r, info), b.count)
}

// replies takes apart what a request with several replies ended with.
func (b *Batch) replies(reply Reply, count int) ([]Reply, error) {
	if count == 1 {
		if reply.kind == KindNone {
			return []Reply{reply}, reply.Err()
		}
		return []Reply{reply}, nil
	}
	items := reply.items()
	for len(items) < count {
		items = append(items, failedReply(reply.Err()))
	}
	return items, reply.Err()
}

// Tx is a MULTI/EXEC transaction that travels as one write and takes one round trip.
type Tx struct{ Batch }

// RunTx executes the transaction and returns the replies of its commands. When the server refuses a
// command while queueing, nothing is executed and the error is its reason. ErrTxAborted: a key
// watched on this connection changed. Where the server refuses MULTI itself but not the commands,
// it executes them one by one: the error is its reason with ErrMaybeSent.
func (c *Client) RunTx(ctx context.Context, tx *Tx) ([]Reply, error) {
	if c.options.Hook == nil || tx.err != nil || tx.count == 0 {
		return runTx(ctx, unobserved{c}, tx)
	}
	var replies []Reply
	var err error
	observe(ctx, c.options.Hook, txInfo.name, tx.count, func(ctx context.Context) Reply {
		replies, err = runTx(ctx, unobserved{c}, tx)
		return failedReply(err)
	})
	return replies, err
}

// unobserved runs commands without the hook, whose operation is larger.
type unobserved struct{ client *Client }

func (u unobserved) run(ctx context.Context, r *request, info *commandInfo) Reply {
	return u.client.route(ctx, r, info)
}

// RunTx executes the transaction on this connection, after its WATCH.
func (d *Dedicated) RunTx(ctx context.Context, tx *Tx) ([]Reply, error) { return runTx(ctx, d, tx) }

func runTx(ctx context.Context, to runner, tx *Tx) ([]Reply, error) {
	if tx.err != nil || tx.count == 0 {
		return nil, tx.err
	}
	r := newRequest()
	r.want = tx.count + 2
	r.wire = append(r.wire[:0], "*1\r\n$5\r\nMULTI\r\n"...)
	r.wire = append(r.wire, tx.wire...)
	r.wire = append(r.wire, "*1\r\n$4\r\nEXEC\r\n"...)
	reply := to.run(ctx, r, &txInfo)
	if err := reply.Err(); err != nil {
		return nil, err
	}
	return tx.outcome(reply.items())
}

// outcome reads the replies of MULTI, the queued commands and EXEC.
func (b *Batch) outcome(replies []Reply) ([]Reply, error) {
	if err := replies[0].Err(); err != nil {
		for _, reply := range replies[1:] {
			if reply.Err() == nil {
				return nil, maybeSent(err)
			}
		}
		return nil, err
	}
	for _, queued := range replies[1 : len(replies)-1] {
		if err := queued.Err(); err != nil {
			return nil, err
		}
	}
	executed := replies[len(replies)-1]
	if err := executed.Err(); err != nil {
		return nil, err
	}
	if executed.IsNil() {
		return nil, ErrTxAborted
	}
	results, err := executed.Array()
	if err == nil && len(results) != b.count {
		err = fmt.Errorf("%w: EXEC answered %d of %d commands", ErrProtocol, len(results), b.count)
	}
	return results, err
}

// Watch runs an optimistic transaction on a connection of its own: it watches keys, calls body to
// read through d and build a transaction, and executes that. ErrTxAborted says that a key changed
// meanwhile; whether to repeat is the caller's choice. body may return nil to execute nothing.
func (c *Client) Watch(
	ctx context.Context, body func(d *Dedicated) (*Tx, error), keys ...string,
) ([]Reply, error) {
	d, err := dedicate(ctx, c.own, true)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := d.Watch(ctx, keys...).Err(); err != nil {
		return nil, err
	}
	return watched(ctx, d, body)
}

// watched runs the body of a Watch, then its transaction.
func watched(
	ctx context.Context, d *Dedicated, body func(d *Dedicated) (*Tx, error),
) (replies []Reply, err error) {
	var tx *Tx
	if panicked := contain(func() { tx, err = body(d) }); panicked != nil {
		return nil, panicked
	}
	if err != nil || tx == nil {
		return nil, err
	}
	return d.RunTx(ctx, tx)
}
