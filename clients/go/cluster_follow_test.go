package tidemill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// slotsAnswer is the answer to CLUSTER SLOTS of a cluster whose first node, called "only", has
// everything; others are its replicas.
func slotsAnswer(addresses ...string) string {
	answer := fmt.Sprintf("*1\r\n*%d\r\n:0\r\n:16383\r\n", 2+len(addresses))
	for _, address := range addresses {
		host, port, _ := net.SplitHostPort(address)
		answer += fmt.Sprintf("*3\r\n$%d\r\n%s\r\n:%s\r\n$4\r\nonly\r\n", len(host), host, port)
	}
	return answer
}

// startNode is a node that has everything; answer is asked for what is not about the cluster, "" is
// its OK.
func startNode(t *testing.T, answer func(args []string) string) (address string) {
	t.Helper()
	address = startCommands(t, func(args []string) string {
		if args[0] == "CLUSTER" && args[1] == "SLOTS" {
			return slotsAnswer(address)
		}
		if reply := answer(args); reply != "" {
			return reply
		}
		return "+OK\r\n"
	})
	return address
}

func newSeededCluster(t *testing.T, seed string, change ...func(*Options)) *Cluster {
	t.Helper()
	var options Options
	for _, apply := range change {
		apply(&options)
	}
	var c *Cluster
	waitFor(t, 5*time.Second, "the seed", func() bool {
		var err error
		c, err = NewCluster(testContext(t, time.Second), []string{seed}, options)
		return err == nil
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Pauses for a slot that moves are bounded by time alone: MOVED is followed after more of them than
// there may be redirections.
func TestCluster_PausesDoNotUseUpRedirections(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 20*time.Second)
	next := startScript(t, func(string) string { return "+OK\r\n" })
	var tries atomic.Int64
	seed := startNode(t, func(args []string) string {
		switch {
		case args[0] != "MGET":
			return ""
		case tries.Add(1) <= redirectionsMax+2:
			return "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
		}
		return "-MOVED 1 " + next + "\r\n"
	})
	c := newSeededCluster(t, seed)
	if err := c.Do(ctx, "MGET", "{x}a", "{x}b").Err(); err != nil {
		t.Error(err)
	}
}

// Two nodes that name each other: a command and a transaction give up after a number of
// redirections, not after as many as ConnectWait has room for.
func TestCluster_RedirectionsAreBounded(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 20*time.Second)
	var asked atomic.Int64
	var one, two string
	answer := func(other *string) func(args []string) string {
		return func(args []string) string {
			switch args[0] {
			case "CLUSTER":
				return slotsAnswer(one, two)
			case "EXEC":
				return "-EXECABORT Transaction discarded because of previous errors.\r\n"
			case "SET":
				asked.Add(1)
				return "-MOVED 1 " + *other + "\r\n"
			}
			return "+OK\r\n"
		}
	}
	one, two = startCommands(t, answer(&two)), startCommands(t, answer(&one))
	c := newSeededCluster(t, one)
	var tx Tx
	tx.Add("SET", "k", 1)
	for what, run := range map[string]func() error{
		"a command":     func() error { return c.Do(ctx, "SET", "k", 1).Err() },
		"a transaction": func() error { _, err := c.RunTx(ctx, &tx); return err },
	} {
		asked.Store(0)
		if err := run(); !errors.Is(err, ServerCode("MOVED")) {
			t.Error(what, err)
		}
		if n := asked.Load(); n != redirectionsMax+1 {
			t.Errorf("%s was sent %d times", what, n)
		}
	}
}

func TestPursuit_PausesAfterTheFirstRedirections(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel() // makes every pause the end
	p := newPursuit(Options{}.withDefaults())
	for range redirectionsFree {
		if !p.follow(ended, &clusterNode{}) {
			t.Fatal("a pause before redirection", p.redirections)
		}
	}
	if p.follow(ended, &clusterNode{}) {
		t.Error("no pause after many redirections")
	}
}

func TestAbsoluteAddress_UnderstandsRedirections(t *testing.T) {
	for given, want := range map[string]string{
		"10.0.0.1:6379":   "10.0.0.1:6379",
		"name.local:6379": "name.local:6379",
		"::1:39955":       "[::1]:39955",
		"[::1]:39955":     "[::1]:39955",
		"fd00::2:8:6379":  "[fd00::2:8]:6379",
		":6379":           "[fe80::1]:6379",
		"?:6379":          "[fe80::1]:6379",
		"nothing":         "nothing",
	} {
		if got := absoluteAddress(given, "[fe80::1]:7000"); got != want {
			t.Errorf("%s became %s, wanted %s", given, got, want)
		}
	}
}

// A cluster of IPv6 addresses: redirections name them without brackets.
func TestCluster_FollowsRedirectionsToIPv6(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 20*time.Second)
	const seed, other = "[fd00::1]:7000", "[fd00::2]:7001"
	for _, kind := range []string{"ASK", "MOVED"} {
		var executed atomic.Int64
		places := map[string]string{
			seed: startCommands(t, func(args []string) string {
				switch args[0] {
				case "CLUSTER":
					return slotsAnswer(seed)
				case "SET":
					return "-" + kind + " 1 fd00::2:7001\r\n"
				}
				return "+OK\r\n"
			}),
			other: startScript(t, func(name string) string {
				if name == "SET" {
					executed.Add(1)
				}
				return "+OK\r\n"
			}),
		}
		c := newSeededCluster(t, seed, func(o *Options) {
			o.ConnectWait = time.Second
			o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				if places[address] == "" {
					return nil, fmt.Errorf("nobody listens at %s", address)
				}
				return (&net.Dialer{}).DialContext(ctx, network, places[address])
			}
		})
		if err := c.Do(ctx, "SET", "k", 1).Err(); err != nil || executed.Load() != 1 {
			t.Error(kind, err, executed.Load())
		}
	}
}

