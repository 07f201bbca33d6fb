package tidemill

import "time"

// gauge estimates how many further requests a pause would gather. It belongs to a pipe and is guarded
// by the pipe's mutex.
//
// A request is company when it arrives while another one is pending and is not the immediate successor
// of a reply just delivered. Successors come by themselves within the scheduler's next turn: giving the
// processor away gathers them, waiting does not bring more. So closed loops, however many, show no
// company and never wait, a lone caller with pauses of its own shows none either, and independent
// callers show theirs at the rate at which they would join a pause.
type gauge struct {
	pending   int           // requests not yet answered
	credit    int           // replies just delivered whose successors have not shown up
	company   float64       // arrivals of the kind above, decayed
	busy      time.Duration // time during which something was pending, decayed like company
	busySince time.Duration
	peak      float64 // recent maximum of pending
	streak    int     // operations in a row that met no other
}

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

// pause says how long to wait for company, 0 for not at all; meanWait is what a request may lose by it.
func (g *gauge) pause(meanWait time.Duration) time.Duration {
	at := now()
	if g.pending > 0 {
		g.busy += at - g.busySince
		g.busySince = at
	}
	if g.busy > gatherMemory {
		g.busy /= 2
		g.company /= 2
	}
	g.peak = max(g.peak*(1-1.0/64), float64(g.pending))
	if g.busy < gatherMemory/16 || float64(g.pending) > 0.9*g.peak {
		return 0
	}
	// With n arrivals expected in a pause the mean wait is pause * (1+n/2) / (1+n): hold that constant.
	perSecond := g.company / g.busy.Seconds()
	expected := perSecond * 1.5 * meanWait.Seconds()
	if expected < gatherGainMin {
		return 0
	}
	return time.Duration(float64(meanWait) * (1 + expected) / (1 + expected/2))
}
