package main

import (
	"fmt"
	"math"
	"strings"
)

// judge compares with the targets of the project and prints one verdict each; false when one is
// missed.
func (t *table) judge() bool {
	fmt.Printf("\n%-46s %9s %9s\n", "target", "limit", "figure")
	met := true
	say := func(name string, figure, limit float64, above bool) {
		figure, limit = math.Round(figure*100)/100, math.Round(limit*100)/100
		good := figure <= limit
		if above {
			good = figure >= limit
		}
		good = good && figure > 0 && limit > 0 // nothing is met by what was not measured
		met = met && good
		fmt.Printf("%-46s %9.2f %9.2f  %s\n", name, limit, figure,
			map[bool]string{true: "met", false: "MISSED"}[good])
	}
	ours := func(l string, figure func(figures) float64) float64 {
		return t.median("tidemill", l, figure)
	}
	for _, target := range []struct {
		load   string
		factor float64
	}{{"closed:1", 0.97}, {"closed:16", 1.3}, {"closed:64", 1}, {"closed:256", 1},
		{"closed:1024", 1}} {
		best, who := t.best(target.load, rate, true, everybody)
		say(fmt.Sprintf("%s k/s >= %.4g x %s", target.load, target.factor, who),
			ours(target.load, rate), target.factor*best, true)
	}
	for _, target := range []struct {
		load  string
		limit float64
	}{{"rate:20000", 100}, {"rate:80000", 100}, {"rate:320000", 150}} {
		say(target.load+" mean us", ours(target.load, meanUs), target.limit, false)
	}
	best, who := t.best("rate:20000", serverUs, false, withoutPause)
	say("rate:20000 server us <= 0.6 x "+who, ours("rate:20000", serverUs), 0.6*best, false)
	say("rate:80000 server us <= rueidis-100us", ours("rate:80000", serverUs),
		t.median("rueidis-100us", "rate:80000", serverUs), false)
	best, who = t.best("rate:320000", serverUs, false, everybody)
	say("rate:320000 server us <= "+who, ours("rate:320000", serverUs), best, false)
	for _, l := range []string{"rate:20000", "rate:80000", "rate:320000", "closed:64",
		"closed:1024"} {
		say(l+" allocations per operation", ours(l, allocs), 1, false)
	}
	return met
}

func everybody(string) bool { return true }

// withoutPause leaves out who gathers by waiting.
func withoutPause(name string) bool {
	return !strings.HasSuffix(name, "us") && !strings.HasSuffix(name, "auto")
}

// best is the best median among the peers that which selects, and whose it is.
func (t *table) best(
	l string, figure func(figures) float64, highest bool, which func(name string) bool,
) (best float64, who string) {
	for _, name := range t.Peers {
		if name == "tidemill" || !which(name) {
			continue
		}
		value := t.median(name, l, figure)
		if value > 0 && (best == 0 || (value > best) == highest) {
			best, who = value, name
		}
	}
	return best, who
}
