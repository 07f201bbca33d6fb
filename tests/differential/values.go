package differential

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// keys are all keys of a run. A command prefers those of its own family (see key), so that most
// calls meet a value of the type they work on.
var keys = []string{
	"s0", "s1", "s2", "{tag}s3", "s\x00\r\n\xff4", "5",
	"l0", "l1", "l2", "{tag}l3", "l\x00\xfe4",
	"h0", "h1", "{tag}h2", "h\r\n3",
	"m0", "m1", "m2", "{tag}m3", "m\x00\xfd",
	"z0", "z1", "{tag}z2", "z\x00\xfc",
	"x0", "x1", "{tag}x2", "x\x00\xfb",
	"g0", "g1", "{tag}g2",
	"p0", "p1", "{tag}p2",
	"", "any", strings.Repeat("long", 40),
}

var familyKeys = map[string][2]int{
	"string": {0, 6}, "bitmap": {0, 6}, "list": {6, 11}, "hash": {11, 15}, "set": {15, 20},
	"sorted-set": {20, 24}, "stream": {24, 28}, "geo": {28, 31}, "hyperloglog": {31, 34},
}

var (
	words = []string{"a", "b", "c", "foo", "bar", "foobar", "hello world", "ohmytext",
		"mynewtext"}
	numbers = []string{
		"0", "1", "-1", "2", "3", "7", "10", "100", "-100", "12345", "2147483647", "-2147483649",
	}
	// members of sets: integers, what only looks like one, and text
	members = append([]string{"a", "b", "c", "foo", "01", "1.0", ""}, numbers...)
	edges   = []string{"9223372036854775807", "-9223372036854775808", "9223372036854775806",
		"4294967296"}
	notNumbers = []string{"abc", "", " 1", "1 ", "+1", "01", "-0", "1.0", "9223372036854775808",
		"-9223372036854775809", "99999999999999999999999", "\x00"}
	floats = []string{"0.5", "-0.25", "3", "1e3", "5.0e3", "10.5", "0.1", "-3.75", "1e-5",
		"123456789.125", "0", "-0.0"}
	notFloats       = []string{"abc", "", "nan", "inf", "-inf", "1e400", " 1", "1 ", "1,5", "0x"}
	badMilliseconds = []string{"0", "-1", "abc", "", "9223372036854775807",
		"-9223372036854775808", "1.5"}
	badTimes    = append([]string{"9223372036854775"}, badMilliseconds...)
	unixSeconds = []string{"4102444800", "33177117420", "1", "1000000000"}
	unixMillis  = []string{"4102444800000", "33177117420000", "1", "1000000000000"}
	// ends of ranges of ranks, scores and members
	bounds = []string{"0", "-1", "1", "-3", "5", "(0", "(1.5", "-inf", "+inf", "-2", "-", "+", "",
		"((1", "[b", "(foo", "nan", "1e400", "abc"}
	patterns = []string{"*", "s*", "?0", "[a-l]*", "[^s]*", "{tag}*", "nothing", "\\s0", "*\\",
		"[", "", "**", "[s-a]0", "f*"}
	encodings = []string{"u1", "u2", "u8", "u13", "u32", "u63", "i1", "i5", "i8", "i16", "i33",
		"i64"}
	notEncoding = []string{"u0", "u64", "i65", "i0", "x8", "u", "", "8", "U8"}
)

// parameters are names and patterns of directives that have one value on all servers of a run.
var parameters = []string{
	"timeout", "TimeOut", "DATABASES", "databases", "Slave-Priority", "REPLICA-priority",
	"hash-max-*-entries", "HASH-max-listpack-entries",
	"hash-max-ziplist-entries", "h[a-a]sh-max-l*", "TIMEO?T", "\\timeout",
	"set-max-*", "timeo*\x00x", "nothing", "[", "",
}

func pick(random *rand.Rand, from []string) string { return from[random.IntN(len(from))] }

// mostly picks from usual, one time in n from odd.
func mostly(random *rand.Rand, n int, usual, odd []string) string {
	if random.IntN(n) == 0 {
		return pick(random, odd)
	}
	return pick(random, usual)
}

func (g *generator) key(command *Command) string {
	if bounds, known := familyKeys[command.Group]; known && g.random.IntN(8) > 0 {
		return keys[bounds[0]+g.random.IntN(bounds[1]-bounds[0])]
	}
	return pick(g.random, keys)
}

