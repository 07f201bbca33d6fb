package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// Loads of the design.
const (
	smallKeyCount        = 100_000
	smallConnectionCount = 50
	largeKeyCount        = 4_000
	largeConnectionCount = 25
	largePipeline        = 100
	serverCPU            = "0"
	loadCPU              = "1"
)

// secondsMax bounds a run that is repeated for longer and longer.
const secondsMax = 60

// cpuTimeMin is what a server must have used in a run for /proc's clock of 10 ms to tell; otherwise
// it is repeated.
func cpuTimeMin() time.Duration {
	if *quick {
		return 20 * time.Millisecond
	}
	return 100 * time.Millisecond
}

var pipelines = []int{1, 16, 100}

// Sample is one run of the load against one server.
type Sample struct {
	Operations  int64   `json:"operations"`
	Seconds     float64 `json:"seconds"`
	Hits        int64   `json:"hits"`
	Misses      int64   `json:"misses"`
	Errors      int64   `json:"errors"`
	Bytes       int64   `json:"bytes_received"`
	P50us       float64 `json:"batch_p50_us"`
	P99us       float64 `json:"batch_p99_us"`
	P999us      float64 `json:"batch_p999_us"`
	UserUs      float64 `json:"server_user_us_per_operation"`
	SystemUs    float64 `json:"server_system_us_per_operation"`
	ServerShare float64 `json:"server_cpus_used"`
}

// TotalUs is the server's CPU time per operation.
func (s Sample) TotalUs() float64 { return s.UserUs + s.SystemUs }

// hitPercentage is the share of reads that found their key, in per cent.
func (s Sample) hitPercentage() float64 {
	return 100 * float64(s.Hits) / float64(max(1, s.Hits+s.Misses))
}

// load describes one run of native/load.c.
type load struct {
	connections, pipeline, keys int
	valueMin, valueMax          int
	seconds                     float64
	fill                        bool
	// requests names a file of requests that are sent instead of SET and GET.
	requests string
	// prelude names a file that each connection sends first; listen one that each listener sends,
	// which then reads messages.
	prelude, listen string
	listeners       int
	// sleeps lets the load sleep while it waits.
	sleeps bool
	cpus   string
}

func (l load) run(server *instance.Server) (Sample, error) {
	arguments := []string{
		"-c", l.cpus, filepath.Join(buildDirectory(), "load"),
		"--port", strconv.Itoa(server.Port), "--connections", strconv.Itoa(l.connections),
		"--pipeline", strconv.Itoa(l.pipeline), "--keys", strconv.Itoa(l.keys),
		"--value-min", strconv.Itoa(l.valueMin), "--value-max", strconv.Itoa(l.valueMax),
		"--seconds", strconv.FormatFloat(l.seconds, 'f', 3, 64),
		"--seed", strconv.FormatInt(time.Now().UnixNano(), 10),
	}
	if l.fill {
		arguments = append(arguments, "--fill")
	}
	if l.requests != "" {
		arguments = append(arguments, "--requests", l.requests)
	}
	if l.prelude != "" {
		arguments = append(arguments, "--prelude", l.prelude)
	}
	if l.listeners > 0 {
		arguments = append(arguments, "--listeners", strconv.Itoa(l.listeners), "--listen",
			l.listen)
	}
	if l.sleeps {
		arguments = append(arguments, "--sleep")
	}
	userBefore, systemBefore, err := instance.CPUTime(server.PID)
	if err != nil {
		return Sample{}, err
	}
	command := exec.Command("taskset", arguments...)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return Sample{}, fmt.Errorf("load on %s: %w", server.Kind, err)
	}
	userAfter, systemAfter, err := instance.CPUTime(server.PID)
	if err != nil {
		return Sample{}, err
	}
	var sample Sample
	if err := json.Unmarshal(output, &sample); err != nil {
		return Sample{}, fmt.Errorf("load printed %q: %w", output, err)
	}
	if sample.Operations == 0 || sample.Errors > 0 {
		return sample, fmt.Errorf("load on %s: %d operations, %d errors", server.Kind,
			sample.Operations, sample.Errors)
	}
	if spent := userAfter + systemAfter - userBefore - systemBefore; spent < cpuTimeMin() &&
		!l.fill {
		if l.seconds > secondsMax {
			return sample, fmt.Errorf("load on %s: %v of CPU time in %v s", server.Kind, spent,
				l.seconds)
		}
		// A busy machine gave the server too little for a clock of 10 ms.
		l.seconds *= 2
		return l.run(server)
	}
	perOperation := func(spent time.Duration) float64 {
		return float64(spent.Nanoseconds()) / 1000 / float64(sample.Operations)
	}
	sample.UserUs = perOperation(userAfter - userBefore)
	sample.SystemUs = perOperation(systemAfter - systemBefore)
	sample.ServerShare =
		(userAfter + systemAfter - userBefore - systemBefore).Seconds() / sample.Seconds
	return sample, nil
}

