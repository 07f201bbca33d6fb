package main

import (
	"fmt"
	"runtime"
	"strings"
)

func machine() string {
	return fmt.Sprintf("%s, %s, %d CPUs", runtime.Version(), runtime.GOARCH, runtime.NumCPU())
}

// print writes the table: one grid per figure, or one line per measurement.
func (t *table) print(grids, verbose bool) {
	if !grids {
		t.printLines(verbose)
		return
	}
	for _, g := range []struct {
		title, kind string
		figure      func(figures) float64
		decimals    int
	}{
		{"server CPU, per cent", "rate", serverShare, 0},
		{"server CPU, us per operation", "rate", serverUs, 2},
		{"client CPU, us per operation", "rate", clientUs, 2},
		{"mean latency, us", "rate", meanUs, 0},
		{"p99 latency, us", "rate", p99Us, 0},
		{"reached, thousand per second", "rate", rate, 1},
		{"thousand operations per second", "closed", rate, 1},
		{"server CPU, us per operation", "closed", serverUs, 2},
		{"mean latency, us", "closed", meanUs, 0},
		{"allocations per operation", "rate", allocs, 2},
		{"allocations per operation", "closed", allocs, 2},
	} {
		t.printGrid(g.title, g.kind, g.figure, g.decimals)
	}
	t.printErrors()
}

// printGrid writes peers as rows and loads of one kind as columns.
func (t *table) printGrid(title, kind string, figure func(figures) float64, decimals int) {
	var loads []string
	header := ""
	for _, l := range t.Loads {
		if name, number, _ := strings.Cut(l, ":"); name == kind {
			loads = append(loads, l)
			header += fmt.Sprintf(" %9s", strings.TrimSuffix(number, "000")+map[bool]string{
				true: "k",
			}[strings.HasSuffix(number, "000")])
		}
	}
	if len(loads) == 0 {
		return
	}
	fmt.Printf("\n%-34s%s\n", title+" at "+kind, header)
	for _, name := range t.Peers {
		fmt.Printf("  %-32s", name)
		for _, l := range loads {
			fmt.Printf(" %9.*f", decimals, t.median(name, l, figure))
		}
		fmt.Println()
	}
}

func (t *table) printErrors() {
	for _, l := range t.Loads {
		for _, name := range t.Peers {
			for _, result := range t.Results[name+" "+l] {
				if result.Errors > 0 {
					fmt.Printf("%s %s: %d errors\n", name, l, result.Errors)
				}
			}
		}
	}
}

func (t *table) printLines(verbose bool) {
	fmt.Printf("%-14s %-18s %8s %9s %9s %9s %9s %7s %7s\n", "load", "client", "k/s", "server us",
		"client us", "mean us", "p99 us", "allocs", "bytes")
	for _, l := range t.Loads {
		for _, name := range t.Peers {
			m := func(figure func(figures) float64) float64 { return t.median(name, l, figure) }
			fmt.Printf("%-14s %-18s %8.1f %9.2f %9.2f %9.1f %9.1f %7.2f %7.0f\n", l, name, m(rate),
				m(serverUs), m(clientUs),
				m(meanUs), m(p99Us), m(allocs), m(func(f figures) float64 { return f.AllocBytes }))
			if results := t.Results[name+" "+l]; verbose && len(results) > 0 &&
				results[0].Stats != "" {
				fmt.Println("   ", results[0].Stats)
			}
		}
	}
	t.printErrors()
}
