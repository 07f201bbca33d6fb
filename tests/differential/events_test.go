package differential

import (
	"slices"
	"testing"

	"tidemill/tests/internal/instance"
)

// eventsShare is how many sequences of replies there are for one whose events are compared.
const eventsShare = 16

// eventsCampaign compares events and changes too, over commands that leave the connection alone.
func eventsCampaign(t *testing.T, subject instance.Kind, count, pairs int) *campaign {
	t.Helper()
	commands := commandsOf(t, instance.Start(t, instance.Valkey))
	commands = slices.DeleteFunc(commands, func(command Command) bool {
		return command.Group == "connection" && command.Name != "select"
	})
	redis := &Endpoint{Address: instance.Start(t, instance.Redis, oracleDirectives...).Address}
	campaign := newCampaign(commands, count)
	campaign.sequence = func(index int64) Sequence {
		return generateFriendly(commands, campaign.first+uint64(index), *callCount)
	}
	started := startPairs(t, instance.Valkey, subject, pairs, eventDirectives...)
	for _, pair := range started {
		pair.Valkey.observer, pair.Subject.observer = &observer{}, &observer{}
	}
	campaign.run(started, redis)
	if campaign.err != nil {
		t.Fatal(campaign.err)
	}
	return campaign
}

// TestEvents_EqualValkeys is the differential test of keyspace events and changes.
func TestEvents_EqualValkeys(t *testing.T) {
	campaign := eventsCampaign(t, instance.Subject, *sequenceCount/eventsShare, *pairCount)
	if len(campaign.mismatches) > 0 {
		t.Errorf("%d kinds of mismatch%s", len(campaign.mismatches), campaign.report())
	}
}

// TestEvents_OfTwoValkeysAreEqual shows that a difference is one of servers and not of moments.
func TestEvents_OfTwoValkeysAreEqual(t *testing.T) {
	campaign := eventsCampaign(t, instance.Valkey, min(*sequenceCount, 200), 2)
	if len(campaign.mismatches) > 0 {
		t.Errorf("two Valkeys differ%s", campaign.report())
	}
}