// contender is one way to start one server.
type contender struct {
	name       string
	kind       instance.Kind
	directives []string
	server     *instance.Server
	// requests is a file of requests that it gets instead of the load's, if there is one.
	requests string
}

// tidemillDirectives hold for Tidemill only; the placement is left to taskset so that all servers
// are pinned alike.
func tidemillDirectives(workers int) []string {
	if !instance.SubjectIsTidemill() {
		return nil
	}
	return []string{"--worker-threads", strconv.Itoa(workers), "--cpu-placement", "off"}
}

// withServers starts the contenders, runs the body and stops them.
func withServers(cpus string, contenders []contender, body func([]contender) error) error {
	directory, err := os.MkdirTemp(buildDirectory(), "servers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	for index := range contenders {
		c := &contenders[index]
		if c.server, err = instance.LaunchOn(cpus, c.kind, directory, c.directives...); err != nil {
			return fmt.Errorf("start %s: %w", c.name, err)
		}
		defer c.server.Stop()
	}
	return body(contenders)
}

// inTurns runs a load against every contender, round after round, and keeps the samples under a
// name.
func inTurns(report *Report, name string, rounds int, contenders []contender, shape load) error {
	for round := range rounds {
		for turn := range contenders {
			c := contenders[(round+turn)%len(contenders)]
			own := shape
			if c.requests != "" {
				own.requests = c.requests
			}
			sample, err := own.run(c.server)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			report.add(name, c.name, sample)
		}
	}
	return nil
}

// undecidedTimesMax bounds how often the rounds of a load are run whose verdict is close.
const undecidedTimesMax = 4

// inTurnsUntilDecided runs a load as inTurns does, and again while the limit lies between the
// quartiles of what is judged, undecidedTimesMax times at most. It returns that figure.
func inTurnsUntilDecided(
	report *Report, name string, rounds int, contenders []contender, shape load, limit float64,
	judged func() spread,
) (spread, error) {
	var figure spread
	for range undecidedTimesMax {
		if err := inTurns(report, name, rounds, contenders, shape); err != nil {
			return spread{}, err
		}
		figure = judged()
		if figure.decides(limit) {
			break
		}
	}
	return figure, nil
}

// judgeRatio runs a load on Tidemill and Valkey in turns until its CPU per operation relative to
// Valkey's is decided, and judges that.
func judgeRatio(
	report *Report, name string, rounds int, contenders []contender, shape load, limit float64,
) error {
	ratio, err := inTurnsUntilDecided(report, name, rounds, contenders, shape, limit,
		func() spread { return report.ratio(name, "tidemill", "valkey", Sample.TotalUs) })
	if err != nil {
		return err
	}
	report.verdict(name+": CPU per operation / Valkey's", limit, ratio)
	return nil
}

func measureSmallValues(report *Report, chosen settings) error {
	contenders := []contender{
		{name: "tidemill", kind: instance.Subject, directives: tidemillDirectives(1)},
		{name: "valkey", kind: instance.Valkey},
		{name: "redis", kind: instance.Redis},
		{name: "floor", kind: instance.Floor},
	}
	return withServers(serverCPU, contenders, func(contenders []contender) error {
		small := load{connections: smallConnectionCount, keys: smallKeyCount, valueMin: 32,
			valueMax: 32, seconds: chosen.Seconds, cpus: loadCPU}
		for _, c := range contenders {
			filling := small
			filling.fill, filling.pipeline = true, 100
			if _, err := filling.run(c.server); err != nil {
				return err
			}
		}
		for _, pipeline := range pipelines {
			small.pipeline = pipeline
			if err := inTurns(report, fmt.Sprint("pipeline ", pipeline), chosen.Rounds, contenders,
				small); err != nil {
				return err
			}
		}
		return nil
	})
}

// measureTwoCores lets servers and load share both CPUs; what counts is operations per second and
// CPU together.
func measureTwoCores(report *Report, chosen settings) error {
	contenders := []contender{
		{name: "tidemill, 2 workers", kind: instance.Subject, directives: tidemillDirectives(2)},
		{name: "valkey", kind: instance.Valkey},
		{name: "valkey, 2 io-threads", kind: instance.Valkey,
			directives: []string{"--io-threads", "2"}},
		{name: "redis", kind: instance.Redis},
	}
	return withServers("0,1", contenders, func(contenders []contender) error {
		for _, c := range contenders {
			filling := load{connections: smallConnectionCount, pipeline: 100, keys: smallKeyCount,
				valueMin: 32, valueMax: 32, fill: true, cpus: "0,1"}
			if _, err := filling.run(c.server); err != nil {
				return err
			}
		}
		for _, pipeline := range pipelines {
			shape := load{connections: smallConnectionCount, pipeline: pipeline,
				keys: smallKeyCount, valueMin: 32, valueMax: 32, seconds: chosen.Seconds,
				cpus: "0,1"}
			if err := inTurns(report, fmt.Sprint("two cores, pipeline ", pipeline),
				max(2, chosen.Rounds/3), contenders, shape); err != nil {
				return err
			}
		}
		return nil
	})
}

