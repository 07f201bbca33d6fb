package tidemill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func withCache(o *Options) { o.Cache = &CacheOptions{} }

// cacheTest is a client with a cache, and another client that changes the server's data.
type cacheTest struct {
	c, other *Client
	cached   *Cached
	ctx      context.Context
}

func newCacheTest(t *testing.T, s *testServer) *cacheTest {
	c := newTestClient(t, s.address, withCache)
	return &cacheTest{
		c, newTestClient(t, s.address), c.Cached(0), testContext(t, 20*time.Second),
	}
}

// get requires a value of the key "k"; "nil" if it must not exist.
func (ct *cacheTest) get(t *testing.T, want string) {
	t.Helper()
	got, err := ct.cached.Get(ct.ctx, "k").Text()
	if errors.Is(err, ErrNil) {
		got, err = "nil", nil
	}
	if got != want || err != nil {
		t.Fatalf("got %q, %v, wanted %q", got, err, want)
	}
}

// change runs a command of the other client; its invalidation, which the server pushed before PONG,
// was processed when it returns.
func (ct *cacheTest) change(t *testing.T, args ...any) {
	t.Helper()
	if err := errors.Join(ct.other.Do(ct.ctx, args...).Err(), ct.c.Ping(ct.ctx).Err()); err != nil {
		t.Fatal(err)
	}
}

func TestCached_ServesFromMemoryUntilTheKeyChanges(t *testing.T) {
	eachCachingServer(t, func(t *testing.T, s *testServer) {
		ct := newCacheTest(t, s)
		c := ct.c
		get := func(want string) { t.Helper(); ct.get(t, want) }
		changed := func(args ...any) { t.Helper(); ct.change(t, args...) }
		hits := func(want uint64) {
			t.Helper()
			if got := c.CacheStats().Hits; got != want {
				t.Fatalf("%d hits, wanted %d", got, want)
			}
		}
		get("nil")
		get("nil")
		hits(1)
		changed("SET", "k", "1")
		get("1")
		get("1")
		hits(2)
		alive := func(life time.Duration) bool {
			started := time.Now()
			changed("SET", "k", "2", "PX", life.Milliseconds())
			before := c.CacheStats().Hits
			first, _ := ct.cached.Get(ct.ctx, "k").Text()
			second, _ := ct.cached.Get(ct.ctx, "k").Text()
			if time.Since(started) >= life {
				return false // on a busy machine
			}
			if first != "2" || second != "2" || c.CacheStats().Hits != before+1 {
				t.Fatalf("got %q and %q, %d hits", first, second, c.CacheStats().Hits-before)
			}
			return true
		}
		life := 60 * time.Millisecond
		for !alive(life) {
			life *= 2
		}
		// the key's own end, which the server may not have noticed
		time.Sleep(life + 10*time.Millisecond)
		before := c.CacheStats().Hits
		get("nil")
		changed("SET", "k", "3")
		get("3")
		changed("FLUSHALL")
		get("nil")
		hits(before)
		if stats := c.CacheStats(); stats.Invalidations == 0 || stats.Bytes == 0 ||
			stats.Entries != 1 {
			t.Errorf("%+v", stats)
		}
	})
}

func TestCached_RepliesBelongToTheCaller(t *testing.T) {
	eachCachingServer(t, func(t *testing.T, s *testServer) {
		ct := newCacheTest(t, s)
		ctx, cached := ct.ctx, ct.cached
		if data, err := cached.Do(ctx, "GETRANGE", "k", 0, -1).Bytes(); err != nil ||
			len(data) != 0 {
			t.Error(data, err)
		}
		ct.change(t, "SET", "k", "shared")
		data, _ := cached.Get(ctx, "k").Bytes()
		copy(data, "xxxxxx")
		ct.get(t, "shared")
		ct.change(t, "RPUSH", "list", "a", "b")
		for range 2 {
			items, err := cached.Do(ctx, "LRANGE", "list", 0, -1).Array()
			if err != nil || len(items) != 2 || items[0].String() != "a" {
				t.Error(items, err)
			}
			items[0] = Reply{} // the caller's own
		}
		if err := cached.Do(ctx, "HGET", "k", "f").Err(); !errors.Is(err, ServerCode("WRONGTYPE")) {
			t.Error(err)
		}
	})
}

