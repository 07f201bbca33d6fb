package differential

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"tidemill/tests/internal/wire"
)

var (
	streamGroups    = []string{"g", "g", "h"}
	streamConsumers = []string{"c", "c", "d"}
	streamIDs       = []string{"0", "-", "+", "1-0", "2-1", "5", "9-9", "12-0", "30"}
	oddStreamIDs    = []string{"$", ">", "(1-0", "(9", "abc", "", "5-", "5-x", "(", "1-1-1",
		"18446744073709551615-18446744073709551615", "18446744073709551616", "7-*", "-1", "*x"}
	// idleTimes are passed by all pending entries or by those alone whose TIME is long ago.
	idleTimes = []string{"0", "0", "0", "99999999999"}
)

// streams makes keys and as many ids; one time in sixteen there is one too many.
func (g *generator) streams(command *Command, block *Argument) []generatedValue {
	var values, ids []generatedValue
	for range 1 + g.random.IntN(2) {
		values = append(values, generatedValue{
			name: "key", text: g.value(command, &block.Arguments[0]),
		})
		ids = append(ids, generatedValue{"id", g.value(command, &block.Arguments[1]), true})
	}
	if g.random.IntN(16) == 0 {
		ids = append(ids, ids[0])
	}
	return append(values, ids...)
}

// streamText makes a text argument of a command on streams.
func (g *generator) streamText(command *Command, name string) string {
	random := g.random
	switch name {
	case "group":
		return mostly(random, 12, streamGroups, []string{"", "none", g.blob()})
	case "consumer":
		return mostly(random, 12, streamConsumers, []string{"", "e", g.blob()})
	case "min-idle-time":
		return mostly(random, 8, idleTimes, []string{"-1", "abc", "-9223372036854775808"})
	case "threshold":
		usual := []string{strconv.Itoa(random.IntN(20)), strconv.Itoa(g.lastMs - random.IntN(9))}
		return mostly(random, 10, usual, oddStreamIDs)
	case "id", "start", "end", "last-id", "max-deleted-id", "lastid":
		return g.streamID(command)
	}
	return g.text(name)
}

// streamID makes an id: those of XADD ascend.
func (g *generator) streamID(command *Command) string {
	random := g.random
	switch {
	case command.Name == "xadd" && random.IntN(10) > 0:
		g.lastMs += random.IntN(3)
		if random.IntN(3) == 0 {
			return strconv.Itoa(g.lastMs) + "-*"
		}
		return strconv.Itoa(g.lastMs) + "-" + strconv.Itoa(random.IntN(4))
	case command.Name == "xreadgroup" && random.IntN(2) == 0:
		return ">"
	case random.IntN(3) == 0:
		return strconv.Itoa(max(0, g.lastMs-random.IntN(12))) + "-" + strconv.Itoa(random.IntN(4))
	}
	return mostly(random, 6, streamIDs, oddStreamIDs)
}

// streamInteger makes an integer argument of a command on streams; false if it is as any other.
func (g *generator) streamInteger(name string) (string, bool) {
	random := g.random
	switch name {
	case "milliseconds":
		return mostly(random, 6, []string{"1", "2"}, []string{"-1", "abc", "", "1.5"}), true
	case "min-idle-time":
		return mostly(random, 8, idleTimes, []string{"-1", "abc"}), true
	case "ms":
		return mostly(random, 8, []string{"0", "10"}, []string{"-1", "abc"}), true
	case "unix-time-milliseconds":
		return mostly(random, 8, []string{"1", "1000"}, []string{"-1", "abc"}), true
	case "entries-added":
		return mostly(random, 4, []string{"1000", "2000"}, []string{"0", "-1", "abc"}), true
	}
	return "", false
}

// trimsTombstones tells whether a call trims whole nodes where entries were deleted: see
// differences.
func (g *generator) trimsTombstones(call Call) bool {
	return g.hasTombstones && strings.HasPrefix(call.Name, "x") && call.mentions("~")
}

// waitsForStreams tells whether XREAD or XREADGROUP would wait for long.
func waitsForStreams(arguments [][]byte) bool {
	for index := 0; index+1 < len(arguments); index++ {
		if !strings.EqualFold(string(arguments[index]), "BLOCK") {
			continue
		}
		milliseconds, err := strconv.ParseInt(string(arguments[index+1]), 10, 64)
		if err == nil && (milliseconds == 0 || milliseconds > 10) {
			return true
		}
	}
	return false
}

// sameStoredValue compares payloads as they are, but some by their type alone: those of streams,
// which contain times, and deleted entries, and those of hashes and sets beyond one leaf, whose
// order is each server's own. Closing calls read what is in them.
func sameStoredValue(call Call, a, b wire.Reply) bool {
	const (
		setType       = 2
		hashType      = 4
		hashListpack  = 16
		setListpack   = 20
		streamType    = 21
		oneLeafLength = 200 // of a compressed payload
	)
	if samePayload(call, a, b) {
		return true
	}
	if len(a.Text) == 0 || len(b.Text) == 0 || a.Text[0] != b.Text[0] {
		return false
	}
	switch a.Text[0] {
	case streamType:
		return true
	case setType, hashType, hashListpack, setListpack:
		return min(len(a.Text), len(b.Text)) > oneLeafLength
	}
	return false
}

// ownFields of XINFO tell of times, or of the nodes of a server's own trees.
var ownFields = []string{"idle", "inactive", "seen-time", "active-time", "radix-tree-keys",
	"radix-tree-nodes"}

// sameButTimes leaves out values of ownFields, and the times of pending entries: arrays of an id,
// perhaps a consumer, a time and a count.
func sameButTimes(_ Call, a, b wire.Reply) bool {
	if a.Kind != b.Kind || a.Null != b.Null || len(a.Items) != len(b.Items) ||
		!bytes.Equal(a.Text, b.Text) {
		return false
	}
	for index := range a.Items {
		isOwn := index > 0 && slices.Contains(ownFields, string(a.Items[index-1].Text)) ||
			isPending(a.Items) && index == len(a.Items)-2
		if !isOwn && !sameButTimes(Call{}, a.Items[index], b.Items[index]) ||
			a.Items[index].Kind != b.Items[index].Kind {
			return false
		}
	}
	return true
}

func isPending(items []wire.Reply) bool {
	count := len(items)
	return (count == 3 || count == 4) && items[0].Kind == '$' && items[count-2].Kind == ':' &&
		items[count-1].Kind == ':'
}
