// Command bench measures the Tidemill client beside its peers: a fresh process per measurement, peers
// and loads interleaved, server pinned to CPU 0 and clients to CPU 1 when there are two.
//
//	go run . -peers tidemill,rueidis -loads rate:20000,closed:64 -rounds 3
//	go run . -size 10240 -rtt 1ms          # 10 KB values, through a proxy that delays
//	go run . -peers all -save run.json     # keep the figures
//	go run . -plot run.json -folder ../docs
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	child := flag.String("child", "", "internal: measure this peer and print JSON")
	address := flag.String("address", "", "a running server; started when empty")
	pid := flag.Int("pid", 0, "internal: process of the server")
	peerList := flag.String("peers", "tidemill,rueidis,rueidis-100us", "peers, or all")
	loadList := flag.String("loads", "rate:20000,rate:80000,rate:320000,closed:1,closed:16,closed:64,closed:256,closed:1024", "loads")
	rounds := flag.Int("rounds", 3, "rounds; medians are printed")
	duration := flag.Duration("duration", 800*time.Millisecond, "length of one measurement")
	processors := flag.Int("gomaxprocs", 1, "GOMAXPROCS of the measured process")
	size := flag.Int("size", 0, "value bytes; 0: 16 to 48")
	verbose := flag.Bool("v", false, "print the client's statistics")
	rtt := flag.Duration("rtt", 0, "round-trip time that a proxy adds")
	proxy := flag.String("proxy", "", "internal: delay what goes to this address")
	save := flag.String("save", "", "write the figures to this file")
	plotFile := flag.String("plot", "", "draw charts from a file that -save wrote, measure nothing")
	folder := flag.String("folder", ".", "where -plot writes")
	verdict := flag.Bool("verdict", false, "all peers and loads, targets and verdicts")
	flag.Parse()
	if *child != "" {
		if err := runChild(*child, *address, *loadList, *pid, *duration, *size); err != nil {
			log.Fatal(err)
		}
		return
	}
	if *proxy != "" {
		log.Fatal(runProxy(*proxy, *rtt))
	}
	if *plotFile != "" {
		if err := drawPlots(*plotFile, *folder); err != nil {
			log.Fatal(err)
		}
		return
	}
	run := &campaign{duration: *duration, rounds: *rounds, processors: *processors, size: *size, verbose: *verbose}
	run.peers, run.loads = split(*peerList), strings.Split(*loadList, ",")
	if *verdict {
		run.peers = split("all")
	}
	stop := run.startServer(*address)
	defer stop()
	stopProxy := run.startProxy(*rtt)
	run.measure()
	stopProxy()
	run.print()
	if *save != "" {
		if err := run.save(*save); err != nil {
			log.Print(err)
		}
	}
	if !*verdict {
		return
	}
	met := run.judge()
	run.reportElsewhere()
	if !met {
		stop()
		os.Exit(1)
	}
}

// reportElsewhere measures what has no target: larger values, and servers that are further away.
func (c *campaign) reportElsewhere() {
	direct := c.address
	for _, place := range []struct {
		size int
		rtt  time.Duration
	}{{768, 0}, {10 << 10, 0}, {0, 200 * time.Microsecond}, {0, time.Millisecond}} {
		fmt.Printf("\nvalues of %d bytes (0: 16 to 48), round-trip time %v more:\n", place.size, place.rtt)
		c.size, c.address = place.size, direct
		c.fill()
		stop := c.startProxy(place.rtt)
		c.measure()
		stop()
		c.print()
	}
}

// startProxy puts a delaying proxy before the server.
func (c *campaign) startProxy(rtt time.Duration) (stop func()) {
	if rtt <= 0 {
		return func() {}
	}
	command := exec.Command(os.Args[0], "-proxy", c.address, "-rtt", rtt.String())
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		log.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	if err := command.Start(); err != nil {
		log.Fatal(err)
	}
	direct := c.address
	if _, err := fmt.Fscanln(output, &c.address); err != nil {
		log.Fatal("the proxy did not start: ", err)
	}
	return func() {
		_ = input.Close()
		_ = command.Wait()
		c.address = direct
	}
}

