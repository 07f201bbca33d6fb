package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// saved is what was measured as a file, from which plots can be drawn again.
type saved struct {
	Machine string
	Command string
	Tables  []*table
}

func saveTables(path string, tables []*table) error {
	data, err := json.Marshal(saved{machine(), strings.Join(os.Args[1:], " "), tables})
	if err != nil {
		return err
	}
	// One line per client and load: a search in the repository finds lines, not the whole run.
	data = bytes.ReplaceAll(data, []byte(`],"`), []byte("],\n\""))
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
		if err := s.Tables[0].draw(ch, s.Machine, filepath.Join(folder, ch.file)); err != nil {
			return err
		}
	}
	return nil
}

const (
	chartWidth, chartHeight = 22 * vg.Centimeter, 12 * vg.Centimeter
	legendWidth             = 4 * vg.Centimeter
	chartMargin             = 3 * vg.Millimeter
)

// draw writes one chart with its legend beside it; nothing when the table has no loads of the
// chart's kind.
func (t *table) draw(ch chart, machine, path string) error {
	p, legend := plot.New(), plot.NewLegend()
	p.Title.Text = fmt.Sprintf("%s\n%s, GOMAXPROCS=%d; medians of %d rounds of %v", ch.title,
		machine, t.Processors, t.Rounds, t.Duration)
	p.X.Label.Text = map[string]string{
		"rate": "requests per second", "closed": "goroutines",
	}[ch.kind]
	p.Y.Label.Text = ch.y
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid())
	drawn := 0
	for i, name := range t.Peers {
		points, err := t.points(ch, name)
		if err != nil {
			return err
		}
		if len(points) == 0 {
			continue
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Color, line.Dashes, line.Width = plotutil.DarkColors[i%len(plotutil.DarkColors)],
			plotutil.Dashes(i), vg.Points(1)
		if name == "tidemill" {
			line.Color, line.Dashes, line.Width = color.Black, nil, vg.Points(2.5)
		}
		marks.Color, marks.Shape = line.Color, plotutil.Shape(i)
		p.Add(line, marks)
		legend.Add(name, line, marks)
		drawn++
	}
	if drawn == 0 {
		return nil
	}
	canvas := vgsvg.New(chartWidth, chartHeight)
	paper := draw.New(canvas)
	paper.FillPolygon(color.White, []vg.Point{
		{}, {X: chartWidth}, {X: chartWidth, Y: chartHeight}, {Y: chartHeight},
	})
	whole := draw.Crop(paper, chartMargin, -chartMargin, chartMargin, -chartMargin)
	p.Draw(draw.Crop(whole, 0, -legendWidth, 0, 0))
	legend.Top, legend.Left, legend.Padding = true, true, vg.Millimeter
	legend.Draw(draw.Crop(whole, whole.Size().X-legendWidth+chartMargin, 0, 0, -1.5*vg.Centimeter))
	var image bytes.Buffer
	if _, err := canvas.WriteTo(&image); err != nil {
		return err
	}
	return os.WriteFile(path, image.Bytes(), 0o644)
}

// points are one client's medians by load.
func (t *table) points(ch chart, name string) (points plotter.XYs, err error) {
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
	return points, nil
}
