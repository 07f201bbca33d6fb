package tidemill

import (
	"context"
	"errors"
)

// Future is the reply of an asynchronous command.
type Future struct {
	done  chan struct{}
	reply Reply
}

// Wait returns the reply when it is there, or the context's error as of unknown outcome; the
// command goes on then.
func (f *Future) Wait(ctx context.Context) Reply {
	select {
	case <-f.done:
		return f.reply
	default:
	}
	select {
	case <-f.done:
		return f.reply
	case <-ctx.Done():
		return failedReply(maybeSent(endOf(ctx)))
	}
}

// Done is closed when the reply is there.
func (f *Future) Done() <-chan struct{} { return f.done }

// Go sends a command without waiting for its reply. It waits only for room in the queue and for a
// connection. Commands that one goroutine sends this way are executed in order while the connection
// lasts.
func (c *Client) Go(ctx context.Context, args ...any) *Future {
	return future(func(callback func(Reply)) { c.Async(ctx, callback, args...) })
}

func future(start func(callback func(Reply))) *Future {
	f := &Future{done: make(chan struct{})}
	start(func(reply Reply) {
		f.reply = reply
		close(f.done)
	})
	return f
}

// Async sends a command and calls callback once with its reply, usually on the connection's reader:
// it must be quick and must not wait for other commands of this client. A panic in it is contained
// and logged. Once sent, the context no longer ends the command. What was not sent is not repeated.
func (c *Client) Async(ctx context.Context, callback func(Reply), args ...any) {
	ctx, r, info, guarded := beginAsync(ctx, c.options, callback, args)
	if r == nil {
		return
	}
	if info.needsOwn(r.wire) {
		go func() { guarded(c.route(ctx, r, info)) }()
		return
	}
	written := c.node.cache.afterWrite(r, info)
	r.notify = func(r *request) {
		reply := r.reply
		r.recycle()
		c.node.unawaited.Add(-1)
		written()
		guarded(reply)
	}
	c.node.unawaited.Add(1) // from here on everybody uses the first pipe
	for {
		p, err := c.node.acquire(ctx)
		if err == nil {
			_, err = p.enqueue(ctx, r, false)
		}
		if err == nil {
			return
		}
		if ctx.Err() != nil || errors.Is(err, ErrClosed) || p == nil {
			r.recycle()
			c.node.unawaited.Add(-1)
			guarded(failedReply(err))
			return
		}
	}
}

// beginAsync encodes a command and puts panic containment and the hook around its callback. Without
// a request the callback was called already, with the reason.
func beginAsync(
	ctx context.Context, options *Options, callback func(Reply), args []any,
) (context.Context, *request, *commandInfo, func(Reply)) {
	report := func(whose string, call func()) {
		if err := contain(call); err != nil {
			options.Logger.Error("tidemill: "+whose, "error", err)
		}
	}
	guarded := func(reply Reply) { report("async callback", func() { callback(reply) }) }
	r := newRequest()
	var err error
	if r.wire, err = appendCommand(r.wire[:0], args); err != nil {
		r.recycle()
		guarded(failedReply(err))
		return ctx, nil, nil, nil
	}
	info := describe(args)
	if options.Hook == nil {
		return ctx, r, info, guarded
	}
	ctx, end := options.Hook.Start(ctx, info.name, 1)
	return ctx, r, info, func(reply Reply) {
		report("end of a hook", func() { end(reply.Err()) })
		guarded(reply)
	}
}
