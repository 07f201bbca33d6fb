package tidemill

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"time"
)

// Several pipes to one node. One pipe is best as long as it keeps up: every further one divides the
// batches. Another is opened only after the first one's reader or writer was busy for more than
// busyShare of busyTicks looks in a row (one second), and given up again when it was quiet for
// quietTicks.
//
// One goroutine's order is kept without knowing goroutines: who waits for each reply cannot
// overtake itself on whichever pipe, and while anybody's asynchronous request is unanswered,
// everybody uses the first pipe, where those are. What a goroutine sends after an operation of
// unknown outcome (ErrMaybeSent) may overtake that one, as it may after a reconnection.

const (
	pipesMax   = 4
	busyShare  = 0.8
	busyTicks  = int(time.Second / watchInterval)
	quietShare = 0.2
	quietTicks = 10 * busyTicks
)

// meter finds out from the times that a pipe's roles worked whether it is saturated.
type meter struct {
	at              time.Duration
	reader, writer  time.Duration // totals seen last
	busyIn, quietIn int           // looks in a row
}

// look takes the roles' total times; wider or narrower is true when it has been so for long enough.
func (m *meter) look(at, reader, writer time.Duration) (wider, narrower bool) {
	elapsed := at - m.at
	most := max(reader-m.reader, writer-m.writer)
	first := m.at == 0
	m.at, m.reader, m.writer = at, reader, writer
	switch {
	case first:
		return false, false
	case float64(most) > busyShare*float64(elapsed):
		m.busyIn, m.quietIn = m.busyIn+1, 0
	case float64(most) < quietShare*float64(elapsed):
		m.busyIn, m.quietIn = 0, m.quietIn+1
	default:
		m.busyIn, m.quietIn = 0, 0
	}
	wider, narrower = m.busyIn >= busyTicks, m.quietIn >= quietTicks
	if wider || narrower {
		m.busyIn, m.quietIn = 0, 0
	}
	return wider, narrower
}

// measure makes the watch call resize when the pipe's roles were busy or quiet for long. Nothing is
// measured where that could have no consequence.
func (p *pipe) measure(resize func(wider bool)) {
	p.mu.Lock()
	p.resize = resize
	p.mu.Unlock()
	p.measured.Store(true)
}

// choose returns a live pipe for a request whose caller waits for its reply.
func (n *node) choose(ctx context.Context) (*pipe, error) {
	if further := n.further.Load(); further != nil && n.unawaited.Load() == 0 {
		if i := rand.IntN(len(*further) + 1); i > 0 {
			if p := (*further)[i-1]; !p.gone.Load() {
				return p, nil
			}
		}
	}
	return n.acquire(ctx)
}

// pipes returns the node's pipes, dead ones too.
func (n *node) pipes() (all []*pipe) {
	if p := n.current.Load(); p != nil {
		all = append(all, p)
	}
	if further := n.further.Load(); further != nil {
		all = append(all, *further...)
	}
	return all
}

// resize is called by the first pipe's watch.
func (n *node) resize(wider bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var further []*pipe
	if list := n.further.Load(); list != nil {
		further = *list
	}
	switch {
	case n.closed:
	case wider && !n.widening && n.unawaited.Load() == 0 &&
		1+len(further) < min(pipesMax, runtime.GOMAXPROCS(0)):
		n.widening = true
		go n.widen()
	case !wider && len(further) > 0:
		last := further[len(further)-1]
		n.setFurther(further[:len(further)-1])
		n.retiring[last] = struct{}{}
		go n.retire(last)
	}
}

// widen connects another pipe.
func (n *node) widen() {
	conn, err := dial(n.life, n.options, n.address, n.extra...)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.widening = false
	if err != nil || n.closed {
		if err == nil {
			_ = conn.Close()
		}
		n.options.Logger.Warn("tidemill: cannot connect another pipe", "address", n.address,
			"error", err)
		return
	}
	p := newPipe(conn, n.options, nil)
	var further []*pipe
	if list := n.further.Load(); list != nil {
		further = append(further, *list...)
	}
	n.setFurther(append(further, p))
	go n.mourn(p)
}

// setFurther publishes a new list; the mutex is held. Lists that were published are not changed.
func (n *node) setFurther(list []*pipe) {
	if len(list) == 0 {
		n.further.Store(nil)
		return
	}
	n.further.Store(&list)
}

// errRetired is why a further pipe refuses requests that chose it just before. They go to another.
var errRetired = errors.New("tidemill: connection given up")

// retired tells that r chose a pipe that was given up, and was not sent.
func retired(reply Reply) bool {
	return reply.kind == KindNone && errors.Is(reply.Err(), errRetired) &&
		errors.Is(reply.Err(), ErrNotSent)
}

// retire lets a pipe's requests end, then closes it. When the node is closed meanwhile, that does
// both.
func (n *node) retire(p *pipe) {
	ctx, cancel := context.WithTimeout(n.life, n.options.DialTimeout)
	defer cancel()
	p.refuse(errRetired)
	_ = p.drain(ctx)
	if n.life.Err() == nil {
		p.kill(errRetired)
	}
}

// mourn waits for a further pipe's end and takes it off the lists.
func (n *node) mourn(p *pipe) {
	<-p.closed
	if p.dead != ErrClosed && p.dead != errRetired {
		n.options.Logger.Warn("tidemill: connection lost", "address", n.address, "error", p.dead)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.retiring, p)
	list := n.further.Load()
	if list == nil {
		return
	}
	var left []*pipe
	for _, other := range *list {
		if other != p {
			left = append(left, other)
		}
	}
	n.setFurther(left)
}