// value makes a value for one leaf of an argument tree.
func (g *generator) value(command *Command, argument *Argument) string {
	switch argument.Type {
	case "key":
		return g.key(command)
	case "pattern":
		return pick(g.random, patterns)
	case "integer", "unix-time":
		if command.Name == "restore" {
			return g.restoreOption(argument.Name)
		}
		return g.integer(command, argument.Name)
	case "double":
		if argument.Name == "timeout" {
			return mostly(g.random, 6, []string{"0.001", "0.002", ".001"},
				[]string{"-1", "abc", "1e400", ""})
		}
		if argument.Name == "min" || argument.Name == "max" {
			return mostly(g.random, 3, bounds, floats)
		}
		if command.Group == "geo" {
			return g.geoNumber(argument.Name)
		}
		return mostly(g.random, 8, floats, notFloats)
	}
	if command.Group == "stream" {
		return g.streamText(command, argument.Name)
	}
	if command.Group == "geo" && strings.HasPrefix(argument.Name, "member") {
		return mostly(g.random, 20, words, []string{g.content()})
	}
	return g.text(argument.Name)
}

// geoNumber makes a longitude, a latitude or a length. Places hardly ever coincide: the order of
// members at the same distance is that of Valkey's partial quicksort.
func (g *generator) geoNumber(name string) string {
	random := g.random
	within := func(size float64) string {
		return strconv.FormatFloat((random.Float64()*2-1)*size, 'f', 4+random.IntN(12), 64)
	}
	switch name {
	case "longitude":
		return mostly(random, 40, []string{within(180), within(10)},
			append([]string{"180", "-180", "181"}, notFloats...))
	case "latitude":
		return mostly(random, 40, []string{within(85), within(10)},
			append([]string{"85.05112878", "-85.05112878", "86"}, notFloats...))
	}
	lengths := []string{"1", "0.5", "1000", "200000", "5000000", "25000000"}
	return mostly(random, 30, lengths, append([]string{"0", "-1", "inf", "1e300"}, notFloats...))
}

func (g *generator) integer(command *Command, name string) string {
	random := g.random
	if command.Group == "stream" {
		if text, known := g.streamInteger(name); known {
			return text
		}
	}
	small := func(low, high int) string {
		if random.IntN(14) == 0 {
			return mostly(random, 2, edges, notNumbers)
		}
		return strconv.Itoa(low + random.IntN(high-low+1))
	}
	if text, known := g.expiry(command, name); known {
		return text
	}
	if text, known := g.largeText(name); known && !hasOwnCounts(command) {
		return text
	}
	switch name {
	case "numkeys", "numfields":
		return "1" // set to the true count once the rest is generated
	case "client-id", "not-client-id":
		return pick(random, []string{"1000000000", "0", "-1", "abc", "999999999999"})
	case "idle", "maxage":
		return pick(random, []string{"1000000", "0", "-1", "abc"})
	case "db", "not-db", "destination-db":
		return mostly(random, 8, []string{"0", "0", "1", "2", "3", "15"},
			[]string{"16", "-1", "abc", "99999999999"})
	case "protover":
		return mostly(random, 4, []string{"2", "3"}, []string{"1", "4", "abc", "-1"})
	case "timeout":
		return mostly(random, 6, []string{"1", "2"}, []string{"-1", "abc", "1.5"})
	case "cursor":
		return mostly(random, 8, []string{
			"0",
		}, []string{
			"1", "17", "abc", "-1", "18446744073709551616", "99999999999999999999999", " 0",
		})
	case "bit":
		return mostly(random, 10, []string{"0", "1"}, []string{"2", "-1", "abc"})
	case "offset":
		return g.offset(command)
	case "count", "limit":
		if usual, odd := counts(command); usual != nil {
			return mostly(random, 6, usual, odd)
		}
	case "value", "increment", "decrement":
		if command.Name == "setbit" {
			return mostly(random, 12, []string{"0", "1"}, []string{"2", "-1", "abc", ""})
		}
		if random.IntN(8) == 0 {
			return mostly(random, 3, edges, notNumbers)
		}
		return pick(random, numbers)
	case "index":
		if command.Name == "select" {
			return mostly(random, 5, []string{"0", "0", "1", "2"},
				[]string{"16", "-1", "abc", "99999999999"})
		}
	}
	return small(-6, 9)
}

// expiry is a time to live or a moment, if the argument is one.
func (g *generator) expiry(command *Command, name string) (text string, known bool) {
	random := g.random
	switch name {
	// Times to live are long, and two of one sequence hardly ever equal: GT and LT would compare
	// deadlines that differ by the moment of the call.
	case "seconds":
		return mostly(random, 6, []string{strconv.Itoa(100 + random.IntN(1e6))}, badTimes), true
	case "milliseconds":
		usual := strconv.Itoa(100_000 + random.IntN(1e9))
		long := strconv.Itoa(9_000_000_000_000_000 - random.IntN(1e9))
		return mostly(random, 6, []string{usual}, append(badMilliseconds, long)), true
	case "unix-time-seconds":
		if command.Name == "msetex" {
			// it leaves keys born expired to chance: DBSIZE may count them
			return mostly(random, 6, unixSeconds[:2], badTimes), true
		}
		return mostly(random, 6, unixSeconds, badTimes), true
	case "unix-time-milliseconds":
		if command.Name == "msetex" {
			return mostly(random, 6, unixMillis[:2], badTimes), true
		}
		return mostly(random, 6, unixMillis, badTimes), true
	}
	return "", false
}

