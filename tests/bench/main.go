// Command bench measures the server beside Valkey, redis-server and a floor, and judges the budgets
// of the design.
//
//	bench --budget [--quick] [--json FILE]    the budgets: figure, verdict, exit status 1 on a
//	                                          miss
//	bench [--quick] [--json FILE]             the same figures with more repetitions, two workers
//	                                          and large values
//	bench --parts NAME,... [--quick]          one or some of: small, memory, idle, cores, large,
//	                                          collections, scripts, fairness, types,
//	                                          persistence, removals, services
//
// All servers run at once and are measured in turns, in an order that rotates, so that what
// disturbs the machine disturbs all of them; ratios are taken within one turn and their median
// counts. Servers run on CPU 0, the load on CPU 1. Figures are CPU time of the server process per
// operation, from /proc, because on a shared machine wall time belongs to the neighbours. Exit
// status 3 says that the run is void: the floor was too close to Valkey, so little is left of both
// to compare.
//
// The load comes from native/load.c, open loops from native/open_loop.c, and the floor is
// native/floor.c.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"tidemill/tests/internal/instance"
)

// Exit statuses.
const (
	exitMissed = 1
	exitFailed = 2
	exitVoid   = 3
)

var (
	budgetOnly = flag.Bool("budget", false, "judge the budgets")
	quick      = flag.Bool("quick", false,
		"short runs: shows that everything works, says little about speed")
	partList = flag.String("parts", "",
		"what to measure, with commas between; without it small, memory, idle, cores and "+
			"large")
	offenceOf = flag.String("offend", "",
		"be the client that a server must protect others from; used by the part fairness")
	loadWords = flag.String("loads", "",
		"with --parts services or types: words with commas between; only loads whose names, those "+
			"of types with their sizes, contain one of them")
	address  = flag.String("address", "", "with --offend: the server's address")
	jsonPath = flag.String("json", "",
		"where to write all figures; default build/bench/<mode>.json")
)

// settings are the lengths of the run.
type settings struct {
	Rounds int
	// PartRounds are those of the parts that are measured by name.
	PartRounds      int
	Seconds         float64
	KeyCount        int
	ConnectionCount int
}

func chosenSettings() settings {
	switch {
	case *quick:
		return settings{
			Rounds: 3, PartRounds: 1, Seconds: 0.5, KeyCount: 100_000, ConnectionCount: 1_000,
		}
	case *budgetOnly:
		return settings{
			Rounds: 7, PartRounds: 5, Seconds: 2, KeyCount: 1_000_000, ConnectionCount: 15_000,
		}
	}
	return settings{
		Rounds: 15, PartRounds: 5, Seconds: 4, KeyCount: 1_000_000, ConnectionCount: 15_000,
	}
}

func main() {
	flag.Parse()
	if *offenceOf != "" {
		if err := offend(*offenceOf, *address); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(exitFailed)
		}
		return
	}
	report, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(exitFailed)
	}
	path := *jsonPath
	if path == "" {
		path = filepath.Join(buildDirectory(), reportName()+".json")
	}
	if err := writeJSON(path, report); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(exitFailed)
	}
	report.print(os.Stdout)
	fmt.Println("figures:", path)
	switch {
	case report.Void != "":
		os.Exit(exitVoid)
	case report.missed():
		os.Exit(exitMissed)
	}
}

func run() (*Report, error) {
	if runtime.NumCPU() < 2 {
		return nil, fmt.Errorf("needs two CPUs, one for the server and one for the load")
	}
	if err := buildNative(); err != nil {
		return nil, err
	}
	chosen := chosenSettings()
	report := &Report{Machine: describeMachine(), Command: fmt.Sprint(os.Args), Settings: chosen}
	started := time.Now()
	for _, name := range partNames() {
		measure, known := parts[name]
		if !known {
			return nil, fmt.Errorf("no part %q", name)
		}
		if err := measure(report, chosen); err != nil {
			return nil, err
		}
	}
	report.Seconds = time.Since(started).Seconds()
	report.judge()
	return report, nil
}

// parts are what can be measured, by name.
var parts = map[string]func(*Report, settings) error{
	"small":       measureSmallValues,
	"memory":      measureKeyMemory,
	"idle":        measureIdleConnections,
	"cores":       measureTwoCores,
	"large":       measureLargeValues,
	"collections": measureCollections,
	"scripts":     measureScripts,
	"fairness":    measureFairness,
	"types":       measureTypes,
	"persistence": measurePersistence,
	"removals":    measureRemovals,
	"services":    measureServices,
}

func partNames() []string {
	switch {
	case *partList != "":
		return strings.Split(*partList, ",")
	case *budgetOnly:
		return []string{"small", "memory", "idle"}
	}
	return []string{"small", "memory", "idle", "cores", "large"}
}

func reportName() string {
	switch {
	case *partList != "":
		return strings.ReplaceAll(*partList, ",", "-")
	case *budgetOnly:
		return "budget"
	}
	return "bench"
}

func buildDirectory() string { return filepath.Join(instance.Root(), "build", "bench") }

func buildNative() error {
	if err := os.MkdirAll(buildDirectory(), 0o755); err != nil {
		return err
	}
	for _, name := range []string{"floor", "load", "open_loop"} {
		source := filepath.Join(instance.Root(), "tests", "bench", "native", name+".c")
		output, err := exec.Command("cc", "-O3", "-Wall", "-o",
			filepath.Join(buildDirectory(), name), source).CombinedOutput()
		if err != nil {
			return fmt.Errorf("cc %s: %w\n%s", source, err, output)
		}
	}
	return nil
}

func writeJSON(path string, report *Report) error {
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
