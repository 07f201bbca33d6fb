package linearizability

import (
	"slices"
	"strconv"
)

// A set is a value of kind 'm' whose members are the names of its fields.

// members returns the set under a key, empty when there is none.
func (s session) members(key string) (value, bool) {
	current, exists := s.lookup(key)
	if exists && current.kind != 'm' {
		return value{}, false
	}
	current = current.clone()
	if current.hash == nil {
		current.kind, current.hash = 'm', map[string]field{}
	}
	return current, true
}

func (s session) applySet(name string, arguments []string) string {
	switch name {
	case "SMOVE":
		return s.moveMember(arguments[0], arguments[1], arguments[2])
	case "SUNIONSTORE", "SINTERSTORE":
		return s.storeCombined(name, arguments[0], arguments[1:])
	case "SUNION", "SINTER":
		combined, ok := s.combine(name, arguments)
		if !ok {
			return replyWrongType
		}
		return replyMembers(combined)
	}
	current, ok := s.members(arguments[0])
	if !ok {
		return replyWrongType
	}
	before := len(current.hash)
	switch name {
	case "SMEMBERS":
		return replyMembers(current)
	case "SADD":
		for _, member := range arguments[1:] {
			current.hash[member] = field{}
		}
	case "SREM":
		for _, member := range arguments[1:] {
			delete(current.hash, member)
		}
	}
	changed := max(len(current.hash)-before, before-len(current.hash))
	if changed > 0 {
		s.put(s.database, arguments[0], current)
	}
	return replyInteger(changed)
}

func (s session) moveMember(from, to, member string) string {
	if _, exists := s.lookup(from); !exists {
		return replyInteger(0)
	}
	source, sourceOK := s.members(from)
	target, targetOK := s.members(to)
	if !sourceOK || !targetOK {
		return replyWrongType
	}
	if _, there := source.hash[member]; !there {
		return replyInteger(0)
	}
	if from != to {
		delete(source.hash, member)
		s.put(s.database, from, source)
		target.hash[member] = field{}
		s.put(s.database, to, target)
	}
	return replyInteger(1)
}

func (s session) combine(name string, keys []string) (value, bool) {
	counts := map[string]int{}
	for _, key := range keys {
		set, ok := s.members(key)
		if !ok {
			return value{}, false
		}
		for member := range set.hash {
			counts[member]++
		}
	}
	combined := value{kind: 'm', hash: map[string]field{}}
	for member, count := range counts {
		if name == "SUNION" || name == "SUNIONSTORE" || count == len(keys) {
			combined.hash[member] = field{}
		}
	}
	return combined, true
}

func (s session) storeCombined(name, target string, keys []string) string {
	combined, ok := s.combine(name, keys)
	if !ok {
		return replyWrongType
	}
	if len(combined.hash) == 0 {
		s.remove(s.database, target)
	} else {
		s.put(s.database, target, combined)
	}
	return replyInteger(len(combined.hash))
}

func replyMembers(set value) string {
	quoted := make([]string, 0, len(set.hash))
	for member := range set.hash {
		quoted = append(quoted, strconv.Quote(member))
	}
	slices.Sort(quoted)
	return replyArray(quoted...)
}

// answersSet tells whether a command's reply is members without an order.
func answersSet(name string) bool {
	return slices.Contains([]string{"SMEMBERS", "SUNION", "SINTER"}, name)
}

// setMix moves few members, integers and texts, between few sets, so that a set read in two states
// at once, or a member seen in both sets or in none while it moves, shows.
func setMix(c *client) ([][]string, bool) {
	key := func() string { return c.pick("m1", "m2", "m3") }
	member := func() string { return c.pick("1", "2", "a", "b", "c") }
	switch c.random.IntN(16) {
	case 0, 1:
		return single("SADD", key(), member(), member())
	case 2:
		return single("SREM", key(), member(), member())
	case 3, 4, 5:
		return single("SMOVE", key(), key(), member())
	case 6, 7:
		return single("SUNIONSTORE", key(), "m1", "m2")
	case 8:
		return single("SINTERSTORE", "m3", "m1", "m2")
	case 9:
		return [][]string{{"SMOVE", "m1", "m2", member()}, {"SUNION", "m1", "m2"}}, true
	case 10:
		return [][]string{{"SUNIONSTORE", key(), "m2", "m3"}}, true
	case 11, 12:
		return single("SUNION", "m1", "m2", "m3")
	case 13:
		return single("SINTER", "m1", "m2")
	}
	return single("SMEMBERS", key())
}
