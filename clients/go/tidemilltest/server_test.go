package tidemilltest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	tidemill "go.tidemill.dev/client"
	"go.tidemill.dev/client/internal/leakcheck"
	"go.tidemill.dev/client/tidemilltest"
)

func TestServer_RecordsAndAnswers(t *testing.T) {
	leakcheck.Check(t)
	s := tidemilltest.Start(t)
	s.On("get", func(args []string) tidemilltest.Answer { return "value of " + args[1] })
	s.On("MGET", func([]string) tidemilltest.Answer { return []any{"a", nil, 3} })
	c, err := tidemill.New(tidemill.Options{Address: s.Address()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if got, err := c.Get(ctx, "k").Text(); got != "value of k" || err != nil {
		t.Fatal(got, err)
	}
	if got, err := c.MGet(ctx, "x", "y", "z").Strings(); fmt.Sprint(got) != "[a  3]" || err != nil {
		t.Fatal(got, err)
	}
	if err := c.Set(ctx, "k", 1).Err(); !errors.Is(err, tidemill.ServerCode("ERR")) {
		t.Fatal(err)
	}
	s.Disconnect()
	if got, err := c.Get(ctx, "again").Text(); got != "value of again" || err != nil {
		t.Fatal("read after a lost connection:", got, err)
	}
	if calls := fmt.Sprint(s.Calls()[:3]); calls != "[[GET k] [MGET x y z] [SET k 1]]" {
		t.Fatal(calls)
	}
}
