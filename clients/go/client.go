package tidemill

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Client talks to one server. Its methods may be called from any number of goroutines; they share
// one connection. Make one Client per server and keep it.
type Client struct {
	Commands
	options  *Options
	node     *node
	own      *ownPool
	follower *follower // sentinels name the server; nil otherwise
	closed   atomic.Bool
	life     context.Context // of subscriptions
	endLife  context.CancelFunc
}

// New returns a client; it connects when first used. Only invalid options are an error.
func New(options Options) (*Client, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	filled := options.withDefaults()
	c := &Client{options: filled, node: newNode(filled.Address, filled)}
	c.node.useCache(newCache(filled.Cache))
	c.own = newOwnPool(c.node)
	c.life, c.endLife = context.WithCancel(context.Background())
	c.Commands = Commands{c}
	return c, nil
}

// Connect connects now, so that wrong addresses or passwords show at start.
func (c *Client) Connect(ctx context.Context) error {
	_, err := c.node.acquire(ctx)
	return err
}

// Do runs one command and waits for its reply. Arguments are strings, byte slices, integers,
// floats, booleans (1 or 0), time.Duration (nanoseconds) and time.Time (RFC 3339).
//
// Commands that block or watch are given a connection of their own; those that subscribe are
// refused, see Subscribe. The reply's Err is the server's error, or wraps ErrNotSent or
// ErrMaybeSent.
func (c *Client) Do(ctx context.Context, args ...any) Reply {
	r := newRequest()
	var err error
	if r.wire, err = appendCommand(r.wire[:0], args); err != nil {
		r.recycle()
		return failedReply(err)
	}
	return c.run(ctx, r, describe(args))
}

// run sends one encoded command to where its row of the table says.
func (c *Client) run(ctx context.Context, r *request, info *commandInfo) Reply {
	if c.options.Hook != nil {
		return observe(ctx, c.options.Hook, info.name, r.want,
			func(ctx context.Context) Reply {
				return c.route(ctx, r, info)
			})
	}
	return c.route(ctx, r, info)
}

func (c *Client) route(ctx context.Context, r *request, info *commandInfo) Reply {
	if c.node.cache != nil {
		defer c.node.cache.afterWrite(r, info)()
	}
	if info.needsOwn(r.wire) {
		return c.own.run(ctx, r, info, info.mayBlock(r.wire))
	}
	return sendTo(ctx, c.node, r, info.flags, c.options)
}

// sendTo runs r on a node's pipe and recycles it. What was not sent is sent again, reads also when
// their outcome is unknown, within the context and ConnectWait.
func sendTo(ctx context.Context, n *node, r *request, flags commandFlags, options *Options) Reply {
	p, err := n.choose(ctx)
	if err != nil {
		r.recycle()
		return failedReply(err)
	}
	reply, reusable := p.do(ctx, r)
	if reply.kind == KindNone && reusable {
		return sendAgain(ctx, n, r, reply, flags, options)
	}
	if reusable {
		r.recycle()
	}
	return reply
}

// sendAgain is the slow path of sendTo, after a first failure.
func sendAgain(
	ctx context.Context, n *node, r *request, reply Reply, flags commandFlags, options *Options,
) Reply {
	until, want := time.Now().Add(options.ConnectWait), r.want
	for mayRepeat(ctx, reply.Err(), flags, options) && time.Now().Before(until) {
		p, err := n.choose(ctx)
		if err != nil {
			if errors.Is(reply.Err(), ErrNotSent) {
				reply = failedReply(err)
			}
			break
		}
		r.rearm()
		again, reusable := p.do(ctx, r)
		if reply = lastOutcome(reply, again, flags, want); !reusable {
			return reply
		}
		if again.kind != KindNone {
			break
		}
	}
	r.recycle()
	return reply
}

// mayRepeat decides by the error alone whether a failed request may be sent again.
func mayRepeat(ctx context.Context, err error, flags commandFlags, options *Options) bool {
	return !errors.Is(err, ErrClosed) && mayRepeatOpen(ctx, err, flags, options)
}

// mayRepeatOpen is mayRepeat where ErrClosed does not mean the end: a cluster closes connections to
// nodes that left it.
func mayRepeatOpen(ctx context.Context, err error, flags commandFlags, options *Options) bool {
	if ctx.Err() != nil || errors.Is(err, ErrArgument) {
		return false
	}
	if errors.Is(err, ErrNotSent) {
		return true
	}
	if errors.Is(err, ErrProtocol) {
		// The same answer would end the next connection, and everybody's requests on it.
		return false
	}
	safe := flags&commandReads != 0 && !options.NoRetry || idempotent(ctx)
	return errors.Is(err, ErrMaybeSent) && safe
}

type idempotentKey struct{}

// WithIdempotent marks the operations under ctx as safe to repeat when their outcome is unknown.
func WithIdempotent(ctx context.Context) context.Context {
	return context.WithValue(ctx, idempotentKey{}, true)
}

func idempotent(ctx context.Context) bool { return ctx.Value(idempotentKey{}) != nil }

// Shutdown refuses new operations and ends subscriptions, waits for pending ones while ctx lasts,
// then closes all connections and with them blocked commands. A Watch is pending until it returns,
// a [Dedicated] only during a command. The error is the context's, when something was still
// pending: that ends with ErrMaybeSent or ErrNotSent, and ErrClosed, as blocked commands do.
func (c *Client) Shutdown(ctx context.Context) error {
	if c.closed.Swap(true) {
		return nil
	}
	c.endLife()
	if c.follower != nil {
		c.follower.stop()
		c.follower.group.Wait()
	}
	c.own.refuse()
	c.node.refuse()
	err := errors.Join(c.own.drain(ctx), c.node.close(ctx))
	c.own.close()
	return err
}

// Close is Shutdown with the IO timeout as deadline, at least a second.
func (c *Client) Close() error { return closeWithin(c.options, c.Shutdown) }

func closeWithin(options *Options, shutdown func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), max(options.IOTimeout, time.Second))
	defer cancel()
	return shutdown(ctx)
}

// Stats returns what the client's pipes counted since they were connected.
func (c *Client) Stats() (total PipeStats) {
	for _, p := range c.node.pipes() {
		total.add(p.snapshot())
	}
	return total
}
