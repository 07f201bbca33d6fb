package goredis

import (
	"bytes"
	"strconv"

	tidemill "go.tidemill.dev/client"
)

// kind says how a command travels.
type kind uint8

const (
	kindPlain kind = iota // shares the pipe
	// changes the connection's state in a way that can be repeated on another
	kindSession
	kindBlocks // waits: needs a connection nobody else waits on
	kindWatch  // these five make or end a state that only this caller may have
	kindUnwatch
	kindMulti
	kindExec
	kindAsking // valid for the next command
	// needs a connection of its own for good: streams, tracking, what asks for its identity
	kindThrough
)

// command is one complete command in the bytes that go-redis wrote.
type command struct {
	end  int // offset behind its last byte
	kind kind
}

// splitter finds commands in what is written to a virtual connection, also when they come in
// pieces.
type splitter struct {
	at        int // offset of the next byte to look at
	start     int // of the command being read
	argsLeft  int64
	argIndex  int
	name, sub span
	block     bool // an argument is BLOCK
}

type span struct{ from, to int }

const argumentsMax = 1 << 31

// next looks for the end of a command. malformed: these bytes are no array of strings.
func (s *splitter) next(data []byte) (found command, ok, malformed bool) {
	if s.argsLeft == 0 {
		count, used, bad := header(data[s.at:], '*')
		if bad || used > 0 && (count < 1 || count > argumentsMax) {
			return command{}, false, true
		}
		if used == 0 {
			return command{}, false, false
		}
		*s = splitter{at: s.at + used, start: s.at, argsLeft: count}
	}
	for s.argsLeft > 0 {
		length, used, bad := header(data[s.at:], '$')
		if bad || used > 0 && length < 0 {
			return command{}, false, true
		}
		from := s.at + used
		if used == 0 || int64(len(data)-from) < length+2 {
			return command{}, false, false
		}
		s.argument(data, span{from, from + int(length)})
		s.at = from + int(length) + 2
	}
	return command{end: s.at, kind: s.classify(data)}, true, false
}

// move adjusts the offsets after bytes in front were taken away.
func (s *splitter) move(by int) {
	for _, offset := range []*int{&s.at, &s.start, &s.name.from, &s.name.to, &s.sub.from,
		&s.sub.to} {
		*offset += by
	}
}

func (s *splitter) argument(data []byte, arg span) {
	switch s.argIndex {
	case 0:
		s.name = arg
	case 1:
		s.sub = arg
	}
	if arg.to-arg.from == len("BLOCK") && bytes.EqualFold(data[arg.from:arg.to], []byte("BLOCK")) {
		s.block = true
	}
	s.argIndex++
	s.argsLeft--
}

// header reads "<kind><number>\r\n"; used is 0 while it is incomplete.
func header(data []byte, kind byte) (number int64, used int, bad bool) {
	if len(data) == 0 {
		return 0, 0, false
	}
	if data[0] != kind {
		return 0, 0, true
	}
	const headerBytesMax = 24
	end := bytes.IndexByte(data[:min(len(data), headerBytesMax)], '\n')
	if end < 0 {
		return 0, 0, len(data) >= headerBytesMax
	}
	if end < 3 || data[end-1] != '\r' {
		return 0, 0, true
	}
	for _, digit := range data[1 : end-1] {
		if digit < '0' || digit > '9' {
			return 0, 0, true
		}
	}
	number, err := strconv.ParseInt(string(data[1:end-1]), 10, 64)
	return number, end + 1, err != nil || number > 1<<40
}

// exceptions are commands that the table of traits is not enough for.
var exceptions = map[string]kind{
	"hello": kindSession, "auth": kindSession, "select": kindSession,
	"readonly": kindSession, "readwrite": kindSession,
	"client setname": kindSession, "client setinfo": kindSession, "client no-evict": kindSession,
	"client no-touch": kindSession, "client capa": kindSession, "client import-source": kindSession,
	"watch": kindWatch, "unwatch": kindUnwatch, "multi": kindMulti, "exec": kindExec,
	"discard": kindExec,
	"asking":  kindAsking,
	// The caller of CLIENT ID means to go on with the connection that it names.
	"client id": kindThrough,
	"quit":      kindThrough,
}

func (s *splitter) classify(data []byte) kind {
	name := data[s.name.from:s.name.to]
	var sub []byte
	if s.argIndex > 1 {
		sub = data[s.sub.from:s.sub.to]
	}
	traits := tidemill.DescribeCommand(name, sub)
	if !traits.Changes && !traits.Container {
		switch {
		case traits.Listens:
			return kindThrough
		case traits.Blocks, traits.BlocksIf && s.block:
			return kindBlocks
		}
		return kindPlain
	}
	var folded [64]byte
	full := lowerInto(folded[:0], name)
	if traits.Container {
		full = lowerInto(append(full, ' '), sub)
	}
	if exception, ok := exceptions[string(full)]; ok {
		return exception
	}
	switch {
	case traits.Changes || traits.Listens:
		return kindThrough
	case traits.Blocks:
		return kindBlocks // SCRIPT KILL
	}
	return kindPlain
}

func lowerInto(to, text []byte) []byte {
	for _, c := range text {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		to = append(to, c)
	}
	return to
}

// arguments takes one complete command apart.
func arguments(wire []byte) [][]byte {
	count, used, bad := header(wire, '*')
	if bad || used == 0 {
		return [][]byte{nil}
	}
	args := make([][]byte, 0, min(count, 16))
	for ; count > 0; count-- {
		wire = wire[used:]
		length, start, bad := header(wire, '$')
		if bad || start == 0 || int64(len(wire)) < int64(start)+length+2 {
			break
		}
		args = append(args, wire[start:start+int(length)])
		used = start + int(length) + 2
	}
	if len(args) == 0 {
		return [][]byte{nil}
	}
	return args
}