// Slots that move while their node is walked, for longer than ConnectWait, are walked at their next
// owner: an iteration that ends without an error has seen everything.
func TestCluster_IterateGoesOnAfterALongStepWithoutProgress(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 20*time.Second)
	const wait = 50 * time.Millisecond
	var scans atomic.Int64
	seed := startNode(t, func(args []string) string {
		switch {
		case args[0] == "CLUSTER": // MYID; moved away during the first SCAN and back since
			if scans.CompareAndSwap(1, 2) {
				return "+other\r\n"
			}
			return "+only\r\n"
		case args[0] == "SCAN":
			if scans.CompareAndSwap(0, 1) {
				time.Sleep(2 * wait)
			}
			return "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n"
		}
		return ""
	})
	c := newSeededCluster(t, seed, func(o *Options) { o.ConnectWait = wait })
	keys := 0
	for key, err := range c.Iterate(ctx, "") {
		if key != "k" || err != nil {
			t.Errorf("%q, %v", key, err)
		}
		keys++
	}
	if keys != 2 { // once before and once after the move
		t.Error(keys, "keys")
	}
}

func TestCluster_IterateTellsWhyItEnds(t *testing.T) {
	checkLeaks(t)
	ctx, cancel := context.WithCancel(testContext(t, 20*time.Second))
	defer cancel()
	var c *Cluster
	seed := startNode(t, func(args []string) string {
		switch {
		case args[0] == "CLUSTER":
			return "+other\r\n"
		case args[0] == "SCAN":
			t.Error("a node without slots was walked")
		}
		return ""
	})
	c = newSeededCluster(t, seed, func(o *Options) { o.ConnectWait = 50 * time.Millisecond })
	last := func() (key string, err error) {
		for key, err = range c.Iterate(ctx, "") {
		}
		return key, err
	}
	if key, err := last(); key != "" || !errors.Is(err, errNothingNew) {
		t.Errorf("no owner: %q, %v", key, err)
	}
	cancel()
	if key, err := last(); key != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("context: %q, %v", key, err)
	}
	walk := &clusterWalk{}
	for what, test := range map[string]struct {
		ctx  context.Context
		err  error
		want error
	}{
		"closed": {context.Background(), nil, ErrClosed},
		"ended":  {ctx, nil, context.Canceled},
		"both":   {ctx, errNothingNew, context.Canceled},
		"failed": {context.Background(), errNothingNew, errNothingNew},
	} {
		if err := walk.failure(test.ctx, test.err); !errors.Is(err, test.want) {
			t.Error(what, err)
		}
	}
}

