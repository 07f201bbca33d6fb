package tidemill

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// caller is a client or a cluster.
type caller interface {
	shutter
	Cached(ttl time.Duration) *Cached
	Go(ctx context.Context, args ...any) *Future
	RunBatch(ctx context.Context, b *Batch) ([]Reply, error)
	RunTx(ctx context.Context, tx *Tx) ([]Reply, error)
	Subscribe(ctx context.Context, options SubscribeOptions) (*Subscription, error)
	Watch(
		ctx context.Context, body func(d *Dedicated) (*Tx, error), keys ...string,
	) ([]Reply, error)
}

func dedicated(ctx context.Context, c caller) (*Dedicated, error) {
	if cluster, ok := c.(*Cluster); ok {
		return cluster.Dedicate(ctx, "k")
	}
	return c.(*Client).Dedicate(ctx)
}

// unanswered are operations of which a silent server answers nothing that matters.
var unanswered = map[string]func(ctx context.Context, c caller) error{
	"command": func(ctx context.Context, c caller) error { return c.Do(ctx, "INCR", "k").Err() },
	"lone command": func(ctx context.Context, c caller) error {
		for range soloStreak + 1 {
			_ = c.Do(context.Background(), "PING")
		}
		return c.Do(ctx, "INCR", "k").Err()
	},
	"future": func(ctx context.Context, c caller) error {
		wait := ctx
		if ctx.Err() != nil {
			wait = context.Background() // it is not sent, and ends by itself
		}
		return c.Go(ctx, "INCR", "k").Wait(wait).Err()
	},
	"cached": func(ctx context.Context, c caller) error { return c.Cached(0).Get(ctx, "k").Err() },
	"batch": func(ctx context.Context, c caller) error {
		var b Batch
		b.Add("INCR", "k")
		b.Add("TYPE", "k")
		_, err := c.RunBatch(ctx, &b)
		return err
	},
	"transaction": func(ctx context.Context, c caller) error {
		var tx Tx
		tx.Add("INCR", "k")
		_, err := c.RunTx(ctx, &tx)
		return err
	},
	"blocking": func(ctx context.Context, c caller) error {
		return c.Do(ctx, "BLPOP", "k", 0).Err()
	},
	"dedicated": func(ctx context.Context, c caller) error {
		d, err := dedicated(context.Background(), c)
		if err != nil {
			return err
		}
		defer d.Close()
		return d.Incr(ctx, "k").Err()
	},
	"watch": func(ctx context.Context, c caller) error {
		_, err := c.Watch(ctx, func(*Dedicated) (*Tx, error) { return nil, nil }, "k")
		return err
	},
	"subscription": func(ctx context.Context, c caller) error {
		_, err := c.Subscribe(ctx, SubscribeOptions{Channels: []string{"k"}})
		return err
	},
	"change of a subscription": func(ctx context.Context, c caller) error {
		sub, err := c.Subscribe(context.Background(), SubscribeOptions{Channels: []string{"first"}})
		if err != nil {
			return err
		}
		defer sub.Close()
		return sub.Subscribe(ctx, "k")
	},
}

// startSilent is a cluster's only node, which tells what arrives of the operations above instead of
// answering it.
func startSilent(t *testing.T) (address string, arrived <-chan string) {
	commands := make(chan string, 100)
	address = startCommands(t, func(args []string) string {
		switch args[0] {
		case "CLUSTER":
			return slotsAnswer(address)
		case "INCR", "BLPOP", "WATCH", "GET":
			commands <- args[0]
			return ""
		case "SUBSCRIBE":
			if args[1] == "first" {
				return "*3\r\n$9\r\nsubscribe\r\n$5\r\nfirst\r\n:1\r\n"
			}
			commands <- args[0]
			return ""
		}
		return "+OK\r\n"
	})
	return address, commands
}

