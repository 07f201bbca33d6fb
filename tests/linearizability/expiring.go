package linearizability

import "strconv"

// Fields with deadlines, and what strings with deadlines are asked beside SET and GET.

func (v value) hasField(expiry int) bool {
	for _, content := range v.hash {
		if content.expiry == expiry {
			return true
		}
	}
	return false
}

func (v value) withoutField(expiry int) value {
	v = v.clone()
	for name, content := range v.hash {
		if content.expiry == expiry {
			delete(v.hash, name)
		}
	}
	return v
}

// applyField runs a command on one field, or HMGET on several.
func (s session) applyField(name string, arguments []string) string {
	key, asked := arguments[0], arguments[1]
	switch name {
	case "HSETEX": // key PX milliseconds FIELDS 1 field value
		asked = arguments[5]
	case "HPERSIST": // key FIELDS 1 field
		asked = arguments[3]
	}
	current, _ := s.lookup(key)
	if current.kind != 0 && current.kind != 'h' {
		return replyWrongType
	}
	found, exists := current.hash[asked]
	switch name {
	case "HGET":
		return quotedField(current, asked)
	case "HMGET":
		replies := make([]string, len(arguments)-1)
		for index, each := range arguments[1:] {
			replies[index] = quotedField(current, each)
		}
		return replyArray(replies...)
	case "HEXISTS":
		return replyBool(exists)
	case "HSETEX":
		s.putField(key, current, asked, field{arguments[6], s.expiry})
		return replyInteger(1)
	case "HSETNX":
		if !exists {
			s.putField(key, current, asked, field{text: arguments[2]})
		}
		return replyBool(!exists)
	case "HDEL":
		if exists {
			next := current.clone()
			delete(next.hash, asked)
			s.put(s.database, key, next)
		}
		return replyBool(exists)
	}
	switch {
	case !exists:
		return replyArray(replyInteger(-2))
	case found.expiry == 0:
		return replyArray(replyInteger(-1))
	}
	s.putField(key, current, asked, field{text: found.text})
	return replyArray(replyInteger(1))
}

func quotedField(of value, name string) string {
	if found, exists := of.hash[name]; exists {
		return strconv.Quote(found.text)
	}
	return replyNil
}

func replyBool(holds bool) string {
	if holds {
		return replyInteger(1)
	}
	return replyInteger(0)
}

func (s session) putField(key string, current value, name string, content field) {
	next := current.clone()
	if next.hash == nil {
		next.kind, next.hash = 'h', map[string]field{}
	}
	next.hash[name] = content
	s.put(s.database, key, next)
}

// applyExpiring runs GETSET, PERSIST and EXISTS.
func (s session) applyExpiring(name string, arguments []string) string {
	key := arguments[0]
	current, exists := s.lookup(key)
	switch {
	case name == "EXISTS":
		return replyBool(exists)
	case name == "PERSIST":
		if !exists || current.expiry == 0 {
			return replyInteger(0)
		}
		current.expiry, current.evictable = 0, false
		s.put(s.database, key, current)
		return replyInteger(1)
	case exists && current.kind != 's':
		return replyWrongType
	}
	s.put(s.database, key, value{kind: 's', text: arguments[1]})
	if !exists {
		return replyNil
	}
	return strconv.Quote(current.text)
}
