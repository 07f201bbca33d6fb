package tidemill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// startOneNodeCluster makes a cluster of one server.
func startOneNodeCluster(t *testing.T, args ...string) *testServer {
	t.Helper()
	s := startServer(t, "valkey-server",
		append([]string{"--cluster-enabled", "yes", "--cluster-port", busPortWord},
			args...)...)
	ctx := testContext(t, 20*time.Second)
	admin := newTestClient(t, s.address)
	if err := admin.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", 0, slotCount-1).Err(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, 20*time.Second, "the cluster", func() bool {
		return admin.Set(ctx, "up", 1).Err() == nil
	})
	_ = admin.Close()
	return s
}

// shutter is a client or a cluster.
type shutter interface {
	Do(ctx context.Context, args ...any) Reply
	Shutdown(ctx context.Context) error
	Stats() PipeStats
}

// newShutter makes a client of a cluster of one server, or of that server alone.
func newShutter(t *testing.T, ctx context.Context, address string, cluster bool) shutter {
	t.Helper()
	if !cluster {
		return newTestClient(t, address)
	}
	whole, err := NewCluster(ctx, []string{address}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

// A server that does not answer holds Shutdown up to its deadline and no longer.
func TestShutdown_EndsAtItsDeadline(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		t.Run(fmt.Sprint("cluster ", cluster), func(t *testing.T) {
			checkLeaks(t)
			ctx := testContext(t, 30*time.Second)
			s := startOneNodeCluster(t)
			c := newShutter(t, ctx, s.address, cluster)
			blocked, pending := make(chan error, 1), make(chan error, 1)
			go func() { blocked <- c.Do(ctx, "BLPOP", "list", 0).Err() }()
			admin := newTestClient(t, s.address)
			waitFor(t, 20*time.Second, "the blocked command", func() bool {
				text, err := admin.Do(ctx, "CLIENT", "LIST").Text()
				return err == nil && strings.Contains(text, "cmd=blpop")
			})
			_ = admin.Close()
			if err := c.Do(ctx, "GET", "k").Err(); err != nil {
				t.Fatal(err)
			}
			s.pause(t)
			defer s.resume(t)
			go func() { pending <- c.Do(ctx, "INCR", "k").Err() }()
			waitFor(t, 20*time.Second, "a pending request", func() bool {
				return c.Stats().Pending == 1
			})
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			if err := c.Shutdown(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Error("Shutdown:", err)
			}
			for _, ended := range []chan error{blocked, pending} {
				if err := <-ended; !errors.Is(err, ErrMaybeSent) || !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			}
			if err := c.Shutdown(ctx); err != nil {
				t.Error("a second time:", err)
			}
			if err := c.Do(ctx, "GET", "k").Err(); !errors.Is(err, ErrNotSent) ||
				!errors.Is(err, ErrClosed) {
				t.Error("afterwards:", err)
			}
		})
	}
}

// Callers that go on asking do not keep Shutdown waiting: what they ask after it began is refused,
// what they asked before is answered.
func TestShutdown_EndsUnderLoadWithoutUnknownOutcomes(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		t.Run(fmt.Sprint("cluster ", cluster), func(t *testing.T) {
			checkLeaks(t)
			ctx := testContext(t, 30*time.Second)
			s := startOneNodeCluster(t)
			c := newShutter(t, ctx, s.address, cluster)
			var group sync.WaitGroup
			var started sync.WaitGroup
			for range 64 {
				started.Add(1)
				group.Go(func() {
					ready := sync.OnceFunc(started.Done)
					defer ready()
					for n := 0; ; n++ {
						err := c.Do(ctx, "INCR", "k").Err()
						if n == 10 {
							ready()
						}
						if err == nil {
							continue
						}
						if !errors.Is(err, ErrNotSent) || !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
				})
			}
			started.Wait()
			short, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			if err := c.Shutdown(short); err != nil {
				t.Error("Shutdown:", err)
			}
			group.Wait()
		})
	}
}

// startHolding is a cluster's only node that answers SET after release, and BLPOP never.
func startHolding(t *testing.T) (address string, arrived <-chan string, release func()) {
	commands, released := make(chan string, 100), make(chan struct{})
	address = startCommands(t, func(args []string) string {
		switch args[0] {
		case "CLUSTER":
			return slotsAnswer(address)
		case "SET":
			commands <- args[0]
			<-released
		case "BLPOP":
			commands <- args[0]
			return ""
		case "EXEC":
			return "*1\r\n+OK\r\n"
		}
		return "+OK\r\n"
	})
	release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	return address, commands, release
}

// onOwn are operations on connections of their own, with a SET that is held.
var onOwn = map[string]func(ctx context.Context, c caller) error{
	"large batch": func(ctx context.Context, c caller) error {
		var b Batch
		b.Add("GET", "k")
		b.Add("SET", "k", strings.Repeat("x", batchOwnBytes))
		_, err := c.RunBatch(ctx, &b)
		return err
	},
	"dedicated command": func(ctx context.Context, c caller) error {
		d, err := dedicated(ctx, c)
		if err != nil {
			return err
		}
		defer d.Close()
		return d.Set(ctx, "k", 1).Err()
	},
	"dedicated transaction": func(ctx context.Context, c caller) error {
		d, err := dedicated(ctx, c)
		if err != nil {
			return err
		}
		defer d.Close()
		_, err = d.RunTx(ctx, oneSet())
		return err
	},
	// Its transaction is run when Shutdown waits already.
	"watch": func(ctx context.Context, c caller) error {
		_, err := c.Watch(ctx, func(d *Dedicated) (*Tx, error) {
			return oneSet(), d.Set(ctx, "other", 1).Err()
		}, "k")
		return err
	},
}

func oneSet() *Tx {
	var tx Tx
	tx.Add("SET", "k", 1)
	return &tx
}

// callers are a client and a cluster of the same server.
func callers(t *testing.T, address string, change ...func(*Options)) []caller {
	return []caller{
		newTestClient(t, address, change...), newSeededCluster(t, address, change...),
	}
}

// eachOnOwn calls check beside each operation of onOwn, of a client and of a cluster, once its SET
// has arrived. What the operation ends with comes by ended.
func eachOnOwn(
	ctx context.Context, t *testing.T,
	check func(what string, c caller, ended <-chan error, release func()),
) {
	for what, run := range onOwn {
		for which := range 2 {
			address, arrived, release := startHolding(t)
			c := callers(t, address)[which]
			ended := make(chan error, 1)
			go func() { ended <- run(ctx, c) }()
			<-arrived
			check(what, c, ended, release)
		}
	}
}

func TestShutdown_WaitsForConnectionsOfTheirOwn(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 20*time.Second)
	eachOnOwn(ctx, t, func(what string, c caller, ended <-chan error, release func()) {
		closed := make(chan error, 1)
		go func() { closed <- c.Shutdown(ctx) }()
		waitFor(t, 10*time.Second, "the refusal of what is new", func() bool {
			return c.Do(ctx, "PING").Err() != nil
		})
		select {
		case err := <-closed:
			t.Errorf("%T: Shutdown did not wait for a %s: %v", c, what, err)
			closed <- err
		case <-time.After(20 * time.Millisecond):
		}
		release()
		if err := <-ended; err != nil {
			t.Errorf("%T: %s: %v", c, what, err)
		}
		if err := <-closed; err != nil {
			t.Errorf("%T: Shutdown beside a %s: %v", c, what, err)
		}
	})
}

