package tidemill

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

func TestBlocking_DoesNotHoldUpOthersAndEndsWithItsContext(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		c := newTestClient(t, s.address)
		ctx := testContext(t, 20*time.Second)
		waiting := make(chan Reply, 1)
		go func() { waiting <- c.BLPop(ctx, []string{"queue"}, 0) }()
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		started := time.Now()
		err := c.Do(short, "BRPOPLPUSH", "none", "other", 0).Err()
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(started) > 20*time.Second {
			t.Fatal(time.Since(started), err)
		}
		if err := c.Do(ctx, "PING").Err(); err != nil {
			t.Fatal(err)
		}
		if err := c.RPush(ctx, "queue", "item").Err(); err != nil {
			t.Fatal(err)
		}
		if got, err := (<-waiting).Strings(); err != nil || got[1] != "item" {
			t.Fatal(got, err)
		}
	})
}

func TestBatchAndTx_KeepOrderAndReportErrorsPerCommand(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		c := newTestClient(t, s.address)
		ctx := testContext(t, 20*time.Second)
		var b Batch
		b.Add("SET", "text", "x")
		b.Add("INCR", "text")
		for i := range 1000 {
			b.Add("RPUSH", "list", i)
		}
		replies, err := c.RunBatch(ctx, &b)
		if err != nil || len(replies) != 1002 || replies[1].Err() == nil {
			t.Fatal(len(replies), err)
		}
		if n, err := replies[1001].Int64(); n != 1000 || err != nil {
			t.Fatal(n, err)
		}
		var large Batch
		for range 40 {
			large.Add("SET", "large", make([]byte, 10<<10))
		}
		before := c.Stats().Requests
		if _, err := c.RunBatch(ctx, &large); err != nil {
			t.Fatal(err)
		}
		if after := c.Stats().Requests; after != before {
			t.Errorf("a batch of 400 KB went through the shared pipe, as %d requests", after-before)
		}
		var tx Tx
		tx.Add("INCR", "counter")
		tx.Add("INCR", "counter")
		if replies, err = c.RunTx(ctx, &tx); err != nil || len(replies) != 2 {
			t.Fatal(replies, err)
		}
		if n, _ := replies[1].Int64(); n != 2 {
			t.Fatal(replies)
		}
		var bad Tx
		bad.Add("INCR", "counter")
		bad.Add("GET")
		if _, err := c.RunTx(ctx, &bad); err == nil {
			t.Fatal("transaction with a wrong command passed")
		}
		if n, err := c.Get(ctx, "counter").Int64(); n != 2 || err != nil {
			t.Fatal("refused transaction changed the counter:", n, err)
		}
	})
}

func TestWatch_AbortsWhenAKeyChanges(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		c := newTestClient(t, s.address)
		ctx := testContext(t, 20*time.Second)
		increment := func(interfere bool) error {
			_, err := c.Watch(ctx, func(d *Dedicated) (*Tx, error) {
				if n, err := d.Get(ctx, "watched").Int64(); err != nil && !errors.Is(err, ErrNil) {
					return nil, fmt.Errorf("%d: %w", n, err)
				}
				if interfere {
					c.Set(ctx, "watched", 100)
				}
				tx := &Tx{}
				tx.Add("INCR", "watched")
				return tx, nil
			}, "watched")
			return err
		}
		if err := increment(false); err != nil {
			t.Fatal(err)
		}
		if err := increment(true); !errors.Is(err, ErrTxAborted) {
			t.Fatal(err)
		}
		if n, _ := c.Get(ctx, "watched").Int64(); n != 100 {
			t.Fatal(n)
		}
		_, err := c.Watch(ctx, func(*Dedicated) (*Tx, error) { panic("user's") }, "watched")
		if !errors.Is(err, ErrPanic) {
			t.Fatal(err)
		}
	})
}

func TestAsync_KeepsOrderAndContainsPanics(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		c := newTestClient(t, s.address)
		ctx := testContext(t, 20*time.Second)
		var called atomic.Int32
		for i := range 500 {
			c.Async(ctx, func(reply Reply) {
				called.Add(1)
				if i%100 == 0 {
					panic("callback")
				}
			}, "RPUSH", "ordered", i)
		}
		if n, err := c.Go(ctx, "LLEN", "ordered").Wait(ctx).Int64(); n != 500 || err != nil {
			t.Fatal(n, err)
		}
		if called.Load() != 500 {
			t.Fatal("callbacks called:", called.Load())
		}
		got, err := As[[]int](c.LRange(ctx, "ordered", 0, -1))
		if err != nil {
			t.Fatal(err)
		}
		for i, value := range got {
			if i != value {
				t.Fatalf("index %d holds %d", i, value)
			}
		}
	})
}

func TestAs_ConvertsAndRefuses(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		c := newTestClient(t, s.address)
		ctx := testContext(t, 20*time.Second)
		c.HSet(ctx, "user", "name", "Ada", "age", 36, "score", 1.5)
		type user struct {
			Name  string  `redis:"name"`
			Age   uint8   `redis:"age"`
			Score float64 `redis:"score"`
			Other string
		}
		got, err := As[user](c.HGetAll(ctx, "user"))
		if err != nil || got != (user{"Ada", 36, 1.5, ""}) {
			t.Fatal(got, err)
		}
		c.Set(ctx, "big", 300)
		if _, err := As[uint8](c.Get(ctx, "big")); !errors.Is(err, ErrType) {
			t.Fatal(err)
		}
		if _, err := As[string](c.Get(ctx, "absent")); !errors.Is(err, ErrNil) {
			t.Fatal(err)
		}
		if p, err := As[*string](c.Get(ctx, "absent")); err != nil || p != nil {
			t.Fatal(p, err)
		}
		if m, err := As[map[string]string](c.HGetAll(ctx, "user")); err != nil ||
			m["name"] != "Ada" {
			t.Fatal(m, err)
		}
		seen := 0
		for i := range 1000 {
			c.Async(ctx, func(Reply) {}, "SET", fmt.Sprint("scan:", i), "")
		}
		for _, err := range c.Iterate(ctx, "scan:*") {
			if err != nil {
				t.Fatal(err)
			}
			seen++
		}
		if seen < 1000 {
			t.Fatal("scanned", seen)
		}
		script := NewScript("return {KEYS[1], ARGV[1]}")
		for range 2 {
			if got, err := script.Run(ctx, c, []string{"k"}, "a").Strings(); err != nil ||
				got[1] != "a" {
				t.Fatal(got, err)
			}
		}
	})
}
