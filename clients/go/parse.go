package tidemill

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"unsafe"
)

// parser reads RESP2 and RESP3 replies from whatever bytes there are, and keeps its place between
// calls. It does no I/O and owns no stack frame, so a reader may stop in the middle of a reply (its
// caller's context ended) and another goroutine goes on.
type parser struct {
	stack []frame
	// bulk is the string being filled; bulkKind is 0 when there is none.
	bulk     []byte
	bulkLeft int // bytes still to come, line end excluded
	bulkKind Kind
	bulkTail int       // bytes of the line end still to come
	scanned  int       // bytes of an incomplete line in which there is no end
	raw      *rawReply // non-nil: replies are not decoded, see [Link]
}

type frame struct {
	kind  Kind
	items []Reply
	left  int
}

// tooLarge is the error of a reply past one of the limits.
func tooLarge(what string) error { return fmt.Errorf("%w: %w: %s", ErrProtocol, ErrLimit, what) }

// next consumes bytes of data and returns how many. done is true when reply is complete.
func (p *parser) next(data []byte) (used int, reply Reply, done bool, err error) {
	if p.raw != nil {
		return p.raw.next(data)
	}
	for {
		var value Reply
		var complete bool
		if p.bulkKind != 0 {
			n := p.fillBulk(data[used:])
			used += n
			if p.bulkKind != 0 && p.bulkTail > 0 {
				return used, Reply{}, false, nil
			}
			value, complete = p.takeBulk(), true
		} else {
			line, n, err := cutLineFrom(data[used:], p.scanned)
			if err != nil || n == 0 {
				p.scanned = len(data) - used
				return used, Reply{}, false, err
			}
			p.scanned = 0
			used += n
			if value, complete, err = p.line(line); err != nil {
				return used, Reply{}, false, err
			}
		}
		if complete {
			if value, complete = p.attach(value); complete {
				return used, value, true, nil
			}
		}
	}
}

// cutLine returns the first line without its end, and the bytes it takes; 0 when it is incomplete.
func cutLine(data []byte) (line []byte, used int, err error) { return cutLineFrom(data, 0) }

// cutLineFrom is cutLine where the first bytes, in which there is no end, were looked at before.
func cutLineFrom(data []byte, scanned int) (line []byte, used int, err error) {
	end := bytes.IndexByte(data[scanned:], '\n')
	if end += scanned; end < scanned {
		if len(data) > replyLineMax {
			return nil, 0, tooLarge("line")
		}
		return nil, 0, nil
	}
	if end > replyLineMax {
		return nil, 0, tooLarge("line")
	}
	if end == 0 || data[end-1] != '\r' {
		return nil, 0, fmt.Errorf("%w: line without carriage return", ErrProtocol)
	}
	return data[:end-1], end + 1, nil
}

// fillBulk moves bytes into the string under construction. One that is here whole needs no space
// that is cleared first.
func (p *parser) fillBulk(data []byte) (used int) {
	if p.bulkLeft > 0 {
		n := min(p.bulkLeft, len(data))
		if n < p.bulkLeft && p.bulk == nil {
			p.bulk = make([]byte, 0, min(p.bulkLeft, replyBulkAhead))
		}
		p.bulk = append(p.bulk, data[:n]...)
		p.bulkLeft -= n
		used = n
	}
	if p.bulkLeft == 0 {
		n := min(p.bulkTail, len(data)-used)
		p.bulkTail -= n
		used += n
	}
	return used
}

// want offers space to read a large string into without a copy; nil when there is none.
func (p *parser) want() []byte {
	if p.bulkKind == 0 || p.bulkLeft == 0 {
		return nil
	}
	if cap(p.bulk) == len(p.bulk) {
		p.bulk = append(p.bulk, 0)[:len(p.bulk)]
	}
	return p.bulk[len(p.bulk):min(cap(p.bulk), len(p.bulk)+p.bulkLeft)]
}

// filled tells that n bytes of what want returned were read.
func (p *parser) filled(n int) {
	p.bulk = p.bulk[:len(p.bulk)+n]
	p.bulkLeft -= n
}

func (p *parser) takeBulk() Reply {
	text, kind := bytesAsString(p.bulk), p.bulkKind
	p.bulk, p.bulkKind = nil, 0
	switch kind {
	case KindError:
		return errorReply(newServerError(text))
	case KindVerbatim:
		if len(text) >= 4 && text[3] == ':' {
			return Reply{kind: KindString, text: text[4:]}
		}
		return Reply{kind: KindString, text: text}
	}
	return Reply{kind: KindString, text: text}
}

