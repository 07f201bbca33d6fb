package tidemill

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// A server that refuses MULTI executes what follows one by one: that is no refusal.
func TestTx_RefusedMultiIsAnUnknownOutcome(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		ctx := testContext(t, 20*time.Second)
		admin := newTestClient(t, s.address)
		if err := admin.Do(ctx, "ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all",
			"-multi").Err(); err != nil {
			t.Fatal(err)
		}
		c := newTestClient(t, s.address, func(o *Options) { o.Username, o.Password = "app", "pw" })
		var tx Tx
		tx.Add("INCR", "n")
		tx.Add("INCR", "n")
		_, err := c.RunTx(ctx, &tx)
		n, _ := admin.Get(ctx, "n").Int64()
		if n != 2 || !errors.Is(err, ErrMaybeSent) || !errors.Is(err, ServerCode("NOPERM")) {
			t.Error(n, err)
		}
		if reply := asReply(context.Background(), err); reply.Kind() == KindError {
			t.Error("a cluster would judge the server's error and repeat:", err)
		}
		if err := admin.Do(ctx, "ACL", "SETUSER", "app", "-incr").Err(); err != nil {
			t.Fatal(err)
		}
		_, err = c.RunTx(ctx, &tx)
		if !errors.Is(err, ServerCode("NOPERM")) || errors.Is(err, ErrMaybeSent) {
			t.Error("all refused:", err)
		}
	})
}

// noting remembers the operations of a client and how they ended.
type noting struct {
	mu    sync.Mutex
	ended []string
}

func (h *noting) Start(
	ctx context.Context, name string, commands int,
) (context.Context, func(error)) {
	return ctx, func(err error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		text := "ok"
		if err != nil {
			text = err.Error()
		}
		h.ended = append(h.ended, strings.Repeat(name+" ", commands)+text)
	}
}

// The hook is told what the caller is told.
func TestHook_SeesRefusedTransactions(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		hook := &noting{}
		c := newTestClient(t, s.address, func(o *Options) { o.Hook = hook })
		ctx := testContext(t, 20*time.Second)
		var good, bad, empty Tx
		good.Add("INCR", "n")
		good.Add("INCR", "n")
		bad.Add("INCR")
		if replies, err := c.RunTx(ctx, &good); err != nil || len(replies) != 2 {
			t.Fatal(replies, err)
		}
		_, refused := c.RunTx(ctx, &bad)
		if refused == nil {
			t.Fatal("not refused")
		}
		if _, err := c.RunTx(ctx, &empty); err != nil {
			t.Fatal(err)
		}
		hook.mu.Lock()
		defer hook.mu.Unlock()
		if len(hook.ended) != 2 || hook.ended[0] != "TX TX ok" ||
			hook.ended[1] != "TX "+refused.Error() {
			t.Errorf("%q", hook.ended)
		}
	})
}

func TestFuture_AnsweredOnesIgnoreTheContext(t *testing.T) {
	f := future(func(callback func(Reply)) { callback(Reply{kind: KindInt, number: 1}) })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 1000 {
		if got, err := f.Wait(ctx).Int64(); got != 1 || err != nil {
			t.Fatal(got, err)
		}
	}
}
