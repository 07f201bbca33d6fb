package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// saved is a campaign as a file, from which plots can be drawn again.
type saved struct {
	Machine  string
	Command  string
	Duration time.Duration
	Rounds   int
	Peers    []string
	Loads    []string
	Results  map[string][]figures
}

func (c *campaign) save(path string) error {
	data, err := json.MarshalIndent(saved{
		Machine: fmt.Sprintf("%s, %s, %d CPUs, GOMAXPROCS=%d", runtime.Version(), runtime.GOARCH, runtime.NumCPU(), c.processors),
		Command: strings.Join(os.Args[1:], " "), Duration: c.duration, Rounds: c.rounds,
		Peers: c.peers, Loads: c.loads, Results: c.results,
	}, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// chart is one plot: a figure over the loads of one kind.
type chart struct {
	file, title, y string
	kind           string // of loads: "rate" or "closed"
	figure         func(figures) float64
}

var charts = []chart{
	{"latency.svg", "Mean latency at a total rate of requests", "microseconds", "rate", func(f figures) float64 { return f.MeanUs }},
	{"server-cpu.svg", "CPU time of the server per operation", "microseconds", "rate", serverUs},
	{"client-cpu.svg", "CPU time of the client per operation", "microseconds", "rate", clientUs},
	{"closed.svg", "Throughput of a closed loop", "thousand operations per second", "closed", rate},
}

// drawPlots reads what save wrote and writes a chart per figure into a folder.
func drawPlots(path, folder string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s saved
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	c := &campaign{peers: s.Peers, loads: s.Loads, results: s.Results}
	for _, ch := range charts {
		p, err := c.draw(ch, s)
		if err == nil && p != nil {
			err = p.Save(18*vg.Centimeter, 11*vg.Centimeter, filepath.Join(folder, ch.file))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// draw returns nil when the campaign has no loads of the chart's kind.
func (c *campaign) draw(ch chart, s saved) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s\n%s; medians of %d rounds of %v", ch.title, s.Machine, s.Rounds, s.Duration)
	p.X.Label.Text = map[string]string{"rate": "requests per second", "closed": "goroutines"}[ch.kind]
	p.Y.Label.Text = ch.y
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Legend.Top = true
	var lines []any
	for _, name := range c.peers {
		var points plotter.XYs
		for _, text := range c.loads {
			l, err := parseLoad(text)
			if err != nil {
				return nil, err
			}
			if value := c.median(name, text, ch.figure); l.open == (ch.kind == "rate") && value > 0 {
				points = append(points, plotter.XY{X: float64(l.number), Y: value})
			}
		}
		slices.SortFunc(points, func(a, b plotter.XY) int { return int(a.X - b.X) })
		if len(points) > 0 {
			lines = append(lines, name, points)
		}
	}
	if len(lines) == 0 {
		return nil, nil
	}
	return p, plotutil.AddLinePoints(p, lines...)
}
