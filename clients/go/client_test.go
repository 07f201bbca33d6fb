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

func TestClient_SetGetRoundTripsValuesOfAllSizes(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		c := newTestClient(t, s.address)
		ctx := testContext(t, 20*time.Second)
		for _, size := range []int{0, 1, 100, 4096, 32 << 10, 70 << 10, 3 << 20} {
			value := strings.Repeat("x", size)
			if err := c.Do(ctx, "SET", "key", value).Err(); err != nil {
				t.Fatal(size, err)
			}
			got, err := c.Do(ctx, "GET", "key").Text()
			if err != nil || got != value {
				t.Fatalf("size %d: %d bytes, %v", size, len(got), err)
			}
		}
		if reply := c.Do(ctx, "GET", "absent"); !reply.IsNil() {
			t.Fatal("absent key:", reply)
		}
		if err := c.Do(ctx, "INCR", "key").Err(); !errors.Is(err, ServerCode("ERR")) {
			t.Fatal("INCR of a text:", err)
		}
	})
}

func TestClient_RepliesReachTheirCallers(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		c := newTestClient(t, s.address)
		var group sync.WaitGroup
		for worker := range 64 {
			group.Go(func() {
				ctx := testContext(t, 30*time.Second)
				for i := range 200 {
					key := fmt.Sprintf("k:%d:%d", worker, i)
					if err := c.Set(ctx, key, "value of "+key).Err(); err != nil {
						t.Error(err)
						return
					}
					if got, err := c.Get(ctx, key).Text(); err != nil || got != "value of "+key {
						t.Errorf("%s: got %q, %v", key, got, err)
						return
					}
				}
			})
		}
		group.Wait()
		if stats := c.Stats(); stats.Requests < 64*400 || stats.Writes >= stats.Requests {
			t.Errorf("no gathering: %+v", stats)
		}
	})
}

func TestClient_CancelledRepliesAreSkippedInOrder(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		c := newTestClient(t, s.address)
		ctx := testContext(t, 30*time.Second)
		if err := c.Connect(ctx); err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			short, cancel := context.WithTimeout(ctx, time.Duration(i%40)*5*time.Microsecond)
			text := fmt.Sprint("late ", i)
			got, err := c.Echo(short, text).Text()
			cancel()
			if err == nil && got != text {
				t.Fatalf("got %q for %q", got, text)
			}
			if err != nil && errors.Is(err, ErrNotSent) == errors.Is(err, ErrMaybeSent) {
				t.Fatal("error says neither or both:", err)
			}
			text = fmt.Sprint("next ", i)
			if got, err := c.Echo(ctx, text).Text(); err != nil || got != text {
				t.Fatalf("got %q, %v for %q", got, err, text)
			}
		}
	})
}

func TestClient_DeadlineHoldsWhileQueueIsFull(t *testing.T) {
	checkLeaks(t)
	s := startServer(t, "valkey-server")
	c := newTestClient(t, s.address, func(o *Options) { o.MaxPending = 8 })
	ctx := testContext(t, 30*time.Second)
	if err := c.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	s.pause(t)
	defer s.resume(t)
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			started := time.Now()
			err := c.Do(short, "PING").Err()
			if took := time.Since(started); took > 5*time.Second {
				t.Errorf("deadline of 20 ms took %v", took)
			}
			if !errors.Is(err, context.DeadlineExceeded) ||
				errors.Is(err, ErrNotSent) == errors.Is(err, ErrMaybeSent) {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestClient_ReconnectsAfterRestart(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		c := newTestClient(t, s.address)
		ctx := testContext(t, 30*time.Second)
		for range 3 {
			if err := c.Do(ctx, "PING").Err(); err != nil {
				t.Fatal(err)
			}
			s.stop()
			time.Sleep(300 * time.Millisecond) // the idle reader notices
			s.start(t)
			if err := c.Do(ctx, "SET", "k", "v").Err(); err != nil {
				t.Fatal("first write after a restart:", err)
			}
		}
	})
}

func TestClient_UnreachableServerIsNotSentWithinContext(t *testing.T) {
	checkLeaks(t)
	for _, limit := range []struct {
		context,
		connecting time.Duration
	}{{time.Hour, 200 * time.Millisecond}, {50 * time.Millisecond, time.Hour}} {
		c := newTestClient(t, fmt.Sprintf("127.0.0.1:%d", freePort(t)), func(o *Options) {
			o.ConnectWait = limit.connecting
		})
		ctx, cancel := context.WithTimeout(context.Background(), limit.context)
		defer cancel()
		if err := c.Do(ctx, "SET", "k", "v").Err(); !errors.Is(err, ErrNotSent) {
			t.Fatal(err)
		}
	}
}

func TestClient_WrongPasswordFailsAtOnceWithoutShowingIt(t *testing.T) {
	checkLeaks(t)
	s := startServer(t, "valkey-server", "--requirepass", "right-secret")
	c := newTestClient(t, s.address, func(o *Options) { o.Password = "wrong-secret" })
	err := c.Connect(testContext(t, 5*time.Second))
	if !errors.Is(err, ServerCode("WRONGPASS")) || strings.Contains(err.Error(), "wrong-secret") {
		t.Fatal(err)
	}
	good := newTestClient(t, s.address, func(o *Options) { o.Password = "right-secret" })
	if err := good.Connect(testContext(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
}

func TestClient_CloseDrainsAndRefuses(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		c := newTestClient(t, s.address)
		ctx := testContext(t, 10*time.Second)
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() {
				if err := c.Do(ctx, "RPUSH", "list", i).Err(); err != nil &&
					!errors.Is(err, ErrNotSent) {
					t.Error(err)
				}
			})
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		group.Wait()
		if err := c.Do(ctx, "PING").Err(); !errors.Is(err, ErrClosed) ||
			!errors.Is(err, ErrNotSent) {
			t.Error(err)
		}
	})
}
