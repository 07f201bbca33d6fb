package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	// Commands of the log that is replayed, a third of each kind; a tenth of them with -quick.
	replayCommands = 1_000_000
	// Keys of the strings, and elements of all hashes and of all sorted sets.
	replayKeys       = 1_000_000
	replayValueBytes = 32
	// Elements of a hash or sorted set, about.
	replayElements = 100
)

// measureReplay measures the replay of a log of SET, HSET and ZADD beside Valkey, each server
// alone, in turns, from the page cache.
func measureReplay(report *Report, chosen settings) error {
	seconds := map[string][]float64{}
	for round := range chosen.PartRounds {
		for turn := range 2 {
			kind := []instance.Kind{instance.Subject, instance.Valkey}[(round+turn)%2]
			name := map[instance.Kind]string{
				instance.Subject: "tidemill", instance.Valkey: "valkey",
			}[kind]
			took, err := replaySeconds(kind)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			seconds[name] = append(seconds[name], took)
			report.addFigure("seconds of replaying", name, took)
		}
	}
	ratios := make([]float64, chosen.PartRounds)
	for round := range ratios {
		ratios[round] = seconds["tidemill"][round] / seconds["valkey"][round]
	}
	report.verdict("seconds of replaying / Valkey's", 1, spreadOf(ratios))
	return nil
}

// replaySeconds writes a log, starts a server with it and returns what its log says of the replay.
func replaySeconds(kind instance.Kind) (float64, error) {
	directory, err := os.MkdirTemp(buildDirectory(), "replay-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(directory)
	if err := writeReplayedLog(filepath.Join(directory, "appendonlydir")); err != nil {
		return 0, err
	}
	return loadSeconds(kind, directory, []string{"--appendonly", "yes"})
}

func writeReplayedLog(directory string) error {
	if err := os.Mkdir(directory, 0o755); err != nil {
		return err
	}
	name := "appendonly.aof.1.incr.aof"
	manifest := filepath.Join(directory, "appendonly.aof.manifest")
	if err := os.WriteFile(manifest, []byte("file "+name+" seq 1 type i\n"), 0o644); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(directory, name))
	if err != nil {
		return err
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	count := replayCommands
	if *quick {
		count /= 10
	}
	random := rand.New(rand.NewPCG(1, 2))
	value := strings.Repeat("v", replayValueBytes)
	if _, err := out.Write(wire.AppendCommand(nil, wire.Arguments("SELECT", "0")...)); err != nil {
		return err
	}
	var command []byte
	for index := range count {
		number := random.IntN(replayKeys)
		key, element := strconv.Itoa(number/replayElements), strconv.Itoa(number%replayElements)
		var words []string
		switch index % 3 {
		case 0:
			words = []string{"SET", "key:" + strconv.Itoa(number), value}
		case 1:
			words = []string{"HSET", "hash:" + key, "field:" + element, value}
		default:
			score := strconv.Itoa(random.IntN(replayKeys))
			words = []string{"ZADD", "zset:" + key, score, "member:" + element}
		}
		command = wire.AppendCommand(command[:0], wire.Arguments(words...)...)
		if _, err := out.Write(command); err != nil {
			return err
		}
	}
	return out.Flush()
}
