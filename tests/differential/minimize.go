package differential

import "time"

// Limits of the search for a shorter failing sequence.
const (
	minimizeRunsMax = 600
	minimizeTimeMax = 15 * time.Second
)

// minimize drops calls while the same kind of mismatch remains: all after the failing one, then
// runs of halving length. It returns the shortest sequence found and its mismatch.
func minimize(pair *Pair, sequence Sequence, mismatch *Mismatch) (Sequence, *Mismatch) {
	deadline := time.Now().Add(minimizeTimeMax)
	runs := 0
	stillFails := func(calls []Call) *Mismatch {
		if runs++; runs > minimizeRunsMax || time.Now().After(deadline) {
			return nil
		}
		found, err := pair.Check(Sequence{
			Seed: sequence.Seed, Protocol: sequence.Protocol, Calls: calls,
		})
		if err != nil || found == nil || found.kind() != mismatch.kind() {
			return nil
		}
		return found
	}
	calls := sequence.Calls
	keep := func(shorter []Call) bool {
		found := stillFails(shorter)
		if found == nil {
			return false
		}
		mismatch, calls = found, shorter[:min(found.Index+1, len(shorter))]
		return true
	}
	keep(calls[:min(mismatch.Index+1, len(calls))])
	for length := len(calls) / 2; length >= 1; length /= 2 {
		for start := 0; start < len(calls); {
			end := min(start+length, len(calls))
			if !keep(append(append([]Call(nil), calls[:start]...), calls[end:]...)) {
				start = end
			}
		}
	}
	return Sequence{Seed: sequence.Seed, Protocol: sequence.Protocol, Calls: calls}, mismatch
}
