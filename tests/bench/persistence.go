package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
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
	// Part of it beside a save that is the load's own: requests that were sent late.
	p999Late float64
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
				{"us p99.9 by which its requests were sent late", run.p999Late},
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
	if err := measureReplay(report, chosen); err != nil {
		return err
	}
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
	if c.kind == instance.Subject && instance.SubjectIsTidemill() {
		// As many workers as a user gets: the two of a test would take both CPUs of a small machine
		// from the load.
		directives = append(directives, "--worker-threads", "0")
	}
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
	if err := run.measureOpenLoop(server, conn, chosen); err != nil {
		return run, err
	}
	err = writeAtRandom(server, func() error {
		_, _, err := saveInBackground(conn)
		return err
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
	if err := readThrough(filepath.Join(directory, "dump.rdb")); err != nil {
		return run, err
	}
	run.loadSeconds, err = loadSeconds(c.kind, directory, directives)
	return run, err
}

// readThrough puts a file into the page cache, past which either server may have written it: the
// device may be slower than both load.
func readThrough(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(io.Discard, file)
	return err
}

// measureOpenLoop measures the latency of writes at a fixed rate, alone and beside a save. The save
// begins when the writes are under way, so that they see the whole of it.
func (run *snapshotRun) measureOpenLoop(
	server *instance.Server, conn *wire.Conn, chosen settings,
) error {
	alone, err := openLoop(server, persistenceKeys(), func() (begun, ended time.Time, err error) {
		begun = time.Now()
		time.Sleep(time.Duration(chosen.Seconds * float64(time.Second)))
		return begun, time.Now(), nil
	})
	if err != nil {
		return err
	}
	saving, err := openLoop(server, persistenceKeys(), func() (begun, ended time.Time, err error) {
		return saveInBackground(conn)
	})
	if err != nil {
		return err
	}
	run.p999Alone = percentile(alone, latencyOf, .999)
	run.p999Saving = percentile(saving, latencyOf, .999)
	run.maxSaving = percentile(saving, latencyOf, 1)
	run.p999Late = percentile(saving, latenessOf, .999)
	return nil
}

var loadedPattern = regexp.MustCompile(
	`DB loaded from (?:disk|append only file): ([0-9.]+) seconds`)

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

// infoOf returns the numbers of sections of INFO, of the default ones if none is named.
func infoOf(conn *wire.Conn, sections ...string) (map[string]float64, error) {
	reply, err := conn.Do(append([]string{"INFO"}, sections...)...)
	figures := map[string]float64{}
	for line := range strings.Lines(string(reply.Text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			figures[name] = number
		}
	}
	return figures, err
}

// saveInBackground begins a save and returns when it is over: its beginning and its end.
func saveInBackground(conn *wire.Conn) (begun, ended time.Time, err error) {
	begun = time.Now()
	reply, err := conn.Do("BGSAVE")
	if err != nil || !strings.HasPrefix(string(reply.Text), "Background saving started") {
		return begun, begun, fmt.Errorf("BGSAVE answered %s, %v", reply.Text, err)
	}
	for {
		figures, err := infoOf(conn, "persistence")
		if err != nil || figures["rdb_bgsave_in_progress"] == 0 {
			return begun, time.Now(), err
		}
		time.Sleep(lookInterval)
	}
}

// lookInterval is the time between two looks whether a save is over.
const lookInterval = 20 * time.Millisecond

// settling is the time that an open loop runs before it counts.
const settling = 300 * time.Millisecond

// openSample is what became of one write.
type openSample struct {
	due time.Time
	// Time to its reply from the time at which it was due, and the part of it before it was sent.
	latencyUs, lateUs float64
}

// openLoop runs work beside writes to that many keys, which are sent at fixed times, whatever
// becomes of those before, and returns those that were answered behind the beginning and due before
// the end that work returns.
func openLoop(
	server *instance.Server, keys int, work func() (begun, ended time.Time, err error),
) ([]openSample, error) {
	command := exec.Command(filepath.Join(buildDirectory(), "open_loop"),
		"--port", strconv.Itoa(server.Port), "--connections", strconv.Itoa(openLoopConnections),
		"--rate", strconv.Itoa(openLoopPerSecond), "--keys", strconv.Itoa(keys),
		"--value-bytes", strconv.Itoa(persistenceValueBytes))
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	time.Sleep(settling)
	begun, ended, err := work()
	if err != nil {
		_ = command.Process.Kill()
		_ = command.Wait()
		return nil, err
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		return nil, err
	}
	var samples []openSample
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		var dueNs int64
		var sample openSample
		line := lines.Text()
		if _, err := fmt.Sscan(line, &dueNs, &sample.latencyUs, &sample.lateUs); err != nil {
			return nil, fmt.Errorf("open_loop printed %q: %w", line, err)
		}
		sample.due = time.Unix(0, dueNs)
		answered := sample.due.Add(time.Duration(sample.latencyUs) * time.Microsecond)
		if !answered.Before(begun) && sample.due.Before(ended) {
			samples = append(samples, sample)
		}
	}
	if err := command.Wait(); err != nil {
		return nil, fmt.Errorf("open_loop: %w", err)
	}
	return samples, nil
}

// writeAtRandom runs work beside writes of all keys at random, as quick as they can be.
func writeAtRandom(server *instance.Server, work func() error) error {
	value := strings.Repeat("y", persistenceValueBytes)
	var isOver atomic.Bool
	write := func(index int, conn *wire.Conn) error {
		random := rand.New(rand.NewPCG(uint64(index), 2))
		for !isOver.Load() {
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
	}
	written := make(chan error, 1)
	go func() { written <- eachConnection(server, writerConnections, write) }()
	err := work()
	isOver.Store(true)
	return errors.Join(err, <-written)
}

func randomSet(random *rand.Rand, value string) []byte {
	key := "key:" + strconv.Itoa(random.IntN(persistenceKeys()))
	return wire.AppendCommand(nil, wire.Arguments("SET", key, value)...)
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

func latencyOf(sample openSample) float64  { return sample.latencyUs }
func latenessOf(sample openSample) float64 { return sample.lateUs }

// percentile returns a percentile of a figure of the samples, us.
func percentile(samples []openSample, figure func(openSample) float64, share float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	values := make([]float64, len(samples))
	for index, sample := range samples {
		values[index] = figure(sample)
	}
	slices.Sort(values)
	return values[min(len(values)-1, int(share*float64(len(values))))]
}

// measureLogs compares throughput and CPU with an append-only file: with Valkey's, and with our own
// server without one.
func measureLogs(report *Report, chosen settings) error {
	for round := range chosen.PartRounds {
		for _, pipeline := range []int{1, 16} {
			if err := measureLogRound(report, round, pipeline, chosen); err != nil {
				return err
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

// measureLogRound measures each policy with both servers: what is compared runs within seconds, for
// a machine may be a third slower some minutes later.
func measureLogRound(report *Report, round, pipeline int, chosen settings) error {
	for _, policy := range []string{"no log", "everysec", "always"} {
		for turn := range 2 {
			kind, server := instance.Subject, "tidemill"
			if (round+turn)%2 == 1 {
				kind, server = instance.Valkey, "valkey"
			}
			sample, err := measureLog(kind, policy, pipeline, chosen)
			if err != nil {
				return fmt.Errorf("%s, log %s: %w", kind, policy, err)
			}
			report.add(fmt.Sprintf("log %s, pipeline %d", policy, pipeline), server, sample)
		}
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
