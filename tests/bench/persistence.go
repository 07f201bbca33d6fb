package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

var persistenceMiB = flag.Int("mib", 1024,
	"MiB of data that the part persistence saves and loads; 1/16 of it with -quick")

const (
	persistenceValueBytes = 1000
	openLoopConnections   = 50
	openLoopPerSecond     = 20_000
	writerConnections     = 2
	writerPipeline        = 100
)

// snapshotRun is what one server did with one snapshot.
type snapshotRun struct {
	saveSeconds, loadSeconds float64
	cutMicroseconds          float64
	// Part of the data that a save under writes took in further memory.
	extraMemory float64
	// Latency of an open loop of writes without a save and beside one, us.
	p999Alone, p999Saving, maxSaving float64
}

// measurePersistence measures snapshots and logs beside Valkey, each server alone, in turns.
//
// Times are of the wall clock, for a disk has no other: on a busy machine only their ratios within
// one turn say anything.
func measurePersistence(report *Report, chosen settings) error {
	kinds := []contender{{name: "tidemill", kind: instance.Subject}, {name: "valkey",
		kind: instance.Valkey}}
	runs := map[string][]snapshotRun{}
	for round := range chosen.PartRounds {
		for turn := range kinds {
			c := kinds[(round+turn)%len(kinds)]
			run, err := measureSnapshot(c, chosen)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			runs[c.name] = append(runs[c.name], run)
			for _, figure := range []struct {
				name  string
				value float64
			}{
				{"seconds of SAVE", run.saveSeconds},
				{"seconds of loading", run.loadSeconds},
				{"us of the cut or fork", run.cutMicroseconds},
				{"extra memory of a save under writes / data", run.extraMemory},
				{"us p99.9 of the open loop", run.p999Alone},
				{"us p99.9 beside a save", run.p999Saving},
				{"us maximum beside a save", run.maxSaving},
			} {
				report.addFigure(figure.name, c.name, figure.value)
			}
		}
	}
	ours, theirs := runs["tidemill"], runs["valkey"]
	each := func(figure func(ours, theirs snapshotRun) float64) spread {
		values := make([]float64, len(ours))
		for index := range ours {
			values[index] = figure(ours[index], theirs[index])
		}
		return spreadOf(values)
	}
	type run = snapshotRun
	report.verdict("stall of the cut, us", 250,
		each(func(ours, _ run) float64 { return ours.cutMicroseconds }))
	report.verdict("p99.9 beside a save / without", 2,
		each(func(ours, _ run) float64 { return ours.p999Saving / ours.p999Alone }))
	report.verdict("maximum beside a save / Valkey's", 0.1,
		each(func(ours, theirs run) float64 { return ours.maxSaving / theirs.maxSaving }))
	report.verdict("extra memory / data", 0.15,
		each(func(ours, _ run) float64 { return ours.extraMemory }))
	report.verdict("seconds of SAVE / Valkey's", 1/1.5,
		each(func(ours, theirs run) float64 { return ours.saveSeconds / theirs.saveSeconds }))
	report.verdict("seconds of loading / Valkey's", 0.5,
		each(func(ours, theirs run) float64 { return ours.loadSeconds / theirs.loadSeconds }))
	return measureLogs(report, chosen)
}

func persistenceKeys() int {
	keys := *persistenceMiB << 20 / persistenceValueBytes
	if *quick {
		keys /= 16
	}
	return max(keys, 1)
}

