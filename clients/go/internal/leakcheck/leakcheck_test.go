package leakcheck

import (
	"os"
	"testing"
	"time"
)

// probe is a test double for testing.TB that records failures and clean-ups.
type probe struct {
	testing.TB
	cleanups []func()
	failed   bool
}

func (p *probe) Helper()               { p.TB.Helper() }
func (p *probe) Failed() bool          { return p.failed }
func (p *probe) Cleanup(f func())      { p.cleanups = append(p.cleanups, f) }
func (p *probe) Errorf(string, ...any) { p.failed = true }

func TestCheck_FindsGoroutinesAndDescriptors(t *testing.T) {
	ending := make(chan struct{})
	defer close(ending)
	if p := run(t, func() {}); p.failed {
		t.Error("found what is not there")
	}
	if p := run(t, func() {
		f, _ := os.Open(os.DevNull)
		t.Cleanup(func() { _ = f.Close() })
	}); !p.failed {
		t.Error("a descriptor was not found")
	}
	if p := run(t, func() { go func() { <-ending }() }); !p.failed {
		t.Error("a goroutine was not found")
	}
}

func run(t *testing.T, leak func()) *probe {
	p := &probe{TB: t}
	check(p, 50*time.Millisecond)
	leak()
	for _, cleanup := range p.cleanups {
		cleanup()
	}
	return p
}
