package tidemill

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Connections of their own serve what would block or change the shared pipe. Each is a pipe with
// one user, without IO timeout: how long a blocking command may take is for its context to say.

// ownOptions are a client's options for such a connection.
func ownOptions(options *Options) *Options {
	own := *options
	own.IOTimeout = -1
	own.MaxGatherDelay = -1
	return &own
}

// ownPool keeps idle connections of a node for blocking commands.
type ownPool struct {
	node    *node
	options *Options
	mu      sync.Mutex
	idle    []*ownPipe
	pending int // operations that Shutdown waits for
	closed  bool
}

type ownPipe struct {
	*pipe
	conn net.Conn
	bare bool // of connectBare: for one command only
}

// ownIdleMax bounds the connections kept for the next blocking command.
const ownIdleMax = 16

func newOwnPool(n *node) *ownPool { return &ownPool{node: n, options: ownOptions(n.options)} }

// take returns an unused connection for exclusive use. It waits for one as long as a request waits
// for the pipe.
func (o *ownPool) take(ctx context.Context, bare bool) (*ownPipe, error) {
	var pace pacing
	for until := time.Now().Add(o.options.ConnectWait); ; {
		p, err := o.reuse()
		if p != nil || err != nil {
			return p, err
		}
		conn, err := o.connect(ctx, bare)
		if err == nil {
			p := newPipe(conn, o.options, nil)
			o.node.adopt(p)
			return &ownPipe{p, conn, bare}, nil
		}
		pace.failed(time.Now(), o.options)
		if finalError(err) || errors.Is(err, ErrClosed) || pace.until.After(until) {
			return nil, err
		}
		if cause := o.node.pause(ctx, time.Until(pace.until)); cause != nil {
			if !errors.Is(err, cause) { // a Dialer may answer with an error of its own
				err = notSent(errors.Join(cause, causeOf(err)))
			}
			return nil, err
		}
	}
}

func (o *ownPool) connect(ctx context.Context, bare bool) (net.Conn, error) {
	if bare {
		return o.node.connectBare(ctx)
	}
	return o.node.connectOwn(ctx)
}

// reuse returns an idle connection, nil when there is none.
func (o *ownPool) reuse() (*ownPipe, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, notSent(ErrClosed)
	}
	for len(o.idle) > 0 {
		last := len(o.idle) - 1
		p := o.idle[last]
		o.idle = o.idle[:last]
		if !p.gone.Load() {
			return p, nil
		}
		o.node.forget(p.conn)
	}
	return nil, nil
}

// give returns a connection; one that is in an unknown state is closed instead.
func (o *ownPool) give(p *ownPipe, clean bool) {
	o.mu.Lock()
	if clean && !p.bare && !o.closed && !p.gone.Load() && len(o.idle) < ownIdleMax {
		o.idle = append(o.idle, p)
		o.mu.Unlock()
		return
	}
	o.mu.Unlock()
	p.kill(ErrClosed)
	o.node.forget(p.conn)
}

// refuse lets nobody take a connection any more.
func (o *ownPool) refuse() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
}

// count adds to the operations that Shutdown waits for; false: no new one may begin any more.
func (o *ownPool) count(change int, isNew bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if isNew && o.closed {
		return false
	}
	o.pending += change
	return true
}

// drain waits until nothing is pending that was begun before refuse. What may be blocked does not
// count.
func (o *ownPool) drain(ctx context.Context) error {
	return waitUntil(ctx, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.pending == 0
	})
}

func (o *ownPool) close() {
	o.refuse()
	o.dropIdle()
}

// dropIdle closes the unused connections.
func (o *ownPool) dropIdle() {
	o.mu.Lock()
	idle := o.idle
	o.idle = nil
	o.mu.Unlock()
	for _, p := range idle {
		p.kill(ErrClosed)
		<-p.closed
		o.node.forget(p.conn)
	}
}

