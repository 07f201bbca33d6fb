package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// saved is what was measured as a file, from which plots can be drawn again.
type saved struct {
	Machine string
	Command string
	Tables  []*table
}

func saveTables(path string, tables []*table) error {
	data, err := json.MarshalIndent(saved{machine(), strings.Join(os.Args[1:], " "), tables}, "", "\t")
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
	{"latency.svg", "Mean latency at a total rate of requests", "microseconds", "rate", meanUs},
	{"server-cpu.svg", "CPU time of the server per operation", "microseconds", "rate", serverUs},
	{"client-cpu.svg", "CPU time of the client per operation", "microseconds", "rate", clientUs},
	{"closed.svg", "Throughput of a closed loop", "thousand operations per second", "closed", rate},
}

// drawPlots reads what saveTables wrote and writes the charts of its first table into a folder.
func drawPlots(path, folder string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s saved
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if len(s.Tables) == 0 {
		return fmt.Errorf("%s holds no table", path)
	}
	for _, ch := range charts {
		p, err := s.Tables[0].draw(ch, s.Machine)
		if err == nil && p != nil {
			err = p.Save(18*vg.Centimeter, 11*vg.Centimeter, filepath.Join(folder, ch.file))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// draw returns nil when the table has no loads of the chart's kind.
func (t *table) draw(ch chart, machine string) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s\n%s, GOMAXPROCS=%d; medians of %d rounds of %v", ch.title, machine, t.Processors, t.Rounds, t.Duration)
	p.X.Label.Text = map[string]string{"rate": "requests per second", "closed": "goroutines"}[ch.kind]
	p.Y.Label.Text = ch.y
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Legend.Top = true
	var lines []any
	for _, name := range t.Peers {
		var points plotter.XYs
		for _, text := range t.Loads {
			l, err := parseLoad(text)
			if err != nil {
				return nil, err
			}
			if value := t.median(name, text, ch.figure); l.open == (ch.kind == "rate") && value > 0 {
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
