package linearizability

import (
	"flag"
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"tidemill/tests/internal/instance"
)

var (
	duration = flag.Duration("duration", 1500*time.Millisecond,
		"time for each profile and configuration")
	flavours = flag.String("flavours", "qsbr,memb", "RCU flavours, one server each")
	workers  = flag.String("workers", "2,4", "worker threads, one server each")
	seed     = flag.Uint64("seed", 0, "seed of the clients; 0 takes one from the clock")
)

// undecidedMax is N where porcupine may leave one in N rounds undecided, and one in any case.
const undecidedMax = 100

func chosenSeed() uint64 {
	if *seed != 0 {
		return *seed
	}
	return uint64(time.Now().UnixNano())
}

// configuration is one way to start the server under test.
type configuration struct {
	name       string
	directives []string
}

// configurations pairs flavours with worker counts: each flavour with each count where the flags
// name as many as that.
func configurations() []configuration {
	if !instance.SubjectIsTidemill() {
		return []configuration{{name: "stand-in", directives: []string{"--hz", "500"}}}
	}
	var all []configuration
	for _, flavour := range strings.Split(*flavours, ",") {
		for _, count := range strings.Split(*workers, ",") {
			all = append(all, configuration{
				name: flavour + "-" + count,
				directives: []string{
					"--rcu-flavour", flavour, "--worker-threads", count, "--cpu-placement", "off",
				},
			})
		}
	}
	return all
}

func TestHistories_AreLinearizable(t *testing.T) {
	for _, configured := range configurations() {
		t.Run(configured.name, func(t *testing.T) {
			directives := withMetrics(configured.directives)
			server := instance.Start(t, instance.Subject, directives...)
			for _, mix := range profiles {
				t.Run(mix.name, func(t *testing.T) {
					if mix.scrapes && server.OtherPort != 0 {
						stop := scrapeWithoutEnd(t, server, len(flushKeys))
						defer stop()
					}
					requireLinearizable(t, server.Address, mix)
				})
			}
		})
	}
}

func requireLinearizable(t *testing.T, address string, mix profile) {
	t.Helper()
	chosen := chosenSeed()
	field, err := newArena(address, chosen)
	if err != nil {
		t.Fatal(err)
	}
	defer field.close()
	rounds, undecided := 0, 0
	for end := time.Now().Add(*duration); time.Now().Before(end); rounds++ {
		verdict, history, err := field.round(mix)
		switch {
		case err != nil:
			t.Fatalf("seed %d, round %d: %v", chosen, rounds, err)
		case verdict == porcupine.Illegal:
			t.Fatalf("seed %d, round %d is not linearizable:\n%s", chosen, rounds, render(history))
		case verdict == porcupine.Unknown:
			undecided++
		}
	}
	if undecided > max(1, rounds/undecidedMax) {
		t.Errorf("porcupine left %d of %d rounds undecided", undecided, rounds)
	}
	t.Logf("%d rounds of %d operations, %d undecided", rounds, clientCount*mix.operationsOfEach(),
		undecided)
}

// render prints a history in the order of invocation.
func render(history []porcupine.Operation) string {
	sort.Slice(history, func(i, j int) bool { return history[i].Call < history[j].Call })
	var text strings.Builder
	for _, each := range history {
		fmt.Fprintf(&text, "%9d-%9d us  %v -> %v\n", each.Call/1000,
			min(each.Return/1000, 999_999_999), each.Input, each.Output)
	}
	return text.String()
}

// TestChecker_NoticesEachFault runs the same rounds against a right server behind a proxy that
// breaks one promise.
func TestChecker_NoticesEachFault(t *testing.T) {
	server := instance.Start(t, instance.Valkey, "--hz", "500")
	faults := []struct {
		name    string
		profile string
		broken  fault
	}{
		{"stale reads", "strings", staleReads},
		{"torn MSET", "strings", tornMSET},
		{"torn MGET", "strings", tornMGET},
		{"lost updates", "strings", lostUpdates},
		{"double pops", "lists", doublePops},
		{"torn LMOVE", "lists", tornLMOVE},
		{"torn SMOVE", "sets", tornSMOVE},
		{"torn SUNION", "sets", tornSUNION},
		{"torn SUNIONSTORE", "sets", tornSUNIONSTORE},
		{"torn RENAME", "keyspace", tornRename},
		{"deaf WATCH", "transactions", deafWatch},
		{"torn EXEC", "transactions", tornExec},
		{"torn EXEC of one command", "lone commands in EXEC", tornLoneExec},
		{"ghost keys", "random keys", ghostKeys},
		{"undead keys", "expiry", undead},
		{"immortal keys", "expiry", immortal},
		{"dead keys persisted", "expiry", persistsDead},
		{"undead fields", "fields", undeadFields},
		{"torn FLUSHALL", "flushes beside scrapes", tornFlush},
		{"lost APPEND", "half-closed", lostAppends},
	}
	for _, each := range faults {
		t.Run(each.name, func(t *testing.T) {
			proxy, err := startFaultyProxy(server.Address, each.broken)
			if err != nil {
				t.Fatal(err)
			}
			defer proxy.listener.Close()
			requireNoticed(t, proxy.listener.Addr().String(), each.profile)
		})
	}
}

func requireNoticed(t *testing.T, address, profileName string) {
	t.Helper()
	field, err := newArena(address, chosenSeed())
	if err != nil {
		t.Fatal(err)
	}
	defer field.close()
	for _, mix := range profiles {
		if mix.name != profileName {
			continue
		}
		for round := range 300 {
			verdict, _, err := field.round(mix)
			if err != nil {
				t.Fatal(err)
			}
			if verdict == porcupine.Illegal {
				t.Logf("noticed in round %d", round+1)
				return
			}
		}
	}
	t.Error("300 rounds passed as linearizable")
}

// TestOracle_IsLinearizable shows that the model is no stricter than a server that is right by
// construction.
func TestOracle_IsLinearizable(t *testing.T) {
	server := instance.Start(t, instance.Valkey, "--hz", "500")
	for _, mix := range profiles {
		t.Run(mix.name, func(t *testing.T) { requireLinearizable(t, server.Address, mix) })
	}
}
