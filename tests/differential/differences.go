package differential

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"tidemill/tests/internal/wire"
)

// excluded names the commands of the families under test that the generator leaves out, each with
// the reason. TestExcluded_CommandsThatAreMissingStayListed fails when a command listed with notYet
// starts to exist.
var excluded = map[string]string{
	"migrate":         "it connects to other servers: package process tests it",
	"client|tracking": "its pushes come at a time of their own: compared in tests/pubsub",
	"script|debug":    "there is no debugger",
	"script|help":     "the texts are our own",
	"function|help":   "the texts are our own",
}

const notYet = "belongs to a later part: answers `unknown command`"

// A Difference is a reply that differs from Valkey's by intent.
type Difference struct {
	// Command is the name as in COMMAND DOCS; empty means every command.
	Command string
	// Accept tells whether this pair of replies to a call is the intended difference.
	Accept func(call Call, valkey, subject wire.Reply) bool
	// Reason says why Tidemill answers otherwise.
	Reason string
}

// differences is the whole list. What is not here must be equal.
var differences = []Difference{
	{
		Command: "hello",
		Accept:  sameMapBut("server", "version", "modules", "id"),
		Reason: "clients that know Redis look for `redis` and its version; there are no " +
			"modules, where Valkey lists its " +
			"Lua engine; each server counts its connections",
	},
	{
		Command: "object|encoding",
		Accept: func(_ Call, valkey, subject wire.Reply) bool {
			return string(valkey.Text) == "embstr" && string(subject.Text) == "int"
		},
		Reason: "a number that a script stores is kept as text by Valkey, as an integer here",
	},
	{
		Command: "object|encoding",
		Accept: func(call Call, valkey, subject wire.Reply) bool {
			return call.ListsShrank && isListEncoding(valkey) && isListEncoding(subject)
		},
		Reason: "a list that shrinks is a listpack again where one node of Valkey's is left: " +
			"that depends on how the nodes came to be split; Tidemill, which has none, judges " +
			"by the size of what is left",
	},
}

// sameMapBut compares maps by their names and the values' types, and by the values but those of
// some names.
func sameMapBut(names ...string) func(call Call, valkey, subject wire.Reply) bool {
	return func(_ Call, valkey, subject wire.Reply) bool {
		if valkey.Kind != subject.Kind || len(valkey.Items) != len(subject.Items) ||
			len(valkey.Items)%2 != 0 {
			return false
		}
		for index := 0; index < len(valkey.Items); index += 2 {
			name, left, right := valkey.Items[index], valkey.Items[index+1], subject.Items[index+1]
			if !sameText(name, subject.Items[index]) || left.Kind != right.Kind {
				return false
			}
			if !slices.Contains(names, string(name.Text)) && !sameReply(Call{}, left, right) {
				return false
			}
		}
		return true
	}
}

// Differences that no single reply shows:
//   - XADD and XTRIM with ~ trim whole nodes of Valkey's, in which deleted entries count. Tidemill
//     marks where nodes would begin but keeps nothing of deleted entries, so that behind XDEL it
//     may trim a node more or less (streams_beside_valkey compares streams without XDEL).
//   - After CLIENT REPLY OFF or SKIP, Valkey leaves the connection of a client that sends QUIT open
//     and reads no more of it; Tidemill closes it (observe.TestQuit_ClosesAlthoughRepliesAreOff).
//   - HRANDFIELD with a huge negative count fills Valkey's memory unless client-output-buffer-limit
//     ends the client; Tidemill answers with an error beyond proto-max-bulk-len
//     (crates/engine/tests/all/hash_random.rs).
//   - PFADD that meets corrupt registers leaves Valkey's string with the elements before it added;
//     Tidemill's as it was.
//   - GEOSEARCH and its kin: of members at the same distance, which ones COUNT leaves and their
//     order are those of Valkey's partial quicksort; Tidemill answers them as they were found. The
//     middle of a polygon around a pole lies beyond the grid, where Valkey searches a cell by
//     chance. The distance of opposite places may be no number there.
//   - HLEN counts fields whose time is over until they are deleted, which is at another moment: a
//     change of a hash deletes some of them here.
//   - HSETEX and HGETEX of a key that is called `fields`: Valkey takes the key for the option.
//   - A read of an expired key publishes expired before keymiss in Valkey, which deletes the key
//     before it counts the miss; here the read deletes nothing, and the key goes behind it.
//   - A command that stores an empty result (BITOP, SINTERSTORE, SORT with STORE and their kin)
//     under a key that has expired publishes del in Valkey, as its own change; here the key goes as
//     all that have expired: expired is published, and expired_keys counts it.
//   - BITFIELD whose writes OVERFLOW FAIL refused, all of them, is no change in Valkey where it
//     made the string longer, and a replica or a log has the shorter one; here it is one.
//   - HSETEX with KEEPTTL, in import mode, of a field that has expired keeps its time in Valkey, so
//     that the new value is hidden too; here it has none.

