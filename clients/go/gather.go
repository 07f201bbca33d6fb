package tidemill

import "time"

// gauge estimates whether a pause before a flush pays. It belongs to a pipe and is guarded by the pipe's
// mutex.
//
// A request is company when it arrives while another one is pending and is not the immediate successor
// of a reply just delivered. Successors come by themselves within the scheduler's next turn: giving the
// processor away gathers them, waiting does not bring more. So closed loops, however many, show no
// company and never wait; a lone caller with pauses of its own shows none either. Where callers come and
// go independently, a pause joins their series: who was gathered once is answered together and asks
// again together, so that the whole rate of arrivals, not only the company's, counts for the gain.
type gauge struct {
	pending   int           // requests not yet answered
	credit    int           // replies just delivered whose successors have not shown up
	company   float64       // arrivals of the kind above, decayed
	busy      time.Duration // time during which something was pending, decayed like company
	busySince time.Duration
	arrivals  float64 // all, decayed with the time since
	since     time.Duration
	peak      float64 // recent maximum of pending
	enough    int     // requests that need not wait for more
	streak    int     // operations in a row that met no other
}

// newGauge returns the gauge of a pipe that saw nothing yet: a rate has to show first.
func newGauge() gauge { return gauge{enough: flushRequests, since: now() - gatherWallMemory} }

// epoch makes the monotonic clock a plain number.
var epoch = time.Now()

func now() time.Duration { return time.Since(epoch) }

// arrive counts a request in.
func (g *gauge) arrive() {
	if g.pending == 0 {
		g.streak++
		g.busySince = now()
	} else {
		g.streak = 0
		if g.credit == 0 {
			g.company++
		}
	}
	if g.credit > 0 {
		g.credit--
	}
	g.pending++
	g.arrivals++
}

// answer counts delivered replies out.
func (g *gauge) answer(count int) {
	g.pending -= count
	g.credit = min(g.credit+count, count+g.pending)
	if g.pending == 0 {
		g.busy += now() - g.busySince
	}
}

// drop counts requests out that nobody waits for any more.
func (g *gauge) drop(count int) {
	if count == 0 {
		return
	}
	g.pending -= count
	if g.pending == 0 {
		g.busy += now() - g.busySince
	}
}

// pause says how long a flush of queued requests waits for company, 0 for not at all.
func (g *gauge) pause(length time.Duration, queued int) time.Duration {
	at := now()
	g.busy += at - g.busySince
	g.busySince = at
	wall := at - g.since
	perSecond := g.arrivals / wall.Seconds()
	company := g.company / g.busy.Seconds() * length.Seconds()
	if g.busy > gatherMemory {
		g.busy /= 2
		g.company /= 2
	}
	if wall > gatherWallMemory {
		g.arrivals = min(g.arrivals, perSecond*gatherWallMemory.Seconds()) / 2
		g.since = at - gatherWallMemory/2
	}
	g.peak = max(g.peak*(1-1.0/64), float64(g.pending))
	if company < gatherCompanyMin || perSecond*length.Seconds() < gatherGainMin {
		// Closed loops: two half batches under way keep server and client busy at the same time.
		g.enough = min(max(flushRequestsMin, int(g.peak/2)), flushRequests)
		return 0
	}
	g.enough = flushRequests
	if float64(queued) > 0.9*g.peak {
		return 0
	}
	return length
}
