package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	// scriptWork computes for tens of microseconds around one read, so that the server is what
	// limits the rate, and not the load on the same processors.
	scriptWork = "local n = 0 for i = 1, 4000 do n = n + i % 7 end " +
		"return {redis.call('GET', KEYS[1]), n}"
	// scriptLong runs for ARGV[1] seconds.
	scriptLong = "local finish = os.clock() + ARGV[1] repeat until os.clock() >= finish return 1"

	// The rate of one worker divided by that of two.
	scriptWorkersLimit    = 1 / 1.8
	scriptNeighboursLimit = 2.0
	scriptSettling        = 200 * time.Millisecond
)

const (
	scriptWorkersName    = "EVAL_RO that computes"
	scriptNeighboursName = "neighbours of a long script"
)

// measureScriptWorkers compares the rate of read-only scripts on two workers with that on one.
func measureScriptWorkers(report *Report, chosen settings) error {
	one, two := "tidemill, 1 worker", "tidemill, 2 workers"
	contenders := []contender{
		{name: one, kind: instance.Subject, directives: tidemillDirectives(1)},
		{name: two, kind: instance.Subject, directives: tidemillDirectives(2)},
	}
	return withServers("0,1", contenders, func(contenders []contender) error {
		file := filepath.Join(contenders[0].server.Directory, "requests")
		err := writeScriptRequests(file, func(key string) []string {
			return []string{"EVAL_RO", scriptWork, "1", key}
		})
		if err != nil {
			return err
		}
		for _, c := range contenders {
			if err := prepareScripts(c.server); err != nil {
				return fmt.Errorf("prepare %s: %w", c.name, err)
			}
		}
		shape := load{
			connections: smallConnectionCount, pipeline: 1, keys: scriptKeys,
			seconds: chosen.Seconds / 2, requests: file, sleeps: true, cpus: "0,1",
		}
		if err := inTurns(report, scriptWorkersName, chosen.PartRounds, contenders,
			shape); err != nil {
			return err
		}
		rate := func(s Sample) float64 { return float64(s.Operations) / s.Seconds }
		report.verdict("EVAL_RO: rate of one worker / of two", scriptWorkersLimit,
			report.ratio(scriptWorkersName, one, two, rate))
		return nil
	})
}

// measureScriptNeighbours compares the p99.9 of fifty closed-loop clients beside a script that runs
// all the time with theirs alone. Valkey would serve them when the script is over.
func measureScriptNeighbours(report *Report, chosen settings) error {
	contenders := []contender{
		{name: "tidemill", kind: instance.Subject, directives: tidemillDirectives(2)},
	}
	return withServers("0,1", contenders, func(contenders []contender) error {
		server := contenders[0].server
		neighbours := load{
			connections: smallConnectionCount, pipeline: 1, keys: scriptKeys, valueMin: 32,
			valueMax: 32, seconds: chosen.Seconds, sleeps: true, cpus: "0,1",
		}
		for range chosen.PartRounds {
			sample, err := neighbours.run(server)
			if err != nil {
				return err
			}
			report.add(aloneName, "tidemill", sample)
			ended := make(chan error, 1)
			go func() { ended <- runLongScript(server, chosen.Seconds+1) }()
			time.Sleep(scriptSettling)
			sample, err = neighbours.run(server)
			if err := errors.Join(err, <-ended); err != nil {
				return err
			}
			report.add(scriptNeighboursName, "tidemill", sample)
		}
		ratio := ratioOf(report.series(scriptNeighboursName, "tidemill"),
			report.series(aloneName, "tidemill"), func(s Sample) float64 { return s.P999us })
		report.verdict(scriptNeighboursName+": p99.9 / alone", scriptNeighboursLimit, ratio)
		return nil
	})
}

func runLongScript(server *instance.Server, seconds float64) error {
	conn, err := wire.Dial(server.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	reply, err := conn.Do("EVAL", scriptLong, "0", fmt.Sprint(seconds))
	if err == nil && reply.IsError() {
		err = errors.New(string(reply.Text))
	}
	if err != nil {
		return fmt.Errorf("long script: %w", err)
	}
	return nil
}
