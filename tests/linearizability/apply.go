package linearizability

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// Replies are strings: `nil`, `:1`, `+OK`, `-WRONGTYPE`, a bulk string's quoted text, `[a b]` for
// arrays. history.go brings real replies to the same form.
const (
	replyNil       = "nil"
	replyOK        = "+OK"
	replyWrongType = "-WRONGTYPE"
	replyError     = "-ERR"
)

func replyInteger(number int) string { return ":" + strconv.Itoa(number) }

func replyArray(items ...string) string { return "[" + strings.Join(items, " ") + "]" }

// session is the client that a command runs for.
type session struct {
	*state
	client   int
	database int
	// expiry is the identity of deadlines that the operation sets.
	expiry int
	// evictable says that values with such a deadline may be evicted.
	evictable bool
}

// execute runs one operation: a single command, or a transaction when transaction is set.
func (s session) execute(commands [][]string, transaction bool) string {
	if !transaction {
		return s.apply(commands[0])
	}
	watched, watching := s.watches[s.client]
	delete(s.watches, s.client)
	if watching && watched.dirty {
		return replyNil
	}
	replies := make([]string, len(commands))
	for index, command := range commands {
		replies[index] = s.apply(command)
	}
	return replyArray(replies...)
}

func (s session) apply(command []string) string {
	arguments := command[1:]
	switch command[0] {
	case "GET", "SET", "INCR", "APPEND", "MSET", "MGET":
		return s.applyString(command[0], arguments)
	case "LPUSH", "RPUSH", "LPOP", "RPOP", "LRANGE", "LMOVE", "BLMOVE", "BLPOP":
		return s.applyList(command[0], arguments)
	case "HSET", "HGETALL":
		return s.applyHash(command[0], arguments)
	case "HSETEX", "HSETNX", "HGET", "HMGET", "HEXISTS", "HPERSIST", "HDEL":
		return s.applyField(command[0], arguments)
	case "SADD", "SREM", "SMEMBERS", "SMOVE", "SUNION", "SINTER", "SUNIONSTORE", "SINTERSTORE":
		return s.applySet(command[0], arguments)
	case "XGROUP", "XADD", "XRANGE", "XREAD", "XREADGROUP", "XACK", "XPENDING":
		return s.applyStream(command[0], arguments)
	case "GETSET", "PERSIST", "EXISTS":
		return s.applyExpiring(command[0], arguments)
	}
	return s.applyKey(command[0], arguments)
}

func (s session) lookup(key string) (value, bool) {
	found, exists := s.databases[s.database][key]
	return found, exists
}

func (s session) applyString(name string, arguments []string) string {
	key := arguments[0]
	current, exists := s.lookup(key)
	switch name {
	case "SET":
		content := value{kind: 's', text: arguments[1]}
		switch {
		case len(arguments) > 2 && arguments[2] == "XX" && !exists:
			return replyNil
		case len(arguments) > 3:
			content.expiry, content.evictable = s.expiry, s.evictable
		}
		s.put(s.database, key, content)
		return replyOK
	case "MSET":
		for index := 0; index < len(arguments); index += 2 {
			if !strings.HasPrefix(arguments[index], paddingPrefix) {
				s.put(s.database, arguments[index], value{kind: 's', text: arguments[index+1]})
			}
		}
		return replyOK
	case "MGET":
		replies := make([]string, len(arguments))
		for index, each := range arguments {
			replies[index] = replyNil
			if content, found := s.lookup(each); found && content.kind == 's' {
				replies[index] = strconv.Quote(content.text)
			}
		}
		return replyArray(replies...)
	}
	if exists && current.kind != 's' {
		return replyWrongType
	}
	switch name {
	case "GET":
		if !exists {
			return replyNil
		}
		return strconv.Quote(current.text)
	case "APPEND":
		current.kind, current.text = 's', current.text+arguments[1]
		s.put(s.database, key, current)
		return replyInteger(len(current.text))
	}
	number := 0
	if exists {
		var err error
		if number, err = strconv.Atoi(current.text); err != nil {
			return replyError
		}
	}
	current.kind, current.text = 's', strconv.Itoa(number+1)
	s.put(s.database, key, current)
	return replyInteger(number + 1)
}

func (s session) applyList(name string, arguments []string) string {
	key := arguments[0]
	switch name {
	case "BLPOP":
		return s.popFirst(arguments[:len(arguments)-1])
	case "LMOVE", "BLMOVE":
		return s.moveElement(key, arguments[1], arguments[2], arguments[3])
	}
	current, exists := s.lookup(key)
	if exists && current.kind != 'l' {
		return replyWrongType
	}
	current = current.clone()
	current.kind = 'l'
	switch name {
	case "LPOP", "RPOP":
		return s.pop(name, key, current)
	case "LRANGE":
		quoted := make([]string, len(current.list))
		for index, element := range current.list {
			quoted[index] = strconv.Quote(element)
		}
		return replyArray(quoted...)
	case "RPUSH":
		current.list = append(current.list, arguments[1:]...)
	case "LPUSH":
		for _, element := range arguments[1:] {
			current.list = append([]string{element}, current.list...)
		}
	}
	s.put(s.database, key, current)
	return replyInteger(len(current.list))
}

