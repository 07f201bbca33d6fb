package differential

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// generateLarge makes a sequence whose values are beyond a packed encoding or about to leave it,
// with indexes, fields and members all over them.
func generateLarge(commands []Command, seed uint64, callCount int) Sequence {
	g := newGenerator(commands, seed)
	g.large = 1 + g.random.IntN(sizeMax)
	sequence := Sequence{Seed: seed, Protocol: 2 + int(seed%2)}
	sequence.Calls = largeCalls(g.random, g.large)
	g.extend(&sequence, len(sequence.Calls)+callCount)
	sequence.Calls = append(sequence.Calls, closingCalls()...)
	return sequence
}

// sizeMax is how many elements a large value has at most: too few for a SPOP of 1000 to leave some.
const sizeMax = 900

// largeCalls fill the first key of each family, and a second one to about the limit of a packed
// encoding.
func largeCalls(random *rand.Rand, size int) []Call {
	var calls []Call
	add := func(name, key string, count int, element func(index int) []string) {
		for start := 0; start < count; {
			end := min(start+1+random.IntN(200), count)
			words := []string{key}
			for index := start; index < end; index++ {
				words = append(words, element(index)...)
			}
			calls = append(calls, callOf(name, words...))
			start = end
		}
	}
	tail := func() string {
		return strings.Repeat("y", random.IntN(1+random.IntN(40)))
	}
	prefix := pick(random, []string{"", "e"})
	element := func(index int) []string { return []string{prefix + strconv.Itoa(index)} }
	about := func(limit int) int { return max(1, limit-2+random.IntN(4)) }
	for number, count := range []int{size, about(128)} {
		key := func(family string) string { return family + strconv.Itoa(number) }
		add("rpush", key("l"), count, func(index int) []string {
			return []string{prefix + strconv.Itoa(index) + tail()}
		})
		add("sadd", key("m"), count, element)
		add("zadd", key("z"), count, func(index int) []string {
			return []string{strconv.Itoa(random.IntN(1 + 2*index)), prefix + strconv.Itoa(index)}
		})
		add("geoadd", key("g"), count, func(index int) []string {
			place := func(limit float64) string {
				return strconv.FormatFloat((random.Float64()*2-1)*limit, 'f', 9, 64)
			}
			return []string{place(180), place(85), prefix + strconv.Itoa(index)}
		})
		add("pfadd", key("p"), 8*count, element)
		add("hset", key("h"), 4*count, func(index int) []string {
			return []string{"f" + strconv.Itoa(index), strconv.Itoa(index) + tail()}
		})
		for index := range count / 4 {
			calls = append(calls, callOf("xadd", key("x"),
				fmt.Sprintf("1-%d", 1+index), "f"+strconv.Itoa(index%3), tail()))
		}
		text := strings.Repeat("0123456789", 40*count)
		calls = append(calls, callOf("set", key("s"), text))
	}
	return calls
}

// largeText is an element of a large value, for half of the arguments.
func (g *generator) largeText(name string) (text string, known bool) {
	if g.large == 0 || g.random.IntN(2) == 0 {
		return "", false
	}
	number := strconv.Itoa(g.random.IntN(g.large + g.large/8 + 1))
	switch name {
	case "field":
		return "f" + number, true
	case "member", "element", "pivot":
		return pick(g.random, []string{"", "e"}) + number, true
	case "min", "max":
		return pick(g.random, []string{"", "(", "-"}) + number, true
	case "start", "stop", "index", "rank", "len", "count":
		return pick(g.random, []string{"", "-"}) + number, true
	case "offset":
		return strconv.Itoa(g.random.IntN(1 + 3200*g.large)), true
	case "end":
		return pick(g.random, []string{"", "-"}) + strconv.Itoa(g.random.IntN(1+400*g.large)), true
	}
	return "", false
}
