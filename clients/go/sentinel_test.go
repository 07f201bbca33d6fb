package tidemill

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.tidemill.dev/client/internal/tlsfront"
)

func TestSentinel_FollowsAFailover(t *testing.T) {
	ctx := testContext(t, time.Minute)
	primary, direct, sentinel := startSentinelTrio(t)
	c, err := NewSentinel([]string{fmt.Sprintf("127.0.0.1:%d", freePort(t)), sentinel}, "main",
		Options{ConnectWait: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Set(ctx, "before", 1).Err(); err != nil {
		t.Fatal(err)
	}
	primary.stop()
	waitFor(t, 30*time.Second, "writes after the failover", func() bool {
		attempt, cancel := context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		return c.Set(attempt, "after", 1).Err() == nil
	})
	if n, err := direct.Exists(ctx, "after").Int64(); n != 1 || err != nil {
		t.Fatal("the write is not on the former replica:", n, err)
	}
}

// startSentinelTrio starts a primary, its replica, which direct talks to, and a sentinel that knows
// both.
func startSentinelTrio(t *testing.T) (primary *testServer, direct *Client, sentinel string) {
	t.Helper()
	checkLeaks(t)
	ctx := testContext(t, time.Minute)
	primary = startServer(t, "valkey-server")
	port := strings.TrimPrefix(primary.address, "127.0.0.1:")
	replica := startServer(t, "valkey-server", "--replicaof", "127.0.0.1 "+port,
		"--repl-diskless-sync-delay", "0")
	direct = newTestClient(t, replica.address)
	waitFor(t, 20*time.Second, "replication", func() bool {
		info, _ := direct.Info(ctx, "replication").Text()
		return strings.Contains(info, "master_link_status:up")
	})
	sentinel = startSentinel(t, port)
	watcher := newTestClient(t, sentinel, func(o *Options) { o.ForceRESP2 = true })
	waitFor(t, 20*time.Second, "sentinel to find the replica", func() bool {
		replicas, _ := watcher.Do(ctx, "SENTINEL", "REPLICAS", "main").Array()
		return len(replicas) == 1
	})
	return primary, direct, sentinel
}

func startSentinel(t *testing.T, primaryPort string) (address string) {
	t.Helper()
	path, err := exec.LookPath("valkey-server")
	if err != nil {
		t.Skip("valkey-server is not installed")
	}
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("bind 127.0.0.1\ndir %s\nsentinel monitor main 127.0.0.1 %s 1\n"+
		"sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n",
		t.TempDir(), primaryPort)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &testServer{binary: path, args: []string{file, "--port", portWord, "--sentinel"}}
	s.startOnFreePorts(t)
	t.Cleanup(s.stop)
	return s.address
}

// A coordinated failover, which loses nothing by itself, while unique values are pushed: the client
// follows, and tells the truth about each.
func TestSentinel_WritesAreAccountedForDuringAFailover(t *testing.T) {
	_, direct, sentinel := startSentinelTrio(t)
	ctx := testContext(t, time.Minute)
	c, err := NewSentinel([]string{sentinel}, "main", Options{ConnectWait: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	record := &ledger{outcome: map[string]error{}}
	var following atomic.Int64 // acknowledged after the client followed
	stopping, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			for i := 0; stopping.Err() == nil; i++ {
				value := fmt.Sprintf("%d:%d", worker, i)
				attempt, cancel := context.WithTimeout(ctx, 15*time.Second)
				push := func() error { return c.RPush(attempt, "list", value).Err() }
				if i%4 == 0 {
					push = func() error {
						return c.Go(attempt, "RPUSH", "list", value).Wait(attempt).Err()
					}
				}
				err := push()
				cancel()
				if errors.Is(err, ServerCode("READONLY")) || errors.Is(err, ServerCode("LOADING")) {
					err = notSent(err) // the server says that it did not execute it
				}
				record.note(value, err)
				if at := c.follower.at.Load(); err == nil && at != nil &&
					at.named.address == direct.options.Address {
					following.Add(1)
				}
				time.Sleep(200 * time.Microsecond)
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
	control := newTestClient(t, sentinel, func(o *Options) { o.ForceRESP2 = true })
	waitFor(t, 20*time.Second, "the failover to be accepted", func() bool {
		return control.Do(ctx, "SENTINEL", "FAILOVER", "main", "COORDINATED").Err() == nil
	})
	waitFor(t, 30*time.Second, "writes on the new primary", func() bool {
		return following.Load() > 500
	})
	stop()
	group.Wait()
	stored, err := direct.LRange(ctx, "list", 0, -1).Strings()
	if err != nil {
		t.Fatal(err)
	}
	acknowledged, lost, unsent := record.check(t, stored)
	t.Logf("%d acknowledged, %d unknown, %d not sent", acknowledged, lost, unsent)
}

// fakeSentinel names a primary and tells notices when the test wants.
type fakeSentinel struct {
	address string
	primary atomic.Pointer[string]
	asked   atomic.Int64 // for the primary
	held    atomic.Bool  // the listener asks second, and is not answered before the release
	first   chan struct{}
	release chan struct{}
	mu      sync.Mutex
	conns   []net.Conn
}

func startFakeSentinel(t *testing.T, primary string) *fakeSentinel {
	f := &fakeSentinel{first: make(chan struct{}), release: make(chan struct{})}
	f.primary.Store(&primary)
	f.address = startScript(t, func(name string) string {
		switch name {
		case "SUBSCRIBE":
			if f.held.Load() {
				<-f.first
			}
			return "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n"
		case "SENTINEL":
			primary := *f.primary.Load() // before it counts as asked
			number := f.asked.Add(1)
			switch {
			case number == 1:
				close(f.first)
			case number == 2 && f.held.Load():
				<-f.release
			}
			host, port, _ := net.SplitHostPort(primary)
			return fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(host), host, len(port), port)
		}
		return "+OK\r\n"
	}, func(conn net.Conn) {
		f.mu.Lock()
		f.conns = append(f.conns, conn)
		f.mu.Unlock()
	})
	return f
}

func (f *fakeSentinel) tell(name, from, to string) {
	text := fmt.Sprintf("%s %s %s", name, strings.Replace(from, ":", " ", 1),
		strings.Replace(to, ":", " ", 1))
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.conns {
		_, _ = fmt.Fprintf(conn, "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$%d\r\n%s\r\n",
			len(text), text)
	}
}

// The old primary lives on and answers reads: only the notice tells the client to leave it. A
// sentinel that does not know of the failover yet is not believed.
func TestSentinel_NoticeAloneMovesAClientThatReads(t *testing.T) {
	checkLeaks(t)
	one, two := startServer(t, "valkey-server"), startServer(t, "valkey-server")
	ctx := testContext(t, 30*time.Second)
	late, aware := startFakeSentinel(t, one.address), startFakeSentinel(t, one.address)
	for _, s := range []*testServer{one, two} {
		if err := newTestClient(t, s.address).Set(ctx, "who", s.address).Err(); err != nil {
			t.Fatal(err)
		}
	}
	listening := newLogWatcher("listening to a sentinel\" address=" + aware.address)
	c, err := NewSentinel([]string{late.address, aware.address}, "main",
		Options{Logger: listening.logger()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	who := func() string {
		text, err := c.Get(ctx, "who").Text()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if who() != one.address {
		t.Fatal("not the primary that was named")
	}
	listening.wait(t, ctx)
	subscribed(t, ctx, c, SubscribeOptions{Channels: []string{"news"}})
	blocked := make(chan error, 1)
	go func() { blocked <- c.BLPop(ctx, []string{"list"}, 0).Err() }()
	direct := newTestClient(t, one.address)
	waitFor(t, 5*time.Second, "the blocked command", func() bool {
		clients, err := direct.Do(ctx, "CLIENT", "LIST").Text()
		return err == nil && strings.Contains(clients, "cmd=blpop")
	})
	aware.primary.Store(&two.address)
	aware.tell("other", one.address, two.address)
	time.Sleep(50 * time.Millisecond)
	if who() != one.address {
		t.Error("moved by a notice about another primary")
	}
	aware.tell("main", one.address, two.address)
	waitFor(t, 5*time.Second, "the new primary", func() bool { return who() == two.address })
	if err := <-blocked; !errors.Is(err, ErrMaybeSent) {
		t.Error("a command blocked on the old primary:", err)
	}
	waitFor(t, 5*time.Second, "the subscription", func() bool {
		n, err := c.Publish(ctx, "news", "x").Int64()
		return n == 1 && err == nil
	})
}

func TestSentinel_AuthenticatesAndUsesTLS(t *testing.T) {
	_, _, sentinel := startSentinelTrio(t)
	ctx := testContext(t, 30*time.Second)
	control := newTestClient(t, sentinel, func(o *Options) { o.ForceRESP2 = true })
	for _, line := range [][]any{
		{"ACL", "SETUSER", "app", "reset", "on", ">pw", "&+switch-master",
			"+sentinel|get-master-addr-by-name", "+subscribe"},
		{"ACL", "SETUSER", "default", "resetpass", ">other"},
	} {
		if err := control.Do(ctx, line...).Err(); err != nil {
			t.Fatal(line, err)
		}
	}
	certificate, roots := tlsfront.SelfSigned(t)
	secured := tlsfront.Start(t, sentinel, &tls.Config{
		Certificates: []tls.Certificate{certificate},
	})
	try := func(address string, access SentinelOptions) error {
		c, err := NewSentinel([]string{
			address,
		}, "main", Options{Sentinel: access, ConnectWait: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.Set(ctx, "k", "v").Err()
	}
	// Nothing is asserted about one attempt: on a busy machine connecting may take longer than
	// ConnectWait.
	ends := func(what, address string, access SentinelOptions, accepted func(err error) bool) {
		t.Helper()
		waitFor(t, 20*time.Second, what, func() bool { return accepted(try(address, access)) })
	}
	succeeds := func(err error) bool { return err == nil }
	refused := func(code ServerCode) func(err error) bool {
		return func(err error) bool { return errors.Is(err, ErrNotSent) && errors.Is(err, code) }
	}
	right := SentinelOptions{Username: "app", Password: "pw"}
	ends("the right password", sentinel, right, succeeds)
	ends("a wrong password", sentinel, SentinelOptions{Username: "app", Password: "wrong"},
		refused("WRONGPASS"))
	ends("no password", sentinel, SentinelOptions{}, refused("NOAUTH"))
	right.TLS = &tls.Config{RootCAs: roots}
	ends("TLS", secured, right, succeeds)
	right.TLS = &tls.Config{}
	ends("an unknown authority", secured, right, func(err error) bool {
		var unknown *tls.CertificateVerificationError
		return errors.As(err, &unknown)
	})
}

// A refusal tells of a failover also as the answer to a part: the next connection goes to the
// primary that the sentinels name by then.
func TestSentinel_RefusedPartOfABatchLeavesTheDemotedServer(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 20*time.Second)
	const refusal = "READONLY You can't write against a read only replica.\r\n"
	primary := startScript(t, func(string) string { return "+OK\r\n" })
	var sentinel atomic.Pointer[fakeSentinel]
	var queues atomic.Bool
	demoted := startScript(t, func(name string) string {
		switch {
		case name == "SET" && queues.Load():
			return "+QUEUED\r\n"
		case name == "EXEC" && queues.Load():
			sentinel.Load().primary.Store(&primary)
			return "-EXECABORT Transaction discarded because of: " + refusal
		case name == "EXEC":
			return "-EXECABORT Transaction discarded because of previous errors.\r\n"
		case name == "SET" || name == "BLPOP":
			sentinel.Load().primary.Store(&primary)
			return "-" + refusal
		}
		return "+OK\r\n"
	})
	var tx Tx
	tx.Add("SET", "k", 1)
	var b Batch
	b.Add("GET", "k")
	b.Add("SET", "k", 1)
	transaction := func(c *Client) error { _, err := c.RunTx(ctx, &tx); return err }
	for what, run := range map[string]func(c *Client) error{
		"a queued command": transaction,
		"EXEC":             transaction,
		"a batch": func(c *Client) error {
			_, err := c.RunBatch(ctx, &b)
			return err
		},
		"a blocking command": func(c *Client) error {
			return c.BLPop(ctx, []string{"k"}, 1).Err()
		},
		"a dedicated connection": func(c *Client) error {
			d, err := c.Dedicate(ctx)
			if err != nil {
				return err
			}
			defer d.Close()
			return d.Set(ctx, "k", 1).Err()
		},
		"a watch": func(c *Client) error {
			_, err := c.Watch(ctx, func(*Dedicated) (*Tx, error) { return &tx, nil }, "k")
			return err
		},
	} {
		queues.Store(what == "EXEC")
		sentinel.Store(startFakeSentinel(t, demoted))
		c, err := NewSentinel([]string{sentinel.Load().address}, "main", Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Connect(ctx); err != nil {
			t.Fatal(err)
		}
		refused := run(c)
		if at := c.follower.left.Load(); at == nil || *at != demoted {
			t.Errorf("%s: the demoted server was not left; %v", what, refused)
		}
		if err := c.Set(ctx, "k", 1).Err(); err != nil {
			t.Error(what, err)
		}
		_ = c.Close()
	}
}

// startNamed is a server that says who it is, and refuses writes once it is demoted.
func startNamed(t *testing.T, name string, isDemoted *atomic.Bool) (address string) {
	return startScript(t, func(command string) string {
		switch {
		case command == "GET":
			return fmt.Sprintf("+%s\r\n", name)
		case command == "SET" && isDemoted.Load():
			return "-READONLY You can't write against a read only replica.\r\n"
		}
		return "+OK\r\n"
	})
}

// logWatcher tells when a text is logged.
type logWatcher struct {
	text string
	seen chan struct{}
}

func newLogWatcher(text string) logWatcher {
	return logWatcher{text, make(chan struct{}, 1)}
}

func (w logWatcher) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (w logWatcher) wait(t *testing.T, ctx context.Context) {
	t.Helper()
	select {
	case <-w.seen:
	case <-ctx.Done():
		t.Fatal("nobody logs", w.text)
	}
}

func (w logWatcher) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(w.text)) {
		select {
		case w.seen <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

// mixedClient has its shared connection at one server and one of its own at another, which the
// sentinel named since.
func mixedClient(
	t *testing.T, ctx context.Context, one, two string, sentinel *fakeSentinel,
) (*Client, *Dedicated) {
	t.Helper()
	sentinel.primary.Store(&one)
	listening := newLogWatcher("listening to a sentinel")
	c, err := NewSentinel([]string{sentinel.address}, "main",
		Options{Logger: listening.logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if who, err := c.Get(ctx, "k").Text(); who != "one" || err != nil {
		t.Fatal(who, err)
	}
	if !sentinel.held.Load() {
		listening.wait(t, ctx)
	}
	waitFor(t, 5*time.Second, "the listener's question", func() bool {
		return sentinel.asked.Load() >= 2
	})
	sentinel.primary.Store(&two)
	d, err := c.Dedicate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if who, err := d.Get(ctx, "k").Text(); who != "two" || err != nil {
		t.Fatal(who, err)
	}
	return c, d
}

// requireMoved requires that a mixedClient leaves the first server and keeps its connection to the
// second.
func requireMoved(t *testing.T, ctx context.Context, c *Client, d *Dedicated) {
	t.Helper()
	waitFor(t, 5*time.Second, "the new primary", func() bool {
		who, err := c.Get(ctx, "k").Text()
		return who == "two" && err == nil
	})
	if who, err := d.Get(ctx, "k").Text(); who != "two" || err != nil {
		t.Error("the connection to the new primary did not stay:", who, err)
	}
}

// Connections may go to different servers while the primary changes. A notice ends those that are
// not at the new one, wherever the last one was made to.
func TestSentinel_NoticeLeavesEveryOtherServer(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 20*time.Second)
	var never atomic.Bool
	one, two := startNamed(t, "one", &never), startNamed(t, "two", &never)
	sentinel := startFakeSentinel(t, one)
	c, d := mixedClient(t, ctx, one, two, sentinel)
	if who, err := c.Get(ctx, "k").Text(); who != "one" || err != nil {
		t.Error("before the notice:", who, err)
	}
	sentinel.tell("main", one, two)
	requireMoved(t, ctx, c, d)
}

// An answer that the listener gets late ends no connection to a server that was named behind its
// question. It asks again, and leaves the others.
func TestSentinel_LateAnswerLeavesNoLaterPrimary(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 20*time.Second)
	var never atomic.Bool
	one, two := startNamed(t, "one", &never), startNamed(t, "two", &never)
	sentinel := startFakeSentinel(t, one)
	sentinel.held.Store(true)
	c, d := mixedClient(t, ctx, one, two, sentinel)
	close(sentinel.release)
	requireMoved(t, ctx, c, d)
}

// The server that refused is left, not the one that was connected to last.
func TestSentinel_RefusalLeavesTheServerThatRefused(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 20*time.Second)
	var isDemoted, never atomic.Bool
	one, two := startNamed(t, "one", &isDemoted), startNamed(t, "two", &never)
	c, d := mixedClient(t, ctx, one, two, startFakeSentinel(t, one))
	isDemoted.Store(true)
	if err := c.Set(ctx, "k", 1).Err(); !errors.Is(err, ServerCode("READONLY")) {
		t.Error(err)
	}
	if at := c.follower.left.Load(); at == nil || *at != one {
		t.Error("the server that refused was not left")
	}
	if err := c.Set(ctx, "k", 1).Err(); err != nil {
		t.Error("at the new primary:", err)
	}
	if who, err := d.Get(ctx, "k").Text(); who != "two" || err != nil {
		t.Error("the connection to the new primary did not stay:", who, err)
	}
}

// A notice also ends a connection that is being made.
func TestSentinel_NoticeEndsAConnectionThatIsBeingMade(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 20*time.Second)
	var never atomic.Bool
	one, two := startNamed(t, "one", &never), startNamed(t, "two", &never)
	sentinel := startFakeSentinel(t, one)
	dialing, told := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c, err := NewSentinel([]string{sentinel.address}, "main", Options{
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == one {
				once.Do(func() {
					close(dialing)
					<-told
				})
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	who := make(chan string, 1)
	go func() {
		text, _ := c.Get(ctx, "k").Text()
		who <- text
	}()
	<-dialing
	waitFor(t, 5*time.Second, "the listener", func() bool { return sentinel.asked.Load() >= 2 })
	sentinel.primary.Store(&two)
	sentinel.tell("main", one, two)
	waitFor(t, 5*time.Second, "the notice", func() bool { return c.follower.left.Load() != nil })
	close(told)
	if got := <-who; got != "two" {
		t.Error("answered by", got)
	}
	c.follower.mu.Lock()
	defer c.follower.mu.Unlock()
	if n := len(c.follower.conns); n != 1 {
		t.Error(n, "connections are known")
	}
}

// Also where it answers the repetition of a write whose outcome is unknown.
func TestSentinel_RefusedRepetitionLeavesTheDemotedServer(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, 20*time.Second)
	demoted, _ := startForgetful(t, "-READONLY You can't write against a read only replica.")
	c, err := NewSentinel([]string{startFakeSentinel(t, demoted).address}, "main", Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	refused := c.Set(WithIdempotent(ctx), "k", 1).Err()
	if !errors.Is(refused, ErrMaybeSent) || !errors.Is(refused, ServerCode("READONLY")) {
		t.Error(refused)
	}
	if at := c.follower.left.Load(); at == nil || *at != demoted {
		t.Error("the demoted server was not left;", refused)
	}
}
