package differential

import (
	"regexp"
	"slices"
	"strconv"
	"testing"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	// hostileCallsPerSequence is small, so that a call meets keys that few others have changed.
	hostileCallsPerSequence = 25
	// hostilePeakBytesMax is far above what any of these calls needs.
	hostilePeakBytesMax = 256 << 20
)

// hostileSequences put hostile texts into all commands that take sizes.
func hostileSequences(commands []Command) []Sequence {
	var sequences []Sequence
	for index := range commands {
		calls := slices.DeleteFunc(hostileCalls(&commands[index]), func(call Call) bool {
			return !staysSmall(call)
		})
		for chunk := range slices.Chunk(calls, hostileCallsPerSequence) {
			sequences = append(sequences, Sequence{
				Seed: uint64(len(sequences)), Protocol: 2 + len(sequences)%2,
				Calls: slices.Concat(hostileSetup(), chunk, closingCalls()),
			})
		}
	}
	return sequences
}

// TestHostileSizes_AreAnsweredAsByValkey puts each hostile size into each place of each command.
func TestHostileSizes_AreAnsweredAsByValkey(t *testing.T) {
	commands := commandsOf(t, instance.Start(t, instance.Valkey))
	sequences := hostileSequences(commands)
	if len(sequences) < len(commands)/2 {
		t.Fatalf("%d sequences of %d commands", len(sequences), len(commands))
	}
	redis := &Endpoint{Address: instance.Start(t, instance.Redis, oracleDirectives...).Address}
	campaign := newCampaign(commands, len(sequences))
	campaign.sequence = func(index int64) Sequence { return sequences[index] }
	pairs := startPairs(t, instance.Valkey, instance.Subject, *pairCount)
	campaign.run(pairs, redis)
	if campaign.err != nil {
		t.Fatal(campaign.err)
	}
	t.Logf("%d calls in %d sequences", campaign.calls, len(sequences))
	if len(campaign.mismatches) > 0 {
		t.Errorf("%d kinds of mismatch%s", len(campaign.mismatches), campaign.report())
	}
	for _, pair := range pairs {
		if peak := peakBytes(t, pair.Subject.Address); peak > hostilePeakBytesMax {
			t.Errorf("the server had up to %d bytes", peak)
		}
	}
}

var peakLine = regexp.MustCompile(`(?m)^used_memory_peak:(\d+)`)

func peakBytes(t *testing.T, address string) int {
	t.Helper()
	conn, err := wire.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	info, err := conn.Do("INFO", "memory")
	if err != nil {
		t.Fatal(err)
	}
	line := peakLine.FindSubmatch(info.Text)
	if line == nil {
		t.Fatalf("INFO says %q", info.Text)
	}
	peak, err := strconv.Atoi(string(line[1]))
	if err != nil {
		t.Fatal(err)
	}
	return peak
}
