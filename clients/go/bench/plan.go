package main

import (
	"fmt"
	"time"
)

// table is one set of interleaved measurements under the same circumstances.
type table struct {
	Name       string
	Processors int           // GOMAXPROCS; the client is pinned only when it is 1
	Size       int           // of values, bytes; 0: 16 to 48
	RTT        time.Duration // that a proxy adds
	Rounds     int
	Duration   time.Duration
	Peers      []string
	Loads      []string
	Results    map[string][]figures // by peer and load
}

var (
	rateLoads = []string{"rate:5000", "rate:10000", "rate:20000", "rate:40000", "rate:80000",
		"rate:160000", "rate:320000", "rate:640000"}
	closedLoads = []string{"closed:1", "closed:16", "closed:64", "closed:256", "closed:1024"}
	someLoads   = append([]string{"rate:20000", "rate:80000", "rate:320000"}, closedLoads...)
)

// plan lists all tables. The first has the targets; the others are reported.
func plan(duration time.Duration, brief bool) []*table {
	judged, reported := 5, 3
	if brief {
		judged, reported = 3, 1
	}
	all := append(append([]string(nil), rateLoads...), closedLoads...)
	tables := []*table{
		{Name: "small values", Processors: 1, Loads: all, Rounds: judged},
		{Name: "small values, two processors for the client, one of them the server's",
			Processors: 2, Loads: all, Rounds: reported},
		{Name: "values of 768 bytes", Processors: 1, Size: 768, Loads: someLoads, Rounds: reported},
		{Name: "values of 10 KB", Processors: 1, Size: 10 << 10, Loads: someLoads,
			Rounds: reported},
		{Name: "round-trip time 0.2 ms longer", Processors: 1, RTT: 200 * time.Microsecond,
			Loads: someLoads, Rounds: reported},
		{Name: "round-trip time 1 ms longer", Processors: 1, RTT: time.Millisecond,
			Loads: someLoads, Rounds: reported},
	}
	for _, t := range tables {
		t.Duration, t.Peers = duration, split("all")
	}
	return tables
}

// estimate says how long the tables take.
func estimate(tables []*table) string {
	count, length := 0, time.Duration(0)
	for _, t := range tables {
		n := len(t.Peers) * len(t.Loads) * t.Rounds
		count += n
		length += time.Duration(n) * (t.Duration + t.Duration/warmUpShare + processOverhead)
	}
	return fmt.Sprintf("%d measurements, about %v", count, length.Round(time.Minute/6))
}

const (
	// warmUpShare: before each measurement the load runs for this part of its length.
	warmUpShare = 3
	// processOverhead is what starting and ending a process takes.
	processOverhead = 250 * time.Millisecond
)
