package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

type typeSize struct {
	name        string
	keys, items int
}

// typeSizes are the numbers of elements of a collection, and of collections: no server has fewer
// than a hundred thousand elements of a type.
var typeSizes = []typeSize{
	{"10", 10_000, 10},
	{"100", 1_000, 100},
	{"10^4", 10, 10_000},
	{"10^5", 1, 100_000},
	{"10^6", 1, 1_000_000},
}

const (
	typeFillBatch = 500
	// hardWriteUsMax is the limit of the 99.9th percentile of one write, microseconds, on a
	// machine where the floor's is half of that. What is judged is the rest, above the floor: how
	// often the machine takes the processor away is nothing that a server can change.
	hardWriteUsMax           = 100
	hardWriteAboveFloorUsMax = hardWriteUsMax / 2
)

// typeCollection is a collection by its name, and how elements of it are added.
type typeCollection struct {
	name string
	// add begins a command that adds elements to a key.
	add func(key string) []string
	// element appends one element.
	element func(call []string, item int) []string
	// atMost are the limits of its memory relative to Valkey's, by the name of the size.
	atMost map[string]float64
}

var typeCollections = []typeCollection{
	{"set", command("SADD"), func(call []string, item int) []string {
		return append(call, itemMember(item))
	}, map[string]float64{"10": 1.05, "100": 1.25, "10^6": 0.45}},
	{"integers", command("SADD"), func(call []string, item int) []string {
		return append(call, strconv.Itoa(item))
	}, map[string]float64{"10": 1.05, "100": 1.05, "10^6": 0.15}},
	{"sorted", command("ZADD"), func(call []string, item int) []string {
		return append(call, strconv.Itoa(item), itemMember(item))
	}, map[string]float64{"10": 1.05, "100": 1.15, "10^6": 0.58}},
	{"stream", command("XADD"), nil, map[string]float64{"10": 0.20, "10^4": 1.0, "10^6": 1.0}},
}

// typeLoad makes one request at a time, on keys that are filled with items of a size. Its limit is
// the CPU per operation relative to Valkey's, at pipeline 16.
type typeLoad struct {
	name    string
	limit   float64
	request func(keys, number, key, item int) []string
}

var typeLoads = []typeLoad{
	{"SISMEMBER", 0.70, func(_, _, key, item int) []string {
		return []string{"SISMEMBER", typeKey("set", key), itemMember(item)}
	}},
	{"SADD and SREM in turn", 0.95, func(keys, number, _, _ int) []string {
		key := typeKey("set", number/2%keys)
		return []string{[]string{"SADD", "SREM"}[number%2], key, "another member"}
	}},
	{"ZSCORE", 0.85, func(_, _, key, item int) []string {
		return []string{"ZSCORE", typeKey("sorted", key), itemMember(item)}
	}},
	{"ZRANK", 0.60, func(_, _, key, item int) []string {
		return []string{"ZRANK", typeKey("sorted", key), itemMember(item)}
	}},
	{"ZRANGE of ten", 0.75, func(_, _, key, item int) []string {
		first := max(item-9, 0)
		return []string{"ZRANGE", typeKey("sorted", key), strconv.Itoa(first),
			strconv.Itoa(first + 9)}
	}},
	{"ZADD and ZREM in turn", 1.0, func(keys, number, _, _ int) []string {
		key := typeKey("sorted", number/2%keys)
		if number%2 == 0 {
			return []string{"ZADD", key, strconv.Itoa(number), "another member"}
		}
		return []string{"ZREM", key, "another member"}
	}},
	{"ZINCRBY", 0.95, func(_, _, key, item int) []string {
		return []string{"ZINCRBY", typeKey("sorted", key), "1", itemMember(item)}
	}},
	{"XADD MAXLEN", 0.90, func(_, number, key, _ int) []string {
		return []string{"XADD", typeKey("trimmed", key), "MAXLEN", "~", "1000", "*", "field001",
			itemValue(number), "field002", itemValue(number)}
	}},
	{"XGROUP SETID, XREADGROUP and XACK of ten in turn", 0.70, func(
		keys, number, _, _ int,
	) []string {
		key := typeKey("stream", number/3%keys)
		switch number % 3 {
		case 0:
			return []string{"XGROUP", "SETID", key, "group", "0"}
		case 1:
			return []string{"XREADGROUP", "GROUP", "group", "consumer", "COUNT", "10", "STREAMS",
				key, ">"}
		}
		return append([]string{"XACK", key, "group"}, firstIDs...)
	}},
	{"PFADD", 0.90, func(_, number, key, _ int) []string {
		return []string{"PFADD", typeKey("sketch", key), itemValue(number)}
	}},
	{"HSET", 1.0, func(_, number, key, item int) []string {
		return []string{"HSET", typeKey("hash", key), itemField(item), itemValue(number)}
	}},
	{"HINCRBY", 1.0, func(_, _, key, item int) []string {
		return []string{"HINCRBY", typeKey("counters", key), itemField(item), "1"}
	}},
}

