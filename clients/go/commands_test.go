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

// The generated files are what the generator makes of the server that the tests run with, so every command of its
// COMMAND has a row, and every one that is not administrative a method.
func TestGenerated_FilesAreCurrent(t *testing.T) {
	checkLeaks(t)
	s := startServer(t, "valkey-server")
	c := newTestClient(t, s.address)
	ctx := testContext(t, time.Minute)
	info, err := c.Info(ctx, "server").Text()
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile("commands_table.go")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`of Valkey (\S+)\. DO NOT EDIT`).FindSubmatch(committed)
	if version == nil {
		t.Fatal("commands_table.go does not say what it was made from")
	}
	if !strings.Contains(info, fmt.Sprintf("valkey_version:%s\r\n", version[1])) {
		t.Skipf("the files are made from Valkey %s", version[1])
	}
	folder := t.TempDir()
	generator := exec.Command("go", "run", "./internal/commandgen", "-address", s.address, "-folder", folder)
	if output, err := generator.CombinedOutput(); err != nil {
		t.Fatal(err, string(output))
	}
	for _, name := range []string{"commands_table.go", "commands_methods.go"} {
		made, madeErr := os.ReadFile(filepath.Join(folder, name))
		committed, err := os.ReadFile(name)
		if madeErr != nil || err != nil || !bytes.Equal(made, committed) {
			t.Errorf("%s is not what internal/commandgen makes: %v, %v", name, madeErr, err)
		}
	}
	methods, err := os.ReadFile("commands_methods.go")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := c.Do(ctx, "COMMAND").Array()
	if err != nil || len(rows) < 200 {
		t.Fatal(len(rows), err)
	}
	checkRows(t, rows, methods)
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
