package differential

import (
	"slices"
	"testing"

	"tidemill/tests/internal/instance"
)

// Number of sequences of replies for one whose events are compared too: of small values, and of
// values that are trees of several nodes.
const (
	eventsShare = 16
	largeShare  = 32
)

// observedCampaign compares events and changes too, over commands of which some are left out.
func observedCampaign(
	t *testing.T, subject instance.Kind, count, pairs int, isLeftOut func(Command) bool,
	sequenceOf func(commands []Command, seed uint64, callCount int) Sequence,
) {
	t.Helper()
	commands := commandsOf(t, instance.Start(t, instance.Valkey))
	commands = slices.DeleteFunc(commands, isLeftOut)
	redis := &Endpoint{Address: instance.Start(t, instance.Redis, oracleDirectives...).Address}
	campaign := newCampaign(commands, count)
	campaign.sequence = func(index int64) Sequence {
		return sequenceOf(commands, campaign.first+uint64(index), *callCount)
	}
	started := startPairs(t, instance.Valkey, subject, pairs, eventDirectives...)
	for _, pair := range started {
		pair.Valkey.observer, pair.Subject.observer = &observer{}, &observer{}
	}
	campaign.run(started, redis)
	if campaign.err != nil {
		t.Fatal(campaign.err)
	}
	if len(campaign.mismatches) > 0 {
		t.Errorf("%d kinds of mismatch%s", len(campaign.mismatches), campaign.report())
	}
}

// changesConnection tells of commands that may change the connection, which an observer needs.
func changesConnection(command Command) bool {
	return command.Group == "connection" && command.Name != "select"
}

// TestEvents_EqualValkeys is the differential test of keyspace events and changes.
func TestEvents_EqualValkeys(t *testing.T) {
	observedCampaign(t, instance.Subject, *sequenceCount/eventsShare, *pairCount,
		changesConnection, generateFriendly)
}

// TestEvents_OfTwoValkeysAreEqual shows that a difference is one of servers and not of moments.
func TestEvents_OfTwoValkeysAreEqual(t *testing.T) {
	observedCampaign(t, instance.Valkey, min(*sequenceCount, 200), 2, changesConnection,
		generateFriendly)
}

// TestLargeValues_EqualValkeys is the differential test of values that are trees of several nodes.
func TestLargeValues_EqualValkeys(t *testing.T) {
	isLeftOut := func(command Command) bool {
		// LCS takes the product of two lengths; the others leave no large value.
		return command.Group == "connection" ||
			slices.Contains([]string{"lcs", "flushall", "flushdb"}, command.Name)
	}
	observedCampaign(t, instance.Subject, *sequenceCount/largeShare, *pairCount, isLeftOut,
		generateLarge)
}
