package tidemill

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pipe is one connection shared by all goroutines. Callers append to a queue; the holder of the
// writer role gathers and writes, the holder of the reader role resolves replies in order. Two
// goroutines of the pipe hold the roles under load. A caller that finds nobody else there takes
// both: it writes and reads itself, and no goroutine is woken.
//
// A pipe lives as long as its connection. When that fails, every request learns whether a server
// can have executed a command of it.
type pipe struct {
	conn        net.Conn
	primary     *primaryConn  // conn without TLS, behind sentinels
	pauseLength time.Duration // see gauge.pause; negative: never pause
	limit       int           // requests pending at most
	timeout     time.Duration // without a byte while replies are due
	ping        time.Duration
	attached    bool        // read always: pushes are expected
	onPush      func(Reply) // called by the reader

	mu        sync.Mutex
	gauge     gauge
	queue     []*request // not yet written
	flight    []*request // written, in order
	waiters   []chan struct{}
	writing   bool   // somebody holds the writer role
	reading   bool   // somebody holds the reader role
	pausing   bool   // the writer waits for company
	gathering bool   // the writer gives its turn to others
	urgent    bool   // the role was handed on to flush at once
	turn      uint64 // of gathering; changes when the role is handed on
	watching  bool   // the watch ticks fast
	finished  bool
	dead      error
	refusal   error       // why no request may enter any more
	gone      atomic.Bool // refuses, for those who do not hold the mutex
	unsent    uint64      // after a failed write: from this sequence on nothing was executed
	stats     PipeStats

	writer   writerRole
	reader   readerRole
	progress atomic.Uint64    // reads, and writes that the silence is measured from
	meter    meter            // guarded by the mutex, like resize
	resize   func(wider bool) // see measure
	measured atomic.Bool
	// nanoseconds that the goroutines of reader and writer worked, when measured
	working [2]atomic.Int64
	watch   *time.Timer
	writeGo chan struct{}
	readGo  chan struct{}
	closed  chan struct{}
}

// writerRole is touched only by the holder of the role.
type writerRole struct {
	batch    []*request
	out      []byte
	fresh    bool  // no reply was due before the chunk
	ends     []int // where each request of the chunk ends in out
	sequence uint64
	pauser   *pauser
}

func newPipe(conn net.Conn, options *Options, onPush func(Reply)) *pipe {
	return startPipe(conn, options, onPush, nil)
}

// newRawPipe is a pipe whose replies are not decoded.
func newRawPipe(conn net.Conn, options *Options) *pipe {
	return startPipe(conn, options, nil, &rawReply{})
}

func startPipe(conn net.Conn, options *Options, onPush func(Reply), raw *rawReply) *pipe {
	p := &pipe{
		conn: conn, primary: primaryOf(conn), limit: options.MaxPending, timeout: options.IOTimeout,
		ping:        options.PingInterval,
		pauseLength: gatherPause, attached: onPush != nil, onPush: onPush,
		writeGo: make(chan struct{}, 1), readGo: make(chan struct{}, 1),
		closed: make(chan struct{}),
		unsent: ^uint64(0), watching: true,
	}
	p.gauge = newGauge()
	if options.MaxGatherDelay != 0 {
		p.pauseLength = options.MaxGatherDelay
	}
	p.reader.buffer = make([]byte, readBufferBytes)
	p.reader.parser.raw = raw
	if p.attached {
		p.reading = true
		p.readGo <- struct{}{}
	}
	p.mu.Lock()
	p.watch = time.AfterFunc(watchInterval, p.look)
	p.mu.Unlock()
	go p.writeLoop()
	go p.writeLoop()
	go p.readLoop()
	return p
}

// do sends r and waits for its end. The reply is r's or the client's error; reusable tells whether
// r may be recycled.
func (p *pipe) do(ctx context.Context, r *request) (reply Reply, reusable bool) {
	solo, err := p.enqueue(ctx, r, true)
	if err != nil {
		return failedReply(err), true
	}
	if solo {
		return p.soloRun(ctx, r)
	}
	if done := ctx.Done(); done == nil {
		<-r.wake
	} else {
		select {
		case <-r.wake:
		case <-done:
			return p.giveUp(ctx, r)
		}
	}
	r.last.resumed(rounds.Load())
	return r.reply, true
}

// giveUp ends the wait for a request whose context is over.
func (p *pipe) giveUp(ctx context.Context, r *request) (Reply, bool) {
	switch {
	case r.state.CompareAndSwap(stateQueued, stateWithdrawn):
		return failedReply(notSent(endOf(ctx))), false
	case r.state.CompareAndSwap(stateSent, stateAbandoned):
		return failedReply(maybeSent(endOf(ctx))), false
	}
	<-r.wake
	return r.reply, true
}

