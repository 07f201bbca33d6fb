package tidemill

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"unsafe"
)

// Kind is the type of a reply as the server sent it.
type Kind uint8

// The kinds of replies. RESP2 servers send only the first five and KindError.
const (
	KindNone   Kind = iota // no reply: the operation failed, see Reply.Err
	KindNil                // null of any sort
	KindSimple             // status such as OK
	KindString             // bulk or verbatim string
	KindInt
	KindArray
	KindError // the server's error reply
	KindMap
	KindSet
	KindPush
	KindFloat
	KindBool
	KindBigInt
	KindVerbatim
	kindAttribute
)

// Reply is the outcome of a command: a value of the server, its error, or the client's own error.
// It is a small value, free to copy, and safe for concurrent reads. A string in it shares its
// memory with what [Reply.Bytes] returns.
type Reply struct {
	text   string
	extra  *extra
	number int64
	kind   Kind
	shared bool // in a cache: others hold it too
}

// extra holds what few replies have.
type extra struct {
	items []Reply
	err   error
}

func errorReply(err *ServerError) Reply { return Reply{kind: KindError, extra: &extra{err: err}} }

func failedReply(err error) Reply { return Reply{kind: KindNone, extra: &extra{err: err}} }

// Kind returns the reply's type.
func (r Reply) Kind() Kind { return r.kind }

// Err returns the client's or server's error, nil when there is a value. Nil replies are values.
func (r Reply) Err() error {
	if r.extra == nil {
		return nil
	}
	return r.extra.err
}

// IsNil reports whether the server answered nil.
func (r Reply) IsNil() bool { return r.kind == KindNil }

func (r Reply) items() []Reply {
	if r.extra == nil {
		return nil
	}
	return r.extra.items
}

// unexpected is the error of a conversion that does not fit.
func (r Reply) unexpected(wanted string) error {
	if err := r.Err(); err != nil {
		return err
	}
	if r.kind == KindNil {
		return ErrNil
	}
	return fmt.Errorf("%w: %s, wanted %s", ErrType, r.kind, wanted)
}

func (k Kind) String() string {
	names := [...]string{"none", "nil", "status", "string", "integer", "array", "error", "map",
		"set",
		"push", "float", "bool", "big integer", "verbatim string", "attribute"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Text returns a string or status; numbers are rendered.
func (r Reply) Text() (string, error) {
	switch r.kind {
	case KindString, KindSimple, KindBigInt, KindFloat:
		return r.text, nil
	case KindInt:
		return strconv.FormatInt(r.number, 10), nil
	case KindBool:
		return strconv.FormatInt(r.number, 10), nil
	}
	return "", r.unexpected("a string")
}

// Bytes returns a string's bytes without a copy: changing them changes Text of this reply too. Of a
// cached reply it returns a copy.
func (r Reply) Bytes() ([]byte, error) {
	text, err := r.Text()
	if err != nil {
		return nil, err
	}
	if r.kind != KindString || r.shared {
		return []byte(text), nil
	}
	// SAFETY: a KindString's text was allocated by the parser as writable bytes.
	return unsafe.Slice(unsafe.StringData(text), len(text)), nil
}

// Int64 returns an integer, or a string that holds one.
func (r Reply) Int64() (int64, error) {
	switch r.kind {
	case KindInt, KindBool:
		return r.number, nil
	case KindString, KindSimple:
		value, err := strconv.ParseInt(r.text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: string is no integer", ErrType)
		}
		return value, nil
	}
	return 0, r.unexpected("an integer")
}

// uint64 is Int64 for numbers that may be larger.
func (r Reply) uint64() (uint64, error) {
	if r.kind == KindString || r.kind == KindSimple || r.kind == KindBigInt {
		if value, err := strconv.ParseUint(r.text, 10, 64); err == nil {
			return value, nil
		}
	}
	value, err := r.Int64()
	if err == nil && value < 0 {
		err = fmt.Errorf("%w: %d is negative", ErrType, value)
	}
	if err != nil {
		return 0, err
	}
	return uint64(value), nil
}

// Float64 returns a float, integer, or a string that holds one.
func (r Reply) Float64() (float64, error) {
	switch r.kind {
	case KindFloat:
		return math.Float64frombits(uint64(r.number)), nil
	case KindInt:
		return float64(r.number), nil
	case KindString, KindSimple:
		value, err := strconv.ParseFloat(r.text, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: string is no float", ErrType)
		}
		return value, nil
	}
	return 0, r.unexpected("a float")
}

// Bool returns a boolean, an integer that is not 0, or true for the status OK.
func (r Reply) Bool() (bool, error) {
	switch r.kind {
	case KindBool, KindInt:
		return r.number != 0, nil
	case KindSimple:
		return r.text == "OK", nil
	case KindString:
		value, err := strconv.ParseBool(r.text)
		if err != nil {
			return false, fmt.Errorf("%w: string is no boolean", ErrType)
		}
		return value, nil
	}
	return false, r.unexpected("a boolean")
}

// Array returns the items of an array, set or push; a map's keys and values alternate.
func (r Reply) Array() ([]Reply, error) {
	switch r.kind {
	case KindArray, KindSet, KindPush, KindMap:
		if r.shared {
			return slices.Clone(r.items()), nil
		}
		return r.items(), nil
	}
	return nil, r.unexpected("an array")
}

// Pairs walks a map, an array of alternating keys and values as RESP2 has them, or an array of
// pairs as RESP3 has scores.
func (r Reply) Pairs() (iter.Seq2[string, Reply], error) {
	items, err := r.Array()
	if err != nil {
		return nil, err
	}
	isPair := func(item Reply) bool { return item.kind == KindArray && len(item.items()) == 2 }
	if r.kind != KindMap && len(items) > 0 && !slices.ContainsFunc(items, func(item Reply) bool {
		return !isPair(item)
	}) {
		flat := make([]Reply, 0, 2*len(items))
		for _, pair := range items {
			flat = append(flat, pair.items()...)
		}
		items = flat
	}
	if len(items)%2 != 0 {
		return nil, fmt.Errorf("%w: odd number of items, wanted pairs", ErrType)
	}
	for i := 0; i < len(items); i += 2 {
		if _, err := items[i].Text(); err != nil {
			return nil, fmt.Errorf("a key: %w", err)
		}
	}
	return func(yield func(string, Reply) bool) {
		for i := 0; i < len(items); i += 2 {
			key, _ := items[i].Text()
			if !yield(key, items[i+1]) {
				return
			}
		}
	}, nil
}

// Map returns a map reply by key.
func (r Reply) Map() (map[string]Reply, error) {
	pairs, err := r.Pairs()
	if err != nil {
		return nil, err
	}
	result := make(map[string]Reply, len(r.items())/2)
	for key, value := range pairs {
		result[key] = value
	}
	return result, nil
}

// Strings returns an array of strings; nil items become "".
func (r Reply) Strings() ([]string, error) {
	items, err := r.Array()
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(items))
	for i, item := range items {
		if item.IsNil() {
			continue
		}
		if texts[i], err = item.Text(); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// String describes the reply for logs and tests; use Text for values.
func (r Reply) String() string {
	if err := r.Err(); err != nil {
		return "error: " + err.Error()
	}
	switch r.kind {
	case KindNil:
		return "nil"
	case KindArray, KindSet, KindMap, KindPush:
		return fmt.Sprint(r.items())
	}
	text, _ := r.Text()
	return text
}