// Replies that depend on other keys than their own, or on what consumers of a group have read, are
// always asked for.
func TestCached_DoesNotKeepWhatNoInvalidationTellsOf(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		ct := newCacheTest(t, s)
		ct.change(t, "RPUSH", "l", 1, 2)
		ct.change(t, "MSET", "w_1", 1, "w_2", 2)
		ct.change(t, "XADD", "s", "*", "a", 1)
		ct.change(t, "XGROUP", "CREATE", "s", "g", 0)
		for _, test := range []struct{ read, write []any }{
			{[]any{"SORT_RO", "l", "BY", "w_*", "GET", "w_*"}, []any{"MSET", "w_1", 30, "w_2", 20}},
			{[]any{"XINFO", "GROUPS", "s"},
				[]any{"XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">"}},
			{[]any{"XINFO", "STREAM", "s", "FULL"}, []any{"XACK", "s", "g", "0-1"}},
		} {
			hits := ct.c.CacheStats().Hits
			before := ct.cached.Do(ct.ctx, test.read...)
			ct.change(t, test.write...)
			after, really := ct.cached.Do(ct.ctx, test.read...), ct.other.Do(ct.ctx, test.read...)
			if errors.Is(before.Err(), ServerCode("ERR")) && test.read[0] == "SORT_RO" {
				continue // Redis 6.2 has none
			}
			if after.String() != really.String() || ct.c.CacheStats().Hits != hits {
				t.Errorf("%v: %v, really %v", test.read, after, really)
			}
		}
	})
}

func TestCached_ViewsOwnTTLHolds(t *testing.T) {
	eachCachingServer(t, func(t *testing.T, s *testServer) {
		ct := newCacheTest(t, s)
		c, ctx := ct.c, ct.ctx
		short := c.Cached(20 * time.Millisecond)
		misses := c.CacheStats().Misses
		for range 2 {
			short.Do(ctx, "STRLEN", "k")
			time.Sleep(30 * time.Millisecond)
		}
		if c.CacheStats().Misses != misses+2 {
			t.Error("the view's own TTL was ignored")
		}
	})
}

