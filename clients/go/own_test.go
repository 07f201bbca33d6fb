package tidemill

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Commands on connections of their own wait for the server as others do.
func TestOwn_WaitsForAConnection(t *testing.T) {
	checkLeaks(t)
	s := startServer(t, "valkey-server")
	var dials, refused atomic.Int32
	c := newTestClient(t, s.address, func(o *Options) {
		o.BackoffMax = 10 * time.Millisecond
		o.ConnectWait = time.Minute
		o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials.Add(1) <= refused.Load() {
				return nil, errors.New("planted refusal")
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
	})
	ctx := testContext(t, 20*time.Second)
	if err := c.RPush(ctx, "list", 1, 2).Err(); err != nil {
		t.Fatal(err)
	}
	refused.Store(dials.Load() + 3)
	if got, err := c.Do(ctx, "BLPOP", "list", 1).Strings(); err != nil || got[1] != "1" {
		t.Error(got, err)
	}
	c.own.dropIdle()
	refused.Store(dials.Load() + 3)
	d, err := c.Dedicate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	c.own.dropIdle()
	refused.Store(1 << 30)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	err = c.Do(short, "BLPOP", "list", 1).Err()
	if !errors.Is(err, ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// The context's end is seen also where the Dialer, which sees it first, does not say so.
func TestOwn_NamesTheContextsEnd(t *testing.T) {
	checkLeaks(t)
	c := newTestClient(t, "nowhere", func(o *Options) {
		o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, errors.New("planted refusal")
		}
	})
	short, cancel := context.WithTimeout(testContext(t, 20*time.Second), 20*time.Millisecond)
	defer cancel()
	err := c.Do(short, "BLPOP", "list", 1).Err()
	if !errors.Is(err, ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestOwn_GivesUpAfterConnectWait(t *testing.T) {
	checkLeaks(t)
	var dials atomic.Int32
	c := newTestClient(t, "nowhere", func(o *Options) {
		o.ConnectWait = time.Second
		o.Dialer = func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			return nil, errors.New("planted refusal")
		}
	})
	err := c.Do(testContext(t, 20*time.Second), "BLPOP", "list", 0).Err()
	if !errors.Is(err, ErrNotSent) || errors.Is(err, context.DeadlineExceeded) || dials.Load() < 2 {
		t.Error(err, dials.Load(), "dials")
	}
	_ = c.Close()
	before := dials.Load()
	err = c.Do(context.Background(), "BLPOP", "list", 0).Err()
	if !errors.Is(err, ErrNotSent) || !errors.Is(err, ErrClosed) || dials.Load() != before {
		t.Error("after Close:", err)
	}
}

// The connection has another user by then.
func TestDedicated_IsRefusedAfterClose(t *testing.T) {
	checkLeaks(t)
	s := startServer(t, "valkey-server")
	c := newTestClient(t, s.address)
	ctx := testContext(t, 20*time.Second)
	d, err := c.Dedicate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Do(ctx, "PING").Err(); err != nil {
		t.Fatal(err)
	}
	d.Close()
	d.Close()
	var tx Tx
	tx.Add("INCR", "k")
	_, txErr := d.RunTx(ctx, &tx)
	for _, err := range []error{d.Watch(ctx, "k").Err(), txErr} {
		if !errors.Is(err, ErrClosed) || !errors.Is(err, ErrNotSent) {
			t.Error(err)
		}
	}
	if got, err := c.Exists(ctx, "k").Int64(); got != 0 || err != nil {
		t.Error(got, err)
	}
}

// Commands whose replies do not follow one by one would hang, or shift the replies of everybody
// else.
func TestClient_RefusesWhatHasNoReplyOfItsOwn(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		c := newTestClient(t, s.address)
		ctx := testContext(t, 20*time.Second)
		d, err := c.Dedicate(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for _, line := range [][]any{{"SUBSCRIBE", "c"}, {"psubscribe", "c*"}, {"UNSUBSCRIBE"},
			{"SSUBSCRIBE", "c"}, {"MONITOR"}, {"SYNC"}, {"PSYNC", "?", -1},
			{"CLIENT", "REPLY", "OFF"},
			{"REPLCONF", "ACK", 1}, {"CLUSTER", "SYNCSLOTS", "FINISH"},
			{"SCRIPT", "DEBUG", "YES"}} {
			var b Batch
			b.Add(line...)
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			_, batchErr := c.RunBatch(ctx, &b)
			for _, err := range []error{
				c.Do(ctx, line...).Err(), d.Do(ctx, line...).Err(),
				c.Go(ctx, line...).Wait(ctx).Err(), batchErr,
			} {
				if !errors.Is(err, ErrArgument) || !errors.Is(err, ErrNotSent) {
					t.Fatal(line, err)
				}
			}
			cancel()
		}
		if got, err := c.Do(ctx, "ECHO", "x").Text(); got != "x" || err != nil {
			t.Error(got, err)
		}
	})
}

// A script blocks the server; what ends it must not wait behind it on the connection that it came
// by.
func TestClient_ScriptKillOvertakesTheScript(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		c := newTestClient(t, s.address, func(o *Options) { o.Database = 1 })
		ctx := testContext(t, 20*time.Second)
		if err := c.Do(ctx, "CONFIG", "SET", "lua-time-limit", 10).Err(); err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		group.Go(func() {
			err := c.Do(ctx, "EVAL", "while true do end", 0).Err()
			if err == nil || !strings.Contains(strings.ToLower(err.Error()), "kill") {
				t.Error("the script:", err)
			}
		})
		waitFor(t, 20*time.Second, "the script's end", func() bool {
			short, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			return c.Do(short, "SCRIPT", "KILL").Err() == nil
		})
		group.Wait()
	})
}
