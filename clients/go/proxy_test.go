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

// faultProxy is a TCP proxy between client and server. Each direction of each connection may be cut
// after a number of bytes, delayed, or forwarded in fragments.
type faultProxy struct {
	listener net.Listener
	target   string
	// per connection; cut < 0: never
	faults   func() (cutUp, cutDown int, fragment int, delay time.Duration)
	group    sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]bool
	accepted atomic.Int32
}

func startProxy(
	t testing.TB, target string, faults func() (int, int, int, time.Duration),
) *faultProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &faultProxy{listener: listener, target: target, faults: faults, conns: map[net.Conn]bool{}}
	p.group.Go(p.accept)
	t.Cleanup(func() {
		listener.Close()
		p.cutAll()
		p.group.Wait()
	})
	return p
}

func (p *faultProxy) address() string { return p.listener.Addr().String() }

func (p *faultProxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.accepted.Add(1)
		far, err := net.Dial("tcp", p.target)
		if err != nil {
			near.Close()
			continue
		}
		p.mu.Lock()
		p.conns[near], p.conns[far] = true, true
		p.mu.Unlock()
		up, down, fragment, delay := p.faults()
		p.group.Go(func() { p.forward(far, near, up, fragment, delay) })
		p.group.Go(func() { p.forward(near, far, down, fragment, delay) })
	}
}

func (p *faultProxy) forward(to, from net.Conn, limit, fragment int, delay time.Duration) {
	defer p.cut(to, from)
	buffer := make([]byte, 4096)
	for limit != 0 {
		n, err := from.Read(buffer[:min(len(buffer), fragment)])
		if n == 0 && err != nil {
			return
		}
		if limit > 0 {
			n = min(n, limit)
			limit -= n
		}
		if delay > 0 {
			time.Sleep(rand.N(delay))
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// cut resets both sides, so that unread bytes are lost as in a crash.
func (p *faultProxy) cut(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		if p.conns[conn] {
			delete(p.conns, conn)
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}
}

func (p *faultProxy) cutAll() {
	p.mu.Lock()
	var all []net.Conn
	for conn := range p.conns {
		all = append(all, conn)
	}
	p.mu.Unlock()
	p.cut(all...)
}

// ledger records what was told about each unique value, for the check against the list in the
// server.
type ledger struct {
	mu           sync.Mutex
	outcome      map[string]error
	acknowledged int
	lost         bool // some were
}

func (l *ledger) note(value string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcome[value] = err
	if err == nil {
		l.acknowledged++
	}
	l.lost = l.lost || errors.Is(err, ErrMaybeSent)
}

// isMixed is true once there are both: writes that were acknowledged, and of unknown outcome.
func (l *ledger) isMixed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acknowledged > 0 && l.lost
}

// hasAcknowledged is true once count writes were acknowledged.
func (l *ledger) hasAcknowledged(count int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acknowledged >= count
}

// check: no value twice, each acknowledged one once, each not-sent one never.
func (l *ledger) check(t *testing.T, stored []string) (acknowledged, lost, unsent int) {
	t.Helper()
	seen := map[string]int{}
	for _, value := range stored {
		seen[value]++
	}
	for value, err := range l.outcome {
		count := seen[value]
		switch {
		case count > 1:
			t.Errorf("%s was executed %d times (%v)", value, count, err)
		case err == nil && count != 1:
			t.Errorf("%s was acknowledged and is not there", value)
		case errors.Is(err, ErrNotSent) && errors.Is(err, ErrMaybeSent):
			t.Errorf("%s: both sent and not sent: %v", value, err)
		case errors.Is(err, ErrNotSent) && count != 0:
			t.Errorf("%s was executed but reported as not sent: %v", value, err)
		case err != nil && !errors.Is(err, ErrNotSent) && !errors.Is(err, ErrMaybeSent):
			t.Errorf("%s: an error that does not tell: %v", value, err)
		}
		switch {
		case err == nil:
			acknowledged++
		case errors.Is(err, ErrNotSent):
			unsent++
		default:
			lost++
		}
	}
	return acknowledged, lost, unsent
}

func TestChaos_EveryWriteIsAccountedForUnderResets(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		seed := uint64(time.Now().UnixNano())
		t.Log("seed", seed)
		random := rand.New(rand.NewPCG(seed, 1))
		var mu sync.Mutex
		proxy := startProxy(t, s.address, func() (int, int, int, time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			up, down := 200+random.IntN(20000), 200+random.IntN(4000)
			return up, down, 1 + random.IntN(2000),
				time.Duration(random.IntN(200)+1) * time.Microsecond
		})
		c := newTestClient(t, proxy.address(), func(o *Options) {
			o.BackoffMin, o.BackoffMax = time.Millisecond, 4*time.Millisecond
		})
		record := &ledger{outcome: map[string]error{}}
		length := 8 * time.Second
		if testing.Short() {
			length = 2 * time.Second
		}
		started := time.Now()
		// A machine that does little in that time goes on until the test has met faults.
		isOver := func() bool {
			took, isMet := time.Since(started), record.isMixed() && proxy.accepted.Load() > 2
			return took > length && isMet || took > busyMachine
		}
		var group sync.WaitGroup
		for worker := range 32 {
			group.Go(func() { chaosWorker(t, c, record, worker, isOver) })
		}
		group.Wait()
		direct := newTestClient(t, s.address)
		stored, err := direct.LRange(context.Background(), "list", 0, -1).Strings()
		if err != nil {
			t.Fatal(err)
		}
		acknowledged, lost, unsent := record.check(t, stored)
		t.Logf("%d connections, %d acknowledged, %d unknown, %d not sent", proxy.accepted.Load(),
			acknowledged, lost, unsent)
		if acknowledged == 0 || lost == 0 || proxy.accepted.Load() < 3 {
			t.Error("the test met no faults")
		}
	})
}

