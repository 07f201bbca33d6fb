package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"tidemill/tests/internal/instance"
)

// Report is everything that a run found.
type Report struct {
	Machine  string    `json:"machine"`
	Command  string    `json:"command"`
	Settings settings  `json:"settings"`
	Seconds  float64   `json:"seconds"`
	Series   []*Series `json:"series"`
	Figures  []Figure  `json:"figures"`
	Verdicts []Verdict `json:"verdicts"`
	Void     string    `json:"void,omitempty"`
}

// Series holds the samples of one load on one server, one per round.
type Series struct {
	Load    string   `json:"load"`
	Server  string   `json:"server"`
	Samples []Sample `json:"samples"`
}

// Figure is one number without repetitions.
type Figure struct {
	Name   string  `json:"name"`
	Server string  `json:"server"`
	Value  float64 `json:"value"`
}

// Verdict is one budget: met when Value is at most Limit.
type Verdict struct {
	Budget string  `json:"budget"`
	Limit  float64 `json:"limit"`
	Value  float64 `json:"value"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Met    bool    `json:"met"`
	// Told is true for a figure that is printed and not judged.
	Told bool `json:"told,omitempty"`
}

func (r *Report) add(load, server string, sample Sample) {
	series := r.series(load, server)
	if series == nil {
		series = &Series{Load: load, Server: server}
		r.Series = append(r.Series, series)
	}
	series.Samples = append(series.Samples, sample)
}

func (r *Report) addFigure(name, server string, value float64) {
	r.Figures = append(r.Figures, Figure{name, server, value})
}

// addUp adds to a figure that sums over the rounds.
func (r *Report) addUp(name, server string, value float64) {
	for index := range r.Figures {
		if r.Figures[index].Name == name && r.Figures[index].Server == server {
			r.Figures[index].Value += value
			return
		}
	}
	r.addFigure(name, server, value)
}

func (r *Report) series(load, server string) *Series {
	for _, series := range r.Series {
		if series.Load == load && series.Server == server {
			return series
		}
	}
	return nil
}

// spread is a median with the quartiles around it.
type spread struct{ low, median, high float64 }

// decides is true if the limit does not lie between the quartiles.
func (s spread) decides(limit float64) bool { return s.high <= limit || s.low > limit }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(values))
	at := func(share float64) float64 {
		position := share * float64(len(sorted)-1)
		low := int(position)
		high := min(low+1, len(sorted)-1)
		return sorted[low] + (sorted[high]-sorted[low])*(position-float64(low))
	}
	return spread{at(.25), at(.5), at(.75)}
}

func (s *Series) spread(figure func(Sample) float64) spread {
	values := make([]float64, len(s.Samples))
	for index, sample := range s.Samples {
		values[index] = figure(sample)
	}
	return spreadOf(values)
}

// ratio compares two servers round by round.
func (r *Report) ratio(load, server, reference string, figure func(Sample) float64) spread {
	return ratioOf(r.series(load, server), r.series(load, reference), figure)
}

func ratioOf(left, right *Series, figure func(Sample) float64) spread {
	var ratios []float64
	for index := range min(len(left.Samples), len(right.Samples)) {
		ratios = append(ratios, figure(left.Samples[index])/figure(right.Samples[index]))
	}
	return spreadOf(ratios)
}

// floorShareMax is the share of the floor in Valkey's cost beyond which what is left of both is too
// small to compare.
const floorShareMax = 0.75

// smallBudgets are the budgets of small values. Ratios of whole costs are told beside those above
// the floor and not judged: they depend on what the machine's system calls cost, which no server
// can change.
var smallBudgets = []struct {
	budget, load string
	ratio        func(r *Report, load string) spread
	limit        float64
	isTold       bool
}{
	{"pipeline 1: user CPU per operation / Valkey's", "pipeline 1",
		(*Report).userRatio, 0.45, false},
	{"pipeline 16: CPU above the floor / Valkey's", "pipeline 16",
		(*Report).ratioAboveFloor, 0.25, false},
	{"pipeline 100: CPU above the floor / Valkey's", "pipeline 100",
		(*Report).ratioAboveFloor, 0.18, false},
	{"pipeline 1: CPU per operation / Valkey's", "pipeline 1", (*Report).totalRatio, 0.92, true},
	{"pipeline 16: CPU per operation / Valkey's", "pipeline 16", (*Report).totalRatio, 0.50, true},
	{"pipeline 100: CPU per operation / Valkey's", "pipeline 100",
		(*Report).totalRatio, 0.28, true},
}

func (r *Report) totalRatio(load string) spread {
	return r.ratio(load, "tidemill", "valkey", Sample.TotalUs)
}

func (r *Report) userRatio(load string) spread {
	return r.ratio(load, "tidemill", "valkey", func(s Sample) float64 { return s.UserUs })
}

// ratioAboveFloor compares what both servers cost beyond the server that does nothing, round by
// round.
func (r *Report) ratioAboveFloor(load string) spread {
	ours, valkey := r.series(load, "tidemill").Samples, r.series(load, "valkey").Samples
	floor := r.series(load, "floor").Samples
	var ratios []float64
	for index := range min(len(ours), len(valkey), len(floor)) {
		least := floor[index].TotalUs()
		ratios = append(ratios, (ours[index].TotalUs()-least)/(valkey[index].TotalUs()-least))
	}
	return spreadOf(ratios)
}

// latencyAboveFloor is what our 99.9th percentiles have above the floor's, microseconds.
func (r *Report) latencyAboveFloor(load string) spread {
	ours, floor := r.series(load, "tidemill").Samples, r.series(load, "floor").Samples
	var above []float64
	for index := range min(len(ours), len(floor)) {
		above = append(above, ours[index].P999us-floor[index].P999us)
	}
	return spreadOf(above)
}

// judge compares the figures with the design's budgets.
func (r *Report) judge() {
	for _, each := range smallBudgets {
		if r.series(each.load, "tidemill") == nil || r.series(each.load, "floor") == nil {
			continue
		}
		judge := r.verdict
		if each.isTold {
			judge = r.tell
		}
		judge(each.budget, each.limit, each.ratio(r, each.load))
	}
	for _, each := range []struct {
		name  string
		limit float64
	}{{"resident bytes per key", 117}, {"resident bytes per idle connection", 1024}} {
		for _, figure := range r.Figures {
			if figure.Name == each.name && figure.Server == "tidemill" {
				r.verdict(each.name, each.limit, spread{figure.Value, figure.Value, figure.Value})
			}
		}
	}
	for _, load := range []string{"pipeline 16", "pipeline 100"} {
		if r.series(load, "floor") == nil {
			continue
		}
		floor := r.ratio(load, "floor", "valkey", Sample.TotalUs)
		if !(floor.median <= floorShareMax) {
			r.Void += fmt.Sprintf("%s: the floor costs %.3f of Valkey, at most %.2f is needed; ",
				load, floor.median, floorShareMax)
		}
	}
}

func (r *Report) verdict(budget string, limit float64, value spread) {
	r.Verdicts = append(r.Verdicts, Verdict{
		Budget: budget, Limit: limit, Value: value.median, Low: value.low, High: value.high,
		Met: value.median <= limit,
	})
}

// tell prints a figure beside a limit that it is not judged by.
func (r *Report) tell(budget string, limit float64, value spread) {
	r.verdict(budget, limit, value)
	r.Verdicts[len(r.Verdicts)-1].Told = true
}

func (r *Report) missed() bool {
	return slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return !v.Met && !v.Told })
}

func (r *Report) print(out io.Writer) {
	fmt.Fprintf(out, "%s\n%s, %.0f s; medians, quartiles in brackets\n", r.Machine, r.Command,
		r.Seconds)
	last := ""
	for _, series := range r.Series {
		if series.Load != last {
			fmt.Fprintf(out, "\n%s\n%-22s %14s %22s %20s %9s %9s %7s\n", series.Load, "",
				"operations/s", "CPU us per operation", "user + system", "p50 us", "p99 us",
				"hits %")
			last = series.Load
		}
		total := series.spread(Sample.TotalUs)
		median := func(figure func(Sample) float64) float64 { return series.spread(figure).median }
		fmt.Fprintf(out, "%-22s %14.0f %8.3f [%.3f-%.3f] %9.3f + %7.3f %9.0f %9.0f %7.1f\n",
			series.Server,
			median(func(s Sample) float64 { return float64(s.Operations) / s.Seconds }),
			total.median, total.low, total.high,
			median(func(s Sample) float64 { return s.UserUs }),
			median(func(s Sample) float64 { return s.SystemUs }),
			median(func(s Sample) float64 { return s.P50us }),
			median(func(s Sample) float64 { return s.P99us }),
			median(Sample.hitPercentage))
	}
	fmt.Fprintln(out)
	for _, figure := range r.Figures {
		fmt.Fprintf(out, "%-48s %-22s %10.1f\n", figure.Name, figure.Server, figure.Value)
	}
	fmt.Fprintf(out, "\n%-66s %8s %8s %19s  %s\n", "budget", "limit", "figure", "quartiles",
		"verdict")
	for _, verdict := range r.Verdicts {
		word := "met"
		switch {
		case verdict.Told:
			word = "told, not judged"
		case !verdict.Met:
			word = "MISSED"
		}
		fmt.Fprintf(out, "%-66s %8.2f %8.3f   [%.3f-%.3f]  %s\n", verdict.Budget, verdict.Limit,
			verdict.Value, verdict.Low, verdict.High, word)
	}
	if r.Void != "" {
		fmt.Fprintln(out, "\nVOID:", r.Void)
	}
}

// describeMachine names what the figures depend on.
func describeMachine() string {
	model := "unknown CPU"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for _, line := range strings.Split(string(text), "\n") {
			if name, value, found := strings.Cut(line, ":"); found &&
				strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
			}
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	load, _ := os.ReadFile("/proc/loadavg")
	parts := []string{fmt.Sprintf("%s, %d CPUs, Linux %s, load average %s", model, runtime.NumCPU(),
		strings.TrimSpace(string(kernel)), strings.TrimSpace(string(load)))}
	for _, kind := range []instance.Kind{instance.Subject, instance.Valkey, instance.Redis} {
		version, _ := exec.Command(instance.Binary(kind), "--version").Output()
		parts = append(parts, fmt.Sprintf("%s: %s", kind, strings.TrimSpace(string(version))))
	}
	return strings.Join(parts, "\n")
}
