package differential

import (
	"slices"
	"testing"

	"tidemill/tests/internal/instance"
)

// TestLargeReplies_EqualValkeys is the differential test of values that are trees of several nodes.
func TestLargeReplies_EqualValkeys(t *testing.T) {
	commands := commandsOf(t, instance.Start(t, instance.Valkey))
	commands = slices.DeleteFunc(commands, func(command Command) bool {
		// LCS takes the product of two lengths.
		return command.Group == "connection" || command.Name == "lcs" ||
			command.Name == "flushall" || command.Name == "flushdb"
	})
	redis := &Endpoint{Address: instance.Start(t, instance.Redis, oracleDirectives...).Address}
	campaign := newCampaign(commands, *sequenceCount/largeShare)
	campaign.sequence = func(index int64) Sequence {
		return GenerateLarge(commands, campaign.first+uint64(index), *callCount)
	}
	started := startPairs(t, instance.Valkey, instance.Subject, *pairCount, eventDirectives...)
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

// largeShare is how many sequences of small values there are for one of large ones.
const largeShare = 32
