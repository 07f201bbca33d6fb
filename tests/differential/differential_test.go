package differential

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
)

var (
	sequenceCount = flag.Int("sequences", 8000, "sequences to run")
	callCount     = flag.Int("calls", 200, "commands per sequence")
	firstSeed     = flag.Uint64("seed", 1, "first seed; 0 takes one from the clock")
	pairCount     = flag.Int("pairs", 4, "pairs of servers that run at once")
	reportCount   = flag.Int("reports", 40, "kinds of mismatch that are reduced and printed")
)

// tokenOccurrencesMin is how often each option token must occur in a full run.
const tokenOccurrencesMin = 50

// oracleDirectives make timeouts of a few milliseconds precise: Valkey looks at them hz times a
// second.
var oracleDirectives = []string{"--hz", "500", "--enable-debug-command", "yes"}

func commandsOf(t *testing.T, oracle *instance.Server) []Command {
	t.Helper()
	commands, err := Commands(oracle.Dial(t))
	if err != nil {
		t.Fatalf("COMMAND DOCS: %v", err)
	}
	if len(commands) < 100 {
		t.Fatalf("COMMAND DOCS of %s describes %d commands of the families under test, expected "+
			"more than 100", oracle.Kind, len(commands))
	}
	return commands
}

// campaign runs sequences over several pairs of servers and gathers what differed.
type campaign struct {
	commands []Command
	first    uint64
	count    int
	// sequence makes the sequence of an index below count.
	sequence func(index int64) Sequence

	next       atomic.Int64
	mutex      sync.Mutex
	tokens     map[string]int
	mismatches map[string]*finding
	calls      int
	err        error
}

type finding struct {
	count    int
	sequence Sequence
	mismatch *Mismatch
	redis    string
}

func newCampaign(commands []Command, count int) *campaign {
	first := *firstSeed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	return &campaign{
		commands: commands, first: first, count: count, tokens: map[string]int{},
		mismatches: map[string]*finding{},
		sequence: func(index int64) Sequence {
			return Generate(commands, first+uint64(index), *callCount)
		},
	}
}

func (c *campaign) run(pairs []*Pair, redis *Endpoint) {
	var group sync.WaitGroup
	for _, pair := range pairs {
		group.Go(func() { c.work(pair, redis) })
	}
	group.Wait()
}

func (c *campaign) work(pair *Pair, redis *Endpoint) {
	for {
		index := c.next.Add(1) - 1
		if index >= int64(c.count) || c.failed() {
			return
		}
		sequence := c.sequence(index)
		mismatch, err := pair.Check(sequence)
		c.record(pair, redis, sequence, mismatch, err)
	}
}

func (c *campaign) failed() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.err != nil
}

func (c *campaign) record(
	pair *Pair, redis *Endpoint, sequence Sequence, mismatch *Mismatch, err error,
) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.calls += len(sequence.Calls)
	for _, call := range sequence.Calls {
		for _, token := range call.Tokens {
			c.tokens[token]++
		}
	}
	if err != nil {
		c.err = err
	}
	if mismatch == nil || err != nil {
		return
	}
	kind := mismatch.kind()
	if known := c.mismatches[kind]; known != nil {
		known.count++
		return
	}
	found := &finding{count: 1, sequence: sequence, mismatch: mismatch}
	c.mismatches[kind] = found
	if redis != nil && len(c.mismatches) <= *reportCount {
		found.sequence, found.mismatch = minimize(pair, sequence, mismatch)
		found.redis = opinion(redis, found)
	}
}

// opinion is what the second oracle answers to the call that differed.
func opinion(redis *Endpoint, found *finding) string {
	answers, err := redis.Run(found.sequence)
	if err != nil || found.mismatch.Index >= len(answers.Replies) {
		return fmt.Sprint("no answer ", err)
	}
	return answers.Replies[found.mismatch.Index].String()
}

func (c *campaign) report() string {
	var text strings.Builder
	kinds := make([]string, 0, len(c.mismatches))
	for kind := range c.mismatches {
		kinds = append(kinds, kind)
	}
	sort.Slice(kinds, func(i, j int) bool {
		return c.mismatches[kinds[i]].count > c.mismatches[kinds[j]].count
	})
	for number, kind := range kinds {
		found := c.mismatches[kind]
		fmt.Fprintf(&text, "\n%d. %s: %d sequences, first seed %d, RESP%d\n", number+1, kind,
			found.count, found.sequence.Seed, found.sequence.Protocol)
		if found.redis == "" {
			continue
		}
		for _, call := range found.sequence.Calls {
			fmt.Fprintf(&text, "    %.300s\n", call)
		}
		fmt.Fprintf(&text, "  valkey:  %.400s\n  subject: %.400s\n  redis 7: %.400s\n",
			found.mismatch.Valkey, found.mismatch.Subject, found.redis)
	}
	return text.String()
}

func startPairs(
	t *testing.T, oracle, subject instance.Kind, count int, more ...string,
) []*Pair {
	t.Helper()
	directives := func(kind instance.Kind) []string {
		if kind == instance.Subject && instance.SubjectIsTidemill() {
			return more
		}
		return slices.Concat(oracleDirectives, more)
	}
	pairs := make([]*Pair, count)
	for index := range pairs {
		pairs[index] = &Pair{
			Valkey:  Endpoint{Address: instance.Start(t, oracle, directives(oracle)...).Address},
			Subject: Endpoint{Address: instance.Start(t, subject, directives(subject)...).Address},
		}
	}
	return pairs
}

