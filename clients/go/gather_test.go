package tidemill

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// loadModel plays callers, processors, writer and server to a gauge, one event after the other. Its
// clock moves between events only, so that nothing depends on the machine.
type loadModel struct {
	replyPart  int           // replies that come with one read; 0: all of a batch
	partGap    time.Duration // between two reads
	resumeWait time.Duration // from a reply until callers get a processor
	resumeStep time.Duration // from one of them to the next
	resumeGap  time.Duration // from a caller's reply to its next request: encoding, locking
	processors int
	nodes      int // of a cluster, which callers ask at random; 0: 1
	random     *rand.Rand

	pipes     []modelPipe
	round     uint64
	events    []event      // in the order of their time
	pools     [][]*request // what each processor's part of the pool holds; the last comes out first
	decisions int
	pauses    int
}

type modelPipe struct {
	gauge    gauge
	queue    []func(*request) // of what is queued: what its caller does when answered
	requests []*request
	deciding bool
}

type event struct {
	at time.Duration
	do func()
}

const modelRTT = 60 * time.Microsecond

func (m *loadModel) after(delay time.Duration, do func()) {
	at := now() + delay
	i, _ := slices.BinarySearchFunc(m.events, at, func(e event, at time.Duration) int {
		if e.at <= at {
			return -1
		}
		return 1
	})
	m.events = slices.Insert(m.events, i, event{at, do})
}

// run counts decisions once the callers have begun.
func (m *loadModel) run(warmUp, length time.Duration) {
	m.pools, m.pipes = make([][]*request, m.processors), make([]modelPipe, max(m.nodes, 1))
	for i := range m.pipes {
		m.pipes[i].gauge = newGauge()
	}
	m.after(warmUp, func() { m.decisions, m.pauses = 0, 0 })
	for until := now() + warmUp + length; len(m.events) > 0 && m.events[0].at < until; {
		next := m.events[0]
		m.events = m.events[1:]
		time.Sleep(next.at - now())
		next.do()
	}
}

// ask is what a caller does on a processor: a request out of its pool, into the queue. then runs on
// the same processor when the caller has its reply.
func (m *loadModel) ask(processor int, then func()) {
	pool := m.pools[processor]
	r := &request{}
	if len(pool) > 0 {
		r, m.pools[processor] = pool[len(pool)-1], pool[:len(pool)-1]
	}
	p := &m.pipes[m.random.IntN(len(m.pipes))]
	arrive := func() {
		p.gauge.arrive(r.last.independent(m.round))
		p.requests = append(p.requests, r)
		p.queue = append(p.queue, func(r *request) {
			r.last.resumed(m.round)
			m.pools[processor] = append(m.pools[processor], r)
			then()
		})
		if !p.deciding {
			p.deciding = true
			m.after(2*time.Microsecond, func() { m.decide(p) })
		}
	}
	if m.resumeGap == 0 {
		arrive() // nothing runs in between on the same processor
		return
	}
	m.after(m.resumeGap, arrive)
}

// decide is the writer once it has given its turns away.
func (m *loadModel) decide(p *modelPipe) {
	m.round++
	m.decisions++
	delay := p.gauge.pause(gatherPause, len(p.queue))
	if delay > 0 {
		m.pauses++
	}
	m.after(delay, func() {
		queue, requests := p.queue, p.requests
		p.queue, p.requests, p.deciding = nil, nil, false
		part := m.replyPart
		if part == 0 {
			part = len(queue)
		}
		wait := modelRTT
		for len(queue) > 0 {
			n := min(part, len(queue))
			answered, theirs := queue[:n], requests[:n]
			m.after(wait, func() { m.answer(p, answered, theirs) })
			queue, requests = queue[n:], requests[n:]
			wait += m.partGap
		}
	})
}

func (m *loadModel) answer(p *modelPipe, callers []func(*request), requests []*request) {
	p.gauge.end(len(callers))
	for i, r := range requests {
		r.last.answered(m.round, now())
		m.after(m.resumeWait+time.Duration(i+1)*m.resumeStep, func() { callers[i](r) })
	}
}

// closed starts callers that ask again as soon as they are answered.
func (m *loadModel) closed(callers int) {
	for i := range callers {
		var again func()
		again = func() { m.ask(i%m.processors, again) }
		m.after(time.Duration(i)*time.Microsecond, again)
	}
}

// open starts callers that send series of up to seriesMax requests, each at random times of its
// own.
func (m *loadModel) open(perSecond, seriesMax int) {
	const callers = 256
	between := float64(callers) * float64(1+seriesMax) / 2 / float64(perSecond) * float64(
		time.Second)
	for i := range callers {
		var start func()
		start = func() {
			left := 1 + m.random.IntN(seriesMax)
			var again func()
			again = func() {
				if left--; left < 0 {
					m.after(time.Duration(m.random.ExpFloat64()*between), start)
					return
				}
				m.ask(i%m.processors, again)
			}
			again()
		}
		m.after(time.Duration(m.random.Float64()*between), start)
	}
}

