package tidemill

import (
	"sync/atomic"
	"time"
)

// gauge estimates whether a pause before a flush pays. It belongs to a pipe and is guarded by the
// pipe's mutex.
//
// A pause gathers callers that come by themselves. Who asks again because it was just answered
// comes anyway: giving the processor away gathers it, waiting only keeps it from being answered
// again. So the gauge counts company: requests that arrive while another one is pending and whose
// caller did something else since its last reply (see trace). Closed loops, however many callers
// and however late these get a processor, show none and never wait; a lone caller shows none
// either. Where callers come and go independently, a pause joins their series: who was gathered
// once is answered together and asks again together, so that the whole rate of arrivals, not only
// the company's, counts for the gain.
type gauge struct {
	pending   int           // requests not yet answered
	company   float64       // arrivals of the kind above, decayed
	met       float64       // arrivals while another one was pending, decayed like company
	busy      time.Duration // time during which something was pending, decayed like company
	busySince time.Duration
	arrivals  float64 // all, decayed with the time since
	since     time.Duration
	peak      float64 // recent maximum of pending
	enough    int     // requests that need not wait for more
	moved     float64 // bytes of requests and replies, decayed with answered
	answered  float64 // requests
	streak    int     // operations in a row that met no other
}

// newGauge returns the gauge of a pipe that saw nothing yet: a rate has to show first.
func newGauge() gauge { return gauge{enough: flushRequests, since: now() - gatherWallMemory} }

// epoch makes the monotonic clock a plain number.
var epoch = time.Now()

func now() time.Duration { return time.Since(epoch) }

// trace is what a recycled request remembers of the operation that used it last. The pool gives a
// processor back what was put there last. So a caller that asks again at once gets the request of
// its own last operation, and its trace tells how long ago that ended, without anything that
// identifies goroutines. Who was away finds the trace of another one that left: the later of the
// two departures, which is seldom recent either.
//
// How late a caller got a processor after its reply does not matter, because the round is taken
// when it runs again. What it costs is one comparison; the clock is looked at only when that fails.
type trace struct {
	round uint64        // when the caller went on; see rounds
	at    time.Duration // when the reply was delivered; 0: a request that was not used before
}

// answered notes that the reply is there.
func (t *trace) answered(round uint64, at time.Duration) { *t = trace{round, at} }

// resumed notes that the caller has got a processor after its reply.
func (t *trace) resumed(round uint64) { t.round = round }

// independent tells whether the caller of a request with this trace did something else since its
// last reply. On a second processor a round may end between a caller's reply and its next request;
// hence the clock. Of a new request nothing is known, as after a garbage collection.
func (t trace) independent(round uint64) bool {
	return t.at != 0 && t.round != round && now()-t.at > gatherStep
}

// rounds counts, for all pipes of the process, the times that all who were runnable before a flush
// had had their turn. Pipes do not count for themselves, because the callers of a cluster go from
// one pipe to another. It has a cache line of its own: every operation reads it, only flushes
// change it.
var rounds struct {
	_ [64]byte
	atomic.Uint64
	_ [64]byte
}

// arrive counts a request in.
func (g *gauge) arrive(independent bool) {
	if g.pending == 0 {
		g.streak++
		g.busySince = now()
	} else {
		g.streak = 0
		g.met++
		if independent {
			g.company++
		}
	}
	g.pending++
	g.arrivals++
}

// move counts bytes of requests that were written, or of replies that were read.
func (g *gauge) move(bytes int) { g.moved += float64(bytes) }

// end counts requests out that were answered, or whose callers gave up.
func (g *gauge) end(count int) {
	if count == 0 {
		return
	}
	g.pending -= count
	if g.pending == 0 {
		g.busy += now() - g.busySince
	}
	if g.answered += float64(count); g.answered > gatherAnswered {
		g.answered /= 2
		g.moved /= 2
	}
}

// enoughToFlush is how many requests of a closed loop need not wait for more. Two half batches
// under way keep server and client busy at the same time. Of requests that move many bytes, smaller
// parts do that better, and what a flush costs is little beside what they cost.
func (g *gauge) enoughToFlush() int {
	enough := min(max(flushRequestsMin, int(g.peak/2)), flushRequests)
	if g.answered > 0 && g.moved*float64(enough) > g.answered*gatherBytes {
		enough = max(1, int(g.answered*gatherBytes/g.moved))
	}
	return enough
}

// pause says how long a flush of queued requests waits for company, 0 for not at all.
func (g *gauge) pause(length time.Duration, queued int) time.Duration {
	at := now()
	g.busy += at - g.busySince
	g.busySince = at
	wall := at - g.since
	perSecond := g.arrivals / wall.Seconds()
	company := g.company / g.busy.Seconds() * length.Seconds()
	share := g.company / max(g.met, 1)
	if g.busy > gatherMemory {
		g.busy /= 2
		g.company /= 2
		g.met /= 2
	}
	if wall > gatherWallMemory {
		g.arrivals = min(g.arrivals, perSecond*gatherWallMemory.Seconds()) / 2
		g.since = at - gatherWallMemory/2
	}
	g.peak = max(g.peak*(1-1.0/64), float64(g.pending))
	if company < gatherCompanyMin || share < gatherShareMin ||
		perSecond*length.Seconds() < gatherGainMin {
		g.enough = g.enoughToFlush()
		return 0
	}
	g.enough = flushRequests
	if float64(queued) > 0.9*g.peak {
		return 0
	}
	return length
}
