package tidemill

import (
	"testing"
	"testing/synctest"
	"time"
)

// The three kinds of load, as the pipe shows them to its gauge: requests in, the writer's turns (which use the
// credit up), a decision, replies out.
func TestGauge_PausesForIndependentCallersOnly(t *testing.T) {
	const rounds = 2000
	for _, test := range []struct {
		name string
		load func(g *gauge, decide func(queued int))
		low  int // pauses of all decisions, per cent
		high int
	}{
		{"a lone caller", func(g *gauge, decide func(int)) {
			g.arrive()
			decide(1)
			time.Sleep(30 * time.Microsecond)
			g.answer(1)
			time.Sleep(10 * time.Microsecond)
		}, 0, 0},
		{"a closed loop, half of which is on its way", func(g *gauge, decide func(int)) {
			if g.pending == 16 {
				g.answer(8)
			}
			for range 8 {
				g.arrive()
			}
			decide(8)
			time.Sleep(40 * time.Microsecond)
		}, 0, 15}, // callers that all begin at once look independent for a while
		{"independent callers, 100,000 per second", func(g *gauge, decide func(int)) {
			for range 4 {
				g.arrive()
				time.Sleep(10 * time.Microsecond)
			}
			decide(1)
			if g.pending > 12 {
				g.answer(8)
			}
		}, 90, 100},
		{"independent callers, 2,000 per second", func(g *gauge, decide func(int)) {
			g.arrive()
			decide(1)
			time.Sleep(time.Millisecond)
			if g.pending > 1 {
				g.answer(g.pending - 1)
			}
		}, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGauge()
			pauses := 0
			for range rounds {
				test.load(&g, func(queued int) {
					g.credit = 0
					if g.pause(gatherPause, queued) > 0 {
						pauses++
					}
				})
			}
			if share := 100 * pauses / rounds; share < test.low || share > test.high {
				t.Errorf("%s: %d per cent of the decisions were pauses", test.name, share)
			}
		})
	}
}
