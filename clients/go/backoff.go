package tidemill

import (
	"context"
	"math/rand/v2"
	"time"
)

// steadyTime is how long something must have gone well for its next failure to count as the first.
const steadyTime = time.Second

// jittered is a random time between half of a pause and all of it, so that clients that failed
// together do not come back together.
func jittered(pause time.Duration) time.Duration { return pause - rand.N(pause/2+1) }

// doubled is twice a pause, at most limit.
func doubled(pause, limit time.Duration) time.Duration {
	if pause > limit/2 {
		return limit
	}
	return 2 * pause
}

// pacing keeps attempts apart that fail, or whose success does not last. Failures less than
// steadyTime after the end of the last pause double it; others are first ones again. That needs no
// look at how long a connection lived: where it lived longer, attempts are far enough apart. The
// zero value is ready to use.
type pacing struct {
	pause time.Duration // the next one
	until time.Time     // the end of the last one
}

// failed delays the next attempt.
func (p *pacing) failed(now time.Time, options *Options) {
	if p.settled(now) {
		p.pause = options.BackoffMin
	}
	p.until = now.Add(jittered(p.pause))
	p.pause = doubled(p.pause, options.BackoffMax)
}

// ended is failed for what had succeeded: after the first such end there is no pause.
func (p *pacing) ended(now time.Time, options *Options) {
	if p.settled(now) {
		p.pause, p.until = options.BackoffMin, now
		return
	}
	p.failed(now, options)
}

// settled is true when the next failure counts as the first.
func (p *pacing) settled(now time.Time) bool { return now.Sub(p.until) > steadyTime }

// pursuit bounds how an operation follows a cluster that changes: by time, and redirections also by
// number, because two nodes that name each other answer at once. Pauses grow, since what lasts for
// long is no slot that moves.
type pursuit struct {
	until        time.Time
	redirections int
	pause        time.Duration // the next one
}

const (
	// redirectionsFree are followed at once, the rest up to redirectionsMax after a pause.
	redirectionsFree = 5
	redirectionsMax  = 16
	pursuitPauseMin  = 20 * time.Millisecond
	pursuitPauseMax  = 160 * time.Millisecond
)

func newPursuit(options *Options) pursuit {
	return pursuit{until: time.Now().Add(options.ConnectWait), pause: pursuitPauseMin}
}

func (p *pursuit) over() bool { return time.Now().After(p.until) }

// follow comes before an attempt at the node that a redirection named, or after a pause (nil);
// false: there is none.
func (p *pursuit) follow(ctx context.Context, next *clusterNode) bool {
	if next == nil {
		return p.wait(ctx)
	}
	if p.redirections++; p.redirections <= redirectionsFree {
		return !p.over()
	}
	return p.redirections <= redirectionsMax && p.wait(ctx)
}

// wait pauses before the next attempt; false: there is none.
func (p *pursuit) wait(ctx context.Context) bool {
	if p.over() || pauseFor(ctx, jittered(p.pause)) != nil {
		return false
	}
	p.pause = doubled(p.pause, pursuitPauseMax)
	return true
}

// pauseFor waits; its error is the context's.
func pauseFor(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return endOf(ctx)
	}
}
