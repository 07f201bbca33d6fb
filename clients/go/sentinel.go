package tidemill

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var errDemoted = errors.New("tidemill: the server is no primary any more")

// SentinelOptions are how sentinels are talked to; Options has its own for the primary. A user of
// theirs needs: +sentinel|get-master-addr-by-name +subscribe &+switch-master.
type SentinelOptions struct {
	Username string
	Password string
	TLS      *tls.Config
}

// NewSentinel returns a client of the primary that the sentinels name. They are asked before each
// connection; the first that answers is believed, unless it names a primary that was just left.
// Their notices (+switch-master) are listened to: a connection to a demoted primary is left at
// once, also when a command it refused returned READONLY. options.Address is not used.
func NewSentinel(sentinels []string, primary string, options Options) (*Client, error) {
	if len(sentinels) == 0 || primary == "" {
		return nil, argumentError("NewSentinel needs sentinels and the name of a primary")
	}
	if options.TLS != nil && options.TLS.ServerName == "" && !options.TLS.InsecureSkipVerify {
		return nil, argumentError("TLS behind sentinels needs a ServerName")
	}
	dialer := options.Dialer
	if dialer == nil {
		dialer = (&net.Dialer{}).DialContext
	}
	f := &follower{primary: primary, sentinels: sentinels, dialer: dialer,
		conns: map[*primaryConn]struct{}{}}
	f.options = Options{Username: options.Sentinel.Username, Password: options.Sentinel.Password,
		TLS:    options.Sentinel.TLS,
		Dialer: dialer, DialTimeout: sentinelWait, ForceRESP2: true, BackoffMin: options.BackoffMin,
		BackoffMax: options.BackoffMax,
		Logger:     options.Logger}.withDefaults()
	options.Address = "primary " + primary
	options.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return f.dial(ctx, network)
	}
	setDefault(&options.ConnectWait, clusterWaitDefault)
	c, err := New(options)
	if err != nil {
		return nil, err
	}
	f.client, c.follower = c, f
	var ctx context.Context
	ctx, f.stop = context.WithCancel(context.Background())
	for _, sentinel := range sentinels {
		f.group.Go(func() { f.listen(ctx, sentinel) })
	}
	return c, nil
}

// sentinelWait bounds how long one sentinel may take, so that a dead one does not use up the dial
// timeout.
const sentinelWait = 500 * time.Millisecond

// follower knows from sentinels who the primary is.
type follower struct {
	primary   string
	sentinels []string
	options   *Options // for the sentinels
	dialer    func(ctx context.Context, network, address string) (net.Conn, error)
	client    *Client
	stop      context.CancelFunc
	group     sync.WaitGroup
	refusedAt atomic.Int64 // when a READONLY was acted upon last, on now's clock
	questions atomic.Int64 // that were begun, for the primary

	mu    sync.Mutex                  // guards conns, and changes of the rest
	conns map[*primaryConn]struct{}   // from before they are made until they are closed
	at    atomic.Pointer[primaryConn] // the one that was begun last
	left  atomic.Pointer[string]      // the primary that was left last
}

// named is a primary as a sentinel named it.
type named struct {
	address  string
	question int64 // number of the one it answers: older answers say nothing about it
}

// primaryConn is a connection that knows which server it was made to: several may be connected
// while the primary changes.
type primaryConn struct {
	net.Conn // nil while it is being made
	follower *follower
	named    named
	isLeft   bool // guarded by the follower's mutex
}

// Close closes the connection, which no notice has to end any more.
func (c *primaryConn) Close() error {
	c.follower.mu.Lock()
	delete(c.follower.conns, c)
	c.follower.mu.Unlock()
	return c.Conn.Close()
}

// primaryOf finds it under TLS; nil for a client without sentinels.
func primaryOf(conn net.Conn) *primaryConn {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	c, _ := conn.(*primaryConn)
	return c
}

