package linearizability

import (
	"maps"
	"slices"
	"strconv"
)

// stream is a stream of ids `1-N` without gaps, with one group.
type stream struct {
	// texts are the values of the entries' only fields.
	texts []string
	// delivered is how many of them the group was given.
	delivered int
	// pending are those that were not acknowledged, with their consumers.
	pending map[int]string
}

func (s *stream) clone() *stream {
	return &stream{slices.Clone(s.texts), s.delivered, maps.Clone(s.pending)}
}

func (s *stream) appendTo(out []byte) []byte {
	for _, text := range s.texts {
		out = strconv.AppendQuote(out, text)
	}
	out = strconv.AppendInt(append(out, 'd'), int64(s.delivered), 10)
	for _, number := range slices.Sorted(maps.Keys(s.pending)) {
		out = strconv.AppendInt(append(out, 'p'), int64(number), 10)
		out = append(out, s.pending[number]...)
	}
	return out
}

func streamID(number int) string { return "1-" + strconv.Itoa(number) }

func (s *stream) entry(number int) string {
	fields := replyArray(strconv.Quote("f"), strconv.Quote(s.texts[number]))
	return replyArray(strconv.Quote(streamID(number)), fields)
}

func (s *stream) entries(from, to int) string {
	var entries []string
	for number := from; number < to; number++ {
		entries = append(entries, s.entry(number))
	}
	return replyArray(entries...)
}

// applyStream runs a command on the stream under a key, which is made before the round.
func (s session) applyStream(name string, arguments []string) string {
	if name == "XGROUP" {
		made := value{kind: 'x', stream: &stream{pending: map[int]string{}}}
		s.put(s.database, arguments[1], made)
		return replyOK
	}
	key := arguments[0]
	if name == "XREAD" || name == "XREADGROUP" {
		key = arguments[len(arguments)-2]
	}
	content, isThere := s.lookup(key)
	if !isThere {
		// The checker tries orders in which the stream is made later: no server answers so.
		return "no stream"
	}
	current := content.stream.clone()
	reply := current.apply(name, arguments)
	s.put(s.database, key, value{kind: 'x', stream: current})
	return reply
}

func (s *stream) apply(name string, arguments []string) string {
	answer := func(key string, from, to int) string {
		if from >= to {
			return replyNil
		}
		return replyArray(replyArray(strconv.Quote(key), s.entries(from, to)))
	}
	last := arguments[len(arguments)-1]
	switch name {
	case "XADD":
		s.texts = append(s.texts, last)
		return strconv.Quote(streamID(len(s.texts) - 1))
	case "XREAD":
		// XREAD BLOCK time STREAMS key 1-N
		behind, _ := strconv.Atoi(last[2:])
		return answer(arguments[3], min(behind+1, len(s.texts)), len(s.texts))
	case "XREADGROUP":
		// XREADGROUP GROUP g consumer COUNT count BLOCK time STREAMS key >
		count, _ := strconv.Atoi(arguments[4])
		from, to := s.delivered, min(len(s.texts), s.delivered+count)
		for number := from; number < to; number++ {
			s.pending[number] = arguments[2]
		}
		s.delivered = to
		return answer(arguments[8], from, to)
	case "XACK":
		number, _ := strconv.Atoi(last[2:])
		if _, isPending := s.pending[number]; !isPending {
			return replyInteger(0)
		}
		delete(s.pending, number)
		return replyInteger(1)
	case "XPENDING":
		return s.summary()
	}
	return s.entries(0, len(s.texts))
}

func (s *stream) summary() string {
	if len(s.pending) == 0 {
		return replyArray(replyInteger(0), replyNil, replyNil, replyNil)
	}
	numbers := slices.Sorted(maps.Keys(s.pending))
	counts := map[string]int{}
	for _, consumer := range s.pending {
		counts[consumer]++
	}
	var consumers []string
	for _, consumer := range slices.Sorted(maps.Keys(counts)) {
		count := strconv.Quote(strconv.Itoa(counts[consumer]))
		consumers = append(consumers, replyArray(strconv.Quote(consumer), count))
	}
	first, last := streamID(numbers[0]), streamID(numbers[len(numbers)-1])
	return replyArray(replyInteger(len(numbers)), strconv.Quote(first), strconv.Quote(last),
		replyArray(consumers...))
}

// streamMix adds entries to one stream and lets few consumers of a group take them, so that an
// entry which is delivered twice or to nobody shows, and a pending one in one order alone.
func streamMix(c *client) ([][]string, bool) {
	consumer, id := c.pick("a", "b"), streamID(c.random.IntN(8))
	blocked := []string{"XREADGROUP", "GROUP", "g", consumer, "COUNT", c.pick("1", "2"), "BLOCK",
		"10", "STREAMS", "x1", ">"}
	switch c.random.IntN(12) {
	case 0, 1, 2:
		return single("XADD", "x1", "1-*", "f", c.unique())
	case 3:
		return [][]string{{"XADD", "x1", "1-*", "f", c.unique()},
			{"XADD", "x1", "1-*", "f", c.unique()}}, true
	case 4, 5, 6:
		return single(blocked...)
	case 7:
		return single("XREAD", "BLOCK", "10", "STREAMS", "x1", id)
	case 8, 9:
		return single("XACK", "x1", "g", id)
	case 10:
		return single("XPENDING", "x1", "g")
	}
	return single("XRANGE", "x1", "-", "+")
}
