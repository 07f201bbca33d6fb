package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"
)

// server is what the clients talk to.
type server struct {
	address string
	pid     int
	stop    func()
}

// pinned runs a command on one CPU, where there is more than one.
func pinned(cpu string, command ...string) []string {
	if _, err := exec.LookPath("taskset"); err != nil || runtime.NumCPU() < 2 {
		return command
	}
	return append([]string{"taskset", "-c", cpu}, command...)
}

func startServer(address string) *server {
	if address != "" {
		return &server{address: address, stop: func() {}}
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
	line := pinned("0", binary, "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "",
		"--loglevel", "warning")
	command := exec.Command(line[0], line[1:]...)
	if err := command.Start(); err != nil {
		log.Fatal(err)
	}
	s := &server{address: fmt.Sprintf("127.0.0.1:%d", port), pid: command.Process.Pid}
	s.stop = func() { _ = command.Process.Kill(); _ = command.Wait() }
	for range 500 {
		if conn, err := net.Dial("tcp", s.address); err == nil {
			conn.Close()
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return s
}

// fill gives every key a value.
func (s *server) fill(size int) {
	p, err := openTidemill(s.address, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer p.close()
	if size == 0 {
		size = 32
	}
	for _, key := range keys {
		if err := p.set(key, filler[:size]); err != nil {
			log.Fatal(err)
		}
	}
}

// startProxy puts a delaying proxy before the server and returns its address.
func (s *server) startProxy(rtt time.Duration) (address string, stop func()) {
	if rtt <= 0 {
		return s.address, func() {}
	}
	command := exec.Command(os.Args[0], "-proxy", s.address, "-rtt", rtt.String())
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
	if _, err := fmt.Fscanln(output, &address); err != nil {
		log.Fatal("the proxy did not start: ", err)
	}
	return address, func() {
		_ = input.Close()
		_ = command.Wait()
	}
}

// measure fills a table.
func (s *server) measure(t *table) {
	s.fill(t.Size)
	address, stop := s.startProxy(t.RTT)
	defer stop()
	t.Results = map[string][]figures{}
	for range t.Rounds {
		for _, l := range t.Loads {
			for _, name := range t.Peers {
				result, err := s.measureOnce(t, address, name, l)
				if err != nil {
					log.Printf("%s %s: %v", name, l, err)
					continue
				}
				t.Results[name+" "+l] = append(t.Results[name+" "+l], result)
			}
		}
	}
}

func (s *server) measureOnce(t *table, address, name, l string) (result figures, err error) {
	line := []string{os.Args[0], "-child", name, "-address", address, "-pid", fmt.Sprint(s.pid),
		"-loads", l, "-duration", t.Duration.String(), "-size", fmt.Sprint(t.Size)}
	if t.Processors == 1 {
		line = pinned("1", line...)
	}
	command := exec.Command(line[0], line[1:]...)
	command.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", t.Processors))
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err == nil {
		err = json.Unmarshal(output, &result)
	}
	return result, err
}

// median of one figure over the rounds, 0 when there is none.
func (t *table) median(name, l string, figure func(figures) float64) float64 {
	var values []float64
	for _, result := range t.Results[name+" "+l] {
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
func meanUs(f figures) float64   { return f.MeanUs }
func p99Us(f figures) float64    { return f.P99Us }
func allocs(f figures) float64   { return f.Allocs }

// serverShare is the server's use of a CPU in per cent.
func serverShare(f figures) float64 { return f.ServerNs / f.Seconds / 1e7 }
