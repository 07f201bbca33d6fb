package tidemill_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	tidemill "go.tidemill.dev/client"
)

// Examples without an "Output:" comment are compiled and not run, and with one they would need a
// server at their address; so they are run here, against real ones.
func TestExamples_PrintWhatTheyPromise(t *testing.T) {
	single := []struct {
		name    string
		example func()
		want    string
	}{
		{"Example", Example, "hello <nil>\n"},
		{"RunTx", ExampleClient_RunTx, "1 <nil>\n"},
		{"Cached", ExampleClient_Cached, "999\n"},
		{"Subscribe", ExampleSubscription_Subscribe, "{ weather rain}\n"},
		{"Go", ExampleClient_Go, "1 <nil>\n2 <nil>\n3 <nil>\n"},
		{"Watch", ExampleClient_Watch, "[OK] <nil>\n"},
		{"Script", ExampleScript_Run, "21 <nil>\n42 <nil>\n"},
		{"Iterate", ExampleClient_Iterate, "2\n"},
		{"As", ExampleAs, "{Ada 36} <nil>\ntrue\n<nil> <nil>\n"},
		{"Dedicate", ExampleClient_Dedicate, "OK <nil>\n0 <nil>\n"},
		{"Blocking", ExampleClient_Do_blocking, "[jobs paint]\n"},
		{"ServerCode", ExampleServerCode, "ERR\ntrue\n"},
		{"WithIdempotent", ExampleWithIdempotent, "<nil>\n"},
		{"Async", ExampleClient_Async, "PONG<nil>\n"},
		{"RunBatchOfOne", ExampleClient_RunBatch, "3 <nil>\n42 <nil>\ntrue\n"},
		{"Hook", ExampleHook, "2 1\n"},
		{"Shutdown", ExampleClient_Shutdown, "<nil>\ntrue\n"},
	}
	for _, e := range single {
		t.Run(e.name, func(t *testing.T) {
			tidemill.CheckLeaks(t)
			expect(t, tidemill.StartServer(t, "valkey-server").Address(), e.example, e.want)
		})
	}
	t.Run("RunBatch", func(t *testing.T) {
		tidemill.CheckLeaks(t)
		s := tidemill.StartServer(t, "valkey-server", "--cluster-enabled", "yes", "--cluster-port",
			fmt.Sprint(tidemill.FreePort(t)))
		assignSlots(t, s.Address())
		expect(t, s.Address(), ExampleCluster_RunBatch, "100 <nil>\n[1 1] <nil>\n")
	})
}

// assignSlots makes a cluster of one server.
func assignSlots(t *testing.T, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := tidemill.New(tidemill.Options{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	for c.Set(ctx, "key", 1).Err() != nil {
		if ctx.Err() != nil {
			t.Fatal("the cluster does not come up")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// expect runs an example and compares what it prints.
func expect(t *testing.T, address string, example func(), want string) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	stdout, before := os.Stdout, server
	os.Stdout, server = write, address
	defer func() { os.Stdout, server = stdout, before }()
	example()
	_ = write.Close()
	var printed bytes.Buffer
	if _, err := io.Copy(&printed, read); err != nil {
		t.Fatal(err)
	}
	if printed.String() != want {
		t.Errorf("printed %q, not %q", printed.String(), want)
	}
}