func split(list string) []string {
	if list != "all" {
		return strings.Split(list, ",")
	}
	var names []string
	for name := range peers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// campaign is one set of interleaved measurements.
type campaign struct {
	peers, loads []string
	duration     time.Duration
	rounds       int
	processors   int
	size         int
	verbose      bool
	address      string
	pid          int
	results      map[string][]figures // by peer and load
}

func pinned(cpu string, command ...string) []string {
	if _, err := exec.LookPath("taskset"); err != nil || runtime.NumCPU() < 2 {
		return command
	}
	return append([]string{"taskset", "-c", cpu}, command...)
}

func (c *campaign) startServer(address string) (stop func()) {
	if address != "" {
		c.address = address
		return func() {}
	}
	binary, err := exec.LookPath("valkey-server")
	if err != nil {
		log.Fatal("valkey-server is not in PATH; run make setup")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	line := pinned("0", binary, "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "", "--loglevel", "warning")
	command := exec.Command(line[0], line[1:]...)
	if err := command.Start(); err != nil {
		log.Fatal(err)
	}
	c.address, c.pid = fmt.Sprintf("127.0.0.1:%d", port), command.Process.Pid
	for range 500 {
		if conn, err := net.Dial("tcp", c.address); err == nil {
			conn.Close()
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.fill()
	return func() { _ = command.Process.Kill(); _ = command.Wait() }
}

func (c *campaign) fill() {
	p, err := openTidemill(c.address, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer p.close()
	length := 32
	if c.size > 0 {
		length = c.size
	}
	for _, key := range keys {
		if err := p.set(key, filler[:length]); err != nil {
			log.Fatal(err)
		}
	}
}

func (c *campaign) measure() {
	c.results = map[string][]figures{}
	for range c.rounds {
		for _, l := range c.loads {
			for _, name := range c.peers {
				line := pinned("1", os.Args[0], "-child", name, "-address", c.address, "-pid", fmt.Sprint(c.pid),
					"-loads", l, "-duration", c.duration.String(), "-size", fmt.Sprint(c.size))
				if c.processors > 1 {
					line = line[max(0, len(line)-13):]
				}
				command := exec.Command(line[0], line[1:]...)
				command.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", c.processors))
				command.Stderr = os.Stderr
				output, err := command.Output()
				var result figures
				if err == nil {
					err = json.Unmarshal(output, &result)
				}
				if err != nil {
					log.Printf("%s %s: %v", name, l, err)
					continue
				}
				c.results[name+" "+l] = append(c.results[name+" "+l], result)
			}
		}
	}
}

// median of one figure over the rounds.
func (c *campaign) median(name, l string, figure func(figures) float64) float64 {
	var values []float64
	for _, result := range c.results[name+" "+l] {
		values = append(values, figure(result))
	}
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func rate(f figures) float64     { return float64(f.Operations) / f.Seconds / 1000 }
func serverUs(f figures) float64 { return f.ServerNs / 1000 / float64(max(f.Operations, 1)) }
func clientUs(f figures) float64 { return f.ClientNs / 1000 / float64(max(f.Operations, 1)) }

func (c *campaign) print() {
	fmt.Printf("%s, %s, %d CPUs, GOMAXPROCS=%d, %d rounds of %v, medians\n", runtime.Version(), runtime.GOARCH, runtime.NumCPU(), c.processors, c.rounds, c.duration)
	fmt.Printf("%-14s %-18s %8s %9s %9s %9s %9s %7s %7s\n", "load", "client", "k/s", "server us", "client us", "mean us", "p99 us", "allocs", "bytes")
	for _, l := range c.loads {
		for _, name := range c.peers {
			m := func(figure func(figures) float64) float64 { return c.median(name, l, figure) }
			fmt.Printf("%-14s %-18s %8.1f %9.2f %9.2f %9.1f %9.1f %7.2f %7.0f\n", l, name, m(rate), m(serverUs), m(clientUs),
				m(func(f figures) float64 { return f.MeanUs }), m(func(f figures) float64 { return f.P99Us }),
				m(func(f figures) float64 { return f.Allocs }), m(func(f figures) float64 { return f.AllocBytes }))
			if results := c.results[name+" "+l]; len(results) > 0 {
				if c.verbose && results[0].Stats != "" {
					fmt.Println("   ", results[0].Stats)
				}
				if failed := results[0].Errors; failed > 0 {
					fmt.Println("    errors:", failed)
				}
			}
		}
	}
}