// firstIDs are the ids of the first ten entries of each stream.
var firstIDs = func() (ids []string) {
	for item := range 10 {
		ids = append(ids, itemID(item))
	}
	return ids
}()

func command(name string) func(key string) []string {
	return func(key string) []string { return []string{name, key} }
}

func typeKey(name string, key int) string { return fmt.Sprintf("%s:%06d", name, key) }
func itemMember(item int) string          { return fmt.Sprintf("member%010d", item) }
func itemID(item int) string              { return fmt.Sprintf("%d-0", 1_700_000_000_000+3*item) }

// measureTypes compares memory and CPU of the types by the tables of the plan, and writes that are
// hard for trees.
func measureTypes(report *Report, chosen settings) error {
	sizes := typeSizes
	if *quick {
		sizes = sizes[:2]
	}
	chosenSizes := slices.DeleteFunc(slices.Clone(sizes), func(size typeSize) bool {
		return !hasChosenLoad(size.name)
	})
	hasHardWrites := slices.ContainsFunc(hardWrites, func(each hardWrite) bool {
		return isChosenLoad(each.name)
	})
	if len(chosenSizes) == 0 && !hasHardWrites {
		return fmt.Errorf("no load's name with its size contains one of %q", *loadWords)
	}
	for _, size := range chosenSizes {
		contenders := []contender{
			{name: "tidemill", kind: instance.Subject, directives: tidemillDirectives(1)},
			{name: "valkey", kind: instance.Valkey},
		}
		err := withServers(serverCPU, contenders, func(contenders []contender) error {
			if err := measureTypeMemories(report, contenders, size.name, size.keys,
				size.items); err != nil {
				return err
			}
			for _, c := range contenders {
				if err := fillForLoads(c.server, size.keys, size.items); err != nil {
					return err
				}
			}
			return measureTypeLoads(report, chosen, contenders, size.name, size.keys, size.items)
		})
		if err != nil {
			return fmt.Errorf("%s elements: %w", size.name, err)
		}
	}
	if !hasHardWrites {
		return nil
	}
	return measureHardWrites(report, chosen)
}

// isChosenLoad is true of a load with its size if the command line names it, or no load.
func isChosenLoad(name string) bool {
	isPart := func(word string) bool { return strings.Contains(name, word) }
	return slices.ContainsFunc(strings.Split(*loadWords, ","), isPart)
}

func hasChosenLoad(size string) bool {
	return slices.ContainsFunc(typeLoads, func(each typeLoad) bool {
		return isChosenLoad(each.name + ", " + size)
	})
}

func measureTypeLoads(
	report *Report, chosen settings, contenders []contender, size string, keys, items int,
) error {
	for _, each := range typeLoads {
		name := fmt.Sprintf("%s, %s", each.name, size)
		if !isChosenLoad(name) {
			continue
		}
		file := filepath.Join(contenders[0].server.Directory, "requests")
		if err := writeRequests(file, keys, items, each.request); err != nil {
			return err
		}
		shape := load{
			connections: smallConnectionCount, pipeline: collectionPipeline, keys: keys,
			seconds: chosen.Seconds / 2, requests: file, cpus: loadCPU,
		}
		err := judgeRatio(report, name, chosen.PartRounds, contenders, shape, each.limit)
		if err != nil {
			return err
		}
	}
	return nil
}

