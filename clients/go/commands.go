package tidemill

//go:generate go run ./internal/commandgen

import (
	"bytes"
	"context"
	"iter"
)

// commandFlags say how the client has to treat a command.
type commandFlags uint16

const (
	commandReads    commandFlags = 1 << iota // changes nothing: safe to repeat, may go to replicas
	commandWrites                            // may change the keyspace
	commandBlocks                            // may wait for data
	commandBlocksIf                          // waits only with the argument BLOCK
	// changes the state of its connection: WATCH, MULTI, SELECT ...
	commandChanges
	// its connection does not answer each command with one reply from then on, or not this one:
	// SUBSCRIBE, MONITOR, CLIENT REPLY ... Only adapters may send it, see [DescribeCommand].
	commandListens
	commandHasSub     // a container: rows of its subcommands follow
	commandAllShards  // in a cluster, runs on every primary
	commandSplits     // in a cluster, may be taken apart by slot
	commandSums       // the parts' integers add up
	commandEvery      // what holds only when it holds in all parts: 1 and 0 in arrays
	commandAny        // one part's success is enough
	commandVaries     // answers differently though its key was not written
	commandEndsScript // is obeyed while a script makes the server answer BUSY to all others
	commandAlone      // would make others on the shared pipe wait: a large batch
)

// commandInfo is one row of the generated table.
type commandInfo struct {
	name     string
	keyword  string // the first key follows this argument, which is looked for
	flags    commandFlags
	firstKey int8 // 0: none
	lastKey  int8 // negative: counted from the end
	keyStep  int8
	countAt  int8 // the first key follows this argument, which is their count

	keywordFrom int8 // where keyword is looked for from; names in front of it may be the same word
}

var unknownCommand = &commandInfo{name: "?"}

// describe finds the table's row for a command line. Subcommands have rows of their own.
func describe(args []any) *commandInfo {
	name, ok := args[0].(string)
	if !ok {
		name = argText(args[0])
	}
	info := commandTable[name]
	if info == nil {
		if info = commandTable[upper(name)]; info == nil {
			return unknownCommand
		}
	}
	if info.flags&commandHasSub != 0 && len(args) > 1 {
		if sub := commandTable[info.name+" "+upper(argText(args[1]))]; sub != nil {
			return sub
		}
	}
	return info
}

func upper(name string) string { return string(bytes.ToUpper([]byte(name))) }

// needsOwn is true for what cannot share the pipe.
func (info *commandInfo) needsOwn(wire []byte) bool {
	const always = commandChanges | commandListens | commandAlone
	if info.flags&(always|commandBlocks|commandBlocksIf) == 0 {
		return false
	}
	return info.flags&always != 0 || info.mayBlock(wire)
}

// mayBlock is true for what may wait for data.
func (info *commandInfo) mayBlock(wire []byte) bool {
	if info.flags&commandBlocksIf != 0 {
		for arg := range wireArgs(wire) {
			if bytes.EqualFold(arg, []byte("BLOCK")) {
				return true
			}
		}
	}
	return info.flags&commandBlocks != 0
}

// refusal is why a command cannot be sent on any connection of the client, nil when it can.
func (info *commandInfo) refusal() error {
	if info.flags&commandListens == 0 {
		return nil
	}
	return argumentError("%s is not answered reply by reply; messages come by Subscribe", info.name)
}

// firstKeyOf finds the key that decides where an encoded command goes.
func (info *commandInfo) firstKeyOf(wire []byte) ([]byte, bool) {
	at := int(info.firstKey)
	if info.countAt > 0 {
		at = int(info.countAt) + 1
	}
	if at == 0 && info.keyword == "" {
		return nil, false
	}
	index, found := 0, false
	for arg := range wireArgs(wire) {
		switch {
		case info.countAt > 0 && index == int(info.countAt) && string(arg) == "0":
			return nil, false // EVAL without keys
		case found || (at > 0 && index == at):
			return arg, true
		case at == 0 && index >= int(info.keywordFrom) &&
			bytes.EqualFold(arg, []byte(info.keyword)):
			found = true
		}
		index++
	}
	return nil, false
}

// slotOf is the hash slot of an encoded command's first key, -1 when it has none.
func (info *commandInfo) slotOf(wire []byte) int {
	key, ok := info.firstKeyOf(wire)
	if !ok {
		return -1
	}
	return slotOf(key)
}

// wireArgs walks the arguments of the first command that appendCommand encoded into wire.
func wireArgs(wire []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for arg := range wireArgEnds(wire) {
			if !yield(arg) {
				return
			}
		}
	}
}

// wireArgEnds is wireArgs with where each argument ends in wire, line end included.
func wireArgEnds(wire []byte) iter.Seq2[[]byte, int] {
	return func(yield func([]byte, int) bool) {
		line, end, _ := cutLine(wire)
		if len(line) < 2 {
			return
		}
		count, _ := parseInt(line[1:])
		for ; count > 0; count-- {
			header, at, _ := cutLine(wire[end:])
			if len(header) < 2 {
				return
			}
			length, _ := parseInt(header[1:])
			start := end + at
			end = start + int(length) + 2
			if !yield(wire[start:start+int(length)], end) {
				return
			}
		}
	}
}

// runner is what takes an encoded command: a client, a cluster, a batch being built.
type runner interface {
	run(ctx context.Context, r *request, info *commandInfo) Reply
}

// Commands has one method per command of Valkey 9.1 that is not administrative. The methods encode
// their arguments and run like Do; options that follow the required arguments are given as the
// server's documentation writes them: c.Set(ctx, "k", "v", "EX", 10, "NX").
type Commands struct{ runner runner }

// begin starts an encoded command of count arguments after its name, which is given encoded.
func begin(name string, count int) *request {
	r := newRequest()
	r.wire = appendHeader(r.wire[:0], '*', count)
	r.wire = append(r.wire, name...)
	return r
}

// append appends an argument of any sendable type.
func (r *request) append(arg any) (ok bool) {
	r.wire, ok = appendArg(r.wire, arg)
	return ok
}

// appendAny appends arguments of any sendable type; the first that is none makes the command fail.
func (r *request) appendAny(args []any) bool {
	ok := true
	for i := 0; i < len(args) && ok; i++ {
		r.wire, ok = appendArg(r.wire, args[i])
	}
	return ok
}

func (r *request) refuse() Reply {
	r.recycle()
	return failedReply(argumentError("an argument has a type that cannot be sent"))
}
