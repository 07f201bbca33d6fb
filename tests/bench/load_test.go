package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"tidemill/tests/internal/instance"
)

// Replies that are arrays, of arrays too, count once: else the load sends on before the server has
// answered, and the next measurement pays for it.
func TestLoad_CountsRepliesAsTheServerCountsCommands(t *testing.T) {
	if err := buildNative(); err != nil {
		t.Fatal(err)
	}
	server := instance.Start(t, instance.Valkey)
	control := server.Dial(t)
	for _, command := range [][]string{
		{"RPUSH", "list", "a", "bc", ""}, {"SADD", "empty", "x"}, {"SREM", "empty", "x"},
		{"XADD", "stream", "1-1", "f", "v"}, {"XADD", "stream", "1-2", "f", "v", "g", "w"},
	} {
		if reply, err := control.Do(command...); err != nil || reply.IsError() {
			t.Fatalf("%v: %v %v", command, reply, err)
		}
	}
	requests := [][]string{
		{"LRANGE", "list", "0", "-1"}, {"SMEMBERS", "empty"}, {"XRANGE", "stream", "-", "+"},
		{"XREAD", "STREAMS", "stream", "0"}, {"XREAD", "STREAMS", "stream", "9"},
		{"MGET", "none", "other"}, {"PING"}, {"GET", "none"}, {"LLEN", "list"},
	}
	file := filepath.Join(t.TempDir(), "requests")
	err := writeRequests(file, 1, 1, func(_, number, _, _ int) []string {
		return requests[number%len(requests)]
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.Do("CONFIG", "RESETSTAT"); err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command(filepath.Join(buildDirectory(), "load"), "--port",
		strconv.Itoa(server.Port), "--connections", "7", "--pipeline", "16", "--seconds", "0.2",
		"--requests", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	var sample Sample
	if err := json.Unmarshal(output, &sample); err != nil {
		t.Fatalf("%q: %v", output, err)
	}
	info, err := control.Do("INFO", "stats")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`total_commands_processed:(\d+)`).FindSubmatch(info.Text)
	if found == nil {
		t.Fatalf("INFO stats: %s", info.Text)
	}
	// CONFIG RESETSTAT itself is counted behind the reset.
	processed, _ := strconv.Atoi(string(found[1]))
	if counted := int(sample.Operations); counted != processed-1 {
		t.Errorf("the load counted %d replies to %d commands", counted, processed-1)
	}
}
