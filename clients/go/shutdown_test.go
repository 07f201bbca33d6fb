package tidemill

import (
	"context"
	"errors"
	"fmt"
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
				if err := <-ended; !errors.Is(err, ErrMaybeSent) {
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
