package differential

import (
	"bytes"
	"slices"
	"sort"
	"strings"

	"tidemill/tests/internal/wire"
)

// A comparison decides whether two replies to one command mean the same.
type comparison func(call Call, valkey, subject wire.Reply) bool

// clockToleranceMs is the accepted difference of times to live: a command reaches the servers at
// different moments. The deadlines of the tests are further apart, so a wrong one is still seen.
const clockToleranceMs = 5000

// comparisons lists the commands whose replies are not compared byte for byte.
var comparisons = map[string]comparison{
	"keys":            unordered,
	"hkeys":           unordered,
	"hvals":           unordered,
	"hgetall":         unorderedPairs,
	"smembers":        unordered,
	"sinter":          unordered,
	"sunion":          unordered,
	"sdiff":           unordered,
	"spop":            unordered,
	"srandmember":     sameShape,
	"scan":            scanned,
	"sscan":           scanned,
	"hscan":           scanned,
	"zscan":           scanned,
	"hrandfield":      sameShape,
	"zrandmember":     sameShape,
	"randomkey":       sameShape,
	"ttl":             closeTimes(clockToleranceMs / 1000),
	"pttl":            closeTimes(clockToleranceMs),
	"expiretime":      closeTimes(clockToleranceMs / 1000),
	"pexpiretime":     closeTimes(clockToleranceMs),
	"httl":            closeTimes(clockToleranceMs / 1000),
	"hpttl":           closeTimes(clockToleranceMs),
	"hexpiretime":     closeTimes(clockToleranceMs / 1000),
	"hpexpiretime":    closeTimes(clockToleranceMs),
	"object|idletime": closeTimes(clockToleranceMs / 1000),
	"object|refcount": sameShape, // what is shared is the allocator's business
	"client|id":       sameShape,
	"client|info":     sameFieldNames,
	"client|list":     sameFieldNames,
	"client|help":     sameKind,
	"object|help":     sameKind,
	"lolwut":          sameKind,
	"lastsave":        sameShape,
	"role":            sameShape, // Valkey counts writes as an offset although nobody follows it
	"config|get":      sameUnlessAll,
	"memory|usage":    sameShape, // what takes how much is each server's own
	"command|list":    listedByValkey,
	"dump":            sameStoredValue,
	"xpending":        sameButTimes,
	"xinfo|stream":    sameButTimes,
	"xinfo|consumers": sameButTimes,
	"xinfo|help":      sameKind,
	"xgroup|help":     sameKind,
	"sort":            sortedAsFound,
	"sort_ro":         sortedAsFound,
}

// equal compares two replies to one call, those inside EXEC included: queued are the calls that
// EXEC ran.
func equal(call Call, queued []Call, valkey, subject wire.Reply) bool {
	if call.Name == "exec" && valkey.Kind == '*' && !valkey.Null &&
		len(valkey.Items) == len(queued) {
		if subject.Kind != '*' || len(subject.Items) != len(valkey.Items) {
			return false
		}
		for index := range queued {
			if !equal(queued[index], nil, valkey.Items[index], subject.Items[index]) {
				return false
			}
		}
		return true
	}
	if sameReply(call, valkey, subject) {
		return true
	}
	if compare := comparisons[call.Name]; compare != nil && !valkey.IsError() &&
		!subject.IsError() && compare(call, valkey, subject) {
		return true
	}
	return intended(call, valkey, subject)
}

func sameReply(_ Call, a, b wire.Reply) bool {
	if a.Kind != b.Kind || a.Null != b.Null || len(a.Items) != len(b.Items) ||
		!bytes.Equal(a.Text, b.Text) {
		return false
	}
	for index := range a.Items {
		if !sameReply(Call{}, a.Items[index], b.Items[index]) {
			return false
		}
	}
	return true
}

// sameUnlessAll leaves out the call that asks for all directives, of which each server has its own.
func sameUnlessAll(call Call, a, b wire.Reply) bool {
	return call.mentions("*") && sameKind(call, a, b)
}

func sameKind(_ Call, a, b wire.Reply) bool { return a.Kind == b.Kind && a.Null == b.Null }

// listedByValkey demands that all that the subject lists is in Valkey's list, which has more
// commands, but for HOTKEYS, which is Redis's. What COMMAND alone says of each is compared by
// package observe.
func listedByValkey(call Call, a, b wire.Reply) bool {
	if len(call.Arguments) == 1 {
		return sameKind(call, a, b)
	}
	return sameKind(call, a, b) && !slices.ContainsFunc(b.Items, func(each wire.Reply) bool {
		isRedis := bytes.HasPrefix(each.Text, []byte("hotkeys"))
		return !isRedis && !slices.ContainsFunc(a.Items, func(known wire.Reply) bool {
			return sameReply(Call{}, known, each)
		})
	})
}