// A node that hangs does not use up the time of the others.
func TestCluster_HungNodeLeavesTimeForTheOthers(t *testing.T) {
	checkLeaks(t)
	var hangs atomic.Bool
	var hung string
	hung = startCommands(t, func(args []string) string {
		switch {
		case args[0] != "CLUSTER":
			return "+OK\r\n"
		case hangs.Load():
			return ""
		}
		return slotsAnswer(hung)
	})
	var asked atomic.Int64
	answering := startCommands(t, func(args []string) string {
		if args[0] == "CLUSTER" {
			asked.Add(1)
			return slotsAnswer(hung)
		}
		return "+OK\r\n"
	})
	ctx := testContext(t, 20*time.Second)
	// The last three make the shares small. They are not asked.
	seeds := []string{hung, answering, "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}
	c, err := NewCluster(ctx, seeds, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ended, cancel := context.WithCancel(ctx)
		cancel() // what hangs is not waited for
		_ = c.Shutdown(ended)
	}()
	hangs.Store(true)
	limited, cancel := context.WithTimeout(ctx, clusterRefreshWait)
	defer cancel()
	if _, err := c.refresh(limited); err != nil || asked.Load() != 1 {
		t.Error(err, asked.Load())
	}
}

// A cluster that stays down is asked for its topology less and less often.
func TestCluster_LastingOutageIsNotAnsweredWithAStorm(t *testing.T) {
	checkLeaks(t)
	var refreshes, commands atomic.Int64
	var address string
	address = startCommands(t, func(args []string) string {
		switch args[0] {
		case "CLUSTER":
			refreshes.Add(1)
			return slotsAnswer(address)
		case "GET":
			commands.Add(1)
			return "-CLUSTERDOWN The cluster is down\r\n"
		}
		return "+OK\r\n"
	})
	const wait = 2 * time.Second
	c := newSeededCluster(t, address, func(o *Options) { o.ConnectWait = wait })
	started := time.Now()
	err := c.Get(testContext(t, 20*time.Second), "k").Err()
	// The least that pauses of half their length leave room for.
	most := int64(4 + time.Since(started)/(clusterRefreshPauseMax/2))
	if n := refreshes.Load(); !errors.Is(err, ServerCode("CLUSTERDOWN")) || n > most {
		t.Errorf("%d refreshes, at most %d expected; %v", n, most, err)
	}
	if n := commands.Load(); n > int64(6+time.Since(started)/(pursuitPauseMax/2)) {
		t.Error(n, "attempts")
	}
}

func TestCluster_ExecRefusedByAReplicaIsSentToThePrimary(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 20*time.Second)
	var execs atomic.Int64
	seed := startNode(t, func(args []string) string {
		switch {
		case args[0] != "EXEC":
			return ""
		case execs.Add(1) == 1:
			return "-EXECABORT Transaction discarded because of: READONLY You can't write.\r\n"
		}
		return "*1\r\n+OK\r\n"
	})
	c := newSeededCluster(t, seed)
	var tx Tx
	tx.Add("SET", "k", 1)
	if replies, err := c.RunTx(ctx, &tx); err != nil || len(replies) != 1 || execs.Load() != 2 {
		t.Error(replies, err, execs.Load())
	}
}

// An outcome that became unknown stays so, also when a later attempt is first redirected and then
// not sent at all.
func TestCluster_UnknownOutcomeIsNotForgottenBehindARedirection(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 20*time.Second)
	address, _ := startForgetful(t, "-MOVED 1 127.0.0.1:1")
	c := newSeededCluster(t, address, func(o *Options) {
		o.ConnectWait = 200 * time.Millisecond
		o.Dialer = func(ctx context.Context, network, to string) (net.Conn, error) {
			if strings.HasSuffix(to, ":1") {
				return nil, errors.New("planted refusal")
			}
			return (&net.Dialer{}).DialContext(ctx, network, to)
		}
	})
	err := c.Do(WithIdempotent(ctx), "SET", "k", 1).Err()
	if !errors.Is(err, ErrMaybeSent) || errors.Is(err, ErrNotSent) {
		t.Error(err)
	}
}
