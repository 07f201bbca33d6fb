// Package linearizability runs concurrent clients on few keys and lets porcupine decide whether
// some order of the operations, one at a time and within their real intervals, explains every
// reply.
//
// The model (state.go, apply.go) is a small Redis: two databases of strings, lists, hashes and
// sets, expiry, WATCH. Rounds are short, so that the search ends; there are many of them. Expiry
// enters a history as an operation of its own (history.go). That the checker can fail is shown
// on a proxy that breaks one promise at a time (faults_test.go).
//
// It is not a test of replies' details: package differential compares those.
package linearizability

import (
	"slices"
	"strconv"
)

const databaseCount = 2

// value is one key's value; exactly one of the others is in use, as kind says.
type value struct {
	kind   byte // 's', 'l', 'h', 'm' of a set, or 'x' of a stream
	text   string
	list   []string
	hash   map[string]field
	stream *stream
	// expiry identifies the SET that gave the key its deadline, 0 when there is none. Copies keep
	// it: they expire together.
	expiry int
	// evictable says that the key may be evicted, by itself, while it has that deadline.
	evictable bool
}

func (v value) clone() value {
	v.list = append([]string(nil), v.list...)
	if v.hash != nil {
		fields := make(map[string]field, len(v.hash))
		for field, content := range v.hash {
			fields[field] = content
		}
		v.hash = fields
	}
	return v
}

// field is a hash field's content, with the identity of its own deadline, 0 when there is none.
type field struct {
	text   string
	expiry int
}

type watch struct {
	database int
	key      string
	dirty    bool
}

// state is the whole server. apply changes a clone, never a state that the checker holds.
type state struct {
	databases [databaseCount]map[string]value
	// watches has at most one entry per client: WATCH takes one key here.
	watches map[int]watch
	// encoded is set by encode once the state is complete.
	encoded string
}

func newState() *state {
	s := &state{watches: map[int]watch{}}
	for index := range s.databases {
		s.databases[index] = map[string]value{}
	}
	return s
}

// clone copies the maps; values are replaced, never changed in place.
func (s *state) clone() *state {
	copied := newState()
	for index, database := range s.databases {
		for key, content := range database {
			copied.databases[index][key] = content
		}
	}
	for client, watched := range s.watches {
		copied.watches[client] = watched
	}
	return copied
}

// put stores a value, or deletes the key of an emptied collection, and tells the watchers.
func (s *state) put(database int, key string, content value) {
	if content.kind == 'l' && len(content.list) == 0 ||
		(content.kind == 'h' || content.kind == 'm') && len(content.hash) == 0 {
		delete(s.databases[database], key)
	} else {
		s.databases[database][key] = content
	}
	s.touch(database, key)
}

func (s *state) remove(database int, key string) {
	if _, exists := s.databases[database][key]; exists {
		delete(s.databases[database], key)
		s.touch(database, key)
	}
}

// dropDatabases empties every database, as FLUSHALL does.
func (s *state) dropDatabases() {
	for index := range s.databases {
		s.touchExisting(index)
		s.databases[index] = map[string]value{}
	}
}

func (s *state) touch(database int, key string) {
	for client, watched := range s.watches {
		if watched.database == database && watched.key == key {
			watched.dirty = true
			s.watches[client] = watched
		}
	}
}

// touchExisting marks watched keys that exist in one of two databases: what SWAPDB and FLUSHALL
// disturb.
func (s *state) touchExisting(database int, others ...int) {
	for client, watched := range s.watches {
		if watched.database != database {
			continue
		}
		for _, index := range append(others, database) {
			if _, exists := s.databases[index][watched.key]; exists {
				watched.dirty = true
				s.watches[client] = watched
			}
		}
	}
}

// expire removes every key and every field whose deadline came from one operation.
func (s *state) expire(expiry int) {
	for index, database := range s.databases {
		for key, content := range database {
			if content.expiry == expiry {
				s.remove(index, key)
			} else if content.hasField(expiry) {
				s.put(index, key, content.withoutField(expiry))
			}
		}
	}
}

// encode writes the state in one canonical form: equal states have equal strings. The checker
// compares states far more often than it makes them, so the form is made once and kept.
func (s *state) encode() {
	var out []byte
	for index, database := range s.databases {
		for _, key := range sortedKeys(database) {
			out = append(append(strconv.AppendInt(out, int64(index), 10), ' '), key...)
			out = append(database[key].appendTo(append(out, '=')), ';')
		}
	}
	for client := range s.watchers() {
		watched := s.watches[client]
		out = append(strconv.AppendInt(append(out, "watch "...), int64(client), 10), ' ')
		out = append(strconv.AppendInt(out, int64(watched.database), 10), watched.key...)
		out = append(strconv.AppendBool(out, watched.dirty), ';')
	}
	s.encoded = string(out)
}

// watchers yields the watching clients in their order.
func (s *state) watchers() func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for client := range clientCount {
			if _, watching := s.watches[client]; watching && !yield(client) {
				return
			}
		}
	}
}

func (v value) appendTo(out []byte) []byte {
	out = append(out, v.kind)
	switch v.kind {
	case 's':
		out = strconv.AppendQuote(out, v.text)
	case 'l':
		for _, element := range v.list {
			out = strconv.AppendQuote(out, element)
		}
	case 'h', 'm':
		for _, field := range sortedKeys(v.hash) {
			out = strconv.AppendQuote(strconv.AppendQuote(out, field), v.hash[field].text)
			out = strconv.AppendInt(append(out, 'e'), int64(v.hash[field].expiry), 10)
		}
	case 'x':
		out = v.stream.appendTo(out)
	}
	return strconv.AppendInt(append(out, 'e'), int64(v.expiry), 10)
}

func sortedKeys[T any](from map[string]T) []string {
	keys := make([]string, 0, len(from))
	for key := range from {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
