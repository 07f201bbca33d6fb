package differential

import (
	"os"
	"path/filepath"
	"strconv"

	"tidemill/tests/internal/wire"
)

// payloadFolder holds payloads that servers wrote, or that were made by hand after old formats.
const payloadFolder = "../../crates/rdb/fuzz/corpus/payloads"

// payloadNames are those of the types that RESTORE knows. Lists of several nodes are not among
// them: when they become a listpack again depends on the nodes, which Tidemill does not keep.
// Nor are packed sorted sets whose members are out of order or whose scores have more digits than
// they need: Valkey keeps both.
var payloadNames = []string{
	"valkey-9.1-int", "valkey-9.1-int32", "valkey-9.1-text", "valkey-9.1-lzf", "length-64",
	"valkey-9.1-list", "redis-7.0-list", "list", "list-ziplist",
	"valkey-9.1-hash", "valkey-9.1-hash-listpack", "valkey-9.1-hash-expiring",
	"redis-7.0-hash-listpack", "hash-zipmap", "hash-ziplist",
	"valkey-9.1-set", "valkey-9.1-set-listpack", "valkey-9.1-intset", "set",
	"valkey-9.1-zset", "valkey-9.1-zset-listpack", "redis-7.0-zset", "zset-text",
	"valkey-9.1-stream", "redis-7.0-stream", "stream-1", "stream-2", "stream-3",
}

// oddPayloadNames are those that Valkey refuses.
var oddPayloadNames = []string{"module", "redis-hash-22"}

func (g *generator) payload() string {
	name := mostly(g.random, 8, payloadNames, oddPayloadNames)
	payload, err := os.ReadFile(filepath.Join(payloadFolder, name))
	if err != nil {
		panic(err) // the corpus is part of the repository
	}
	switch g.random.IntN(12) {
	case 0:
		return string(payload[:g.random.IntN(len(payload))])
	case 1:
		payload[g.random.IntN(len(payload))] ^= 1 << g.random.IntN(8)
	case 2:
		return g.content()
	}
	return string(payload)
}

// restoreOption makes a number among the arguments of RESTORE.
func (g *generator) restoreOption(name string) string {
	odd := []string{"-1", "abc", "", "1.5"}
	switch name {
	case "ttl":
		usual := []string{"0", "0", strconv.Itoa(100_000 + g.random.IntN(1e9))}
		odd = append(odd, "4102444800000", "9223372036854775807")
		return mostly(g.random, 6, usual, odd)
	case "frequency":
		return mostly(g.random, 4, []string{strconv.Itoa(g.random.IntN(256))}, append(odd, "256"))
	}
	// An idle time, within the tolerance: which commands count as a use is not compared.
	return mostly(g.random, 6, []string{"0", "1", "2"}, odd)
}

// Types of payloads whose elements have no certain order or grouping.
const (
	payloadSet          = 2
	payloadHash         = 4
	payloadIntset       = 11
	payloadListNodes    = 18
	payloadSetListpack  = 20
	payloadHashExpiring = 22
)

// samePayload compares what DUMP answers. A hash table is written in the order of its buckets, and
// each text in it by itself, so its bytes are as many; expiries differ by the moment of the call.
// How a long list is cut into nodes, and how wide the integers of an intset are, depends on what
// was in them before; so does the order of a set in a listpack that was made of a hash table.
func samePayload(_ Call, a, b wire.Reply) bool {
	if a.Kind != b.Kind || a.Null || b.Null || len(a.Text) < 2 || len(b.Text) < 2 ||
		a.Text[0] != b.Text[0] {
		return false
	}
	switch a.Text[0] {
	case payloadSet, payloadHash, payloadHashExpiring:
		return len(a.Text) == len(b.Text)
	case payloadIntset, payloadSetListpack:
		return true
	case payloadListNodes:
		return a.Text[1] > 1 || b.Text[1] > 1
	}
	return false
}
