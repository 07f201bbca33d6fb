package main

import (
	"fmt"
	"strconv"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	removalRatioLimit = 2.0
	removalItems      = 1_000_000
	removalKeys       = 100_000
	removalWait       = 30 * time.Second
	// removalInterval is the time between two looks whether a value is freed.
	removalInterval = 5 * time.Millisecond
	// evictionTTLSeconds is long enough that no value expires while it waits to be evicted.
	evictionTTLSeconds = "100000"
	evictedBytes       = 1_000_000
)

// removals are the ways in which a large value goes. Each makes the server drop the value of a key
// and returns at once. Valkey counts an evicted value until it is freed, and answers writes with
// -OOM meanwhile: there is nothing to compare.
var removals = []struct {
	name       string
	remove     func(conn *wire.Conn, key string) error
	withValkey bool
}{
	{"UNLINK", func(conn *wire.Conn, key string) error {
		return succeed(conn, "UNLINK", key)
	}, true},
	{"expiry", func(conn *wire.Conn, key string) error {
		return succeed(conn, "PEXPIRE", key, "1")
	}, true},
	{"eviction", evict, false},
}

// evict lowers the limit of memory a little below what is used. The policy takes keys with a time
// to live, of which there is one.
func evict(conn *wire.Conn, key string) error {
	if err := succeed(conn, "EXPIRE", key, evictionTTLSeconds); err != nil {
		return err
	}
	figures, err := infoOf(conn, "memory")
	if err != nil {
		return err
	}
	// Memory that waits for its last readers is no live data; Valkey has none.
	live := figures["used_memory"] - figures["used_memory_retired"]
	limit := strconv.FormatFloat(live-evictedBytes, 'f', 0, 64)
	return succeed(conn, "CONFIG", "SET", "maxmemory-policy", "volatile-ttl", "maxmemory", limit)
}

// measureRemovals compares the latency of writes at a fixed rate while values of a million elements
// go with theirs alone. Each server has the machine for itself.
func measureRemovals(report *Report, chosen settings) error {
	contenders := []contender{
		{name: "tidemill", kind: instance.Subject, directives: tidemillDirectives(1)},
		{name: "valkey", kind: instance.Valkey},
	}
	ratios := map[string]map[string][]float64{"tidemill": {}, "valkey": {}}
	for round := range chosen.PartRounds {
		for turn := range contenders {
			c := contenders[(round+turn)%len(contenders)]
			c.directives = append(c.directives, "--enable-debug-command", "yes")
			err := withServers("", []contender{c}, func(started []contender) error {
				found, err := measureRemovalsOf(report, started[0], chosen)
				for name, ratio := range found {
					ratios[c.name][name] = append(ratios[c.name][name], ratio)
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	for _, each := range removals {
		report.verdict("neighbours of "+each.name+" of 10^6 elements: p99.9 / alone",
			removalRatioLimit, spreadOf(ratios["tidemill"][each.name]))
		if each.withValkey {
			report.tell("the same with Valkey", removalRatioLimit,
				spreadOf(ratios["valkey"][each.name]))
		}
	}
	return nil
}

// measureRemovalsOf returns the 99.9th percentiles beside removals relative to the one alone, by
// the name of the removal.
func measureRemovalsOf(
	report *Report, c contender, chosen settings,
) (ratios map[string]float64, err error) {
	conn, err := wire.Dial(c.server.Address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	conn.Timeout = removalWait
	err = succeed(conn, "DEBUG", "POPULATE", strconv.Itoa(removalKeys), "key",
		strconv.Itoa(persistenceValueBytes))
	if err != nil {
		return nil, err
	}
	alone, err := openLoop(c.server, removalKeys, func() (begun, ended time.Time, err error) {
		begun = time.Now()
		time.Sleep(time.Duration(chosen.Seconds * float64(time.Second)))
		return begun, time.Now(), nil
	})
	if err != nil {
		return nil, err
	}
	p999Alone := percentile(alone, latencyOf, .999)
	report.addFigure("us p99.9 of the open loop", c.name, p999Alone)
	ratios = map[string]float64{}
	for _, each := range removals {
		if c.kind == instance.Valkey && !each.withValkey {
			continue
		}
		for _, collection := range typeCollections {
			if err := fillCollection(conn, collection, 0, removalItems); err != nil {
				return nil, err
			}
		}
		beside, err := openLoop(c.server, removalKeys, func() (begun, ended time.Time, err error) {
			begun = time.Now()
			for index, collection := range typeCollections {
				key := typeKey(collection.name, 0)
				if err := each.remove(conn, key); err != nil {
					return begun, begun, err
				}
				left := removalKeys + len(typeCollections) - index - 1
				if err := awaitFreed(conn, left); err != nil {
					return begun, begun, fmt.Errorf("%s of %s: %w", each.name, key, err)
				}
			}
			return begun, time.Now(), nil
		})
		if err != nil {
			return nil, err
		}
		p999 := percentile(beside, latencyOf, .999)
		report.addFigure("us p99.9 beside "+each.name, c.name, p999)
		report.addFigure("us maximum beside "+each.name, c.name, percentile(beside, latencyOf, 1))
		ratios[each.name] = p999 / p999Alone
		if err := succeed(conn, "CONFIG", "SET", "maxmemory", "0"); err != nil {
			return nil, err
		}
	}
	return ratios, nil
}

// awaitFreed waits until a database holds that many keys and nothing waits to be freed any more. It
// touches no key: that would make an expired one go.
func awaitFreed(conn *wire.Conn, keys int) error {
	for deadline := time.Now().Add(removalWait); time.Now().Before(deadline); {
		figures, err := infoOf(conn, "memory")
		if err != nil {
			return err
		}
		reply, err := conn.Do("DBSIZE")
		if err != nil {
			return err
		}
		if int(reply.Int()) == keys && figures["lazyfree_pending_objects"] == 0 {
			return nil
		}
		time.Sleep(removalInterval)
	}
	return fmt.Errorf("not freed within %v", removalWait)
}