// The cause of a context is often the failure of another operation, as errgroup makes it. What that
// says of its own outcome is not said of the operation that ends with the context.
func TestErrors_ContextsCauseDoesNotTellTheOutcome(t *testing.T) {
	checkLeaks(t)
	mine, refusal := errors.New("the caller's own"), newServerError("READONLY no")
	over, end := context.WithCancelCause(context.Background())
	end(maybeSent(mine))
	address, arrived := startSilent(t)
	for what, run := range unanswered {
		for _, cause := range []error{notSent(mine), maybeSent(mine),
			errors.Join(mine, ErrNotSent, ErrMaybeSent, ErrTxAborted, refusal)} {
			for _, sent := range []bool{false, true} {
				for _, c := range []caller{newTestClient(t, address, withCache),
					newSeededCluster(t, address, withCache)} {
					ctx, cancel := context.WithCancelCause(testContext(t, 20*time.Second))
					ended, stage := make(chan error, 1), ErrNotSent
					if sent {
						stage = ErrMaybeSent
						go func() { ended <- run(ctx, c) }()
						<-arrived
						cancel(cause)
					} else {
						cancel(cause)
						ended <- run(ctx, c)
					}
					err := <-ended
					if !errors.Is(err, stage) || errors.Is(err, ErrNotSent) == sent {
						t.Errorf("%T's %s, wanted %v: %v", c, what, stage, err)
					}
					var answer *ServerError
					if !errors.Is(err, context.Canceled) || !errors.Is(err, mine) ||
						errors.Is(err, ErrTxAborted) || errors.Is(err, ServerCode("READONLY")) ||
						errors.As(err, &answer) {
						t.Errorf("%T's %s: cause %v became %v", c, what, cause, err)
					}
					if err := c.Shutdown(over); errors.Is(err, ErrMaybeSent) {
						t.Errorf("%T's Shutdown beside a %s: %v", c, what, err)
					}
				}
			}
		}
	}
}

// A Dialer or Credentials may return what another client's operation ended with.
func TestErrors_DialersErrorDoesNotTellTheOutcome(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 20*time.Second)
	s := startServer(t, "valkey-server")
	mine := errors.New("the caller's own")
	for _, foreign := range []error{maybeSent(mine), errors.Join(ErrNotSent, ErrMaybeSent, mine)} {
		for _, change := range []func(*Options){
			func(o *Options) {
				o.Dialer = func(context.Context, string, string) (net.Conn, error) {
					return nil, foreign
				}
			},
			func(o *Options) {
				o.Credentials = func(context.Context) (string, string, error) {
					return "", "", foreign
				}
			},
		} {
			c := newTestClient(t, s.address, change, func(o *Options) {
				o.ConnectWait = 20 * time.Millisecond
			})
			for what, run := range unanswered {
				if what == "change of a subscription" || what == "dedicated" ||
					what == "lone command" {
					continue
				}
				// It may end before the first attempt to connect does.
				waitFor(t, 5*time.Second, "the cause of "+what, func() bool {
					err := run(ctx, c)
					if !errors.Is(err, ErrNotSent) || errors.Is(err, ErrMaybeSent) {
						t.Error(what, err)
					}
					return errors.Is(err, mine)
				})
			}
		}
	}
}

func TestErrors_EndOfAContextKeepsItsCause(t *testing.T) {
	plain, cancel := context.WithCancel(context.Background())
	cancel()
	if err := endOf(plain); err != context.Canceled {
		t.Error(err)
	}
	short, cancel := context.WithTimeoutCause(context.Background(), 0, notSent(ErrNoNode))
	defer cancel()
	if err := endOf(short); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err,
		ErrNoNode) || errors.Is(err, ErrNotSent) {
		t.Error(err)
	}
	parts := joinFailures(notSent(ErrNoNode), maybeSent(ErrTimeout))
	if !errors.Is(parts, ErrMaybeSent) || errors.Is(parts, ErrNotSent) ||
		!errors.Is(parts, ErrNoNode) || !errors.Is(parts, ErrTimeout) {
		t.Error(parts)
	}
}
