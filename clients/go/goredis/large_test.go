package goredis

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// A large command of many arguments comes in many writes. What it costs grows with its size, not
// with the square of it.
func TestConn_LargeCommandIsNotCopiedAtEachWrite(t *testing.T) {
	checkLeaks(t)
	client := newTestClient(t, startServer(t))
	ctx := testContext(t)
	var pairs []any
	for i := range 40000 {
		pairs = append(pairs, fmt.Sprint("key:", i), strings.Repeat("y", 100))
	}
	if err := client.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := client.MSet(ctx, pairs...).Err()
	runtime.ReadMemStats(&after)
	const size, copiesMax = 40000 * 130, 20
	if copies := (after.TotalAlloc - before.TotalAlloc) / size; err != nil || copies > copiesMax {
		t.Errorf("the command was allocated %d times; %v", copies, err)
	}
	if last, err := client.Get(ctx, "key:39999").Result(); err != nil || len(last) != 100 {
		t.Error(last, err)
	}
}