func TestGauge_PausesForIndependentCallersOnly(t *testing.T) {
	onOne := loadModel{processors: 1, resumeStep: 500 * time.Nanosecond}
	onTwo := loadModel{
		processors: 2, resumeStep: time.Microsecond, resumeGap: 300 * time.Nanosecond,
	}
	nodes := loadModel{
		processors: 1, nodes: 3, resumeStep: time.Microsecond, resumeWait: 2 * gatherStep,
	}
	late := loadModel{processors: 2, replyPart: 7, partGap: 30 * time.Microsecond,
		resumeWait: 4 * gatherStep, resumeGap: 300 * time.Nanosecond}
	large := loadModel{
		processors: 1, resumeStep: time.Microsecond, replyPart: 3, partGap: 20 * time.Microsecond,
	}
	for _, test := range []struct {
		name  string
		model loadModel
		start func(m *loadModel)
		low   int // pauses of all decisions, per cent
		high  int
	}{
		{"a lone caller", onOne, func(m *loadModel) { m.closed(1) }, 0, 0},
		{"2 callers", onOne, func(m *loadModel) { m.closed(2) }, 0, 1},
		{"64 callers", onOne, func(m *loadModel) { m.closed(64) }, 0, 1},
		{"16 callers, two processors", onTwo, func(m *loadModel) { m.closed(16) }, 0, 1},
		{"64 callers, two processors", onTwo, func(m *loadModel) { m.closed(64) }, 0, 1},
		{"1024 callers, two processors", onTwo, func(m *loadModel) { m.closed(1024) }, 0, 1},
		{"64 callers that get a processor late", late, func(m *loadModel) { m.closed(64) }, 0, 1},
		{"64 callers, large values", large, func(m *loadModel) { m.closed(64) }, 0, 1},
		{"1024 callers, large values", large, func(m *loadModel) { m.closed(1024) }, 0, 1},
		{"256 callers, three nodes", nodes, func(m *loadModel) { m.closed(256) }, 0, 1},
		{"80,000 per second, three nodes", nodes, func(m *loadModel) { m.open(80000, 8) }, 60, 100},
		{"64 callers and others, 5,000 per second", onOne, func(m *loadModel) {
			m.closed(64)
			m.open(5000, 1)
		}, 0, 1},
		{"2,000 per second", onOne, func(m *loadModel) { m.open(2000, 8) }, 0, 5},
		{"20,000 per second", onOne, func(m *loadModel) { m.open(20000, 8) }, 80, 100},
		{"80,000 per second", onOne, func(m *loadModel) { m.open(80000, 8) }, 80, 100},
		{"320,000 per second", onOne, func(m *loadModel) { m.open(320000, 8) }, 80, 100},
		{"20,000 per second, two processors", onTwo, func(m *loadModel) {
			m.open(20000, 8)
		}, 80, 100},
		{"320,000 per second, two processors", onTwo, func(m *loadModel) {
			m.open(320000, 8)
		}, 80, 100},
		{"80,000 per second, large values", large, func(m *loadModel) {
			m.open(80000, 8)
		}, 80, 100},
		{"80,000 per second, none asks again", onOne, func(m *loadModel) {
			m.open(80000, 1)
		}, 80, 100},
		{"20,000 per second, none asks again", onOne, func(m *loadModel) {
			m.open(20000, 1)
		}, 80, 100},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := test.model
			m.random = rand.New(rand.NewPCG(1, 2))
			test.start(&m)
			m.run(30*time.Millisecond, 50*time.Millisecond)
			share := 100 * m.pauses / max(m.decisions, 1)
			t.Logf("%s: %d of %d decisions were pauses", test.name, m.pauses, m.decisions)
			if share < test.low || share > test.high || m.decisions == 0 {
				t.Errorf("%s: %d per cent of %d decisions were pauses, not %d to %d", test.name,
					share, m.decisions, test.low, test.high)
			}
		})
	}
}

// Half of a closed loop is enough to flush, and less of it where requests and replies are large.
func TestGauge_EnoughToFlushIsBoundedByBytes(t *testing.T) {
	for _, c := range []struct {
		peak, bytes float64
		answered    int
		want        int
	}{
		{peak: 1024, want: flushRequests}, // nothing is known yet
		{peak: 1024, bytes: 160 << 10, want: flushRequests},
		{peak: 0, bytes: 40, answered: 1, want: flushRequestsMin},
		{peak: 64, bytes: 4000, answered: 100, want: 32},
		{peak: 1024, bytes: 768 * 500, answered: 500, want: flushRequests},
		{peak: 1024, bytes: (10 << 10) * 500, answered: 500, want: 12},
		{peak: 16, bytes: (10 << 10) * 500, answered: 500, want: 8},
		{peak: 16, bytes: 100 << 20, answered: 100, want: 1},
	} {
		g := newGauge()
		g.peak, g.pending = c.peak, c.answered
		g.move(int(c.bytes))
		g.end(c.answered)
		if got := g.enoughToFlush(); got != c.want {
			t.Errorf("%+v: %d requests are enough", c, got)
		}
	}
}

// Bytes that were moved long ago are forgotten: a load that has become one of small values is
// gathered as such.
func TestGauge_ForgetsLargeReplies(t *testing.T) {
	g := newGauge()
	g.peak = 1024
	for step := range 40 {
		size := 10 << 10
		if step >= 20 {
			size = 40
		}
		g.pending = gatherAnswered / 2
		g.move(size * g.pending)
		g.end(g.pending)
	}
	if got := g.enoughToFlush(); got != flushRequests {
		t.Errorf("%d requests are enough", got)
	}
}
