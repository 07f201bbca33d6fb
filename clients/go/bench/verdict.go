package main

import (
	"fmt"
	"strings"
)

// judge compares with the targets of the project and prints one verdict each; false when one is missed.
func (c *campaign) judge() bool {
	met := true
	say := func(name string, figure, limit float64, above bool) {
		good := figure <= limit
		if above {
			good = figure >= limit
		}
		word := map[bool]string{true: "met", false: "MISSED"}[good]
		met = met && good
		fmt.Printf("%-34s target %8.2f  figure %8.2f  %s\n", name, limit, figure, word)
	}
	ours := func(l string, figure func(figures) float64) float64 { return c.median("tidemill", l, figure) }
	for _, target := range []struct {
		load   string
		factor float64
	}{{"closed:1", 0.97}, {"closed:16", 1.3}, {"closed:64", 1}, {"closed:256", 1}, {"closed:1024", 1}} {
		say(target.load+" k/s, x best peer", ours(target.load, rate), target.factor*c.best(target.load, rate, true, ""), true)
	}
	mean := func(f figures) float64 { return f.MeanUs }
	say("rate:20000 mean us", ours("rate:20000", mean), 100, false)
	say("rate:80000 mean us", ours("rate:80000", mean), 100, false)
	say("rate:320000 mean us", ours("rate:320000", mean), 150, false)
	say("rate:20000 server us, no pause x 0.6", ours("rate:20000", serverUs), 0.6*c.best("rate:20000", serverUs, false, "us"), false)
	say("rate:80000 server us, rueidis-100us", ours("rate:80000", serverUs), c.median("rueidis-100us", "rate:80000", serverUs), false)
	say("rate:320000 server us, lowest", ours("rate:320000", serverUs), c.best("rate:320000", serverUs, false, ""), false)
	say("rate:80000 allocations", ours("rate:80000", func(f figures) float64 { return f.Allocs }), 1, false)
	return met
}

// best is the best median of the peers; those whose name contains without, or that gather by waiting
// when without is given, are left out.
func (c *campaign) best(l string, figure func(figures) float64, highest bool, without string) (best float64) {
	for _, name := range c.peers {
		if name == "tidemill" || (without != "" && (strings.Contains(name, without) || strings.HasSuffix(name, "auto"))) {
			continue
		}
		value := c.median(name, l, figure)
		if value > 0 && (best == 0 || (value > best) == highest) {
			best = value
		}
	}
	return best
}