func measureLargeValues(report *Report, chosen settings) error {
	contenders := []contender{
		{name: "tidemill", kind: instance.Subject, directives: tidemillDirectives(1)},
		{name: "valkey", kind: instance.Valkey},
		{name: "redis", kind: instance.Redis},
	}
	return withServers(serverCPU, contenders, func(contenders []contender) error {
		shape := load{
			connections: largeConnectionCount, pipeline: largePipeline, keys: largeKeyCount,
			valueMin: 10 << 10, valueMax: 1 << 20, seconds: max(2, chosen.Seconds), cpus: loadCPU,
		}
		err := inTurns(report, "values of 10 KiB to 1 MiB, pipeline 100", max(2, chosen.Rounds/3),
			contenders, shape)
		if err != nil {
			return err
		}
		return measureLongStrings(report, chosen, contenders)
	})
}

const longStringBytes = 8 << 20

// longStringLoads look at all bits of strings of longStringBytes. Their limits are the CPU per
// operation relative to Valkey's. Loads of one string are bound by the memory, whose speed depends
// on the pages that the system gives: the same server takes a tenth more or less after a new start.
var longStringLoads = []struct {
	name    string
	limit   float64
	request []string
}{
	{"BITOP XOR", 1.1, []string{"BITOP", "XOR", "result", "first", "second"}},
	{"BITOP NOT", 1.25, []string{"BITOP", "NOT", "result", "first"}},
	{"BITCOUNT", 1.25, []string{"BITCOUNT", "first"}},
	{"BITPOS", 1.1, []string{"BITPOS", "second", "1", "0", "-2"}},
}

func measureLongStrings(report *Report, chosen settings, contenders []contender) error {
	for _, c := range contenders {
		conn, err := wire.Dial(c.server.Address)
		if err != nil {
			return err
		}
		defer conn.Close()
		first := strings.Repeat("first of two strings ", longStringBytes/21)
		for _, words := range [][]string{
			{"SET", "first", first}, {"SETBIT", "second", strconv.Itoa(8*len(first) - 1), "1"},
		} {
			if err := succeed(conn, words...); err != nil {
				return err
			}
		}
	}
	for _, each := range longStringLoads {
		name := each.name + ", 8 MiB"
		file := filepath.Join(contenders[0].server.Directory, "requests")
		request := func(_, _, _, _ int) []string { return each.request }
		if err := writeRequests(file, 1, 1, request); err != nil {
			return err
		}
		shape := load{connections: 1, pipeline: 1, keys: 1, seconds: chosen.Seconds,
			requests: file, cpus: loadCPU}
		err := judgeRatio(report, name, max(2, chosen.Rounds/3), contenders, shape, each.limit)
		if err != nil {
			return err
		}
	}
	return nil
}

// measureKeyMemory fills a fresh server with 16-byte keys and 64-byte values and divides what it
// grew by.
func measureKeyMemory(report *Report, chosen settings) error {
	return eachAlone(func(c contender) error {
		before, err := instance.ResidentBytes(c.server.PID)
		if err != nil {
			return err
		}
		filling := load{connections: 8, pipeline: 100, keys: chosen.KeyCount, valueMin: 64,
			valueMax: 64, fill: true, cpus: loadCPU}
		if _, err := filling.run(c.server); err != nil {
			return err
		}
		time.Sleep(time.Second) // retired tables are freed
		after, err := instance.ResidentBytes(c.server.PID)
		report.addFigure("resident bytes per key", c.name,
			float64(after-before)/float64(chosen.KeyCount))
		return err
	})
}

// measureIdleConnections opens connections, uses each once and divides what the server grew by.
func measureIdleConnections(report *Report, chosen settings) error {
	return eachAlone(func(c contender) error {
		before, err := instance.ResidentBytes(c.server.PID)
		if err != nil {
			return err
		}
		for range chosen.ConnectionCount {
			conn, err := wire.Dial(c.server.Address)
			if err != nil {
				return err
			}
			defer conn.Close()
			if reply, err := conn.Do("PING"); err != nil || reply.IsError() {
				return fmt.Errorf("PING on an idle connection: %v %v", reply, err)
			}
		}
		time.Sleep(3 * time.Second) // buffers of idle connections are given back
		after, err := instance.ResidentBytes(c.server.PID)
		report.addFigure("resident bytes per idle connection", c.name,
			float64(after-before)/float64(chosen.ConnectionCount))
		return err
	})
}

func eachAlone(measure func(contender) error) error {
	limit := []string{"--maxclients", "16000"}
	all := []contender{
		{name: "tidemill", kind: instance.Subject,
			directives: append(tidemillDirectives(1), limit...)},
		{name: "valkey", kind: instance.Valkey, directives: limit},
		{name: "redis", kind: instance.Redis, directives: limit},
	}
	for _, one := range all {
		err := withServers(serverCPU, []contender{one}, func(started []contender) error {
			return measure(started[0])
		})
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return nil
}
