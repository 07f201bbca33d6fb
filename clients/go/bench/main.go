// Command bench measures the Tidemill client beside its peers: a fresh process per measurement,
// peers and loads interleaved, server pinned to CPU 0 and clients to CPU 1 when there are two.
//
//	go run . -verdict                      # all tables, targets, verdicts; -brief: fewer rounds
//	go run . -peers tidemill,rueidis -loads rate:20000,closed:64 -rounds 3
//	go run . -size 10240 -rtt 1ms          # 10 KB values, through a proxy that delays
//	go run . -plot ../../../docs/benchmarks/data/go-client.json -folder ../docs
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
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
	loadList := flag.String("loads",
		"rate:20000,rate:80000,rate:320000,closed:1,closed:16,closed:64,closed:256,closed:1024",
		"loads")
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
	verdict := flag.Bool("verdict", false,
		"all tables, targets and verdicts; takes its rounds, loads and peers from the plan")
	brief := flag.Bool("brief", false, "with -verdict: fewer rounds")
	flag.Parse()
	switch {
	case *child != "":
		if err := runChild(*child, *address, *loadList, *pid, *duration, *size); err != nil {
			log.Fatal(err)
		}
		return
	case *proxy != "":
		log.Fatal(runProxy(*proxy, *rtt))
	case *plotFile != "":
		if err := drawPlots(*plotFile, *folder); err != nil {
			log.Fatal(err)
		}
		return
	}
	tables := []*table{{Name: "measured", Processors: *processors, Size: *size, RTT: *rtt,
		Rounds: *rounds, Duration: *duration,
		Peers: split(*peerList), Loads: strings.Split(*loadList, ",")}}
	if *verdict {
		tables = plan(*duration, *brief)
	}
	if !measureAll(tables, *address, *save, *verdict, *verbose) {
		os.Exit(1)
	}
}

// measureAll fills, prints and saves one table after the other; false when a target was missed.
func measureAll(tables []*table, address, save string, verdict, verbose bool) bool {
	s := startServer(address)
	defer s.stop()
	fmt.Println(machine())
	fmt.Println(estimate(tables))
	for i, t := range tables {
		started := time.Now()
		s.measure(t)
		fmt.Printf("\n%s; GOMAXPROCS=%d, medians of %d rounds of %v, took %v\n", t.Name,
			t.Processors, t.Rounds, t.Duration,
			time.Since(started).Round(time.Second))
		t.print(verdict, verbose)
		if verdict && i == 0 {
			t.judge() // again at the end; here for those who do not wait
		}
		if save != "" {
			if err := saveTables(save, tables[:i+1]); err != nil {
				log.Print(err)
			}
		}
	}
	return !verdict || tables[0].judge()
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