// smallItemsMax is the largest number of elements of which a collection's own bytes count; of more,
// what the whole server grew by.
const smallItemsMax = 100

// measureTypeMemories fills both servers with all collections, and judges the bytes of each.
func measureTypeMemories(
	report *Report, contenders []contender, size string, keys, items int,
) error {
	for _, each := range typeCollections {
		err := measureTypeMemory(report, contenders, each, size, keys, items)
		if err != nil {
			return err
		}
	}
	return nil
}

// measureTypeMemory fills both servers with collections of one kind, and judges the bytes that
// each element takes.
func measureTypeMemory(
	report *Report, contenders []contender, each typeCollection, size string, keys, items int,
) error {
	name := fmt.Sprintf("%s of %s: bytes per element", each.name, size)
	bytes := map[string]float64{}
	for _, c := range contenders {
		conn, err := wire.Dial(c.server.Address)
		if err != nil {
			return err
		}
		defer conn.Close()
		before, err := usedMemory(conn)
		if err != nil {
			return err
		}
		for key := range keys {
			if err := fillCollection(conn, each, key, items); err != nil {
				return err
			}
		}
		after, err := usedMemory(conn)
		if err != nil {
			return err
		}
		bytes[c.name] = float64(after-before) / float64(keys*items)
		if items <= smallItemsMax {
			reply, err := conn.Do("MEMORY", "USAGE", typeKey(each.name, 0), "SAMPLES", "0")
			if err != nil || reply.IsError() {
				return fmt.Errorf("MEMORY USAGE: %v %v", reply, err)
			}
			bytes[c.name] = float64(reply.Int()) / float64(items)
		}
		report.addFigure(name, c.name, bytes[c.name])
	}
	if limit, has := each.atMost[size]; has {
		ratio := bytes["tidemill"] / bytes["valkey"]
		report.verdict(name+" / Valkey's", limit, spread{ratio, ratio, ratio})
	}
	return nil
}

func fillCollection(conn *wire.Conn, each typeCollection, key, items int) error {
	name := typeKey(each.name, key)
	if each.element == nil {
		return fillStream(conn, name, items)
	}
	for first := 0; first < items; first += typeFillBatch {
		call := each.add(name)
		for item := first; item < min(first+typeFillBatch, items); item++ {
			call = each.element(call, item)
		}
		if err := succeed(conn, call...); err != nil {
			return err
		}
	}
	return nil
}

func fillStream(conn *wire.Conn, name string, items int) error {
	for first := 0; first < items; first += typeFillBatch {
		last := min(first+typeFillBatch, items)
		for item := first; item < last; item++ {
			err := conn.Send("XADD", name, itemID(item), "field001",
				fmt.Sprintf("v%07d", item), "field002", fmt.Sprintf("w%07d", item))
			if err != nil {
				return err
			}
		}
		for range last - first {
			if reply, err := conn.Receive(); err != nil || reply.IsError() {
				return fmt.Errorf("XADD: %v %v", reply, err)
			}
		}
	}
	return nil
}