func chaosWorker(t *testing.T, c *Client, record *ledger, worker int, isOver func() bool) {
	for i := 0; !isOver(); i++ {
		limit := 50 * time.Millisecond
		if i%3 == 0 {
			limit = 300 * time.Microsecond
		}
		value := fmt.Sprintf("%d:%d", worker, i)
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		started := time.Now()
		record.note(value, c.RPush(ctx, "list", value).Err())
		if took := time.Since(started); took > limit+5*time.Second {
			t.Errorf("deadline of %v took %v", limit, took)
		}
		if got, err := c.Echo(ctx, value).Text(); err == nil && got != value {
			t.Errorf("asked for %s, got %s", value, got)
		}
		cancel()
	}
}

func TestChaos_ResetAtEveryByteOfAConversation(t *testing.T) {
	checkLeaks(t)
	s := startServer(t, "valkey-server")
	direct := newTestClient(t, s.address)
	ctx := testContext(t, 3*time.Minute)
	step := 1
	if testing.Short() {
		step = 7
	}
	record := &ledger{outcome: map[string]error{}}
	for _, upstream := range []bool{true, false} {
		for at := 0; at < 500; at += step {
			first := true
			var mu sync.Mutex
			proxy := startProxy(t, s.address, func() (int, int, int, time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				cut := at
				if !first {
					cut = -1
				}
				first = false
				if upstream {
					return cut, -1, 4096, 0
				}
				return -1, cut, 4096, 0
			})
			c := newTestClient(t, proxy.address(), func(o *Options) {
				o.BackoffMin = time.Millisecond
			})
			for i := range 3 {
				value := fmt.Sprintf("%v:%d:%d", upstream, at, i)
				record.note(value, c.RPush(ctx, "list", value).Err())
			}
			_ = c.Close()
			proxy.listener.Close()
			proxy.cutAll()
		}
	}
	stored, err := direct.LRange(ctx, "list", 0, -1).Strings()
	if err != nil {
		t.Fatal(err)
	}
	acknowledged, lost, unsent := record.check(t, stored)
	t.Logf("%d acknowledged, %d unknown, %d not sent", acknowledged, lost, unsent)
	if lost == 0 {
		t.Error("no reset hit a reply")
	}
}

func TestParser_FragmentsAndHostileInput(t *testing.T) {
	conversation :=
		"+OK\r\n$5\r\nhello\r\n*2\r\n:1\r\n$-1\r\n%1\r\n+k\r\n,1.5\r\n#t\r\n(123\r\n" +
			"=7\r\ntxt:abc\r\n|1\r\n+a\r\n+b\r\n_\r\n-ERR no\r\n~0\r\n"
	want := parseAll(t, conversation, len(conversation))
	if len(want) != 10 {
		t.Fatal(want)
	}
	for size := 1; size < 20; size++ {
		if got := parseAll(t, conversation, size); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("fragments of %d: %v, wanted %v", size, got, want)
		}
	}
	for _, large := range []string{"$536870913\r\n", "*67108865\r\n",
		strings.Repeat("*1\r\n", replyDepthMax+1)} {
		var p parser
		if _, _, _, err := p.next([]byte(large)); !errors.Is(err, ErrLimit) ||
			!errors.Is(err, ErrProtocol) {
			t.Errorf("%.20q: %v", large, err)
		}
	}
	for _, hostile := range []string{"$999999999999\r\n", "*-2\r\n", ":\r\n", "?x\r\n", "$3\r\n",
		"\n", "*99999999999999999999\r\n"} {
		var p parser
		_, reply, done, err := p.next([]byte(hostile))
		if err == nil && done {
			t.Errorf("%q was read as %v", hostile, reply)
		}
	}
}

func parseAll(t *testing.T, text string, size int) (replies []Reply) {
	t.Helper()
	var p parser
	var held []byte
	for len(text) > 0 {
		n := min(size, len(text))
		held, text = append(held, text[:n]...), text[n:]
		for len(held) > 0 {
			used, reply, done, err := p.next(held)
			if err != nil {
				t.Fatal(err)
			}
			held = held[used:]
			if !done {
				break
			}
			replies = append(replies, reply)
		}
	}
	return replies
}

func FuzzParser(f *testing.F) {
	f.Add([]byte("*2\r\n$3\r\nfoo\r\n:1\r\n"), 3)
	f.Add([]byte("%1\r\n+a\r\n*0\r\n"), 1)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		size = max(1, size%64)
		var p parser
		var held []byte
		for len(data) > 0 {
			n := min(size, len(data))
			held, data = append(held, data[:n]...), data[n:]
			for len(held) > 0 {
				used, reply, done, err := p.next(held)
				if err != nil || used > len(held) {
					return
				}
				held = held[used:]
				if !done {
					break
				}
				_ = reply.String()
			}
		}
	})
}
