package main

import (
	"strings"
	"testing"
)

// reportOf is a report of one load with the costs of our server, Valkey and the floor, in
// microseconds per operation, the same in three rounds.
func reportOf(load string, ours, valkey, floor float64) *Report {
	report := &Report{}
	for range 3 {
		for name, cost := range map[string]float64{
			"tidemill": ours, "valkey": valkey, "floor": floor,
		} {
			report.add(load, name, Sample{UserUs: cost / 4, SystemUs: cost * 3 / 4})
		}
	}
	report.judge()
	return report
}

func verdictOf(t *testing.T, report *Report, budget string) Verdict {
	t.Helper()
	for _, verdict := range report.Verdicts {
		if strings.Contains(verdict.Budget, budget) {
			return verdict
		}
	}
	t.Fatalf("no verdict on %q: %+v", budget, report.Verdicts)
	return Verdict{}
}

func TestJudge_DearSystemCallsDecideNothing(t *testing.T) {
	// The same servers, 0.1 and 0.5 us above the floor, where a system call is cheap and where it
	// is dear.
	for _, floor := range []float64{0.2, 0.55} {
		report := reportOf("pipeline 16", floor+0.1, floor+0.5, floor)
		above := verdictOf(t, report, "pipeline 16: CPU above the floor")
		if !above.Met || above.Told || above.Value < 0.199 || above.Value > 0.201 {
			t.Errorf("floor %v: %+v", floor, above)
		}
		whole := verdictOf(t, report, "pipeline 16: CPU per operation")
		if !whole.Told || whole.Met != (floor == 0.2) {
			t.Errorf("floor %v: %+v", floor, whole)
		}
		if report.missed() || report.Void != "" {
			t.Errorf("floor %v: missed %v, void %q", floor, report.missed(), report.Void)
		}
	}
}

func TestJudge_CostAboveTheFloorIsMissed(t *testing.T) {
	if report := reportOf("pipeline 100", 0.2, 0.6, 0.1); !report.missed() {
		t.Errorf("0.20 above the floor is over the budget: %+v", report.Verdicts)
	}
}

func TestJudge_FloorNearValkeyIsVoid(t *testing.T) {
	if report := reportOf("pipeline 16", 0.8, 0.9, 0.7); report.Void == "" {
		t.Error("a floor of 0.78 of Valkey leaves nothing to compare")
	}
}

func TestSpread_DecidesUnlessLimitIsBetweenQuartiles(t *testing.T) {
	figure := spread{low: 0.8, median: 0.9, high: 1.0}
	for limit, want := range map[float64]bool{0.7: true, 0.8: false, 0.95: false, 1.0: true} {
		if figure.decides(limit) != want {
			t.Errorf("limit %v: %v", limit, !want)
		}
	}
	if spreadOf(nil).decides(1) {
		t.Error("nothing was measured")
	}
}

func TestLatencyAboveFloor_IsTakenRoundByRound(t *testing.T) {
	report := &Report{}
	for _, round := range [][2]float64{{300, 290}, {150, 100}, {90, 60}} {
		report.add("writes", "tidemill", Sample{P999us: round[0]})
		report.add("writes", "floor", Sample{P999us: round[1]})
	}
	if above := report.latencyAboveFloor("writes"); above.median != 30 {
		t.Errorf("%+v", above)
	}
}
