package tidemill

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"
)

func TestAs_NumbersThatDoNotFitAreErrors(t *testing.T) {
	text := func(s string) Reply { return Reply{kind: KindString, text: s} }
	for _, reply := range []Reply{text("18446744073709551615"),
		{kind: KindBigInt, text: "18446744073709551615"}} {
		if got, err := As[uint64](reply); got != math.MaxUint64 || err != nil {
			t.Error(got, err)
		}
		if got, err := As[uint32](reply); !errors.Is(err, ErrType) {
			t.Error(got, err)
		}
	}
	if got, err := As[uint8](Reply{kind: KindInt, number: 255}); got != 255 || err != nil {
		t.Error(got, err)
	}
	for _, reply := range []Reply{text("-1"), text("x"), text("18446744073709551616"),
		{kind: KindInt, number: -1}} {
		if got, err := As[uint64](reply); got != 0 || !errors.Is(err, ErrType) {
			t.Error(reply, got, err)
		}
	}
	if _, err := As[uint64](Reply{kind: KindNil}); !errors.Is(err, ErrNil) {
		t.Error(err)
	}
	if got, err := As[float32](text("1e300")); !errors.Is(err, ErrType) {
		t.Error(got, err)
	}
	if got, err := As[float32](text("inf")); !math.IsInf(float64(got), 1) || err != nil {
		t.Error(got, err)
	}
}

// The same call gives the same pairs under both protocols.
func TestPairs_AreThoseOfBothProtocols(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		ctx := testContext(t, 20*time.Second)
		for _, old := range []bool{false, true} {
			c := newTestClient(t, s.address, func(o *Options) { o.ForceRESP2 = old })
			if err := c.ZAdd(ctx, "z", 1, "a", 2.5, "b").Err(); err != nil {
				t.Fatal(err)
			}
			reply := c.ZRange(ctx, "z", 0, -1, "WITHSCORES")
			got, err := As[map[string]float64](reply)
			if fmt.Sprint(got) != "map[a:1 b:2.5]" || err != nil {
				t.Error(old, got, err)
			}
			if none, err := c.ZRange(ctx, "nothing", 0, -1, "WITHSCORES").Map(); len(none) != 0 ||
				err != nil {
				t.Error(old, none, err)
			}
		}
	})
	noKey := Reply{kind: KindArray, extra: &extra{items: []Reply{
		{kind: KindArray, extra: &extra{}}, {kind: KindInt, number: 1},
	}}}
	if got, err := noKey.Map(); !errors.Is(err, ErrType) {
		t.Error(got, err)
	}
}

// Callers that wait for the same reply do not share memory that one of them may write to, though
// the reply is not stored.
func TestCached_WaitingCallersDoNotShareBytes(t *testing.T) {
	k := newCache(&CacheOptions{})
	for _, left := range []time.Duration{0, time.Minute} {
		e, first := k.find(nil, []byte("k"), []byte("wire"), time.Minute)
		if !first {
			t.Fatal("found")
		}
		k.land(e, Reply{kind: KindString, text: bytesAsString([]byte("value"))}, left)
		data, err := e.reply.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		copy(data, "VALUE")
		if got, _ := e.reply.Text(); got != "value" {
			t.Errorf("left %v: the other caller has %q", left, got)
		}
	}
}
