//go:build !linux

package tidemill

import "time"

// pauser sleeps on a runtime timer: where the idle runtime waits in milliseconds, so does this.
type pauser struct{ timer *time.Timer }

func newPauser() *pauser { return &pauser{timer: stoppedTimer()} }

func (p *pauser) sleep(d time.Duration) {
	p.timer.Reset(d)
	<-p.timer.C
}

func (p *pauser) cut() { p.timer.Reset(0) }

func (p *pauser) close() { p.timer.Stop() }