// showsFault tells whether a call is answered by a fault of Valkey's that Tidemill does not have,
// or by chance. The generator leaves such calls out, because the keyspace, or what EXEC answers,
// would differ from there on.
func showsFault(call Call, watches bool) bool {
	switch {
	case call.Name == "lset" && len(call.Arguments) == 4:
		// Valkey cuts the index to 32 bits: LSET of element 2^32 overwrites element 0.
		index, err := strconv.ParseInt(string(call.Arguments[2]), 10, 64)
		return err == nil && index != int64(int32(index))
	case call.Name == "hsetex":
		// Twice the number of fields may be that of the arguments beyond 64 bits.
		return slices.ContainsFunc(call.Arguments, func(argument []byte) bool {
			number, err := strconv.ParseInt(string(argument), 10, 64)
			return err == nil && number != 0 && number<<1>>1 != number
		})
	case call.Name == "bitfield":
		// A write that OVERFLOW FAIL refuses still lets the string grow, and Valkey tells no
		// watcher.
		return watches && call.mentions("FAIL")
	case call.Name == "spop":
		// The members that go are chance, unless all go.
		if len(call.Arguments) != 3 {
			return len(call.Arguments) == 2
		}
		count, err := strconv.ParseInt(string(call.Arguments[2]), 10, 64)
		return err == nil && count > 0 && count < 1000
	case call.mentions("BYLEX") || strings.HasSuffix(call.Name, "bylex") ||
		call.Name == "zlexcount":
		// Members of different scores are in no order by name: which of them a search meets is each
		// server's own.
		return slices.ContainsFunc(call.Arguments[1:], func(argument []byte) bool {
			return len(argument) > 1 && (argument[0] == '[' || argument[0] == '(')
		})
	case call.Name == "xadd":
		// The id is of each server's own clock.
		return slices.ContainsFunc(call.Arguments[1:], func(argument []byte) bool {
			return string(argument) == "*"
		})
	case strings.HasPrefix(call.Name, "pf") && call.mentions("SIMD"):
		// Valkey answers twice when the argument is neither ON nor OFF.
		return true
	case call.Name == "sort" || call.Name == "sort_ro":
		// The order of elements whose keys are equal as text, or both missing, is that of Valkey's
		// partial quicksort.
		return call.mentions("BY") && call.mentions("ALPHA")
	case strings.HasPrefix(call.Name, "geosearch") || strings.HasPrefix(call.Name, "georadius"):
		return middleIsBeyondGrid(call) || ordersOthers(call)
	}
	return false
}

// ordersOthers tells whether a call orders, by distance, members of a sorted set that was not made
// of places: many have one score and so one distance, and are in the order of Valkey's partial
// quicksort then.
func ordersOthers(call Call) bool {
	source := 1
	if call.Name == "geosearchstore" {
		source = 2
	}
	return len(call.Arguments) > source && ordersByDistance(call) &&
		!isKeyOfPlaces(call.Arguments[source])
}

func ordersByDistance(call Call) bool {
	isOfPlaces := strings.HasPrefix(call.Name, "geosearch") ||
		strings.HasPrefix(call.Name, "georadius")
	return isOfPlaces &&
		(call.mentions("COUNT") || call.mentions("ASC") || call.mentions("DESC"))
}

// isKeyOfPlaces tells whether an argument names a key of the family of places.
func isKeyOfPlaces(argument []byte) bool {
	bounds := familyKeys["geo"]
	return slices.Contains(keys[bounds[0]:bounds[1]], string(argument))
}

// middleIsBeyondGrid tells whether a call searches a polygon around a pole: where Valkey looks for
// members then is chance.
func middleIsBeyondGrid(call Call) bool {
	at := slices.IndexFunc(call.Arguments, func(argument []byte) bool {
		return strings.EqualFold(string(argument), "BYPOLYGON")
	})
	if at < 0 || at+2 > len(call.Arguments) {
		return false
	}
	var x, y, z float64
	for pair := range slices.Chunk(call.Arguments[at+2:], 2) {
		if len(pair) < 2 {
			break
		}
		longitude, notLongitude := strconv.ParseFloat(string(pair[0]), 64)
		latitude, notLatitude := strconv.ParseFloat(string(pair[1]), 64)
		if notLongitude != nil || notLatitude != nil {
			break
		}
		longitude, latitude = longitude*math.Pi/180, latitude*math.Pi/180
		x += math.Cos(latitude) * math.Cos(longitude)
		y += math.Cos(latitude) * math.Sin(longitude)
		z += math.Sin(latitude)
	}
	// That of the grid is 85.05112878.
	const latitudeMax = 85
	return math.Abs(math.Atan2(z, math.Hypot(x, y)))*180/math.Pi > latitudeMax
}

// takesFromLists tells whether a call may make a list shorter: a command that takes elements out,
// or one that runs any.
func takesFromLists(call Call) bool {
	switch call.Name {
	case "lpop", "rpop", "lmpop", "ltrim", "lrem", "lmove", "rpoplpush",
		"blpop", "brpop", "blmpop", "blmove", "brpoplpush",
		"eval", "evalsha", "fcall":
		return true
	}
	return false
}

func isListEncoding(reply wire.Reply) bool {
	name := string(reply.Text)
	return name == "listpack" || name == "quicklist"
}

func intended(call Call, valkey, subject wire.Reply) bool {
	for _, difference := range differences {
		if (difference.Command == "" || difference.Command == call.Name) &&
			difference.Accept(call, valkey, subject) {
			return true
		}
	}
	return false
}

func sameText(a, b wire.Reply) bool { return a.Kind == b.Kind && bytes.Equal(a.Text, b.Text) }
