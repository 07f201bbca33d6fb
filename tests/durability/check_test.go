package durability

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tidemill/tests/internal/instance"
)

// expectRefusedStart starts a server on a damaged log, with save points: it ends, and does not save
// over the last snapshot.
func expectRefusedStart(t *testing.T, directory string) {
	t.Helper()
	snapshot := filepath.Join(directory, "dump.rdb")
	if err := os.WriteFile(snapshot, []byte("the last save"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := instance.Launch(instance.Subject, directory, "--appendonly", "yes",
		"--save", "3600 1")
	if err == nil || !strings.Contains(err.Error(), "Bad file format") {
		t.Fatalf("the start answered %v", err)
	}
	if kept, err := os.ReadFile(snapshot); string(kept) != "the last save" {
		t.Fatalf("a start that failed saved: %q, %v", kept, err)
	}
	if err := os.Remove(snapshot); err != nil {
		t.Fatal(err)
	}
}

// A log with damage stops the start and is left alone; the tool shortens it only after asking, and
// then the server starts with what is before the damage. In Valkey's log, which says nothing of
// what was durable, and where the tool has the name that it has there.
func TestCheckAOF_RepairsAfterAsking(t *testing.T) {
	if !instance.SubjectIsTidemill() {
		t.Skip("the tool is Tidemill's")
	}
	directory := t.TempDir()
	valkey, err := instance.Launch(instance.Valkey, directory, "--appendonly", "yes",
		"--aof-use-rdb-preamble", "no")
	if err != nil {
		t.Fatal(err)
	}
	do(t, valkey.Dial(t), "SET", "key", "value")
	if err := valkey.Stop(); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(directory, "appendonlydir")
	log, manifest := filepath.Join(folder, "appendonly.aof.1.incr.aof"),
		filepath.Join(folder, "appendonly.aof.manifest")
	whole, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	damaged := append(bytes.Clone(whole), "SET no resp\r\n"...)
	if err := os.WriteFile(log, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	expectRefusedStart(t, directory)

	link := filepath.Join(t.TempDir(), "valkey-check-aof")
	if err := os.Symlink(instance.Binary(instance.Subject), link); err != nil {
		t.Fatal(err)
	}
	check := func(answer string, want bool, arguments ...string) {
		t.Helper()
		tool := exec.Command(link, arguments...)
		tool.Stdin = strings.NewReader(answer)
		output, err := tool.CombinedOutput()
		if (err == nil) != want {
			t.Fatalf("%v with %q: %v\n%s", arguments, answer, err, output)
		}
	}
	expect := func(want []byte) {
		t.Helper()
		if text, _ := os.ReadFile(log); !bytes.Equal(text, want) {
			t.Fatalf("the log is %q, want %q", text, want)
		}
	}
	check("", false, manifest)
	check("n\n", false, "--fix", manifest)
	check("", false, "--fix", manifest)
	expect(damaged)
	check("y\n", true, "--fix", manifest)
	expect(whole)
	check("", true, manifest)
	server := subject(t, directory)
	defer server.Kill()
	if reply := do(t, server.Dial(t), "GET", "key"); string(reply.Text) != "value" {
		t.Fatalf("GET answered %s", reply)
	}
}

// A second server on the same files would write between the records of the first.
func TestDirectory_BelongsToOneServer(t *testing.T) {
	directory := t.TempDir()
	first := subject(t, directory)
	defer first.Kill()
	_, err := instance.Launch(instance.Subject, directory, "--appendonly", "yes")
	if err == nil || !strings.Contains(err.Error(), "another server uses") {
		t.Fatalf("the second start answered %v", err)
	}
}