// bytesAsString gives the only reference to b as a string.
func bytesAsString(b []byte) string {
	// SAFETY: b was allocated for this string and no reference to it is kept.
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// line starts or completes a value from its first line.
func (p *parser) line(line []byte) (Reply, bool, error) {
	if len(line) == 0 {
		return Reply{}, false, fmt.Errorf("%w: empty line", ErrProtocol)
	}
	rest := line[1:]
	switch line[0] {
	case '+':
		return Reply{kind: KindSimple, text: statusText(rest)}, true, nil
	case '-':
		return errorReply(newServerError(string(rest))), true, nil
	case ':':
		number, ok := parseInt(rest)
		if !ok {
			return Reply{}, false, fmt.Errorf("%w: bad integer", ErrProtocol)
		}
		return Reply{kind: KindInt, number: number}, true, nil
	case '$':
		return p.startBulk(rest, KindString)
	case '!':
		return p.startBulk(rest, KindError)
	case '=':
		return p.startBulk(rest, KindVerbatim)
	case '*':
		return p.startAggregate(rest, KindArray)
	case '~':
		return p.startAggregate(rest, KindSet)
	case '>':
		return p.startAggregate(rest, KindPush)
	case '%':
		return p.startAggregate(rest, KindMap)
	case '|':
		return p.startAggregate(rest, kindAttribute)
	}
	reply, ok := scalarLine(line[0], rest)
	if !ok {
		return Reply{}, false, fmt.Errorf("%w: unknown or malformed type %q", ErrProtocol, line[0])
	}
	return reply, true, nil
}

func scalarLine(kind byte, rest []byte) (Reply, bool) {
	switch kind {
	case '_':
		return Reply{kind: KindNil}, true
	case '#':
		if len(rest) == 1 && (rest[0] == 't' || rest[0] == 'f') {
			return Reply{kind: KindBool, number: int64('t'-rest[0])/int64('t'-'f') ^ 1}, true
		}
	case ',':
		value, err := strconv.ParseFloat(string(rest), 64)
		if err == nil {
			return Reply{
				kind: KindFloat, number: int64(math.Float64bits(value)), text: string(rest),
			}, true
		}
	case '(':
		return Reply{kind: KindBigInt, text: string(rest)}, len(rest) > 0
	}
	return Reply{}, false
}

// statusText saves an allocation for the status of most writes.
func statusText(line []byte) string {
	switch string(line) {
	case "OK":
		return "OK"
	case "QUEUED":
		return "QUEUED"
	case "PONG":
		return "PONG"
	}
	return string(line)
}

func (p *parser) startBulk(rest []byte, kind Kind) (Reply, bool, error) {
	length, ok := parseInt(rest)
	if ok && length == -1 {
		return Reply{kind: KindNil}, true, nil
	}
	if !ok || length < 0 {
		return Reply{}, false, fmt.Errorf("%w: bad string length", ErrProtocol)
	}
	if length > replyBulkMax {
		return Reply{}, false, tooLarge("string")
	}
	p.bulkKind, p.bulkLeft, p.bulkTail = kind, int(length), 2
	return Reply{}, false, nil
}

func (p *parser) startAggregate(rest []byte, kind Kind) (Reply, bool, error) {
	length, ok := parseInt(rest)
	if ok && length == -1 {
		return Reply{kind: KindNil}, true, nil
	}
	if !ok || length < 0 {
		return Reply{}, false, fmt.Errorf("%w: bad item count", ErrProtocol)
	}
	if length > replyItemsMax {
		return Reply{}, false, tooLarge("items")
	}
	left := int(length)
	if kind == KindMap || kind == kindAttribute {
		left *= 2
	}
	if left == 0 {
		return Reply{kind: kind, extra: &extra{}}, kind != kindAttribute, nil
	}
	if len(p.stack) == replyDepthMax {
		return Reply{}, false, tooLarge("nesting")
	}
	p.stack = append(p.stack, frame{kind, make([]Reply, 0, min(left, replyItemsAhead)), left})
	return Reply{}, false, nil
}

// attach adds a complete value to the aggregates it completes; true when a whole reply came out.
func (p *parser) attach(value Reply) (Reply, bool) {
	for len(p.stack) > 0 {
		top := &p.stack[len(p.stack)-1]
		top.items = append(top.items, value)
		if top.left--; top.left > 0 {
			return Reply{}, false
		}
		kind := top.kind
		value = Reply{kind: kind, extra: &extra{items: top.items}}
		top.items = nil
		p.stack = p.stack[:len(p.stack)-1]
		if kind == kindAttribute {
			return Reply{}, false // attributes describe the value that follows and are dropped
		}
	}
	return value, true
}

// parseInt reads a decimal integer; no allocation, overflow is refused.
func parseInt(text []byte) (int64, bool) {
	if len(text) == 0 || len(text) > 20 {
		return 0, false
	}
	negative := text[0] == '-'
	if negative || text[0] == '+' {
		text = text[1:]
	}
	if len(text) == 0 {
		return 0, false
	}
	var value uint64
	for _, c := range text {
		if c < '0' || c > '9' || value > math.MaxUint64/10-1 {
			return 0, false
		}
		value = value*10 + uint64(c-'0')
	}
	if negative {
		return -int64(value), value <= 1<<63
	}
	return int64(value), value <= math.MaxInt64
}