// enqueue puts r into the queue, waiting for room while ctx lasts. With maySolo the caller may be
// given both roles instead. An error means that r never entered.
func (p *pipe) enqueue(ctx context.Context, r *request, maySolo bool) (solo bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, notSent(endOf(ctx))
	}
	independent := r.last.independent(rounds.Load())
	p.mu.Lock()
	for p.gauge.pending >= p.limit && p.refusal == nil {
		if err := p.waitForRoom(ctx); err != nil {
			p.mu.Unlock()
			return false, err
		}
	}
	if p.refusal != nil {
		err := p.refusal
		p.mu.Unlock()
		return false, notSent(err)
	}
	p.gauge.arrive(independent)
	if !p.watching {
		p.watching = true
		p.watch.Reset(watchInterval)
	}
	if maySolo && p.gauge.streak >= soloStreak && p.gauge.pending == 1 && !p.writing &&
		!p.reading && len(r.wire) <= soloBytes {
		p.takeBothRoles(r)
		p.mu.Unlock()
		return true, nil
	}
	p.queue = append(p.queue, r)
	wake := !p.writing
	p.writing = true
	cut := p.pausing && (len(p.queue) >= flushRequests || float64(len(p.queue)) >= p.gauge.peak)
	if cut {
		// Under the mutex, because the writer's role keeps the timer open only while it pauses.
		p.pausing = false
		p.writer.pauser.cut()
	}
	if p.gathering && len(p.queue) >= p.gauge.enough {
		p.gathering, p.urgent, wake = false, true, true
		p.turn++
	}
	p.mu.Unlock()
	if wake {
		p.writeGo <- struct{}{}
	}
	return false, nil
}

// waitForRoom is called with the mutex held and returns with it held.
func (p *pipe) waitForRoom(ctx context.Context) error {
	room := make(chan struct{})
	p.waiters = append(p.waiters, room)
	p.mu.Unlock()
	var err error
	select {
	case <-room:
	case <-ctx.Done():
		err = notSent(endOf(ctx))
	}
	p.mu.Lock()
	if err == nil {
		return nil
	}
	if i := slices.Index(p.waiters, room); i >= 0 {
		p.waiters = slices.Delete(p.waiters, i, i+1)
	} else {
		p.wakeWaiters() // woken at the same moment: the room is for the next
	}
	return err
}

// wakeWaiters lets as many waiting callers try again as there is room; the mutex is held.
func (p *pipe) wakeWaiters() {
	if len(p.waiters) == 0 {
		return
	}
	room := len(p.waiters)
	if p.refusal == nil {
		room = min(room, p.limit-p.gauge.pending)
	}
	for i := range room {
		close(p.waiters[i])
		p.waiters[i] = nil
	}
	if room > 0 {
		p.waiters = p.waiters[room:]
	}
}

func (p *pipe) takeBothRoles(r *request) {
	p.writing, p.reading = true, true
	r.solo = true
	r.state.Store(stateSent)
	r.sequence = p.writer.sequence
	p.writer.sequence++
	if p.reader.next == len(p.reader.due) {
		p.reader.due, p.reader.next = p.reader.due[:0], 0
	}
	p.reader.due = append(p.reader.due, r)
	p.stats.Writes++
	p.stats.Requests++
	p.stats.Solo++
}

// soloRun is the whole life of a request whose caller found the pipe empty.
func (p *pipe) soloRun(ctx context.Context, r *request) (Reply, bool) {
	n, err := p.conn.Write(r.wire)
	if err != nil {
		unsent := r.sequence
		if n == len(r.wire) || mayHaveRun(r.wire, n) {
			unsent++
		}
		p.failedWrite(unsent, err)
	}
	p.releaseWriter()
	interruptible := ctx.Done() != nil
	var stop func() bool
	if interruptible {
		stop = context.AfterFunc(ctx, func() { _ = p.conn.SetReadDeadline(time.Unix(1, 0)) })
		defer stop()
	}
	for r.state.Load() != stateDone {
		err := p.readOnce()
		if err == nil {
			continue
		}
		if interruptible && ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			return p.soloAbandon(ctx, r)
		}
		if p.retryRead(err) {
			if interruptible && ctx.Err() != nil {
				// The deadline that was cleared may have been the one of this context.
				return p.soloAbandon(ctx, r)
			}
			continue
		}
		p.kill(err)
		p.releaseReader(true)
		if r.state.Load() != stateDone {
			// The writer goroutine holds its role and will end the request.
			return p.awaitEnd(r)
		}
		return r.reply, true
	}
	p.releaseReader(false)
	return r.reply, true
}

