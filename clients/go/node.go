package tidemill

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// node is one server address with the pipe to it, reconnected on demand.
type node struct {
	address string
	options *Options
	extra   [][]any     // commands of the handshake
	onPush  func(Reply) // non-nil: pushes are read even when no reply is due
	onLost  func()      // called once for each lost pipe; may be nil
	cache   *cache      // what the pipe's pushes invalidate; nil: no tracking

	current   atomic.Pointer[pipe]
	further   atomic.Pointer[[]*pipe] // see spread.go; nil for none
	unawaited atomic.Int64            // asynchronous requests not answered yet

	life    context.Context // ends when new requests are refused
	endLife context.CancelFunc

	mu       sync.Mutex
	pacing   pacing // of dials
	lost     *pipe  // whose end the pacing knows
	failure  error  // of the last dial, for those who wait for the next
	widening bool
	attempt  *attempt
	closed   bool
	retiring map[*pipe]struct{} // further pipes that were given up and have not ended
	loose    map[net.Conn]*pipe // connections outside the pipe; nil for those without one of theirs
}

// attempt is a series of dials for which callers wait together.
type attempt struct {
	done    chan struct{}
	waiters int
	last    error // guarded by the node's mutex
}

func newNode(address string, options *Options) *node {
	n := &node{address: address, options: options, retiring: map[*pipe]struct{}{},
		loose: map[net.Conn]*pipe{}}
	n.life, n.endLife = context.WithCancel(context.Background())
	return n
}

// acquire returns a live pipe, waiting for a connection while the context and ConnectWait last.
func (n *node) acquire(ctx context.Context) (*pipe, error) {
	if p := n.current.Load(); p != nil && !p.gone.Load() {
		return p, nil
	}
	timer := time.NewTimer(n.options.ConnectWait)
	defer timer.Stop()
	for {
		a, p, err := n.join()
		if p != nil || err != nil {
			return p, err
		}
		select {
		case <-a.done:
			p, err := n.leave(a)
			if err != nil {
				return nil, notSent(err)
			}
			if p != nil {
				return p, nil
			}
		case <-ctx.Done():
			_, err := n.leave(a)
			return nil, notSent(errors.Join(endOf(ctx), err))
		case <-timer.C:
			_, err := n.leave(a)
			if err == nil {
				err = errors.New("connecting takes longer than ConnectWait")
			}
			return nil, notSent(err)
		}
	}
}

// join returns the running series of dials, starting one when there is none, or a live pipe.
func (n *node) join() (*attempt, *pipe, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, nil, notSent(ErrClosed)
	}
	if p := n.current.Load(); p != nil && !p.gone.Load() {
		return nil, p, nil
	}
	if n.attempt == nil {
		if p := n.current.Load(); p != nil && p != n.lost {
			n.lost = p
			n.pacing.ended(time.Now(), n.options)
		}
		n.attempt = &attempt{done: make(chan struct{})}
		if time.Now().Before(n.pacing.until) {
			n.attempt.last = n.failure
		}
		go n.connect(n.attempt, n.pacing.until)
	}
	n.attempt.waiters++
	return n.attempt, nil, nil
}

// leave ends the wait for a series of dials; its error is why the last one failed.
func (n *node) leave(a *attempt) (*pipe, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a.waiters--
	if p := n.current.Load(); p != nil && !p.gone.Load() {
		return p, nil
	}
	return nil, a.last
}

// connect dials until it succeeds, the error is final, or nobody waits any more. Dials keep apart
// also when connections are made and lost at once.
func (n *node) connect(a *attempt, at time.Time) {
	for {
		_ = pauseFor(n.life, time.Until(at))
		conn, err := dial(n.life, n.options, n.address, n.handshake()...)
		n.mu.Lock()
		if n.closed {
			if err == nil {
				_ = conn.Close()
			}
			err = ErrClosed
		}
		if err == nil {
			n.install(conn)
			a.last, n.failure = nil, nil
		} else {
			a.last = fmt.Errorf("connecting to %s: %w", n.address, err)
			if !finalError(err) {
				n.failure = a.last
				n.pacing.failed(time.Now(), n.options)
			}
			at = n.pacing.until
		}
		if err == nil || n.closed || a.waiters == 0 || finalError(err) {
			n.attempt = nil
			close(a.done)
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
		n.options.Logger.Warn("tidemill: cannot connect", "address", n.address, "error", err)
	}
}

// handshake is what the pipe's connection needs beyond the options. Connections of their own do
// without tracking: their replies are not cached.
func (n *node) handshake() [][]any {
	if n.cache == nil {
		return n.extra
	}
	return append(n.extra[:len(n.extra):len(n.extra)], []any{"CLIENT", "TRACKING", "ON", "OPTIN"})
}

// useCache makes the node's pushes go to a cache.
func (n *node) useCache(k *cache) {
	if k != nil {
		n.cache, n.onPush = k, k.pushed
	}
}

// install makes conn the node's pipe; the mutex is held.
func (n *node) install(conn net.Conn) {
	p := newPipe(conn, n.options, n.onPush)
	if runtime.GOMAXPROCS(0) > 1 {
		p.measure(n.resize)
	}
	n.current.Store(p)
	go func() {
		<-p.closed
		if cause := p.dead; cause != ErrClosed {
			n.options.Logger.Warn("tidemill: connection lost", "address", n.address, "error", cause)
		}
		if n.cache != nil {
			n.cache.clear() // would not be served any more; do not keep the memory
		}
		if n.onLost != nil {
			n.onLost()
		}
	}()
}

// finalError is true where dialing again cannot help: the server refused us by name, or a user's
// callback panicked.
func finalError(err error) bool {
	var refused *ServerError
	return errors.Is(err, ErrPanic) || errors.As(err, &refused) && refused.Code != "LOADING" &&
		refused.Code != "BUSY" && refused.Code != "ERR"
}

func (n *node) isClosed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.closed
}