// run executes r on a connection of its own. Its context's end closes the connection, which makes
// the server forget the blocked command. What may be repeated is, for ConnectWait after the first
// failure.
func (o *ownPool) run(
	ctx context.Context, r *request, info *commandInfo, mayBlock bool,
) Reply {
	err, waitedFor := info.refusal(), 1
	if mayBlock {
		waitedFor = 0
	}
	if err == nil && !o.count(waitedFor, true) {
		err = notSent(ErrClosed)
	}
	if err != nil {
		r.recycle()
		return failedReply(err)
	}
	defer o.count(-waitedFor, false)
	var until time.Time
	var pace pacing
	var reply Reply
	want := r.want
	for {
		p, err := o.take(ctx, info.flags&commandEndsScript != 0)
		if err != nil {
			r.recycle()
			return keepUnknown(reply, failedReply(err))
		}
		again, reusable := p.do(ctx, r)
		reply = lastOutcome(reply, again, info.flags, want)
		failed := again.kind == KindNone
		o.give(p, !failed && info.flags&commandChanges == 0)
		if !reusable {
			return reply
		}
		if until.IsZero() {
			until = time.Now().Add(o.options.ConnectWait)
		}
		if !failed || !mayRepeat(ctx, reply.Err(), info.flags, o.options) ||
			time.Now().After(until) {
			r.recycle()
			return reply
		}
		pace.ended(time.Now(), o.options)
		if err := o.node.pause(ctx, time.Until(pace.until)); err != nil {
			r.recycle()
			return keepUnknown(reply, failedReply(notSent(err)))
		}
		r.rearm()
	}
}

// Dedicated is a connection with one user: for WATCH, WAIT, or a SELECT of its own. Commands on it
// run in order; it must be closed.
type Dedicated struct {
	Commands
	pool   *ownPool
	pipe   *ownPipe
	closed atomic.Bool
	dirty  bool
	// one operation as a whole, which Shutdown waits for; otherwise each command is one
	isWatch bool
}

// Dedicate opens a connection for one user. [Client.Shutdown] waits for its pending command, not
// for its Close.
func (c *Client) Dedicate(ctx context.Context) (*Dedicated, error) {
	return dedicate(ctx, c.own, false)
}

func dedicate(ctx context.Context, pool *ownPool, isWatch bool) (*Dedicated, error) {
	if isWatch && !pool.count(1, true) {
		return nil, notSent(ErrClosed)
	}
	p, err := pool.take(ctx, false)
	if err != nil {
		if isWatch {
			pool.count(-1, false)
		}
		return nil, err
	}
	d := &Dedicated{pool: pool, pipe: p, isWatch: isWatch}
	d.Commands = Commands{d}
	return d, nil
}

// Do runs one command on the connection.
func (d *Dedicated) Do(ctx context.Context, args ...any) Reply { return doOn(ctx, d, args) }

func (d *Dedicated) run(ctx context.Context, r *request, info *commandInfo) Reply {
	err := info.refusal()
	if d.closed.Load() {
		err = notSent(ErrClosed) // the connection may have another user
	}
	waitedFor := d.waitedFor(info.mayBlock(r.wire))
	if err == nil && !d.pool.count(waitedFor, !d.isWatch) {
		err = notSent(ErrClosed)
	}
	if err != nil {
		r.recycle()
		return failedReply(err)
	}
	defer d.pool.count(-waitedFor, false)
	if d.pool.node.cache != nil {
		defer d.pool.node.cache.afterWrite(r, info)()
	}
	d.dirty = d.dirty || info.flags&commandChanges != 0
	reply, reusable := d.pipe.do(ctx, r)
	if reusable {
		r.recycle()
	}
	d.dirty = d.dirty || reply.kind == KindNone
	return reply
}

// waitedFor is what a command adds to the operations that Shutdown waits for.
func (d *Dedicated) waitedFor(mayBlock bool) int {
	switch {
	case d.isWatch && mayBlock:
		return -1
	case d.isWatch || mayBlock:
		return 0
	}
	return 1
}

// Close gives the connection back, or closes it when a command changed its state. Commands that
// follow are refused with ErrClosed.
func (d *Dedicated) Close() {
	if !d.closed.Swap(true) {
		d.pool.give(d.pipe, !d.dirty)
		if d.isWatch {
			d.pool.count(-1, false)
		}
	}
}

// doOn encodes args and hands them to a runner.
func doOn(ctx context.Context, to runner, args []any) Reply {
	r := newRequest()
	var err error
	if r.wire, err = appendCommand(r.wire[:0], args); err != nil {
		r.recycle()
		return failedReply(err)
	}
	return to.run(ctx, r, describe(args))
}
