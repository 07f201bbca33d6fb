package commandline

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tidemill/tests/internal/instance"
)

var parts = []string{"server", "tune", "bench", "experiment", "completions"}

func needTidemill(t *testing.T) string {
	t.Helper()
	if !instance.SubjectIsTidemill() {
		t.Skip("the server under test is a stand-in")
	}
	binary, err := filepath.Abs(instance.Binary(instance.Subject))
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func output(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	text, err := exec.Command(name, arguments...).Output()
	if err != nil {
		t.Fatalf("%s %q: %v", name, arguments, err)
	}
	return string(text)
}

func TestHelp_OfTheProgramAndOfEachPartHasSynopsisAndExamples(t *testing.T) {
	binary := needTidemill(t)
	whole := output(t, binary, "--help")
	for _, part := range append(parts, "") {
		help := whole
		if part != "" {
			help = output(t, binary, part, "--help")
			if !strings.Contains(whole, "\n  "+part+" ") {
				t.Errorf("tidemill --help does not list %s:\n%s", part, whole)
			}
			if viaHelp := output(t, binary, "help", part); viaHelp != help {
				t.Errorf("tidemill help %s says something else:\n%s", part, viaHelp)
			}
		}
		synopsis, example := "Usage: "+strings.TrimSpace("tidemill "+part),
			"\n  (sudo |source <\\()?tidemill "+part
		if !strings.Contains(help, synopsis) {
			t.Errorf("%q has no synopsis:\n%s", part, help)
		}
		_, examples, _ := strings.Cut(help, "Examples:")
		if !regexp.MustCompile(example).MatchString(examples) {
			t.Errorf("%q has no example:\n%s", part, help)
		}
	}
}

// A harness or a script that starts `redis-server` finds the server under that name, and reads the
// version of Redis whose behaviour it has.
func TestServer_IsCalledAsThatOfRedisOrValkey(t *testing.T) {
	binary := needTidemill(t)
	for _, name := range []string{"redis-server", "valkey-server"} {
		link := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(binary, link); err != nil {
			t.Fatal(err)
		}
		for _, arguments := range [][]string{{"--version"}, {"-v"}, {"--port", "7", "--version"}} {
			version := output(t, link, arguments...)
			if !strings.HasPrefix(version, "Redis server v=7.") {
				t.Errorf("%s %q prints %s", name, arguments, version)
			}
		}
		checked := output(t, link, "--port", "7000", "--check-config")
		if checked != "the configuration is correct\n" {
			t.Errorf("%s --check-config prints %s", name, checked)
		}
	}
}

// The examples of the server are configurations that it accepts.
func TestHelp_ExamplesOfTheServerAreAccepted(t *testing.T) {
	binary := needTidemill(t)
	file := filepath.Join(t.TempDir(), "tidemill.conf")
	if err := os.WriteFile(file, []byte("port 6380\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, help := range []string{output(t, binary, "--help"),
		output(t, binary, "server", "--help")} {
		for _, line := range regexp.MustCompile(
			`(?m)^  tidemill (server .*)$`).FindAllStringSubmatch(help, -1) {
			words := strings.Fields(regexp.MustCompile(`/etc/\S*\.conf`).ReplaceAllString(line[1],
				file))
			if text, err := exec.Command(binary,
				append(words, "--check-config")...).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", line[1], err, text)
			}
			count++
		}
	}
	if count < 4 {
		t.Errorf("only %d examples found", count)
	}
}

// A text that cannot be written is lost, and nothing else: the exit status is the one of the
// command, or 1 where the text was all that was asked for.
func TestParts_EndInOrderWhereTheirTextCannotBeWritten(t *testing.T) {
	binary, log := needTidemill(t), filepath.Join(t.TempDir(), "log")
	// The checksum of a file of version 4 is not looked at.
	snapshot := filepath.Join(t.TempDir(), "empty.rdb")
	if err := os.WriteFile(snapshot, []byte("REDIS0004\xff"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]int{
		"--version >/dev/full":                              1,
		"server --version >/dev/full":                       1,
		"server --help >/dev/full":                          1,
		"server --list-directives >/dev/full":               1,
		"server --check-config >/dev/full":                  1,
		"server --version >/dev/full 2>/dev/full":           1,
		"server --port x 2>/dev/full":                       2,
		"server $'\\xff' 2>/dev/full":                       2,
		"server --logfile /no/where/log 2>/dev/full":        2,
		"server --port 0 --logfile " + log + " 2>/dev/full": 1,
		"server --version | true":                           0,
		"check-rdb --help >/dev/full":                       1,
		"check-rdb 2>/dev/full":                             2,
		"check-rdb " + snapshot + " >/dev/full":             1,
		"check-rdb " + snapshot + " | true":                 0,
		"check-rdb /dev/null | true":                        1,
		"tune --help >/dev/full":                            1,
		"tune --help | true":                                0,
		"tune no-such-command 2>/dev/full":                  2,
		"bench --help >/dev/full":                           1,
		"bench --help | true":                               0,
		"server --port 0 --save '' >/dev/full 2>/dev/full":  1,
	} {
		command := exec.Command("bash", "-o", "pipefail", "-c", `"$0" `+line, binary)
		text, _ := command.CombinedOutput()
		if status := command.ProcessState.ExitCode(); status != want ||
			strings.Contains(string(text), "panicked") {
			t.Errorf("tidemill %s: status %d:\n%s", line, status, text)
		}
	}
	if text := read(t, log); strings.Contains(text, "crashed") ||
		!strings.Contains(text, "Configured to not listen anywhere") {
		t.Error(text)
	}
}

func TestCompletions_BashOffersPartsCommandsAndDirectives(t *testing.T) {
	binary := needTidemill(t)
	script := filepath.Join(t.TempDir(), "completions")
	if err := os.WriteFile(script, []byte(output(t, binary, "completions", "bash")),
		0o600); err != nil {
		t.Fatal(err)
	}
	complete := `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_tidemill tidemill "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\n' "${COMPREPLY[@]}"`
	for line, want := range map[string]string{
		"tidemill se":                       "server",
		"tidemill server --maxm":            "--maxmemory",
		"tidemill server --check":           "--check-config",
		"tidemill tune d":                   "doctor",
		"tidemill tune apply --pers":        "--persist",
		"tidemill bench --key-max":          "--key-maximum",
		"tidemill experiment r":             "run",
		"tidemill completions z":            "zsh",
		"tidemill bench --protocol ":        "resp3",
		"tidemill experiment run --change-": "--change-machine",
	} {
		words := strings.Split(line, " ")
		offered := strings.Fields(
			output(t, "bash", append([]string{"-c", complete, "bash", script}, words...)...))
		if !strings.Contains(" "+strings.Join(offered, " ")+" ", " "+want+" ") {
			t.Errorf("%q: %q is not among %q", line, want, offered)
		}
	}
}

func TestCompletions_ShellsReadTheirScripts(t *testing.T) {
	binary := needTidemill(t)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text := output(t, binary, "completions", shell)
		for _, word := range append(parts, "maxmemory", "doctor") {
			if !strings.Contains(text, word) {
				t.Errorf("%s: no %q", shell, word)
			}
		}
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s is not installed: its script is not read", shell)
			continue
		}
		command := exec.Command(shell, "-n")
		command.Stdin = strings.NewReader(text)
		if problems, err := command.CombinedOutput(); err != nil || len(problems) > 0 {
			t.Errorf("%s -n: %v\n%s", shell, err, problems)
		}
	}
	for _, arguments := range [][]string{{"completions"}, {"completions", "tcsh"},
		{"completions", "bash", "zsh"}} {
		command := exec.Command(binary, arguments...)
		text, _ := command.CombinedOutput()
		if command.ProcessState.ExitCode() != 2 ||
			!strings.HasPrefix(string(text), "Usage: tidemill completions bash|zsh|fish") {
			t.Errorf("%q: %s", arguments, text)
		}
	}
	// A reader that goes away early is no reason to panic.
	if text := output(t, "bash", "-o", "pipefail", "-c", `"$0" completions bash 2>&1 | head -n 1`,
		binary); strings.Count(text, "\n") != 1 {
		t.Errorf("%q", text)
	}
}

