package process

import (
	"strconv"
	"testing"

	"tidemill/tests/internal/instance"
)

// Values of 8 KiB and more are freed by a thread of their own, however they go, and counted then.
func TestLazyFree_CountsLargeValuesHoweverTheyGo(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "1")
	conn := server.Dial(t)
	fill := func(key string, members int) {
		words := []string{"SADD", key}
		for member := range members {
			words = append(words, "member"+strconv.Itoa(member))
		}
		do(t, conn, words...)
	}
	expect := func(freed int) {
		t.Helper()
		waitFor(t, "background frees", func() bool {
			return field(t, conn, "memory", "lazyfree_pending_objects") == 0 &&
				field(t, conn, "memory", "lazyfreed_objects") >= freed
		})
		if count := field(t, conn, "memory", "lazyfreed_objects"); count != freed {
			t.Errorf("%d freed, expected %d", count, freed)
		}
	}
	fill("small", 100)
	do(t, conn, "UNLINK", "small")
	expect(0)
	fill("deleted", 5000)
	do(t, conn, "DEL", "deleted")
	expect(1)
	fill("unlinked", 5000)
	do(t, conn, "UNLINK", "unlinked")
	expect(2)
	fill("overwritten", 5000)
	do(t, conn, "SET", "overwritten", "short")
	expect(3)
	fill("expires", 5000)
	do(t, conn, "PEXPIRE", "expires", "1")
	expect(4)
	fill("flushed", 5000)
	do(t, conn, "FLUSHALL", "ASYNC")
	expect(6)
	do(t, conn, "CONFIG", "RESETSTAT")
	expect(0)
}