// pop is LPOP or RPOP of one element of a list.
func (s session) pop(name, key string, current value) string {
	if len(current.list) == 0 {
		return replyNil
	}
	at := 0
	if name == "RPOP" {
		at = len(current.list) - 1
	}
	element := current.list[at]
	current.list = append(append([]string{}, current.list[:at]...), current.list[at+1:]...)
	s.put(s.database, key, current)
	return strconv.Quote(element)
}

// popFirst is BLPOP at the moment it takes effect: by the first of its keys that exists, or, for
// one that timed out, at a moment when none did.
func (s session) popFirst(keys []string) string {
	for _, key := range keys {
		current, exists := s.lookup(key)
		if !exists {
			continue
		}
		if current.kind != 'l' {
			return replyWrongType
		}
		current = current.clone()
		element := current.list[0]
		current.list = current.list[1:]
		s.put(s.database, key, current)
		return replyArray(strconv.Quote(key), strconv.Quote(element))
	}
	return replyNil
}

func (s session) moveElement(from, to, fromSide, toSide string) string {
	source, exists := s.lookup(from)
	if !exists {
		return replyNil
	}
	destination, _ := s.lookup(to)
	if source.kind != 'l' || destination.kind != 0 && destination.kind != 'l' {
		return replyWrongType
	}
	source = source.clone()
	last := len(source.list) - 1
	element := source.list[0]
	if fromSide == "LEFT" {
		source.list = source.list[1:]
	} else {
		element, source.list = source.list[last], source.list[:last]
	}
	if from == to {
		destination = source
	} else {
		s.put(s.database, from, source)
		destination = destination.clone()
	}
	destination.kind = 'l'
	if toSide == "LEFT" {
		destination.list = append([]string{element}, destination.list...)
	} else {
		destination.list = append(destination.list, element)
	}
	s.put(s.database, to, destination)
	return strconv.Quote(element)
}

func (s session) applyHash(name string, arguments []string) string {
	current, exists := s.lookup(arguments[0])
	if exists && current.kind != 'h' {
		return replyWrongType
	}
	if name == "HGETALL" {
		var pairs []string
		for name, content := range current.hash {
			pairs = append(pairs, strconv.Quote(name)+" "+strconv.Quote(content.text))
		}
		sort.Strings(pairs)
		return replyArray(pairs...)
	}
	current = current.clone()
	if current.hash == nil {
		current.kind, current.hash = 'h', map[string]field{}
	}
	before := len(current.hash)
	for index := 1; index < len(arguments); index += 2 {
		current.hash[arguments[index]] = field{text: arguments[index+1]}
	}
	s.put(s.database, arguments[0], current)
	return replyInteger(len(current.hash) - before)
}

func (s session) applyKey(name string, arguments []string) string {
	switch name {
	case "RENAME":
		content, exists := s.lookup(arguments[0])
		if !exists {
			return replyError
		}
		if arguments[0] == arguments[1] {
			return replyOK // not a change: nobody who watches the key is told
		}
		s.remove(s.database, arguments[0])
		s.put(s.database, arguments[1], content)
		return replyOK
	case "COPY":
		return s.copyKey(arguments)
	case "SWAPDB":
		s.touchExisting(0, 1)
		s.touchExisting(1, 0)
		s.databases[0], s.databases[1] = s.databases[1], s.databases[0]
		return replyOK
	case "FLUSHALL":
		s.dropDatabases()
		return replyOK
	case "DEL":
		_, exists := s.lookup(arguments[0])
		s.remove(s.database, arguments[0])
		if !exists {
			return replyInteger(0)
		}
		return replyInteger(1)
	case "MOVE":
		return s.moveKey(arguments)
	case "WATCH":
		s.watches[s.client] = watch{database: s.database, key: arguments[0]}
		return replyOK
	}
	panic(fmt.Sprintf("the model does not know %s", name))
}

// moveKey is MOVE key database.
func (s session) moveKey(arguments []string) string {
	target, _ := strconv.Atoi(arguments[1])
	content, exists := s.lookup(arguments[0])
	_, taken := s.databases[target][arguments[0]]
	if target == s.database {
		return replyError
	}
	if !exists || taken {
		return replyInteger(0)
	}
	s.remove(s.database, arguments[0])
	s.put(target, arguments[0], content)
	return replyInteger(1)
}

// mayPick tells whether RANDOMKEY may answer so: with any key that is there, or nil when none is.
func (s session) mayPick(reply string) bool {
	if reply == replyNil {
		return len(s.databases[s.database]) == 0
	}
	key, err := strconv.Unquote(reply)
	_, exists := s.lookup(key)
	return err == nil && exists
}

// copyKey is COPY source destination DB n [REPLACE].
func (s session) copyKey(arguments []string) string {
	target, _ := strconv.Atoi(arguments[3])
	content, exists := s.lookup(arguments[0])
	if !exists {
		return replyInteger(0)
	}
	if _, taken := s.databases[target][arguments[1]]; taken && len(arguments) < 5 {
		return replyInteger(0)
	}
	s.put(target, arguments[1], content)
	return replyInteger(1)
}