// connectOwn dials a connection for one user, outside the pipe. It is closed with the node.
func (n *node) connectOwn(ctx context.Context, extra ...[]any) (net.Conn, error) {
	return n.connectLoose(ctx, n.options, slices.Concat(n.extra, extra))
}

// connectBare is connectOwn without what a server that answers BUSY refuses: the database stays 0.
func (n *node) connectBare(ctx context.Context) (net.Conn, error) {
	options := *n.options
	options.Database = 0
	return n.connectLoose(ctx, &options, nil)
}

func (n *node) connectLoose(
	ctx context.Context, options *Options, extra [][]any,
) (net.Conn, error) {
	if n.isClosed() {
		return nil, notSent(ErrClosed)
	}
	ctx, cancel := n.whileOpen(ctx)
	defer cancel()
	conn, err := dial(ctx, options, n.address, extra...)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		if err == nil {
			_ = conn.Close()
		}
		return nil, notSent(ErrClosed)
	}
	if err != nil {
		return nil, notSent(fmt.Errorf("connecting to %s: %w", n.address, err))
	}
	n.loose[conn] = nil
	return conn, nil
}

// whileOpen is ctx, ended also when the node refuses new requests.
func (n *node) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(n.life, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// pause waits; its error is the context's, or ErrClosed when the node refuses new requests.
func (n *node) pause(ctx context.Context, length time.Duration) error {
	ctx, cancel := n.whileOpen(ctx)
	defer cancel()
	err := pauseFor(ctx, length)
	if err != nil && n.life.Err() != nil {
		return ErrClosed
	}
	return err
}

// adopt makes a pipe end with its connection, which connectLoose returned.
func (n *node) adopt(p *pipe) {
	n.mu.Lock()
	_, isOpen := n.loose[p.conn]
	if isOpen {
		n.loose[p.conn] = p
	}
	n.mu.Unlock()
	if !isOpen {
		p.kill(ErrClosed)
	}
}

func (n *node) forget(conn net.Conn) {
	n.mu.Lock()
	delete(n.loose, conn)
	n.mu.Unlock()
	_ = conn.Close()
}

// closeLoose closes the connections outside the pipe, also those in use.
func (n *node) closeLoose() {
	n.mu.Lock()
	loose := n.loose
	n.loose = map[net.Conn]*pipe{}
	n.mu.Unlock()
	for conn, p := range loose {
		if p != nil {
			p.kill(ErrClosed)
		} else {
			_ = conn.Close()
		}
	}
}

// sharedPipes returns the node's pipes with those that are retiring; the mutex is held.
func (n *node) sharedPipes() []*pipe {
	return slices.AppendSeq(n.pipes(), maps.Keys(n.retiring))
}

// allPipes returns every pipe to the node, also those with one user.
func (n *node) allPipes() []*pipe {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.sharedPipes()
	for _, p := range n.loose {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// refuse lets no new request enter; those that did go on.
func (n *node) refuse() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	n.endLife()
	for _, p := range n.sharedPipes() {
		p.refuse(ErrClosed)
	}
}

// close refuses new requests, waits for pending ones while ctx lasts, and closes all connections.
func (n *node) close(ctx context.Context) error {
	n.refuse()
	n.mu.Lock()
	all := n.sharedPipes() // no more come
	n.mu.Unlock()
	var err error
	for _, p := range all {
		err = errors.Join(err, p.drain(ctx))
		p.kill(ErrClosed)
		<-p.closed
	}
	n.closeLoose()
	return err
}

// drain waits until nothing is pending in a pipe that refuses requests.
func (p *pipe) drain(ctx context.Context) error {
	return waitUntil(ctx, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.gauge.pending == 0 || p.dead != nil
	})
}

// waitUntil looks every millisecond whether something came true.
func waitUntil(ctx context.Context, isTrue func() bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !isTrue() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return endOf(ctx)
		}
	}
	return nil
}
