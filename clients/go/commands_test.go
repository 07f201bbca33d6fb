package tidemill

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// generate runs the generator, which it compiles: that takes as long as it takes, no request's
// deadline runs meanwhile.
func generate(t *testing.T, arguments ...string) {
	t.Helper()
	command := append([]string{"run", "./internal/commandgen"}, arguments...)
	generator := exec.Command("go", command...)
	if output, err := generator.CombinedOutput(); err != nil {
		t.Fatal(err, string(output))
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// The generated files are those that the generator makes from its two lists, and the recording has
// no command that is declared meanwhile.
func TestGenerated_FilesAreCurrent(t *testing.T) {
	folder := t.TempDir()
	generate(t, "-folder", folder, "-recording", folder)
	for name, committed := range map[string]string{
		"commands_table.go":   "commands_table.go",
		"commands_methods.go": "commands_methods.go",
		"valkey.jsonl":        "internal/commandgen/valkey.jsonl",
	} {
		if !bytes.Equal(readFile(t, filepath.Join(folder, name)), readFile(t, committed)) {
			t.Errorf("%s is not what internal/commandgen makes: run `go generate .`", committed)
		}
	}
}

// ownCommand is what is generated of HOTKEYS: a row of the table, or a method with its empty line.
var ownCommand = regexp.MustCompile(
	`(?m)^\t"HOTKEYS.*\n|^\n(//.*\n)*func \(c Commands\) Hotkeys(.*\n)*?}\n`,
)

// Table and methods agree with a running Valkey: made from its COMMAND alone they differ in
// comments only, and in HOTKEYS, which is Redis's and Tidemill's. A declaration with other flags,
// keys, tips or syntax is found here.
func TestGenerated_TableAgreesWithValkey(t *testing.T) {
	checkLeaks(t)
	s := startServer(t, "valkey-server")
	c := newTestClient(t, s.address)
	ctx := testContext(t, time.Minute)
	info, err := c.Info(ctx, "server").Text()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := c.Do(ctx, "COMMAND").Array()
	if err != nil || len(rows) < 200 {
		t.Fatal(len(rows), err)
	}
	version := regexp.MustCompile(`\(Valkey (\S+)\)\. DO NOT EDIT`).FindSubmatch(
		readFile(t, "commands_table.go"))
	if version == nil {
		t.Fatal("commands_table.go does not say what it was made from")
	}
	if !strings.Contains(info, fmt.Sprintf("valkey_version:%s\r\n", version[1])) {
		t.Skipf("the recording is of Valkey %s, %s is another version", version[1], s.binary)
	}
	folder := t.TempDir()
	generate(t, "-only", s.address, "-folder", folder)
	comments := regexp.MustCompile(`(?m)^//.*$`)
	for _, name := range []string{"commands_table.go", "commands_methods.go"} {
		made := comments.ReplaceAll(readFile(t, filepath.Join(folder, name)), nil)
		committed := ownCommand.ReplaceAll(readFile(t, name), nil)
		committed = comments.ReplaceAll(committed, nil)
		if !bytes.Equal(made, committed) {
			t.Errorf("%s is not what Valkey's COMMAND makes:\n%s", name,
				firstDifference(committed, made))
		}
	}
	checkRows(t, rows, readFile(t, "commands_methods.go"))
}

// firstDifference shows the first line in which two texts differ.
func firstDifference(committed, made []byte) string {
	ours, theirs := strings.Split(string(committed), "\n"), strings.Split(string(made), "\n")
	for i, line := range ours {
		if i >= len(theirs) || line != theirs[i] {
			return fmt.Sprintf("- %s\n+ %s", line, append(theirs, "nothing")[min(i, len(theirs))])
		}
	}
	return fmt.Sprintf("%d lines more", len(theirs)-len(ours))
}

// checkRows walks rows of COMMAND: name, arity, flags, ..., subcommands.
func checkRows(t *testing.T, rows []Reply, methods []byte) {
	t.Helper()
	for _, row := range rows {
		fields := row.items()
		name := strings.ToUpper(strings.ReplaceAll(fields[0].text, "|", " "))
		flags, err := fields[2].Strings()
		if err != nil || commandTable[name] == nil {
			t.Errorf("%s has no row: %v", name, err)
		}
		subcommands := fields[9].items()
		checkRows(t, subcommands, methods)
		if slices.Contains(flags, "admin") || len(subcommands) > 0 {
			continue
		}
		if !bytes.Contains(methods, fmt.Appendf(nil, "commandTable[%q])", name)) {
			t.Errorf("%s has no method", name)
		}
	}
}

// A group or consumer may have the name of the word in front of the keys.
func TestDescribe_FindsKeysBehindTheirKeyword(t *testing.T) {
	for _, line := range [][]any{
		{"XREADGROUP", "GROUP", "streams", "c", "STREAMS", "key", ">"},
		{"XREADGROUP", "GROUP", "g", "STREAMS", "COUNT", 1, "streams", "key", ">"},
		{"XREAD", "COUNT", 1, "streams", "key", "0"},
		{"XREAD", "STREAMS", "key", "0"},
	} {
		wire, err := appendCommand(nil, line)
		if key, ok := describe(line).firstKeyOf(wire); err != nil || !ok || string(key) != "key" {
			t.Errorf("%v: %q, %v, %v", line, key, ok, err)
		}
	}
}