func TestCached_OwnWritesShowAtOnce(t *testing.T) {
	eachCachingServer(t, func(t *testing.T, s *testServer) {
		c := newTestClient(t, s.address, withCache)
		ctx := testContext(t, 30*time.Second)
		cached := c.Cached(0)
		d, err := c.Dedicate(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		write := []func(key string, n int) error{
			func(key string, n int) error { return c.Set(ctx, key, n).Err() },
			func(key string, n int) error { return d.Set(ctx, key, n).Err() },
			func(key string, n int) error { return c.Go(ctx, "SET", key, n).Wait(ctx).Err() },
			func(key string, n int) error {
				var b Batch
				b.Add("PING")
				b.Add("MSET", "unrelated", 1, key, n)
				_, err := c.RunBatch(ctx, &b)
				return err
			},
			func(key string, n int) error {
				var tx Tx
				tx.Add("SET", key, n)
				_, err := c.RunTx(ctx, &tx)
				return err
			},
			func(key string, n int) error {
				return c.Do(ctx, "EVAL", "return redis.call('SET', KEYS[1], ARGV[1])", 1, key,
					n).Err()
			},
			func(key string, n int) error {
				err := c.Do(ctx, "FLUSHALL").Err()
				return errors.Join(err, c.Set(ctx, key, n).Err())
			},
		}
		var group sync.WaitGroup
		for how, write := range write[:6] {
			for range 4 {
				group.Go(func() { // readers that fill the cache all the time
					for i := 0; i < 2000; i++ {
						cached.Get(ctx, fmt.Sprint("own:", how))
					}
				})
			}
			group.Go(func() {
				key := fmt.Sprint("own:", how)
				for n := range 400 {
					if err := write(key, n); err != nil {
						t.Error(how, err)
						return
					}
					if got, err := cached.Get(ctx, key).Int64(); err != nil || got != int64(n) {
						t.Errorf("write %d: wrote %d, got %d, %v", how, n, got, err)
						return
					}
				}
			})
		}
		group.Wait()
		if err := write[6]("own:6", 1); err != nil || !cached.Get(ctx, "own:0").IsNil() {
			t.Error("FLUSHALL:", err)
		}
		if stats := c.CacheStats(); stats.Hits == 0 {
			t.Errorf("nothing was served from memory: %+v", stats)
		}
	})
}

// Another client counts keys up. Once a reader's connection answered a PING sent after that, the
// invalidation is acknowledged, and an older value must never be seen again.
func TestCached_NothingStaleAfterAnAcknowledgedInvalidation(t *testing.T) {
	eachCachingServer(t, func(t *testing.T, s *testServer) {
		checkFreshness(t, s, s.address, func() bool { return true })
	})
}

// The same while connections are reset, in the middle of replies and of invalidations.
func TestCached_NothingStaleUnderResets(t *testing.T) {
	eachCachingServer(t, func(t *testing.T, s *testServer) {
		proxy := startProxy(t, s.address, func() (int, int, int, time.Duration) {
			return -1, 200 + rand.IntN(4000), 1 + rand.IntN(2000),
				time.Duration(1+rand.IntN(100)) * time.Microsecond
		})
		checkFreshness(t, s, proxy.address(), func() bool { return proxy.accepted.Load() >= 5 })
	})
}

// checkFreshness goes on until it has met hits and invalidations, and enough else.
func checkFreshness(t *testing.T, s *testServer, address string, enough func() bool) {
	c, other := newTestClient(t, address, withCache, func(o *Options) {
		o.BackoffMin = time.Millisecond
	}), newTestClient(t, s.address)
	ctx := WithIdempotent(testContext(t, 60*time.Second))
	cached := c.Cached(0)
	length := 3 * time.Second
	if testing.Short() {
		length = time.Second
	}
	stopping, stop := context.WithCancel(ctx)
	defer stop()
	var checks atomic.Int64
	var group sync.WaitGroup
	for k := range 4 {
		key := fmt.Sprint("count:", k)
		var acknowledged atomic.Int64
		group.Go(func() {
			for n := int64(1); stopping.Err() == nil; n++ {
				if err := errors.Join(other.Set(ctx, key, n).Err(), c.Ping(ctx).Err()); err != nil {
					t.Error(err)
					return
				}
				acknowledged.Store(n)
				if n%8 == 0 {
					time.Sleep(time.Millisecond) // time for hits
				}
			}
		})
		for range 3 {
			group.Go(func() {
				for i := 0; stopping.Err() == nil; i++ {
					if i%4 == 0 {
						// readers that spin would leave the writers no time
						time.Sleep(50 * time.Microsecond)
					}
					least := acknowledged.Load()
					got, err := cached.Get(ctx, key).Int64()
					if err != nil && !errors.Is(err, ErrNil) || got < least {
						t.Errorf("%s: got %d, %v after %d was acknowledged", key, got, err, least)
						return
					}
					checks.Add(1)
				}
			})
		}
	}
	time.Sleep(length)
	waitFor(t, 30*time.Second, "hits, invalidations and resets", func() bool {
		stats := c.CacheStats()
		return stats.Hits > 0 && stats.Invalidations >= 20 && enough() || t.Failed()
	})
	stop()
	group.Wait()
	t.Logf("%d checks, %+v", checks.Load(), c.CacheStats())
}

func TestCached_ReconnectionDropsEverything(t *testing.T) {
	eachCachingServer(t, func(t *testing.T, s *testServer) {
		proxy := startProxy(t, s.address, func() (int, int, int, time.Duration) {
			return -1, -1, 4096, 0
		})
		c := newTestClient(t, proxy.address(), withCache, func(o *Options) {
			o.BackoffMax, o.ConnectWait = o.BackoffMin, busyMachine
		})
		other := newTestClient(t, s.address)
		ctx := testContext(t, 30*time.Second)
		cached := c.Cached(0)
		for n := range 20 {
			if err := other.Set(ctx, "k", n).Err(); err != nil {
				t.Fatal(err)
			}
			_ = c.Do(WithIdempotent(ctx), "PING").Err()
			for range 3 {
				if got, err := cached.Get(ctx, "k").Int64(); err != nil || got != int64(n) {
					t.Fatal(n, got, err)
				}
			}
			proxy.cutAll()
			// This change's invalidation has no connection to arrive on.
			if err := other.Set(ctx, "k", n+100).Err(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, 5*time.Second, "the loss to be noticed", func() bool {
				p := c.node.current.Load()
				return p == nil || p.gone.Load()
			})
			if got, err := cached.Get(ctx, "k").Int64(); err != nil || got != int64(n+100) {
				t.Fatal("after a reconnection:", n, got, err)
			}
		}
	})
}

func TestCached_ConcurrentMissesAreSentOnce(t *testing.T) {
	eachCachingServer(t, func(t *testing.T, s *testServer) {
		c := newTestClient(t, s.address, withCache)
		ctx := testContext(t, 30*time.Second)
		if err := c.Set(ctx, "k", "v").Err(); err != nil {
			t.Fatal(err)
		}
		s.pause(t)
		cached := c.Cached(0)
		// The first caller gives up; its flight goes on for the others.
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := cached.Get(short, "k").Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				if got, err := cached.Get(ctx, "k").Text(); got != "v" || err != nil {
					t.Error(got, err)
				}
			})
		}
		waitFor(t, 10*time.Second, "all callers", func() bool { return c.CacheStats().Hits == 100 })
		s.resume(t)
		group.Wait()
		if count := executedGets(t, []*testServer{s})[0]; count != 1 {
			t.Error("GET was executed", count, "times")
		}
	})
}

