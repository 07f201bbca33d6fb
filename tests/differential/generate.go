package differential

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"tidemill/tests/internal/wire"
)

// Call is one generated command line.
type Call struct {
	// Name is the command's name as in COMMAND DOCS.
	Name      string
	Arguments [][]byte
	// Tokens are the option tokens in it, as Command.tokens names them.
	Tokens []string
	// ListsShrank tells that a call before it may have taken elements out of a list.
	ListsShrank bool
	// IsOfSmall tells that the call before it asked for the encoding of the same key, which is one
	// that a scan walks in one step.
	IsOfSmall bool
}

// Words returns the words of the command's name.
func (c Call) Words() []string { return strings.Split(c.Name, "|") }

func (c Call) mentions(word string) bool {
	return slices.ContainsFunc(c.Arguments, func(argument []byte) bool {
		return strings.EqualFold(string(argument), word)
	})
}

// String renders the call so that a reader can type it again.
func (c Call) String() string {
	quoted := make([]string, len(c.Arguments))
	for index, argument := range c.Arguments {
		quoted[index] = string(argument)
		if strings.ContainsFunc(quoted[index], func(r rune) bool {
			return r <= ' ' || r >= 127 || r == '"'
		}) || len(argument) == 0 {
			quoted[index] = strconv.Quote(quoted[index])
		}
	}
	return strings.Join(quoted, " ")
}

// Sequence is what one connection sends, derived from its seed alone.
type Sequence struct {
	Seed     uint64
	Protocol int
	Calls    []Call
}

// weights change how often a command is chosen; 100 is usual. Commands that end a connection, empty
// the keyspace, leave the database or wait would otherwise crowd out the rest.
var weights = map[string]int{
	"quit": 2, "reset": 15, "client|kill": 90, "client|pause": 8, "client|reply": 20, "hello": 30,
	"auth":   30,
	"select": 30, "swapdb": 30, "flushall": 10, "flushdb": 10, "move": 50,
	"bzpopmin": 30, "bzpopmax": 30, "bzmpop": 40,
	"zpopmin": 50, "zpopmax": 50, "zmpop": 50,
	"blpop": 30, "brpop": 30, "blmove": 30, "brpoplpush": 30, "blmpop": 40,
	"multi": 200, "exec": 60, "discard": 20, "watch": 60,
	"set": 300, "hset": 300, "rpush": 300, "lpush": 200, "sadd": 400, "zadd": 400,
	"xadd": 500, "xgroup|create": 200, "xreadgroup": 200, "xgroup|destroy": 20,
	"xsetid": 30, "xtrim": 60,
	"geoadd": 400, "pfadd": 300, "pfdebug": 30,
	// It takes Valkey seconds.
	"pfselftest": 0,
	"get":        150, "setex": 60,
	"append": 150,
	"eval":   250, "evalsha": 150, "fcall": 200, "eval_ro": 150, "function|load": 200,
	"script|load": 150,
	"hsetex":      200,
	"bitfield":    200, "getex": 150, "hgetex": 200, "expire": 150, "copy": 150, "rename": 100,
}

type generator struct {
	random   *rand.Rand
	commands []Command
	ladder   []int // running sums of weights
	// inTransaction follows MULTI and EXEC closely enough to end most transactions by EXEC.
	inTransaction bool
	// mute is set while replies may be off, watches once keys may be watched.
	mute, watches bool
	// lastMs is the time part of the last id of a stream's entry.
	lastMs int
	// hasTombstones is set once streams may have entries that were deleted.
	hasTombstones bool
	// hasOtherPlaces is set once keys of places may have members from other commands.
	hasOtherPlaces bool
	// isStranger is set while the client may have to authenticate.
	isStranger bool
	tokens     []string
	// large is the size of large values; 0 where there are none.
	large int
}

func newGenerator(commands []Command, seed uint64) *generator {
	g := &generator{random: rand.New(rand.NewPCG(seed, 0x7469_6465)), commands: commands}
	sum := 0
	for index := range commands {
		weight, listed := weights[commands[index].Name]
		if !listed {
			weight = 100
		}
		sum += weight
		g.ladder = append(g.ladder, sum)
	}
	return g
}

// Generate makes the sequence of a seed.
func Generate(commands []Command, seed uint64, callCount int) Sequence {
	return generate(commands, seed, callCount, seed%strangerShare == strangerShare-1)
}

// generateFriendly is Generate with clients that have authenticated only.
func generateFriendly(commands []Command, seed uint64, callCount int) Sequence {
	return generate(commands, seed, callCount, false)
}