func TestShutdown_EndsConnectionsOfTheirOwnAtItsDeadline(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 20*time.Second)
	eachOnOwn(ctx, t, func(what string, c caller, ended <-chan error, release func()) {
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		if err := c.Shutdown(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%T: Shutdown beside a %s: %v", c, what, err)
		}
		cancel()
		if err := <-ended; !errors.Is(err, ErrMaybeSent) || !errors.Is(err, ErrClosed) {
			t.Errorf("%T: %s: %v", c, what, err)
		}
		release()
	})
}

// Blocked commands, and a Dedicated between two commands, are no pending work.
func TestShutdown_DoesNotWaitForWhatIsBlockedOrIdle(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 20*time.Second)
	body := func(d *Dedicated) (*Tx, error) { return nil, d.BLPop(ctx, []string{"k"}, 0).Err() }
	for which := range 2 {
		address, arrived, _ := startHolding(t)
		c := callers(t, address)[which]
		idle, err := dedicated(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		busy, err := dedicated(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 3)
		go func() { ended <- c.Do(ctx, "BLPOP", "k", 0).Err() }()
		go func() { ended <- busy.BLPop(ctx, []string{"k"}, 0).Err() }()
		go func() {
			_, err := c.Watch(ctx, body, "k")
			ended <- err
		}()
		for range cap(ended) {
			<-arrived
		}
		limited, cancel := context.WithTimeout(ctx, busyMachine/6)
		if err := c.Shutdown(limited); err != nil {
			t.Errorf("%T: %v", c, err)
		}
		cancel()
		for range cap(ended) {
			if err := <-ended; !errors.Is(err, ErrMaybeSent) || !errors.Is(err, ErrClosed) {
				t.Errorf("%T: what was blocked: %v", c, err)
			}
		}
		for _, late := range []func() error{
			func() error { return idle.Set(ctx, "k", 1).Err() },
			func() error { return idle.BLPop(ctx, []string{"k"}, 0).Err() },
			func() error { return c.Do(ctx, "BLPOP", "k", 0).Err() },
			func() error { _, err := c.Watch(ctx, body, "k"); return err },
			func() error { _, err := dedicated(ctx, c); return err },
		} {
			if err := late(); !errors.Is(err, ErrNotSent) || !errors.Is(err, ErrClosed) {
				t.Errorf("%T: afterwards: %v", c, err)
			}
		}
		idle.Close()
		busy.Close()
	}
}

// A caller who waits for a connection, during a dial or between two, is told that the client was
// closed.
func TestShutdown_EndsDialsAndTheirPauses(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 20*time.Second)
	for what, hangs := range map[string]bool{"dial": true, "pause": false} {
		for line, args := range map[string][]any{"shared": {"GET", "k"}, "own": {"BLPOP", "k", 0}} {
			dialed := make(chan struct{}, 100)
			c := newTestClient(t, "nowhere", func(o *Options) {
				o.BackoffMin, o.BackoffMax, o.ConnectWait = time.Hour, time.Hour, 3*time.Hour
				o.DialTimeout = time.Hour
				o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
					dialed <- struct{}{}
					if hangs {
						<-ctx.Done()
					}
					return nil, errors.New("planted refusal")
				}
			})
			ended := make(chan error, 1)
			go func() { ended <- c.Do(ctx, args...).Err() }()
			<-dialed
			if !hangs {
				time.Sleep(10 * time.Millisecond) // for the pause to begin
			}
			if err := c.Shutdown(ctx); err != nil {
				t.Error(what, line, err)
			}
			var err error
			select {
			case err = <-ended:
			case <-time.After(busyMachine / 6):
			}
			if !errors.Is(err, ErrNotSent) || !errors.Is(err, ErrClosed) ||
				errors.Is(err, context.Canceled) {
				t.Error(what, line, err)
			}
		}
	}
}
