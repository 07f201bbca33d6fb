package linearizability

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// evictionMix gives keys deadlines that nobody lives to see: only those may be evicted, each by
// itself, so that nothing copies them.
func evictionMix(c *client) ([][]string, bool) {
	key := func() string { return c.pick("e1", "e2") }
	switch c.random.IntN(12) {
	case 0, 1, 2:
		return single("SET", key(), c.unique(), "PX", "100000000")
	case 3:
		return single("SET", key(), c.unique(), "XX")
	case 4:
		return single("APPEND", key(), "+")
	case 5:
		return single("PERSIST", key())
	case 6:
		return single("RENAME", "e1", "e2")
	case 7:
		return single("EXISTS", key())
	case 8:
		return [][]string{{"GET", "e1"}, {"APPEND", "e1", "+"}, {"GET", "e1"}}, true
	case 9, 10:
		return single("MGET", "e1", "e2")
	}
	return single("GET", key())
}

const megabyte = 1 << 20

// evictWithoutEnd writes keys that are in no history, more than the server may have, until the
// returned function is called. There is room for so few that those of the history are evicted
// often: the rest is taken by a client that has not sent its request whole, because rounds begin
// with FLUSHALL.
func evictWithoutEnd(t *testing.T, server *instance.Server) (stop func()) {
	t.Helper()
	done, ended := make(chan struct{}), make(chan struct{})
	conn, err := wire.Dial(server.Address)
	if err != nil {
		t.Fatal(err)
	}
	ballast := server.Dial(t)
	head := "*2\r\n$4\r\nECHO\r\n$" + strconv.Itoa(4*megabyte) + "\r\n"
	if err := ballast.SendRaw([]byte(head + strings.Repeat("x", 3*megabyte))); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(ended)
		defer conn.Close()
		for round := 0; ; round++ {
			select {
			case <-done:
				return
			default:
			}
			value := strings.Repeat("x", 200<<10)
			key := "filler" + strconv.Itoa(round)
			if _, err := conn.Do("SET", key, value, "PX", "100000000"); err != nil {
				t.Errorf("filler: %v", err)
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// A key that is evicted goes at one moment, for every reader, and does not come back.
func TestHistories_AreLinearizableBesideEviction(t *testing.T) {
	for _, configured := range configurations() {
		t.Run(configured.name, func(t *testing.T) {
			directives := append([]string{
				"--maxmemory", "5mb", "--maxmemory-policy", "volatile-random",
			}, configured.directives...)
			server := instance.Start(t, instance.Subject, directives...)
			stop := evictWithoutEnd(t, server)
			defer stop()
			var evicted [][]byte
			isEnough := func() bool { return evicted != nil && len(evicted[1]) >= 3 }
			// A busy machine needs more histories for as many evictions beside them.
			const attemptsMax = 10
			for range attemptsMax {
				requireLinearizable(t, server.Address,
					profile{name: "eviction", make: evictionMix, evicts: true})
				info, err := server.Dial(t).Do("INFO", "stats")
				if err != nil {
					t.Fatal(err)
				}
				evicted = regexp.MustCompile(`evicted_keys:(\d+)`).FindSubmatch(info.Text)
				if isEnough() {
					break
				}
			}
			if !isEnough() {
				t.Errorf("too few keys were evicted: %q", evicted)
			}
		})
	}
}