// TestReplies_EqualValkeys is the differential test.
func TestReplies_EqualValkeys(t *testing.T) {
	commands := commandsOf(t, instance.Start(t, instance.Valkey))
	redis := &Endpoint{Address: instance.Start(t, instance.Redis, oracleDirectives...).Address}
	campaign := newCampaign(commands, *sequenceCount)
	t.Logf("%d sequences of %d commands from seed %d", campaign.count, *callCount, campaign.first)
	start := time.Now()
	campaign.run(startPairs(t, instance.Valkey, instance.Subject, *pairCount), redis)
	t.Logf("%d commands in %v, %d kinds of command, %d option tokens", campaign.calls,
		time.Since(start).Round(time.Second), len(commands), len(campaign.tokens))
	if campaign.err != nil {
		t.Fatal(campaign.err)
	}
	if len(campaign.mismatches) > 0 {
		t.Errorf("%d kinds of mismatch%s", len(campaign.mismatches), campaign.report())
	}
	if campaign.count*(*callCount) >= 1_000_000 {
		if rare := rareTokens(commands, campaign.tokens); len(rare) > 0 {
			t.Errorf("options that occurred less than %d times: %q", tokenOccurrencesMin, rare)
		}
	}
}

// rareTokens lists the option tokens that occurred too rarely, each with how often it did.
func rareTokens(commands []Command, occurrences map[string]int) []string {
	var rare []string
	for index := range commands {
		for _, token := range commands[index].tokens() {
			// Left out: see showsFault.
			if token != "xadd *" && occurrences[token] < tokenOccurrencesMin {
				rare = append(rare, fmt.Sprintf("%s: %d", token, occurrences[token]))
			}
		}
	}
	return rare
}

// TestRareTokens_NamesAnOptionThatTheGeneratorForgets shows that no option of COMMAND DOCS can be
// left out unseen.
func TestRareTokens_NamesAnOptionThatTheGeneratorForgets(t *testing.T) {
	commands := commandsOf(t, instance.Start(t, instance.Valkey))
	occurrences := map[string]int{}
	for index := range commands {
		for _, token := range commands[index].tokens() {
			occurrences[token] = tokenOccurrencesMin
		}
	}
	if rare := rareTokens(commands, occurrences); len(rare) > 0 {
		t.Errorf("%q are called rare", rare)
	}
	for _, token := range []string{"set KEEPTTL", "client|list NOT-CAPA", "hsetex FNX",
		"scan COUNT"} {
		occurrences[token]--
		if rare := rareTokens(commands, occurrences); len(rare) != 1 ||
			!strings.HasPrefix(rare[0], token+":") {
			t.Errorf("%s is rare, and %q are called so", token, rare)
		}
		occurrences[token]++
	}
}

// TestHarness_FindsNoDifferenceBetweenTwoValkeys shows that what the test reports is a difference
// of servers and not of moments.
func TestHarness_FindsNoDifferenceBetweenTwoValkeys(t *testing.T) {
	commands := commandsOf(t, instance.Start(t, instance.Valkey))
	redis := &Endpoint{Address: instance.Start(t, instance.Redis, oracleDirectives...).Address}
	campaign := newCampaign(commands, min(*sequenceCount, 200))
	campaign.run(startPairs(t, instance.Valkey, instance.Valkey, 2), redis)
	if campaign.err != nil {
		t.Fatal(campaign.err)
	}
	if len(campaign.mismatches) > 0 {
		t.Errorf("two Valkeys differ%s", campaign.report())
	}
}

// TestHarness_FindsWhatRedisDoesOtherwise shows that differences are seen: those between Valkey 9.1
// and Redis 7.0 are known.
func TestHarness_FindsWhatRedisDoesOtherwise(t *testing.T) {
	commands := commandsOf(t, instance.Start(t, instance.Valkey))
	campaign := newCampaign(commands, min(*sequenceCount, 1000))
	campaign.run(startPairs(t, instance.Valkey, instance.Redis, 2), nil)
	if campaign.err != nil {
		t.Fatal(campaign.err)
	}
	for _, command := range []string{"hexpire", "delifeq", "set", "msetex"} {
		found := false
		for kind := range campaign.mismatches {
			found = found || strings.HasPrefix(kind, command+" ")
		}
		if !found {
			t.Errorf("%s is not among the differences between Valkey and Redis 7.0", command)
		}
	}
}

// TestExcluded_CommandsThatAreMissingStayListed fails when the generator leaves out a command that
// exists by now.
func TestExcluded_CommandsThatAreMissingStayListed(t *testing.T) {
	if !instance.SubjectIsTidemill() {
		t.Skip("a stand-in has all commands")
	}
	conn := instance.Start(t, instance.Subject).Dial(t)
	for command, reason := range excluded {
		if reason != notYet {
			continue
		}
		words := append(strings.Split(command, "|"), "a", "b", "c")
		reply, err := conn.Do(words...)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.ToLower(reply.String()), "unknown") {
			t.Errorf("%s answers %s: take it from the excluded list", command, reply)
		}
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}
