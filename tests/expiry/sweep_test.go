// Package expiry proves that memory of expired keys is freed although no client reads them.
package expiry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	expiringCount = 5000
	fieldCount    = 3000
	sweepPatience = 20 * time.Second
)

// TestSweep_DeletesWhatNobodyReads fills two databases and one large hash, and then only asks for
// counts.
func TestSweep_DeletesWhatNobodyReads(t *testing.T) {
	server := instance.Start(t, instance.Subject)
	conn := server.Dial(t)
	for index := range expiringCount {
		do(t, conn, "SET", fmt.Sprintf("spread:%d", index), "value", "PX", "1")
		do(t, conn, "SET", fmt.Sprintf("{tag}:%d", index), "value", "PX", "1")
	}
	do(t, conn, "SET", "{tag}:stays", "value")
	do(t, conn, "SET", "later", "value", "EX", "1000")
	for index := range fieldCount {
		field := fmt.Sprintf("field:%d", index)
		do(t, conn, "HSET", "hash", field, "value")
		do(t, conn, "HSET", "gone", field, "value")
		do(t, conn, "HPEXPIRE", "hash", "1", "FIELDS", "1", field)
		do(t, conn, "HPEXPIRE", "gone", "100", "FIELDS", "1", field)
	}
	do(t, conn, "HSET", "hash", "stays", "value")
	do(t, conn, "SELECT", "1")
	do(t, conn, "SET", "elsewhere", "value", "PX", "1")

	await(t, "database 1 is empty", func() bool { return do(t, conn, "DBSIZE").Int() == 0 })
	do(t, conn, "SELECT", "0")
	await(t, "three keys stay", func() bool { return do(t, conn, "DBSIZE").Int() == 3 })
	info := string(do(t, conn, "INFO", "stats").Text)
	want := fmt.Sprintf("\r\nexpired_keys:%d\r\n", 2*expiringCount+1)
	if !strings.Contains(info, want) {
		t.Errorf("INFO stats lacks %q:\n%s", want, info)
	}
	await(t, "one field stays", func() bool {
		return strings.Contains(string(do(t, conn, "INFO", "stats").Text),
			fmt.Sprintf("\r\nexpired_fields:%d\r\n", 2*fieldCount))
	})
	if reply := do(t, conn, "HGETALL", "hash"); len(reply.Items) != 2 {
		t.Errorf("the hash holds %s", reply)
	}
}

func do(t *testing.T, conn *wire.Conn, words ...string) wire.Reply {
	t.Helper()
	reply, err := conn.Do(words...)
	if err != nil || reply.IsError() {
		t.Fatalf("%s: %s %v", strings.Join(words, " "), reply, err)
	}
	return reply
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(sweepPatience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", sweepPatience, what)
		}
	}
}