// awaitEnd waits for the end of a solo request whose pipe died.
func (p *pipe) awaitEnd(r *request) (Reply, bool) {
	<-p.closed
	return r.reply, true
}

// soloAbandon leaves the reading, in the middle of whatever arrived, to the pipe's reader.
func (p *pipe) soloAbandon(ctx context.Context, r *request) (Reply, bool) {
	r.solo = false
	abandoned := r.state.CompareAndSwap(stateSent, stateAbandoned)
	reply := r.reply
	p.readGo <- struct{}{}
	if abandoned {
		return failedReply(maybeSent(endOf(ctx))), false
	}
	return reply, true
}

// retryRead clears the deadline that a caller who left may have set; true when that explains err.
func (p *pipe) retryRead(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	return p.conn.SetReadDeadline(time.Time{}) == nil
}

// refuse lets no request enter any more; those that did go on.
func (p *pipe) refuse(err error) {
	p.mu.Lock()
	p.refuseLocked(err)
	p.mu.Unlock()
}

func (p *pipe) refuseLocked(err error) {
	if p.refusal == nil {
		p.refusal = err
		p.gone.Store(true)
		p.wakeWaiters()
	}
}

// kill makes the pipe unusable; requests end when both roles are free.
func (p *pipe) kill(err error) {
	p.mu.Lock()
	if p.dead == nil {
		p.dead = err
		p.refuseLocked(err)
	}
	last := p.claimEnd()
	p.mu.Unlock()
	_ = p.conn.Close()
	if last {
		p.finish()
	}
}

// claimEnd is true for the one who has to finish the pipe; the mutex is held.
func (p *pipe) claimEnd() bool {
	if p.dead == nil || p.writing || p.reading || p.finished {
		return false
	}
	p.finished = true
	return true
}

// finish ends every request: those of which a command may have been executed with unknown outcome,
// the rest as not sent.
func (p *pipe) finish() {
	p.watch.Stop()
	for _, sent := range [2][]*request{p.reader.due[p.reader.next:], p.flight} {
		for _, r := range sent {
			if r.sequence >= p.unsent {
				r.fail(notSent(p.dead))
			} else {
				r.fail(maybeSent(p.dead))
			}
			r.complete()
		}
	}
	for _, waiting := range [2][]*request{p.writer.batch, p.queue} {
		for _, r := range waiting {
			r.fail(notSent(p.dead))
			r.complete()
		}
	}
	p.reader.due, p.flight, p.writer.batch = nil, nil, nil
	p.reader.next = 0
	p.mu.Lock()
	p.queue = nil // statistics look at it
	p.mu.Unlock()
	if p.writer.pauser != nil {
		p.writer.pauser.close()
	}
	close(p.closed)
}

// look is the watch: it runs on a timer, fast while the pipe is used, seldom when it is idle.
func (p *pipe) look() {
	p.mu.Lock()
	if p.dead != nil {
		p.mu.Unlock()
		return
	}
	progress := p.progress.Load()
	role := &p.reader
	quiet := p.gauge.pending == 0 && progress == role.watched
	if p.gauge.pending > 0 && progress == role.watched {
		role.stuck += watchInterval
	} else {
		role.stuck = 0
	}
	role.watched = progress
	if quiet && role.idle {
		p.becomeIdle()
		return
	}
	role.idle = quiet
	role.pingDue = role.pingDue && quiet
	p.watching = true
	p.watch.Reset(watchInterval)
	stuck := p.timeout > 0 && role.stuck >= p.timeout
	wider, narrower := false, false
	if p.resize != nil {
		wider, narrower = p.meter.look(now(), time.Duration(p.working[0].Load()),
			time.Duration(p.working[1].Load()))
	}
	p.mu.Unlock()
	if stuck {
		p.kill(ErrTimeout)
	} else if wider || narrower {
		p.resize(wider)
	}
}

// becomeIdle puts the reader on an unused connection, so that its end is noticed, and pings when a
// whole ping interval was quiet. It is called with the mutex held and releases it.
func (p *pipe) becomeIdle() {
	wake := !p.reading && !p.writing
	if wake {
		p.reading = true
	}
	role := &p.reader
	pinging := role.pingDue
	role.pingDue = !pinging && p.ping > 0
	role.idle = role.pingDue
	p.watching = false
	if role.pingDue {
		p.watch.Reset(p.ping)
	}
	p.mu.Unlock()
	if wake {
		p.readGo <- struct{}{}
	}
	if pinging {
		r := &request{want: 1, wire: []byte("*1\r\n$4\r\nPING\r\n"), notify: func(*request) {}}
		_, _ = p.enqueue(context.Background(), r, false)
	}
}