// measureSnapshot fills a server, saves, saves beside loads, and starts it again.
func measureSnapshot(c contender, chosen settings) (run snapshotRun, err error) {
	directory, err := os.MkdirTemp(buildDirectory(), "snapshot-")
	if err != nil {
		return run, err
	}
	defer os.RemoveAll(directory)
	directives := []string{"--rdbcompression", "no", "--enable-debug-command", "yes"}
	server, err := instance.Launch(c.kind, directory, directives...)
	if err != nil {
		return run, err
	}
	defer server.Kill()
	conn, err := wire.Dial(server.Address)
	if err != nil {
		return run, err
	}
	defer conn.Close()
	conn.Timeout = 10 * time.Minute
	keys := strconv.Itoa(persistenceKeys())
	for _, words := range [][]string{{"DEBUG", "POPULATE", keys, "key",
		strconv.Itoa(persistenceValueBytes)}, {"SAVE"}} {
		started := time.Now()
		if reply, err := conn.Do(words...); err != nil || string(reply.Text) != "OK" {
			return run, fmt.Errorf("%v answered %s, %v", words, reply.Text, err)
		}
		run.saveSeconds = time.Since(started).Seconds()
	}
	alone, err := openLoop(server, func(elapsed time.Duration) bool {
		return elapsed.Seconds() < chosen.Seconds
	})
	if err != nil {
		return run, err
	}
	saving, err := besideSave(conn, func(goesOn func(time.Duration) bool) ([]float64, error) {
		return openLoop(server, goesOn)
	})
	if err != nil {
		return run, err
	}
	run.p999Alone, run.p999Saving = percentile(alone, .999), percentile(saving, .999)
	run.maxSaving = percentile(saving, 1)
	_, err = besideSave(conn, func(goesOn func(time.Duration) bool) ([]float64, error) {
		return nil, writeAtRandom(server, goesOn)
	})
	if err != nil {
		return run, err
	}
	figures, err := infoOf(conn)
	if err != nil {
		return run, err
	}
	run.cutMicroseconds = figures["latest_fork_usec"]
	run.extraMemory = figures["rdb_last_cow_size"] / figures["used_memory_dataset"]
	server.Kill()
	run.loadSeconds, err = loadSeconds(c.kind, directory, directives)
	return run, err
}

var loadedPattern = regexp.MustCompile(`DB loaded from disk: ([0-9.]+) seconds`)

