package differential

import (
	"slices"
	"strconv"
	"strings"

	"tidemill/tests/internal/wire"
)

// hostileTexts are sizes, counts, scores, times and ids at the ends of what commands take, and
// beyond.
var hostileTexts = []string{
	"-1", "0", "1000000000", "-1000000000", "2147483647", "2147483648", "-2147483649",
	"4294967295", "4294967296", "9223372036854775806", "9223372036854775807",
	"9223372036854775808", "-9223372036854775807", "-9223372036854775808", "-9223372036854775809",
	"18446744073709551615", "18446744073709551616", strings.Repeat("9", 400),
	"nan", "-nan", "inf", "-inf", "+inf", "1e308", "-1e308", "1.8e308", "5e-324", "1e400", "0x10",
	"-0", "0.1", "18446744073709551615-18446744073709551615", "0-18446744073709551615",
	"18446744073709551615-*", "18446744073709551616-0", "-9223372036854775808-1", "",
	"(18446744073709551615-18446744073709551615", "(0-0", "(inf", "(nan", "#9223372036854775807",
}

// isSize tells whether an argument is a number, an id or a bound: what a hostile client would make
// huge.
func isSize(command *Command, argument *Argument) bool {
	switch argument.Type {
	case "integer", "double", "unix-time":
		return true
	case "string":
		names := []string{"min", "max", "start", "stop", "end", "threshold", "id", "last-id",
			"max-deleted-id", "lastid", "min-idle-time", "score", "increment", "cursor", "offset"}
		return slices.Contains(names, argument.Name)
	}
	return false
}

// hostileShapes is the number of shapes of each command that hostile texts are put into: which
// options they have is drawn.
const hostileShapes = 6

// hostileCalls are calls of a command, each with one hostile text in the place of a size.
func hostileCalls(command *Command) []Call {
	var calls []Call
	for shape := range uint64(hostileShapes) {
		g := newGenerator([]Command{*command}, shape)
		values := g.arguments(command, command.Arguments)
		g.setCounts(values)
		for position, value := range values {
			if !value.isSize {
				continue
			}
			for _, text := range hostileTexts {
				call := Call{Name: command.Name, Arguments: wire.Arguments(command.Words...)}
				for index, other := range values {
					if index == position {
						other.text = text
					}
					call.Arguments = append(call.Arguments, []byte(other.text))
				}
				calls = append(calls, call)
			}
		}
	}
	return calls
}

// staysSmall tells whether both servers answer a call at once and with little. Sizes that real
// servers obey are left out: to wait for years, or to answer a billion elements.
func staysSmall(call Call) bool {
	if hazardous(call) || showsFault(call, true) {
		return false
	}
	switch call.Name {
	case "blpop", "brpop", "blmove", "brpoplpush", "bzpopmin", "bzpopmax", "blmpop", "bzmpop":
		// Valkey waits for as long as hexadecimal digits say.
		return !call.mentions("0x10")
	case "srandmember", "hrandfield", "zrandmember":
		position := min(2, len(call.Arguments)-1)
		count, err := strconv.ParseInt(string(call.Arguments[position]), 10, 64)
		return err != nil || count > -10_000
	}
	return true
}

// hostileSetup fills keys of all types.
func hostileSetup() []Call {
	var calls []Call
	add := func(words ...string) {
		name := strings.ToLower(words[0])
		calls = append(calls, Call{Name: name, Arguments: wire.Arguments(words...)})
	}
	for number, key := range keys {
		element := func(index int) string { return strconv.Itoa(number + index) }
		name := strings.TrimPrefix(key, "{tag}")
		switch name[:min(1, len(name))] {
		case "s", "5":
			add("SET", key, element(7))
		case "l":
			add("RPUSH", key, element(0), "a", element(1), "b", element(2))
		case "h":
			add("HSET", key, "f0", element(0), "f1", "1.5", "f2", "text")
		case "m":
			add("SADD", key, element(0), element(1), "a")
		case "z":
			add("ZADD", key, "1", "a", "2", "b", "2", "c", "3.5", "d")
		case "x":
			add("XADD", key, "1-0", "f", "v")
			add("XADD", key, "2-1", "f", "v")
			add("XADD", key, "5-0", "f", "v")
			calls = append(calls, Call{Name: "xgroup|create",
				Arguments: wire.Arguments("XGROUP", "CREATE", key, "g", "0")})
			add("XREADGROUP", "GROUP", "g", "c", "COUNT", "2", "STREAMS", key, ">")
		case "g":
			add("GEOADD", key, "13.361389", "38.115556", "a", "15.087269", "37.502669", "b")
		case "p":
			add("PFADD", key, "a", "b", element(3))
		}
	}
	return calls
}