func generate(commands []Command, seed uint64, callCount int, isStranger bool) Sequence {
	g := newGenerator(commands, seed)
	sequence := Sequence{Seed: seed, Protocol: 2 + int(seed%2)}
	if g.isStranger = isStranger; g.isStranger {
		sequence.Calls = strangerCalls()
	}
	g.extend(&sequence, callCount)
	if seed%4 < 2 {
		sequence.Calls = append(sequence.Calls, closingCalls()...)
	}
	return sequence
}

// extend adds random calls up to a number.
func (g *generator) extend(sequence *Sequence, callCount int) {
	for len(sequence.Calls) < callCount {
		if call, ok := g.call(); ok {
			sequence.Calls = append(sequence.Calls, call)
		}
	}
}

// strangerShare is how many sequences there are for one of a client that has not authenticated.
const strangerShare = 16

// strangerCalls make the connection one that has not authenticated. Run lets it in again at the
// end.
func strangerCalls() []Call {
	return []Call{
		{Name: "config|set", Arguments: wire.Arguments("CONFIG", "SET", "requirepass", password)},
		{Name: "reset", Arguments: wire.Arguments("RESET")},
	}
}

// callOf is a call of a command, by its name in COMMAND DOCS.
func callOf(name string, arguments ...string) Call {
	words := slices.Concat(strings.Split(name, "|"), arguments)
	return Call{Name: name, Arguments: wire.Arguments(words...)}
}

// closingCalls read all that a sequence left behind, so that a write with a right reply and a wrong
// effect is seen.
func closingCalls() []Call {
	var calls []Call
	add := func(name string, arguments ...string) {
		calls = append(calls, callOf(name, arguments...))
	}
	add("discard") // first: inside MULTI the next would only be queued
	add("client|reply", "ON")
	for _, database := range []string{"1", "2", "0"} {
		add("select", database)
		add("dbsize")
		add("keys", "*")
	}
	for _, key := range keys {
		add("type", key)
		for _, scan := range []string{"hscan", "sscan", "zscan"} {
			add("object|encoding", key) // right before it: see Call.IsOfSmall
			add(scan, key, "0", "COUNT", "1")
		}
		add("pttl", key)
		add("get", key)
		add("dump", key)
		add("lrange", key, "0", "-1")
		add("hgetall", key)
		add("smembers", key)
		add("zrange", key, "0", "-1", "WITHSCORES")
		add("xrange", key, "-", "+")
		add("xinfo|stream", key, "FULL", "COUNT", "0")
	}
	return calls
}

// call makes one command line, or nothing when what it made is too dangerous to run.
func (g *generator) call() (Call, bool) {
	if g.random.IntN(250) == 0 {
		return g.unknown(), true
	}
	command := g.choose()
	g.tokens = nil
	values := g.arguments(command, command.Arguments)
	g.setCounts(values)
	call := Call{Name: command.Name, Tokens: g.tokens}
	for _, word := range command.Words {
		call.Arguments = append(call.Arguments, []byte(g.anyCase(word)))
	}
	for _, value := range values {
		call.Arguments = append(call.Arguments, []byte(value.text))
	}
	if command.Name == "client|reply" && (g.inTransaction || g.isStranger) {
		return call, false // refused there, which silenced() does not follow
	}
	if g.mute && (command.Name == "client|kill" || command.Name == "quit") {
		return call, false // Valkey closes after the reply, and never when there is none
	}
	g.spoil(&call)
	if g.isStranger && len(call.Arguments) > strangerArgumentsMax {
		// ends the connection, unless Valkey read it ahead before RESET made the client a stranger
		return call, false
	}
	if hazardous(call) || showsFault(call, g.watches) || g.trimsTombstones(call) ||
		g.hasOtherPlaces && ordersByDistance(call) {
		return call, false
	}
	if command.Group == "sorted-set" && slices.ContainsFunc(call.Arguments[1:], isKeyOfPlaces) {
		g.hasOtherPlaces = true
	}
	switch wellFormed := len(call.Arguments) == 1; {
	case command.Name == "client|reply":
		g.mute = !call.mentions("ON")
	case command.Name == "reset" && wellFormed:
		g.mute, g.inTransaction, g.watches = false, false, false
	case command.Name == "multi":
		g.inTransaction = true
	case command.Name == "watch":
		g.watches = true
	case command.Name == "xdel" || command.Name == "restore":
		g.hasTombstones = true
	case wellFormed && slices.Contains([]string{"exec", "discard"}, command.Name):
		g.inTransaction = false
	}
	return call, true
}