func TestManual_HasAPagePerCommandWithSynopsisOptionsAndExamples(t *testing.T) {
	binary, directory := needTidemill(t), t.TempDir()
	output(t, binary, "man", directory)
	pages, err := filepath.Glob(filepath.Join(directory, "tidemill*.1"))
	if err != nil || len(pages) < 15 {
		t.Fatalf("%v: %q", err, pages)
	}
	for _, page := range pages {
		text := read(t, page)
		for _, heading := range []string{".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"} {
			if !strings.Contains(text, "\n"+heading) {
				t.Errorf("%s: no %s", page, heading)
			}
		}
		for _, reference := range regexp.MustCompile(
			`(?m)^(tidemill\S*)\(1\)$`).FindAllStringSubmatch(text, -1) {
			other := strings.ReplaceAll(reference[1], `\-`, "-") + ".1"
			if !slices.Contains(pages, filepath.Join(directory, other)) {
				t.Errorf("%s refers to %s, which is not there", page, other)
			}
		}
		if _, err := exec.LookPath("man"); err != nil {
			continue
		}
		if problems, err := exec.Command("sh", "-c",
			`man --warnings --local-file "$0" 2>&1 >/dev/null`,
			page).CombinedOutput(); err != nil || len(problems) > 0 {
			t.Errorf("%s: %v: %s", page, err, problems)
		}
	}
	for page, wanted := range map[string]string{
		"tidemill":            ".SH EXAMPLES\n  tidemill server",
		"tidemill-server":     `\-\-maxmemory`,
		"tidemill-tune":       ".SH EXAMPLES\n  tidemill tune doctor",
		"tidemill-bench":      ".SH EXAMPLES\n  tidemill bench",
		"tidemill-experiment": ".SH EXAMPLES\n  tidemill experiment",
	} {
		if text := read(t, filepath.Join(directory, page+".1")); !strings.Contains(text, wanted) {
			t.Errorf("%s: no %q in\n%s", page, wanted, text)
		}
	}
	for _, arguments := range [][]string{{"man"}, {"man", filepath.Join(directory, "absent")}} {
		if text, err := exec.Command(binary, arguments...).CombinedOutput(); err == nil ||
			strings.Contains(string(text), "panic") {
			t.Errorf("%q: %v: %s", arguments, err, text)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
