package tidemill

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// startForgetful is a server, or a cluster's only node, that executes the first GET, SET and
// EVALSHA and closes the connection before it answers; later is the answer to others, SELF its
// address. It has no scripts.
func startForgetful(t *testing.T, later string) (address string, executed func(name string) int) {
	var mu sync.Mutex
	var latest net.Conn
	counts := map[string]int{}
	address = startScript(t, func(name string) string {
		mu.Lock()
		defer mu.Unlock()
		counts[name]++
		switch {
		case name == "CLUSTER":
			return slotsAnswer(address)
		case slices.Contains([]string{"GET", "SET", "EVALSHA"}, name) && counts[name] == 1:
			_ = latest.Close()
		case name == "EVALSHA":
			return "-NOSCRIPT no\r\n"
		case !slices.Contains([]string{"GET", "SET", "EVAL"}, name):
			return "+OK\r\n"
		}
		return strings.ReplaceAll(later, "SELF", address) + "\r\n"
	}, func(conn net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		latest = conn
	})
	return address, func(name string) int {
		mu.Lock()
		defer mu.Unlock()
		return counts[name]
	}
}

func TestClient_RepeatsOnlyWhatIsSafe(t *testing.T) {
	checkLeaks(t)
	batch := func(lines ...[]any) func(ctx context.Context, c *Client) error {
		return func(ctx context.Context, c *Client) error {
			var b Batch
			for _, line := range lines {
				b.Add(line...)
			}
			_, err := c.RunBatch(ctx, &b)
			return err
		}
	}
	for _, test := range []struct {
		name     string
		run      func(ctx context.Context, c *Client) error
		noRetry  bool
		repeated bool
	}{
		{"GET", func(ctx context.Context, c *Client) error {
			return c.Get(ctx, "k").Err()
		}, false, true},
		{"GET", func(ctx context.Context, c *Client) error {
			return c.Get(ctx, "k").Err()
		}, true, false},
		{"SET", func(ctx context.Context, c *Client) error {
			return c.Set(ctx, "k", 1).Err()
		}, false, false},
		{"SET", func(ctx context.Context, c *Client) error {
			return c.Set(WithIdempotent(ctx), "k", 1).Err()
		}, false, true},
		{"SET", func(ctx context.Context, c *Client) error {
			return c.Set(WithIdempotent(ctx), "k", 1).Err()
		}, true, true},
		{"GET", batch([]any{"GET", "k"}, []any{"GET", "l"}), false, true},
		{"SET", batch([]any{"STRLEN", "k"}, []any{"SET", "k", 1}), false, false},
		{"GET", func(ctx context.Context, c *Client) error {
			return c.Go(ctx, "GET", "k").Wait(ctx).Err()
		}, false, false},
	} {
		address, executed := startForgetful(t, "+OK")
		c := newTestClient(t, address, func(o *Options) { o.NoRetry = test.noRetry })
		err := test.run(testContext(t, 20*time.Second), c)
		again := executed(test.name) > 1
		if again != test.repeated || (err == nil) != test.repeated || err != nil &&
			(!errors.Is(err, ErrMaybeSent) || errors.Is(err, ErrNotSent)) {
			t.Errorf("%s, NoRetry %v: executed %d times, %v", test.name, test.noRetry,
				executed(test.name), err)
		}
		_ = c.Close()
	}
}

// The first attempt was executed, the second could not be sent: that is an unknown outcome, not
// "not sent".
func TestClient_UnknownOutcomeIsNotForgotten(t *testing.T) {
	checkLeaks(t)
	for _, line := range [][]any{{"SET", "k", 1}, {"XREAD", "BLOCK", 0, "STREAMS", "s", "$"}} {
		var mu sync.Mutex
		var conns []net.Conn
		dead := false
		address := startScript(t, func(name string) string {
			if name == line[0] {
				mu.Lock()
				defer mu.Unlock()
				dead = true
				for _, conn := range conns {
					_ = conn.Close()
				}
			}
			return "+OK\r\n"
		}, func(conn net.Conn) {
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, conn)
		})
		c := newTestClient(t, address, func(o *Options) {
			o.ConnectWait = 3 * time.Second
			o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				if dead {
					return nil, errors.New("planted refusal")
				}
				return (&net.Dialer{}).DialContext(ctx, network, address)
			}
		})
		err := c.Do(WithIdempotent(testContext(t, 20*time.Second)), line...).Err()
		mu.Lock()
		executed := dead
		mu.Unlock()
		if executed && (!errors.Is(err, ErrMaybeSent) || errors.Is(err, ErrNotSent)) {
			t.Error(line[0], err)
		}
		_ = c.Close()
	}
}

