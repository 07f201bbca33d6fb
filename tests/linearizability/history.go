package linearizability

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"tidemill/tests/internal/wire"
)

// operation is what a client asked for, and porcupine's input.
type operation struct {
	client   int
	database int
	commands [][]string
	// transaction sends the commands between MULTI and EXEC.
	transaction bool
	// script, unless empty, is the command that runs the transaction as a script instead, with the
	// keys that it declares.
	script   string
	declared []string
	// queued says that the script runs in EXEC.
	queued bool
	// expiry identifies the deadline that the operation sets, or, with expires, the deadline that
	// passes.
	expiry  int
	expires bool
	// evictable says that the deadline is far away, and that the key may be evicted before.
	evictable bool
}

// unknown is the outcome of an operation whose connection ended before the reply.
const unknown = "?"

// Expiry enters a history as an operation: the deadline given by a SET passes once, for all copies
// at the same moment, in an interval around the deadline. The margins allow for a server that reads
// its clock once per loop iteration on a busy machine; they do not allow a key to come back.
const (
	expiryTTL   = 20 * time.Millisecond
	expiryEarly = 10 * time.Millisecond
	expiryLate  = 80 * time.Millisecond
)

// isRandom tells whether several replies are right.
func (o operation) isRandom() bool { return !o.transaction && o.commands[0][0] == "RANDOMKEY" }

func (o operation) String() string {
	if o.expires {
		return fmt.Sprintf("deadline %d passes", o.expiry)
	}
	parts := make([]string, len(o.commands))
	for index, command := range o.commands {
		parts[index] = strings.Join(command, " ")
	}
	text := strings.Join(parts, "; ")
	if o.script != "" {
		text = fmt.Sprintf("%s %v (in EXEC: %t): %s", o.script, o.declared, o.queued, text)
	} else if o.transaction {
		text = "MULTI; " + text + "; EXEC"
	}
	return fmt.Sprintf("client %d db %d: %s", o.client, o.database, text)
}

var hashSeed = maphash.MakeSeed()

// model tells porcupine what one server would answer. It has several next states where the reply
// leaves open whether a key was evicted before.
var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{newState()} },
	Step: func(current, input, output any) []any {
		asked := input.(operation)
		var possible []any
		for _, before := range current.(*state).evictions(asked) {
			if before.answers(asked, output.(string)) {
				before.encode()
				possible = append(possible, before)
			}
		}
		return possible
	},
	Equal: func(a, b any) bool { return a.(*state).encoded == b.(*state).encoded },
	Hash:  func(current any) uint64 { return maphash.String(hashSeed, current.(*state).encoded) },
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%v -> %v", input, output)
	},
	DescribeState: func(current any) string { return current.(*state).encoded },
}).ToModel()

// evictions are copies of the state from which none, some or all of the evictable keys that the
// operation names are gone. An eviction that no operation sees yet may as well happen later.
func (s *state) evictions(asked operation) []*state {
	copies := []*state{s.clone()}
	for _, key := range asked.evictableKeys(s) {
		for _, each := range copies {
			evicted := each.clone()
			evicted.remove(asked.database, key)
			copies = append(copies, evicted)
		}
	}
	return copies
}

// evictableKeys are the keys among the operation's arguments that hold an evictable value.
func (o operation) evictableKeys(s *state) []string {
	named := map[string]bool{}
	for _, command := range o.commands {
		for _, argument := range command[1:] {
			if s.databases[o.database][argument].evictable {
				named[argument] = true
			}
		}
	}
	return sortedKeys(named)
}

// answers applies the operation to the state and tells whether the outcome is possible.
func (s *state) answers(asked operation, outcome string) bool {
	if asked.expires {
		s.expire(asked.expiry)
		return true
	}
	caller := session{s, asked.client, asked.database, asked.expiry, asked.evictable}
	if asked.isRandom() {
		return outcome == unknown || caller.mayPick(outcome)
	}
	reply := caller.execute(asked.commands, asked.transaction)
	return outcome == unknown || reply == outcome
}

// entry makes a porcupine operation. One without a known outcome may take effect at any later time,
// which includes never: as the last of all nobody sees it.
func entry(asked operation, outcome string, call, done time.Duration) porcupine.Operation {
	end := int64(done)
	if outcome == unknown {
		end = math.MaxInt64
	}
	return porcupine.Operation{
		ClientId: asked.client, Input: asked, Output: outcome, Call: int64(call), Return: end,
	}
}

// deadline makes the operation by which a SET's deadline passes.
func deadline(asked operation, call, done time.Duration, outcome string) porcupine.Operation {
	passes := entry(operation{client: asked.client, expiry: asked.expiry, expires: true}, "",
		call+expiryTTL-expiryEarly, done+expiryTTL+expiryLate)
	if outcome == unknown {
		passes.Return = math.MaxInt64
	}
	return passes
}

// normalize brings a reply to the model's form.
func normalize(asked operation, reply wire.Reply) string {
	if asked.queued && len(reply.Items) == 1 {
		reply = reply.Items[0]
	}
	if !asked.transaction || reply.Null || reply.Kind != '*' {
		return normalizeOne(asked.commands[0][0], reply)
	}
	replies := make([]string, len(reply.Items))
	for index, item := range reply.Items {
		name := ""
		if index < len(asked.commands) {
			name = asked.commands[index][0]
		}
		replies[index] = normalizeOne(name, item)
	}
	return replyArray(replies...)
}

func normalizeOne(name string, reply wire.Reply) string {
	switch {
	case reply.Null || reply.Kind == '_':
		return replyNil
	case reply.IsError():
		word, _, _ := bytes.Cut(reply.Text, []byte(" "))
		return "-" + string(word)
	case reply.Kind == '$':
		return strconv.Quote(string(reply.Text))
	case !reply.IsAggregate():
		return string(reply.Kind) + string(reply.Text)
	}
	items := make([]string, len(reply.Items))
	for index, item := range reply.Items {
		items[index] = normalizeOne("", item)
	}
	if answersSet(name) {
		sort.Strings(items)
	}
	if name != "HGETALL" {
		return replyArray(items...)
	}
	var pairs []string
	for index := 0; index+1 < len(items); index += 2 {
		pairs = append(pairs, items[index]+" "+items[index+1])
	}
	sort.Strings(pairs)
	return replyArray(pairs...)
}