// sameShape compares types and lengths and leaves out the values.
func sameShape(call Call, a, b wire.Reply) bool {
	if a.Kind != b.Kind || a.Null != b.Null || len(a.Items) != len(b.Items) {
		return false
	}
	for index := range a.Items {
		if !sameShape(call, a.Items[index], b.Items[index]) {
			return false
		}
	}
	return true
}

func sameMultiset(a, b []wire.Reply, stride int) bool {
	if len(a) != len(b) || len(a)%stride != 0 {
		return false
	}
	render := func(items []wire.Reply) []string {
		var lines []string
		for index := 0; index < len(items); index += stride {
			line := ""
			for _, item := range items[index : index+stride] {
				line += item.String() + " "
			}
			lines = append(lines, line)
		}
		sort.Strings(lines)
		return lines
	}
	left, right := render(a), render(b)
	for index := range left {
		if left[index] != right[index] {
			return false
		}
	}
	return true
}

func unordered(_ Call, a, b wire.Reply) bool {
	return a.Kind == b.Kind && a.Null == b.Null && sameMultiset(a.Items, b.Items, 1)
}

// sortedAsFound leaves out the order, and which elements a limit takes, when a pattern of BY asks
// for no order, whatever follows it: that of a set which is a hash table is each server's own. With
// ALPHA, Valkey compares C strings: elements that are equal up to a NUL byte are in no order.
func sortedAsFound(call Call, a, b wire.Reply) bool {
	asFound := false
	for index, argument := range call.Arguments[:len(call.Arguments)-1] {
		if strings.EqualFold(string(argument), "BY") {
			asFound = asFound || !bytes.Contains(call.Arguments[index+1], []byte("*"))
		}
	}
	if call.mentions("LIMIT") {
		return asFound && sameShape(call, a, b)
	}
	isInOrder := call.mentions("ALPHA") && slices.EqualFunc(a.Items, b.Items, sameAsCString)
	return (asFound || isInOrder) && unordered(call, a, b)
}

func sameAsCString(a, b wire.Reply) bool {
	left, _, _ := bytes.Cut(a.Text, []byte{0})
	right, _, _ := bytes.Cut(b.Text, []byte{0})
	return bytes.Equal(left, right)
}

func unorderedPairs(_ Call, a, b wire.Reply) bool {
	return a.Kind == b.Kind && a.Null == b.Null && sameMultiset(a.Items, b.Items, 2)
}

// scanned compares the elements when both servers finished the scan in one call that began at
// cursor 0, as they must where Valkey has a listpack. Cursors in between are each server's own, and
// so is what one step returns: there only the types count.
func scanned(call Call, a, b wire.Reply) bool {
	if a.Kind != '*' || b.Kind != '*' || len(a.Items) != 2 || len(b.Items) != 2 {
		return false
	}
	cursors := [2]wire.Reply{a.Items[0], b.Items[0]}
	elements := [2]wire.Reply{a.Items[1], b.Items[1]}
	if !sameKind(call, cursors[0], cursors[1]) || !sameKind(call, elements[0], elements[1]) {
		return false
	}
	start := call.Arguments[len(call.Words())]
	if call.Name != "scan" {
		start = call.Arguments[len(call.Words())+1]
	}
	isWhole := string(cursors[0].Text) == "0"
	if call.IsOfSmall && (!isWhole || string(cursors[1].Text) != "0") {
		return false
	}
	if string(start) != "0" || !isWhole || string(cursors[1].Text) != "0" {
		return true
	}
	stride := 1
	if call.Name == "hscan" && !call.mentions("NOVALUES") ||
		call.Name == "zscan" && !call.mentions("NOSCORES") {
		stride = 2
	}
	return sameMultiset(elements[0].Items, elements[1].Items, stride)
}

// closeTimes compares integers, alone or in arrays: negative ones have a meaning and must be equal,
// others may differ by the tolerance.
func closeTimes(tolerance int64) comparison {
	var compare comparison
	compare = func(call Call, a, b wire.Reply) bool {
		if a.Kind != b.Kind || a.Null != b.Null || len(a.Items) != len(b.Items) {
			return false
		}
		for index := range a.Items {
			if !compare(call, a.Items[index], b.Items[index]) {
				return false
			}
		}
		if a.Kind != ':' {
			return sameText(a, b)
		}
		left, right := a.Int(), b.Int()
		if left < 0 || right < 0 {
			return left == right
		}
		return left-right <= tolerance && right-left <= tolerance
	}
	return compare
}

// sameFieldNames compares lines of `name=value` by their names.
func sameFieldNames(_ Call, a, b wire.Reply) bool {
	names := func(reply wire.Reply) string {
		var out strings.Builder
		for _, line := range strings.Split(strings.TrimSpace(string(reply.Text)), "\n") {
			for _, pair := range strings.Fields(line) {
				name, _, _ := strings.Cut(pair, "=")
				out.WriteString(name + " ")
			}
			out.WriteByte('\n')
		}
		return out.String()
	}
	return a.Kind == b.Kind && names(a) == names(b)
}
