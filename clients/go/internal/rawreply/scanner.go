// Package rawreply finds where replies end in a stream of RESP2 or RESP3, without decoding them:
// adapters hand the bytes on to a decoder of their own. It does no I/O and keeps its place between
// calls.
package rawreply

import (
	"bytes"
	"errors"
	"strconv"
)

// ErrSyntax: the stream is no RESP, or uses RESP3's streamed types, which no server sends.
var ErrSyntax = errors.New("malformed reply")

// Limits that no server reaches: a larger length could overflow a count or fill the memory with one
// line.
const (
	lineBytesMax = bulkBytesMax
	bulkBytesMax = 512 << 20
	valuesMax    = 1 << 40
)

// Scanner is ready to use as its zero value.
type Scanner struct {
	due  int64 // values that complete the reply; 0: at the start of one
	body int   // bytes of a string still to come, line end included
	push bool
	seen int // bytes of an incomplete line in which there is no end
}

// Next consumes bytes of data up to the end of the first reply in it, and returns how many. It
// takes whole lines only: an incomplete one has to be offered again with more behind it. done is
// true at the end of a reply; push tells whether that was a push, which answers no request.
func (s *Scanner) Next(data []byte) (used int, done, push bool, err error) {
	if len(data) == 0 {
		return 0, false, false, nil
	}
	if s.due == 0 && s.body == 0 {
		s.due, s.push = 1, data[0] == '>'
	}
	for s.due > 0 || s.body > 0 {
		if s.body > 0 {
			n := min(s.body, len(data)-used)
			used += n
			s.body -= n
			if s.body > 0 {
				return used, false, false, nil
			}
			continue
		}
		from := used + s.seen
		end := bytes.IndexByte(data[from:], '\n')
		if end < 0 {
			if s.seen = len(data) - used; s.seen > lineBytesMax {
				return used, false, false, ErrSyntax
			}
			return used, false, false, nil
		}
		end, s.seen = end+s.seen, 0
		if end > lineBytesMax {
			return used, false, false, ErrSyntax
		}
		if err := s.line(data[used : used+end]); err != nil {
			return used, false, false, err
		}
		used += end + 1
	}
	return used, true, s.push, nil
}

// line takes one line, given without its line feed.
func (s *Scanner) line(line []byte) error {
	if len(line) < 2 || line[len(line)-1] != '\r' {
		return ErrSyntax
	}
	kind, rest := line[0], line[1:len(line)-1]
	s.due--
	switch kind {
	case '+', '-', ':', ',', '#', '_', '(':
		return nil
	case '$', '!', '=', '*', '~', '>', '%', '|':
	default:
		return ErrSyntax
	}
	length, err := strconv.ParseInt(string(rest), 10, 64)
	if err != nil || length < -1 || length > bulkBytesMax {
		return ErrSyntax
	}
	if kind == '|' {
		s.due++ // an attribute precedes a value and is none
	}
	length = max(length, 0)
	switch {
	case kind == '$' || kind == '!' || kind == '=':
		if rest[0] != '-' {
			s.body = int(length) + 2
		}
	case kind == '%' || kind == '|':
		s.due += 2 * length
	default:
		s.due += length
	}
	if s.due > valuesMax {
		return ErrSyntax
	}
	return nil
}
