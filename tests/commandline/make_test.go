package commandline

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
)

// makeEnvironment is ours without what an outer make tells its children.
func makeEnvironment(more ...string) (environment []string) {
	for _, variable := range os.Environ() {
		switch name, _, _ := strings.Cut(variable, "="); name {
		case "MAKE", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "TIDEMILL_BUDGET_SECONDS":
		default:
			environment = append(environment, variable)
		}
	}
	return append(environment, more...)
}

func writeProgram(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// A compiler in the real one's place: the build takes minutes, and whether its lines are shown is
// decided by how it is called.
func TestMakeRun_ShowsSetupAndCompilerAndThenTheServersLines(t *testing.T) {
	binary := needTidemill(t)
	port, err := instance.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	compiler := writeProgram(t,
		`case " $* " in *" --quiet "*|*" -q "*) exit 0;; esac
echo "   Compiling tidemill: $*" >&2`)
	command := exec.Command("make", "run", "CARGO="+compiler, "SERVER="+binary,
		"PORT="+strconv.Itoa(port))
	command.Dir, command.Env = instance.Root(), makeEnvironment()
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	command.Stdout, command.Stderr = writer, writer
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	stop := func(signal syscall.Signal) { _ = syscall.Kill(-command.Process.Pid, signal) }
	overdue := time.AfterFunc(time.Minute, func() { stop(syscall.SIGKILL) })
	defer overdue.Stop()

	ready := "Ready to accept connections tcp 127.0.0.1:" + strconv.Itoa(port)
	wanted := []string{
		"setup: all that building needs is installed",
		"build: the release build takes",
		"Compiling tidemill: build --release --locked -p tidemill",
		ready,
	}
	var seen strings.Builder
	lines := bufio.NewScanner(reader)
	for len(wanted) > 0 && lines.Scan() {
		seen.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), wanted[0]) {
			wanted = wanted[1:]
		}
		if strings.Contains(lines.Text(), ready) {
			break
		}
	}
	stop(syscall.SIGTERM)
	for lines.Scan() {
	}
	_ = command.Wait()
	if len(wanted) > 0 {
		t.Errorf("no %q, in this order, in:\n%s", wanted, seen.String())
	}
}

// runSteps runs scripts/steps over targets of a toy Makefile.
func runSteps(t *testing.T, environment []string, arguments ...string) (string, int) {
	t.Helper()
	directory := t.TempDir()
	// Those that wait for each other's file end only side by side.
	toy := "setup build-slow:\n\t@sleep 2\nquick:\n\t@echo quick ran\nfails:\n\t@exit 3\n" +
		"ping:\n\t@touch pinged; timeout 30 sh -c 'until [ -e ponged ]; do sleep 0.1; done'\n" +
		"pong:\n\t@touch ponged; timeout 30 sh -c 'until [ -e pinged ]; do sleep 0.1; done'\n" +
		"input:\n\t@! read -r _\n"
	if err := os.WriteFile(filepath.Join(directory, "Makefile"), []byte(toy), 0o600); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs(filepath.Join(instance.Root(), "scripts", "steps"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(script, arguments...)
	command.Dir, command.Env = directory, makeEnvironment(environment...)
	text, _ := command.CombinedOutput()
	return string(text), command.ProcessState.ExitCode()
}

func TestSteps_TellSecondsAndFailOverTheBudget(t *testing.T) {
	const oneSecond, noBudget = "TIDEMILL_BUDGET_SECONDS=1", "TIDEMILL_BUDGET_SECONDS=0"
	for _, c := range []struct {
		what, environment string
		arguments         []string
		fails             bool
		said              string
	}{
		{"within the budget", "", []string{"check", "quick", "build-slow"}, false,
			`\nbuild-slow +[2-9]\d*\ncounted +[2-9]\d* of 1800\n`},
		{"the default of test", "", []string{"test", "quick"}, false, `\ncounted +\d+ of 720\n`},
		{"over it", oneSecond, []string{"check", "quick", "build-slow"}, true,
			`\nmake check: all passed, but over the budget`},
		{"lifted", noBudget, []string{"check", "build-slow"}, false,
			`\ncounted +[2-9]\d* \(no budget\)\n`},
		{"compiling before tests", oneSecond, []string{"test", "build-slow"}, false,
			`\nbuild-slow +[2-9]\d*  not counted\n`},
		{"setup", oneSecond, []string{"check", "setup"}, false, `\nsetup +[2-9]\d*  not counted\n`},
		{"a failure", "", []string{"check", "quick", "fails", "build-slow"}, true,
			`\nfails +\d+\ncounted +\d+\nmake check: fails failed\n`},
		{"lanes side by side", "", []string{"check", "ping+quick,pong+input"}, false,
			`\nping +\d+\nquick +\d+\npong +\d+\ninput +\d+\ncounted +\d+ of`},
		{"lanes that compile before tests", oneSecond, []string{"test", "build-slow,build-slow"},
			false, `\ncounted +0 of`},
		{"a failure in a lane", "", []string{"check", "quick,fails+ping", "ping"}, true,
			`\nquick +\d+\nfails +\d+\ncounted +\d+\nmake check: fails failed\n`},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			text, status := runSteps(t, []string{c.environment}, c.arguments...)
			if (status != 0) != c.fails || !regexp.MustCompile(c.said).MatchString(text) {
				t.Errorf("status %d:\n%s", status, text)
			}
			if announced := strings.Index(text,
				"==> quick\nquick ran\n"); c.arguments[1] == "quick" && announced != 0 {
				t.Errorf("the step is not announced before it runs:\n%s", text)
			}
		})
	}
}

func TestSteps_LanesCountOnce(t *testing.T) {
	text, status := runSteps(t, nil, "check", "setup+build-slow,setup+build-slow")
	said := regexp.MustCompile(
		`\nsetup +[2-9]\d*  not counted\nbuild-slow +[2-9]\d*\ncounted +[2-9]\d* of`)
	if status != 0 || !said.MatchString(text) {
		t.Errorf("status %d:\n%s", status, text)
	}
	sum, counted := 0, 0
	for _, line := range regexp.MustCompile(`(?m)^(\S+) +(\d+)`).FindAllStringSubmatch(text, -1) {
		seconds, _ := strconv.Atoi(line[2])
		if line[1] == "counted" {
			counted = seconds
		} else {
			sum += seconds
		}
	}
	// Each is rounded by up to a second.
	if counted == 0 || counted > sum-3 {
		t.Errorf("%d of %d seconds count:\n%s", counted, sum, text)
	}
}