func TestCached_StaysWithinItsBytes(t *testing.T) {
	checkLeaks(t)
	s := startServer(t, "valkey-server")
	const limit = 1 << 20
	c := newTestClient(t, s.address, func(o *Options) { o.Cache = &CacheOptions{MaxBytes: limit} })
	ctx := testContext(t, 5*time.Minute)
	cached := c.Cached(0)
	value := strings.Repeat("v", 1000)
	for i := range 3000 {
		key := fmt.Sprint("key:", i)
		if err := c.Set(ctx, key, value).Err(); err != nil {
			t.Fatal(err)
		}
		if got, err := cached.Get(ctx, key).Text(); err != nil || got != value {
			t.Fatal(len(got), err)
		}
		cached.Get(ctx, "key:0") // used all the time: stays
	}
	stats := c.CacheStats()
	if stats.Bytes > limit || stats.Bytes < limit/2 || stats.Evictions < 1500 || stats.Hits < 2900 {
		t.Errorf("%+v", stats)
	}
	if err := c.Set(ctx, "large", strings.Repeat("v", limit)).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := cached.Get(ctx, "large").Text(); err != nil || len(got) != limit {
		t.Error(len(got), err)
	}
	if c.CacheStats().Bytes > limit {
		t.Error("a reply larger than the cache is in it")
	}
	_, err := New(Options{Cache: &CacheOptions{}, ForceRESP2: true})
	if !errors.Is(err, ErrArgument) {
		t.Error(err)
	}
}

func TestCached_InAClusterFollowsAMovingSlot(t *testing.T) {
	c, servers := startClusterClient(t, withCache)
	ctx := testContext(t, 40*time.Second)
	cached := c.Cached(0)
	for i := range 50 {
		if err := c.Set(ctx, fmt.Sprintf("{moving}%d", i), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	whileSlotMoves(t, servers, slotOf([]byte("moving")), func(round int) {
		for i := range 50 {
			key := fmt.Sprintf("{moving}%d", i)
			if err := c.Set(ctx, key, round).Err(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got, err := cached.Get(ctx, key).Int64(); err != nil || got != int64(round) {
					t.Fatal(key, round, got, err)
				}
			}
		}
	})
	if stats := c.CacheStats(); stats.Hits < 50 {
		t.Errorf("%+v", stats)
	}
}

// The reply and its invalidation in one segment: the invalidation is handled before the reply is
// stored.
func TestCached_InvalidationInTheReplysSegmentDropsTheFlight(t *testing.T) {
	checkLeaks(t)
	var value atomic.Int64
	address := startScript(t, func(name string) string {
		switch name {
		case "GET":
			return fmt.Sprintf("$1\r\n%d\r\n", value.Add(1))
		case "PTTL":
			return ":-1\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"
		}
		return "+OK\r\n"
	})
	c := newTestClient(t, address, withCache)
	ctx := testContext(t, 10*time.Second)
	cached := c.Cached(0)
	for n := range int64(5) {
		if got, err := cached.Get(ctx, "k").Int64(); got != n+1 || err != nil {
			t.Fatalf("read %d: got %d, %v", n, got, err)
		}
	}
}

// startScript is a server that answers each command by its name, all commands of a segment in one
// write.
func startScript(
	t *testing.T, answer func(name string) string, accepted ...func(net.Conn),
) (address string) {
	t.Helper()
	return startCommands(t, func(args []string) string { return answer(args[0]) }, accepted...)
}

// startCommands is startScript whose answers depend on the whole command.
func startCommands(
	t *testing.T, answer func(args []string) string, accepted ...func(net.Conn),
) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	serve := func(conn net.Conn) {
		defer conn.Close()
		l := &leg{conn: conn, buffer: make([]byte, 4096)}
		for {
			commands, err := l.read()
			var out []byte
			for _, command := range commands {
				args, _ := command.Strings()
				out = append(out, answer(args)...)
			}
			if _, writeErr := conn.Write(out); err != nil || writeErr != nil {
				return
			}
		}
	}
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			for _, tell := range accepted {
				tell(conn)
			}
			group.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() { listener.Close(); group.Wait() })
	return listener.Addr().String()
}