// fillForLoads makes the keys that the loads need beside the collections: groups, hashes.
func fillForLoads(server *instance.Server, keys, items int) error {
	conn, err := wire.Dial(server.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	hashes := []typeCollection{
		{name: "hash", add: command("HSET"), element: func(call []string, item int) []string {
			return append(call, itemField(item), itemValue(item))
		}},
		{name: "counters", add: command("HSET"), element: func(call []string, item int) []string {
			return append(call, itemField(item), strconv.Itoa(item))
		}},
	}
	for key := range keys {
		stream := typeKey("stream", key)
		if err := succeed(conn, "XGROUP", "CREATE", stream, "group", "0"); err != nil {
			return err
		}
		for _, each := range hashes {
			if err := fillCollection(conn, each, key, items); err != nil {
				return err
			}
		}
	}
	return nil
}

// hardWrite is a load of writes where an order has nothing to part elements by, or where they
// differ at their ends only.
type hardWrite struct {
	name    string
	request func(keys, number, key, item int) []string
}

var hardWrites = []hardWrite{
	{"equal scores", func(_, _, _, item int) []string {
		return []string{"ZADD", "equal", "0", itemMember(item)}
	}},
	{"members that differ in the last bytes", func(_, _, _, item int) []string {
		return []string{"SADD", "alike", fmt.Sprintf("%0100d", item)}
	}},
	{"ids of one millisecond", func(_, number, _, _ int) []string {
		return []string{"XADD", "zero", "0-*", "field", itemValue(number)}
	}},
	plainWrite,
}

var plainWrite = hardWrite{"keys of one tag", func(_, number, _, item int) []string {
	return []string{"SET", fmt.Sprintf("{tag}%d", item), itemValue(number)}
}}

// measureHardWrites shows that none of them takes long.
func measureHardWrites(report *Report, chosen settings) error {
	items := 1_000_000
	if *quick {
		items = 10_000
	}
	contenders := []contender{
		{name: "tidemill", kind: instance.Subject, directives: tidemillDirectives(1)},
		{name: "floor", kind: instance.Floor},
	}
	return withServers(serverCPU, contenders, func(contenders []contender) error {
		directory := contenders[0].server.Directory
		// The floor takes a "*" within an argument for a request.
		contenders[1].requests = filepath.Join(directory, "floor-requests")
		err := writeRequests(contenders[1].requests, 1, items, plainWrite.request)
		if err != nil {
			return err
		}
		for _, each := range hardWrites {
			if !isChosenLoad(each.name) {
				continue
			}
			shape := load{
				connections: 1, pipeline: 1, keys: 1, seconds: chosen.Seconds, cpus: loadCPU,
				requests: filepath.Join(directory, "requests"),
			}
			if err := writeRequests(shape.requests, 1, items, each.request); err != nil {
				return err
			}
			if err := measureHardWrite(report, chosen, contenders, each.name, shape); err != nil {
				return err
			}
		}
		return nil
	})
}

func measureHardWrite(
	report *Report, chosen settings, contenders []contender, name string, shape load,
) error {
	above, err := inTurnsUntilDecided(report, name, chosen.PartRounds, contenders, shape,
		hardWriteAboveFloorUsMax, func() spread { return report.latencyAboveFloor(name) })
	if err != nil {
		return err
	}
	report.verdict(name+": p99.9 of one write above the floor's, us", hardWriteAboveFloorUsMax,
		above)
	whole := report.series(name, "tidemill").spread(func(s Sample) float64 { return s.P999us })
	report.tell(name+": p99.9 of one write, us", hardWriteUsMax, whole)
	return nil
}

func succeed(conn *wire.Conn, words ...string) error {
	if reply, err := conn.Do(words...); err != nil || reply.IsError() {
		return fmt.Errorf("%s: %v %v", words[0], reply, err)
	}
	return nil
}

var usedMemoryLine = regexp.MustCompile(`(?m)^used_memory:(\d+)`)

// settledBytes is the difference of two readings, 200 ms apart, below which used_memory is taken as
// settled: buffers of the very connection that asks move it by some hundred bytes.
const settledBytes = 1024

// usedMemory is what INFO says once nothing is freed in the background any more; an error when
// that takes more than 10 seconds.
func usedMemory(conn *wire.Conn) (int64, error) {
	last := int64(-settledBytes)
	for range 50 {
		reply, err := conn.Do("INFO", "memory")
		if err != nil {
			return 0, err
		}
		line := usedMemoryLine.FindSubmatch(reply.Text)
		if line == nil {
			return 0, fmt.Errorf("INFO says %q", reply.Text)
		}
		used, err := strconv.ParseInt(string(line[1]), 10, 64)
		if err != nil || max(used-last, last-used) < settledBytes {
			return used, err
		}
		last = used
		time.Sleep(200 * time.Millisecond)
	}
	return 0, fmt.Errorf("used_memory moved for 10 seconds; last %d bytes", last)
}