// dial connects to the primary.
func (f *follower) dial(ctx context.Context, network string) (net.Conn, error) {
	c, err := f.resolve(ctx)
	if err != nil {
		return nil, err
	}
	var conn net.Conn
	panicked := contain(func() { conn, err = f.dialer(ctx, network, c.named.address) })
	err = cmp.Or(panicked, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil && c.isLeft {
		_ = conn.Close() // the notice came while this connected
		err = errDemoted
	}
	if err != nil {
		delete(f.conns, c)
		return nil, err
	}
	c.Conn = conn
	return c, nil
}

// begin enters a connection that is to be made; nil to a server that was just left.
func (f *follower) begin(primary named) *primaryConn {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isLeft(primary.address) {
		return nil
	}
	return f.enter(primary)
}

// enter is begin whatever was left; the mutex is held.
func (f *follower) enter(primary named) *primaryConn {
	c := &primaryConn{follower: f, named: primary}
	f.conns[c] = struct{}{}
	f.at.Store(c)
	return c
}

// resolve asks the sentinels in turn. One that does not know of a failover yet names the primary
// that was just left; it is believed only when all do.
func (f *follower) resolve(ctx context.Context) (*primaryConn, error) {
	var failures error
	var old named
	for _, sentinel := range f.sentinels {
		primary, err := f.ask(ctx, sentinel)
		if err != nil {
			failures = errors.Join(failures, fmt.Errorf("sentinel %s: %w", sentinel, err))
			continue
		}
		if c := f.begin(primary); c != nil {
			return c, nil
		}
		old = primary
	}
	if old.address != "" {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.enter(old), nil
	}
	return nil, failures
}

func (f *follower) isLeft(address string) bool {
	left := f.left.Load()
	return left != nil && *left == address
}

func (f *follower) ask(ctx context.Context, sentinel string) (named, error) {
	question := f.questions.Add(1)
	ctx, cancel := context.WithTimeout(ctx, sentinelWait)
	defer cancel()
	conn, err := dial(ctx, f.options, sentinel)
	if err != nil {
		return named{}, err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return named{}, err
	}
	replies, err := exchange(conn, [][]any{{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", f.primary}})
	if err != nil {
		return named{}, err
	}
	parts, err := replies[0].Strings()
	if err != nil {
		return named{}, err
	}
	if len(parts) != 2 {
		return named{}, fmt.Errorf("%w: address of a primary", ErrProtocol)
	}
	return named{net.JoinHostPort(parts[0], parts[1]), question}, nil
}

// listen waits for one sentinel's notices.
func (f *follower) listen(ctx context.Context, sentinel string) {
	n := newNode(sentinel, f.options)
	var pace pacing
	for ctx.Err() == nil {
		l, err := connectLeg(ctx, n, []topic{{"SUBSCRIBE", "+switch-master"}})
		if err == nil {
			f.catchUp(ctx, sentinel)
			f.options.Logger.Debug("tidemill: listening to a sentinel", "address", sentinel)
			stop := context.AfterFunc(ctx, func() { n.forget(l.conn) })
			f.follow(l)
			stop()
			n.forget(l.conn)
			pace.ended(time.Now(), f.options)
		} else {
			pace.failed(time.Now(), f.options)
			f.options.Logger.Warn("tidemill: cannot listen to a sentinel", "address", sentinel,
				"error", err)
		}
		_ = pauseFor(ctx, time.Until(pace.until))
	}
}

// catchUp asks a sentinel, because a notice may have been missed. Where the answer to a later
// question named another primary it asks once more: this answer may be the older one, and the other
// that of a sentinel that knows less.
func (f *follower) catchUp(ctx context.Context, sentinel string) {
	for range 2 {
		primary, err := f.ask(ctx, sentinel)
		if err != nil || f.isLeft(primary.address) || f.switched(primary) {
			return
		}
	}
}

// follow takes notices until the connection ends: "name old-host old-port new-host new-port".
func (f *follower) follow(l *leg) {
	for _, message := range l.early {
		f.notice(message)
	}
	for {
		replies, err := l.read()
		for _, reply := range replies {
			if message, ok := parseMessage(reply); ok {
				f.notice(message)
			}
		}
		if err != nil {
			return
		}
	}
}

func (f *follower) notice(message Message) {
	if fields := strings.Fields(message.Payload); len(fields) == 5 && fields[0] == f.primary {
		f.switched(named{net.JoinHostPort(fields[3], fields[4]), math.MaxInt64})
	}
}

// switched leaves whatever is not the new primary, but for what was named in answer to a later
// question; false if there is such.
func (f *follower) switched(primary named) bool {
	isWhole := true
	from := f.leave(func(at named) bool {
		isElsewhere, isOlder := at.address != primary.address, at.question < primary.question
		isWhole = isWhole && (!isElsewhere || isOlder)
		return isElsewhere && isOlder
	})
	if from != "" {
		f.client.options.Logger.Info("tidemill: the primary changed", "from", from,
			"to", primary.address)
	}
	return isWhole
}

// leave closes the connections to demoted servers, those that are being made too, and returns the
// address of such a server; "" when there is none.
func (f *follower) leave(isDemoted func(at named) bool) (from string) {
	var open []*primaryConn
	f.mu.Lock()
	for c := range f.conns {
		if !isDemoted(c.named) {
			continue
		}
		from, c.isLeft = c.named.address, true
		if c.Conn != nil {
			open = append(open, c)
		}
	}
	if at := f.at.Load(); at != nil && isDemoted(at.named) {
		from = at.named.address
	}
	if from != "" {
		f.left.Store(&from)
	}
	f.mu.Unlock()
	for _, p := range f.client.node.allPipes() {
		if p.primary != nil && isDemoted(p.primary.named) {
			p.kill(errDemoted)
		}
	}
	for _, c := range open { // also those without a pipe
		_ = c.Close()
	}
	return from
}

// refusedByReplica is true for READONLY, also as the answer to a part of a batch or a transaction.
func refusedByReplica(reply Reply) bool {
	var refused *ServerError
	if errors.As(reply.Err(), &refused) {
		return refused.reason() == "READONLY"
	}
	return slices.ContainsFunc(reply.items(), func(item Reply) bool {
		return errors.As(item.Err(), &refused) && refused.reason() == "READONLY"
	})
}

// answered leaves a server that refused a write as a replica. Of many refusals at once only the
// first counts: where the sentinels go on to name that server, it is not left again and again.
func (c *primaryConn) answered(r *request) {
	if r.reply.kind != KindError && r.want == 1 || !refusedByReplica(r.reply) {
		return
	}
	f := c.follower
	before := f.refusedAt.Load()
	if recent := before > 0 && now()-time.Duration(before) < sentinelWait; !recent &&
		f.refusedAt.CompareAndSwap(before, int64(now())) {
		f.leave(func(at named) bool { return at.address == c.named.address })
	}
}