// loadSeconds starts a server and returns what its log says of the loading.
func loadSeconds(kind instance.Kind, directory string, directives []string) (float64, error) {
	server, err := instance.LaunchLoading(kind, directory, directives...)
	if err != nil {
		return 0, err
	}
	defer server.Kill()
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); {
		if found := loadedPattern.FindStringSubmatch(server.Log()); found != nil {
			return strconv.ParseFloat(found[1], 64)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return 0, fmt.Errorf("not loaded within 10 minutes")
}

// infoOf returns the numbers of INFO.
func infoOf(conn *wire.Conn) (map[string]float64, error) {
	reply, err := conn.Do("INFO")
	figures := map[string]float64{}
	for line := range strings.Lines(string(reply.Text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			figures[name] = number
		}
	}
	return figures, err
}

// besideSave runs a load for as long as a BGSAVE takes.
func besideSave(
	conn *wire.Conn, load func(goesOn func(time.Duration) bool) ([]float64, error),
) ([]float64, error) {
	var mutex sync.Mutex
	var isBegun bool
	var failure error
	goesOn := func(time.Duration) bool {
		mutex.Lock()
		defer mutex.Unlock()
		if !isBegun {
			isBegun = true
			_, failure = conn.Do("BGSAVE")
		}
		figures, err := infoOf(conn)
		if failure == nil {
			failure = err
		}
		return failure == nil && figures["rdb_bgsave_in_progress"] == 1
	}
	latencies, err := load(goesOn)
	if err == nil {
		err = failure
	}
	return latencies, err
}

// lookInterval is the time between two looks whether a load goes on.
const lookInterval = 20 * time.Millisecond

// whileGoing sets a flag as long as goesOn says so; the returned function asks for it.
func whileGoing(goesOn func(time.Duration) bool) func() bool {
	done := make(chan struct{})
	started := time.Now()
	isGoing := goesOn(0)
	go func() {
		defer close(done)
		for isGoing && goesOn(time.Since(started)) {
			time.Sleep(lookInterval)
		}
	}()
	return func() bool {
		select {
		case <-done:
			return false
		default:
			return true
		}
	}
}

func randomSet(random *rand.Rand, value string) []byte {
	key := "key:" + strconv.Itoa(random.IntN(persistenceKeys()))
	return wire.AppendCommand(nil, wire.Arguments("SET", key, value)...)
}

// openLoop sends writes at fixed times, whatever becomes of those before, and returns their
// latencies in us, from the time at which each was due.
func openLoop(server *instance.Server, goesOn func(time.Duration) bool) ([]float64, error) {
	interval := time.Second * openLoopConnections / openLoopPerSecond
	value := strings.Repeat("x", persistenceValueBytes)
	isGoing := whileGoing(goesOn)
	var mutex sync.Mutex
	var all []float64
	err := eachConnection(server, openLoopConnections, func(index int, conn *wire.Conn) error {
		random := rand.New(rand.NewPCG(uint64(index), 1))
		due := time.Now().Add(interval * time.Duration(index) / openLoopConnections)
		var own []float64
		for isGoing() {
			time.Sleep(time.Until(due))
			if err := conn.SendRaw(randomSet(random, value)); err != nil {
				return err
			}
			if _, err := conn.Receive(); err != nil {
				return err
			}
			own = append(own, float64(time.Since(due).Microseconds()))
			due = due.Add(interval)
		}
		mutex.Lock()
		defer mutex.Unlock()
		all = append(all, own...)
		return nil
	})
	return all, err
}

// writeAtRandom writes all keys at random, as quickly as it can.
func writeAtRandom(server *instance.Server, goesOn func(time.Duration) bool) error {
	value := strings.Repeat("y", persistenceValueBytes)
	isGoing := whileGoing(goesOn)
	return eachConnection(server, writerConnections, func(index int, conn *wire.Conn) error {
		random := rand.New(rand.NewPCG(uint64(index), 2))
		for isGoing() {
			var requests []byte
			for range writerPipeline {
				requests = append(requests, randomSet(random, value)...)
			}
			if err := conn.SendRaw(requests); err != nil {
				return err
			}
			for range writerPipeline {
				if _, err := conn.Receive(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// eachConnection runs work on that many connections at once, and returns the first error.
func eachConnection(
	server *instance.Server, count int, work func(index int, conn *wire.Conn) error,
) error {
	failures := make(chan error, count)
	for index := range count {
		go func() {
			conn, err := wire.Dial(server.Address)
			if err == nil {
				conn.Timeout = time.Minute
				err = work(index, conn)
				conn.Close()
			}
			failures <- err
		}()
	}
	var first error
	for range count {
		if err := <-failures; err != nil && first == nil {
			first = err
		}
	}
	return first
}

func percentile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(len(values)-1, int(share*float64(len(values))))]
}

// measureLogs compares throughput and CPU with an append-only file: with Valkey's, and with our own
// server without one.
func measureLogs(report *Report, chosen settings) error {
	for _, policy := range []string{"no log", "everysec", "always"} {
		for _, pipeline := range []int{1, 16} {
			name := fmt.Sprintf("log %s, pipeline %d", policy, pipeline)
			for round := range chosen.PartRounds {
				for turn := range 2 {
					kind := []instance.Kind{instance.Subject, instance.Valkey}[(round+turn)%2]
					sample, err := measureLog(kind, policy, pipeline, chosen)
					if err != nil {
						return fmt.Errorf("%s, %s: %w", kind, name, err)
					}
					server := "valkey"
					if kind == instance.Subject {
						server = "tidemill"
					}
					report.add(name, server, sample)
				}
			}
		}
	}
	// Seconds per operation: more is worse, as verdicts have it.
	spent := func(s Sample) float64 { return s.Seconds / float64(s.Operations) }
	for _, target := range []struct {
		policy   string
		pipeline int
		least    float64
	}{{"everysec", 1, 1}, {"everysec", 16, 1.3}, {"always", 1, 1}, {"always", 16, 1.3}} {
		name := fmt.Sprintf("log %s, pipeline %d", target.policy, target.pipeline)
		ratio := ratioOf(report.series(name, "tidemill"), report.series(name, "valkey"), spent)
		report.verdict(name+": time / Valkey's", 1/target.least, ratio)
	}
	for _, pipeline := range []int{1, 16} {
		with := report.series(fmt.Sprintf("log everysec, pipeline %d", pipeline), "tidemill")
		without := report.series(fmt.Sprintf("log no log, pipeline %d", pipeline), "tidemill")
		report.verdict(fmt.Sprintf("everysec / without a log, pipeline %d: time", pipeline), 1/0.9,
			ratioOf(with, without, spent))
	}
	return nil
}

// measureLog runs writes and reads against a server with a log of a policy.
func measureLog(
	kind instance.Kind, policy string, pipeline int, chosen settings,
) (sample Sample, err error) {
	directory, err := os.MkdirTemp(buildDirectory(), "log-")
	if err != nil {
		return sample, err
	}
	defer os.RemoveAll(directory)
	var directives []string
	if policy != "no log" {
		directives = []string{"--appendonly", "yes", "--appendfsync", policy}
	}
	if kind == instance.Subject {
		directives = append(directives, tidemillDirectives(1)...)
	}
	server, err := instance.LaunchOn(serverCPU, kind, directory, directives...)
	if err != nil {
		return sample, err
	}
	defer server.Kill()
	return load{
		connections: smallConnectionCount, pipeline: pipeline, keys: chosen.KeyCount, valueMin: 32,
		valueMax: 32, seconds: chosen.Seconds, cpus: loadCPU,
	}.run(server)
}
