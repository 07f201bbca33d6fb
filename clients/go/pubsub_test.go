package tidemill

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestSubscription_ReceivesInOrderAndSurvivesARestart(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		c := newTestClient(t, s.address)
		ctx := testContext(t, 20*time.Second)
		sub, err := c.Subscribe(ctx, SubscribeOptions{
			Channels: []string{"news"}, Patterns: []string{"n?ws*"},
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if n, err := c.Publish(ctx, "news", fmt.Sprint(i)).Int64(); n != 2 || err != nil {
				t.Fatal(n, err)
			}
		}
		for i := range 200 {
			if m := <-sub.Messages(); m.Payload != fmt.Sprint(i/2) || m.Channel != "news" {
				t.Fatal(i, m)
			}
		}
		s.stop()
		s.start(t)
		waitFor(t, 10*time.Second, "subscription after restart", func() bool {
			n, _ := c.Publish(ctx, "news", "back").Int64()
			return n == 2
		})
		if m := <-sub.Messages(); m.Payload != "back" || sub.Reconnected() != 1 {
			t.Fatal(m, sub.Reconnected())
		}
		sub.Close()
		if !errors.Is(sub.Err(), ErrClosed) {
			t.Fatal(sub.Err())
		}
	})
}

func TestSubscription_CountsWhatItDrops(t *testing.T) {
	checkLeaks(t)
	s := startServer(t, "valkey-server")
	c := newTestClient(t, s.address)
	ctx := testContext(t, 20*time.Second)
	for _, policy := range []Overflow{OverflowDropNewest, OverflowDropOldest} {
		sub, err := c.Subscribe(ctx, SubscribeOptions{
			Shard: []string{"many"}, Buffer: 4, Overflow: policy,
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			c.SPublish(ctx, "many", fmt.Sprint(i))
		}
		waitFor(t, 5*time.Second, "drops", func() bool { return sub.Dropped() == 6 })
		want := map[Overflow]string{OverflowDropNewest: "0", OverflowDropOldest: "6"}[policy]
		if m := <-sub.Messages(); m.Payload != want {
			t.Errorf("policy %d: first kept is %s, wanted %s", policy, m.Payload, want)
		}
		sub.Close()
	}
}
