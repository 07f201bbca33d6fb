// Package clients runs programs that users have against the server: redis-py, ioredis, redis-cli on
// a terminal, redis-benchmark.
package clients

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tidemill/tests/internal/instance"
)

// run runs a program and returns what it printed; a failure fails the test.
func run(t *testing.T, program string, arguments ...string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), program, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", program, arguments, err, output)
	}
	return string(output)
}

func TestRedisPy_ConnectsPipelinesTransactsBlocksScans(t *testing.T) {
	server := instance.Start(t, instance.Subject)
	python := filepath.Join(instance.Root(), "build", "tools", "python", "bin", "python")
	output := run(t, python, "redis_py.py", strconv.Itoa(server.Port))
	if !strings.Contains(output, "all passed") {
		t.Fatal(output)
	}
}

func TestIoredis_ConnectsPipelinesTransactsBlocksScans(t *testing.T) {
	server := instance.Start(t, instance.Subject)
	t.Setenv("NODE_PATH", filepath.Join(instance.Root(), "build", "tools", "node", "node_modules"))
	output := run(t, "node", "ioredis.cjs", strconv.Itoa(server.Port))
	if !strings.Contains(output, "all passed") {
		t.Fatal(output)
	}
}

func TestRedisCli_WorksOnATerminal(t *testing.T) {
	server := instance.Start(t, instance.Subject)
	output := run(t, "python3", "terminal.py", strconv.Itoa(server.Port))
	for _, want := range []string{"PONG", "(integer) 2", "\"hello\"", "WRONGTYPE"} {
		if !strings.Contains(output, want) {
			t.Errorf("the terminal does not show %s:\n%s", want, output)
		}
	}
}

func TestRedisBenchmark_RunsItsTests(t *testing.T) {
	server := instance.Start(t, instance.Subject)
	tests := "ping,set,get,incr,lpush,rpush,lpop,rpop,hset,mset"
	output := run(t, "redis-benchmark", "-p", strconv.Itoa(server.Port), "-q", "-n", "5000", "-t",
		tests)
	for _, name := range strings.Split(strings.ToUpper(tests), ",") {
		if !strings.Contains(output, name) {
			t.Errorf("no figure for %s:\n%s", name, output)
		}
	}
	if !strings.Contains(output, "requests per second") || strings.Contains(output, "ERR") {
		t.Error(output)
	}
}