func (g *generator) choose() *Command {
	if g.inTransaction && g.random.IntN(6) == 0 {
		for index := range g.commands {
			if g.commands[index].Name == "exec" {
				return &g.commands[index]
			}
		}
	}
	at := g.random.IntN(g.ladder[len(g.ladder)-1])
	index, _ := slices.BinarySearch(g.ladder, at+1)
	return &g.commands[index]
}

type generatedValue struct {
	name, text string
	// isSize tells that the command takes a number, an id or a bound here.
	isSize bool
}

func (g *generator) arguments(command *Command, arguments []Argument) []generatedValue {
	optional := 0
	for index := range arguments {
		if arguments[index].has("optional") {
			optional++
		}
	}
	var values []generatedValue
	var options []Argument
	flush := func() {
		values = append(values, slices.Concat(g.mixed(command, options)...)...)
		options = nil
	}
	for index := range arguments {
		argument := &arguments[index]
		if !argument.has("optional") {
			flush()
			values = append(values, g.argument(command, argument)...)
		} else if g.random.Float64() <= min(0.4, 2/float64(optional)) {
			options = append(options, *argument)
		}
	}
	flush()
	return values
}

func (g *generator) argument(command *Command, argument *Argument) []generatedValue {
	var values []generatedValue
	repetitions := 1
	if argument.has("multiple") {
		repetitions = g.repetitions(command)
	}
	for repetition := range repetitions {
		if argument.Token != "" && (repetition == 0 || argument.has("multiple_token")) {
			g.tokens = append(g.tokens, command.Name+" "+argument.Token)
			values = append(values, generatedValue{text: g.anyCase(argument.Token)})
		}
		switch argument.Type {
		case "pure-token":
		case "block":
			if argument.Name == "streams" {
				values = append(values, g.streams(command, argument)...)
				continue
			}
			values = append(values, g.arguments(command, argument.Arguments)...)
		case "oneof":
			choice := &argument.Arguments[g.random.IntN(len(argument.Arguments))]
			values = append(values, g.argument(command, choice)...)
		default:
			values = append(values, generatedValue{
				argument.Name, g.value(command, argument), isSize(command, argument),
			})
		}
	}
	return values
}

// mixed repeats an option in one of eight calls that have some, with another value or another
// choice, and reorders the options in one of sixteen. Options are mixed with those beside them
// only: what follows FIELDS is no option.
func (g *generator) mixed(command *Command, options []Argument) [][]generatedValue {
	var groups [][]generatedValue
	for index := range options {
		groups = append(groups, g.argument(command, &options[index]))
	}
	if len(options) > 0 && g.random.IntN(8) == 0 {
		for range 1 + g.random.IntN(2) {
			groups = append(groups, g.argument(command, &options[g.random.IntN(len(options))]))
		}
	}
	if g.random.IntN(16) == 0 {
		g.random.Shuffle(len(groups), func(i, j int) {
			groups[i], groups[j] = groups[j], groups[i]
		})
	}
	return groups
}

// repetitions is small, but collections must sometimes outgrow their compact encodings.
func (g *generator) repetitions(command *Command) int {
	switch choice := g.random.IntN(300); {
	case choice == 0 && slices.Contains([]string{"hset", "rpush", "lpush", "sadd",
		"zadd"}, command.Name):
		return 100 + g.random.IntN(500)
	case strings.HasPrefix(command.Name, "geosearch"):
		return 3 + g.random.IntN(6) // corners of a polygon
	case choice < 20:
		return 4 + g.random.IntN(9)
	}
	return 1 + g.random.IntN(3)
}

// setCounts makes numkeys and numfields say how many follow; one time in sixteen it leaves them
// wrong.
func (g *generator) setCounts(values []generatedValue) {
	for index := range values {
		counted, known := map[string]string{
			"numkeys": "key", "numfields": "field", "num-vertices": "longitude",
		}[values[index].name]
		if !known {
			continue
		}
		count := 0
		for _, value := range values[index+1:] {
			if value.name == counted {
				count++
			}
		}
		values[index].text = strconv.Itoa(count)
		if g.random.IntN(16) == 0 {
			values[index].text = pick(g.random, []string{
				"0", "-1", "1", "2", "100", "abc", "9223372036854775807",
			})
		}
	}
}

func (g *generator) anyCase(word string) string {
	switch g.random.IntN(16) {
	case 0, 1, 2, 3:
		return strings.ToLower(word)
	case 4:
		letters := []byte(word)
		for index := range letters {
			if g.random.IntN(2) == 0 {
				letters[index] = strings.ToLower(word)[index]
			}
		}
		return string(letters)
	}
	return word
}