// counts are usual and odd values of COUNT and LIMIT, where they are no small numbers.
func counts(command *Command) (usual, odd []string) {
	switch {
	case command.Name == "spop":
		// nothing, or all: which members go otherwise is chance (see showsFault)
		return []string{"0", "1000", "9223372036854775807"}, []string{"-1", "abc"}
	case command.Name == "sintercard" || command.Name == "zintercard":
		return []string{"0", "1", "2", "100"}, []string{"-1", "abc"}
	case strings.HasSuffix(command.Name, "scan"):
		return []string{"1000", "5000"}, []string{"1", "3", "0", "-1", "abc"}
	}
	return nil, nil
}

func hasOwnCounts(command *Command) bool {
	usual, _ := counts(command)
	return usual != nil || command.Name == "select"
}

func (g *generator) offset(command *Command) string {
	random := g.random
	switch command.Name {
	case "bitfield", "bitfield_ro":
		offsets := []string{strconv.Itoa(random.IntN(100)), "#" + strconv.Itoa(random.IntN(9))}
		return mostly(random, 12, offsets, []string{
			"-1", "#-1", "abc", "#", "9223372036854775807", "99999999999999999999",
		})
	case "setrange":
		return mostly(random, 10, []string{strconv.Itoa(random.IntN(40)), "0", "3"},
			[]string{"-1", "abc", "536870912", "9223372036854775807"})
	}
	return mostly(random, 10, []string{strconv.Itoa(random.IntN(130)), "7", "0"},
		[]string{"-1", "abc", "4294967296", "9223372036854775807", "9223372036854775808"})
}

func (g *generator) text(name string) string {
	random := g.random
	if text, found := g.scriptText(name); found {
		return text
	}
	if text, found := g.largeText(name); found {
		return text
	}
	switch name {
	case "field":
		return mostly(random, 10, []string{"f0", "f1", "f2", "f3", "f4", "f5"},
			[]string{"", "f\x00\r\n", g.blob(), fmt.Sprint("f", random.IntN(50))})
	case "member":
		return mostly(random, 3, members, []string{g.content(), strconv.Itoa(random.IntN(300))})
	case "min", "max", "start", "stop":
		return mostly(random, 12, bounds, []string{g.content()})
	case "element", "pivot":
		return mostly(random, 3, words, []string{g.content()})
	case "comparison-value":
		return mostly(random, 3, append(words, numbers...), []string{g.content()})
	case "serialized-value":
		return g.payload()
	case "encoding":
		return mostly(random, 10, encodings, notEncoding)
	case "type":
		return mostly(random, 5, []string{"string", "list", "hash", "set", "zset",
			"stream", "STRING"}, []string{"nothing", ""})
	case "addr", "laddr", "not-addr", "not-laddr", "old-format":
		return pick(random, []string{"127.0.0.1:1", "127.0.0.1:0", "nonsense", ""})
	case "ip", "not-ip":
		return pick(random, []string{"127.0.0.2", "10.0.0.1", "nonsense"})
	case "username":
		return mostly(random, 3, []string{"default"}, []string{"nobody", ""})
	case "password", "auth":
		return pick(random, []string{password, ""})
	case "parameter":
		return pick(random, parameters)
	case "clientname", "connection-name", "name", "not-name", "libname", "libver", "lib-name",
		"lib-ver", "not-lib-name", "not-lib-ver":
		return mostly(random, 6, []string{"tester", "name-2"},
			[]string{"with space", "", "new\nline", "\xff"})
	case "category":
		return mostly(random, 6, []string{"read", "write", "Hash", "dangerous"},
			[]string{"nothing", "@read", ""})
	case "subcommand":
		return mostly(random, 10, []string{"GETREG", "DECODE", "ENCODING", "TODENSE"},
			[]string{"", "nothing", "getre"})
	case "flags", "not-flags":
		return pick(random, []string{"N", "b", "x", "Z", "NN", ""})
	case "capability", "capa", "not-capa":
		return pick(random, []string{"redirect", "r", "unknown"})
	}
	return g.content()
}

// content makes a value to store: often a number, often one of few words, sometimes binary or long.
func (g *generator) content() string {
	random := g.random
	switch choice := random.IntN(100); {
	case choice < 35:
		return pick(random, numbers)
	case choice < 40:
		return mostly(random, 2, edges, notNumbers)
	case choice < 50:
		return mostly(random, 5, floats, notFloats)
	case choice < 80:
		return pick(random, words)
	case choice < 83:
		// around the thresholds of embstr and listpack
		return strings.Repeat("x", 40+random.IntN(40))
	case choice < 85:
		return strings.Repeat("long value ", 1+random.IntN(400))
	}
	return g.blob()
}

func (g *generator) blob() string {
	bytes := make([]byte, g.random.IntN(24))
	for index := range bytes {
		bytes[index] = byte(g.random.Uint32())
	}
	return string(bytes)
}