// A server that dies at each attempt ends the repetition of a blocking read after ConnectWait, not
// never.
func TestBlocking_IsNotRepeatedForEver(t *testing.T) {
	checkLeaks(t)
	var mu sync.Mutex
	conns := map[net.Conn]bool{}
	address := startScript(t, func(name string) string {
		if name == "XREAD" {
			mu.Lock()
			defer mu.Unlock()
			for conn := range conns {
				_ = conn.Close()
			}
			clear(conns)
		}
		return "+OK\r\n"
	}, func(conn net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		conns[conn] = true
	})
	c := newTestClient(t, address, func(o *Options) { o.ConnectWait = 300 * time.Millisecond })
	err := c.Do(testContext(t, 20*time.Second), "XREAD", "BLOCK", 0, "STREAMS", "s", "$").Err()
	if !errors.Is(err, ErrMaybeSent) || errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// Users' code that runs on the client's goroutines must not take the process down.
func TestClient_ContainsPanicsOfUsers(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		ctx := testContext(t, 20*time.Second)
		for _, change := range []func(*Options){
			func(o *Options) {
				o.Credentials = func(context.Context) (string, string, error) {
					panic("credentials")
				}
			},
			func(o *Options) {
				o.Dialer = func(context.Context, string, string) (net.Conn, error) {
					panic("dialer")
				}
			},
		} {
			c := newTestClient(t, s.address, change)
			if err := c.Set(ctx, "k", 1).Err(); !errors.Is(err, ErrPanic) ||
				!errors.Is(err, ErrNotSent) {
				t.Error(err)
			}
		}
		c := newTestClient(t, s.address, func(o *Options) { o.Hook = faultyHook{} })
		called := make(chan Reply, 1)
		c.Async(ctx, func(reply Reply) { called <- reply }, "SET", "k", 1)
		if reply := <-called; reply.Err() != nil {
			t.Error(reply)
		}
		if got, err := c.Go(ctx, "GET", "k").Wait(ctx).Text(); got != "1" || err != nil {
			t.Error("after a hook's panic:", got, err)
		}
	})
}

type faultyHook struct{}

func (faultyHook) Start(ctx context.Context, _ string, _ int) (context.Context, func(error)) {
	return ctx, func(error) { panic("hook") }
}

// briefly is how long a cluster is followed that never answers otherwise.
func briefly(o *Options) { o.ConnectWait = 2 * time.Second }

// An attempt of unknown outcome is not undone by errors that answer the next ones. Of reads they
// are the outcome.
func TestUnknownOutcome_IsNotForgottenBehindErrors(t *testing.T) {
	checkLeaks(t)
	ctx := WithIdempotent(testContext(t, 20*time.Second))
	batch := func(line []any) (b Batch) {
		b.Add(line...)
		b.Add(line...)
		return b
	}
	var group sync.WaitGroup // clusters are followed at the same time
	check := func(name string, line []any, code string, run func() error) {
		group.Go(func() {
			err := run()
			if errors.Is(err, ErrMaybeSent) != (line[0] == "SET") || errors.Is(err, ErrNotSent) ||
				!errors.Is(err, ServerCode(code)) {
				t.Error(name, line[0], code, err)
			}
		})
	}
	for _, refusal := range []string{
		"LOADING wait", "READONLY no", "MOVED 1 SELF", "ASK 1 SELF", "TRYAGAIN later", "OOM no",
	} {
		code, _, _ := strings.Cut(refusal, " ")
		for _, line := range [][]any{{"SET", "k", 1}, {"GET", "k"}} {
			start := func() string {
				address, _ := startForgetful(t, "-"+refusal)
				return address
			}
			client, cluster := newTestClient(t, start()), newSeededCluster(t, start(), briefly)
			check("client", line, code, func() error { return client.Do(ctx, line...).Err() })
			check("cluster", line, code, func() error { return cluster.Do(ctx, line...).Err() })
			b := batch(line)
			batching := newTestClient(t, start())
			check("client's batch", line, code, func() error {
				replies, _ := batching.RunBatch(ctx, &b)
				return replies[1].Err()
			})
			dividing := newSeededCluster(t, start(), briefly)
			check("cluster's batch", line, code, func() error {
				replies, _ := dividing.RunBatch(ctx, &b)
				return replies[1].Err()
			})
		}
	}
	group.Wait()
}

// EVAL with the source is an attempt as well.
func TestUnknownOutcome_OfAScriptIsNotForgottenBehindItsSource(t *testing.T) {
	checkLeaks(t)
	ctx := WithIdempotent(testContext(t, 20*time.Second))
	address, executed := startForgetful(t, "-OOM no")
	err := NewScript("return 1").Run(ctx, newTestClient(t, address), nil).Err()
	evaluated := executed("EVAL")
	if !errors.Is(err, ErrMaybeSent) || !errors.Is(err, ServerCode("OOM")) || evaluated != 1 {
		t.Error(err, evaluated)
	}
}

// A transaction's, too, also where the first attempt was followed elsewhere.
func TestUnknownOutcome_OfATransactionIsNotForgottenBehindErrors(t *testing.T) {
	checkLeaks(t)
	ctx := WithIdempotent(testContext(t, 20*time.Second))
	for _, refusal := range []string{"READONLY no", "MOVED 1 SELF", "ASK 1 SELF", "OOM no"} {
		code, _, _ := strings.Cut(refusal, " ")
		t.Run(code, func(t *testing.T) {
			var tx Tx
			tx.Add("SET", "k", 1)
			alone, _ := startForgetful(t, "-"+refusal)
			_, err := newTestClient(t, alone).RunTx(ctx, &tx)
			if !errors.Is(err, ErrMaybeSent) || !errors.Is(err, ServerCode(code)) {
				t.Error("client", err)
			}
			node, executed := startForgetful(t, "-"+refusal)
			_, err = newSeededCluster(t, node, briefly).RunTx(ctx, &tx)
			if !errors.Is(err, ErrMaybeSent) || !errors.Is(err, ServerCode(code)) {
				t.Error("cluster", err)
			}
			if n := executed("SET"); (n > 2) != (code != "OOM") {
				t.Error("ended after", n, "attempts")
			}
		})
	}
}
