package differential

import (
	"slices"
	"strconv"
	"strings"
)

var junk = []string{
	"", "abc", "-1", "\x00", "*", "NX", "XX", "GET", "LEFT", "KEEPTTL", "9223372036854775808",
	"1.5x", "999999999999999999999999",
	// Texts that errors quote: line ends within and around, a NUL within, longer than is quoted.
	"a\r\nb", "\r\na\n", "\n", "a\x00b", "\xff\xfe'\"\t", strings.Repeat("long", 40),
	strings.Repeat("longer", 400),
}

// strangerArgumentsMax is how many arguments a client may send that has not authenticated.
const strangerArgumentsMax = 10

// containers are commands that have subcommands.
var containers = []string{"CLIENT", "COMMAND", "CONFIG", "OBJECT", "MEMORY", "ACL", "SLOWLOG",
	"COMMANDLOG", "LATENCY"}

// unknown makes a call of a command or a subcommand that there is not, to be quoted by an error.
func (g *generator) unknown() Call {
	call := Call{Name: "(unknown)"}
	name := pick(g.random, []string{
		"nothing", "GETT", "ge", "get\r\n", "\r\nget", "ge\x00t", "\x00", "get ", " get", "",
	}) + pick(g.random, append(junk, g.blob()))
	if g.random.IntN(3) == 0 {
		call.Arguments = append(call.Arguments, []byte(g.anyCase(pick(g.random, containers))))
	}
	if strings.EqualFold(name, "get") {
		name += "x"
	}
	call.Arguments = append(call.Arguments, []byte(name))
	for range g.random.IntN(6) {
		call.Arguments = append(call.Arguments,
			[]byte(pick(g.random, append(junk, g.blob(), "a", "some more"))))
	}
	return call
}

// spoil breaks one call in twelve: an argument missing, one too many, one replaced, two swapped.
func (g *generator) spoil(call *Call) {
	nameWords := len(call.Words())
	if call.Name == "client|reply" || g.random.IntN(12) > 0 {
		return
	}
	count := len(call.Arguments)
	switch choice := g.random.IntN(4); {
	case choice == 0:
		call.Arguments = call.Arguments[:max(1, count-1)]
	case choice == 1:
		call.Arguments = append(call.Arguments, []byte(pick(g.random, junk)))
	case choice == 2 && count > nameWords:
		call.Arguments[nameWords+g.random.IntN(count-nameWords)] = []byte(pick(g.random, junk))
	case choice == 3 && count > nameWords+1 && !takesTime(call.Name):
		at := nameWords + g.random.IntN(count-nameWords-1)
		call.Arguments[at], call.Arguments[at+1] = call.Arguments[at+1], call.Arguments[at]
	}
}

// takesTime tells whether an argument is a time to live: a swap could make it so short that it ends
// between two servers' looks at it.
func takesTime(name string) bool {
	return strings.Contains(name, "ex") || strings.Contains(name, "set") ||
		strings.Contains(name, "expire") || name == "restore"
}

// hazardous tells whether a call would wait, or allocate, so much that it stops the run. Real
// servers accept it.
func hazardous(call Call) bool {
	arguments := call.Arguments[min(len(call.Words()), len(call.Arguments)):]
	if len(arguments) == 0 {
		return false
	}
	switch call.Name {
	case "blpop", "brpop", "blmove", "brpoplpush", "bzpopmin", "bzpopmax":
		return waitsLong(arguments[len(arguments)-1])
	case "blmpop", "bzmpop":
		return waitsLong(arguments[0])
	case "wait", "waitaof":
		milliseconds, err := strconv.ParseInt(string(arguments[len(arguments)-1]), 10, 64)
		return err == nil && (milliseconds == 0 || milliseconds > 10)
	case "client|pause":
		pause, err := strconv.ParseInt(string(arguments[0]), 10, 64)
		return err == nil && pause > 5
	case "xread", "xreadgroup":
		return waitsForStreams(arguments)
	case "xautoclaim":
		// Valkey allocates room for as many ids as COUNT says.
		return slices.ContainsFunc(arguments, func(argument []byte) bool {
			number, err := strconv.ParseInt(string(argument), 10, 64)
			return err == nil && number > 1<<20
		})
	case "function|list":
		// Valkey's error repeats the argument: the reply would be two lines.
		return slices.ContainsFunc(arguments, func(argument []byte) bool {
			return strings.ContainsAny(string(argument), "\r\n")
		})
	case "setbit", "setrange":
		return len(arguments) > 1 && allocatesMuch(arguments[1])
	case "bitfield":
		return slices.ContainsFunc(arguments[1:], allocatesMuch)
	}
	return false
}

// waitsLong tells whether a timeout is longer than a test may take, and no error.
func waitsLong(timeout []byte) bool {
	const refusedFrom = 1e16
	seconds, err := strconv.ParseFloat(string(timeout), 64)
	return err == nil && (seconds == 0 || seconds > 0.01) && seconds < refusedFrom
}

func allocatesMuch(offset []byte) bool {
	number, err := strconv.ParseInt(strings.TrimPrefix(string(offset), "#"), 10, 64)
	return err == nil && number > 1<<14 && number < 1<<33 && !allocationIsRefused(string(offset))
}

// allocationIsRefused names the offsets beyond the limit of a string that the generator uses on
// purpose.
func allocationIsRefused(offset string) bool {
	return offset == "536870912" ||
		offset == "4294967296"
}
