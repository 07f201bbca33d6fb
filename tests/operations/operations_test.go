// Package operations runs the commands of docs/operations.md against the real programs, in the
// order of the page: a page that lies fails here.
package operations

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
)

// block is a piece of shell that the page marks as run.
var block = regexp.MustCompile("(?s)<!-- runs -->\n```sh\n(.*?)```\n")

// blockCountMin is lower than the page's count, and tells a page whose marks went astray.
const blockCountMin = 10

const runTimeout = 3 * time.Minute

// isolated is a shell in a network and a process namespace of its own: ports are free, and servers
// in the background end with it.
func isolated(script, directory string) *exec.Cmd {
	command := exec.Command("bash", "-c", script)
	command.Dir = directory
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{
			ContainerID: 0, HostID: os.Getuid(), Size: 1,
		}},
		GidMappings: []syscall.SysProcIDMap{{
			ContainerID: 0, HostID: os.Getgid(), Size: 1,
		}},
		Pdeathsig: syscall.SIGKILL,
	}
	return command
}

func TestOperations_CommandsOfThePageWork(t *testing.T) {
	if !instance.SubjectIsTidemill() {
		t.Skip("the page is about Tidemill")
	}
	if output, err := isolated("ip link set lo up", t.TempDir()).CombinedOutput(); err != nil {
		t.Skipf("this host allows no namespaces: %v %s", err, output)
	}
	page, err := os.ReadFile(filepath.Join(instance.Root(), "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := block.FindAllStringSubmatch(string(page), -1)
	if len(blocks) < blockCountMin {
		t.Fatalf("%d blocks are marked, at least %d are expected", len(blocks), blockCountMin)
	}
	// -x prints each command, so that a failure shows which line of the page it was.
	script := strings.Builder{}
	script.WriteString("ip link set lo up\nset -euxo pipefail\n")
	for _, each := range blocks {
		script.WriteString(each[1])
	}
	command := isolated(script.String(), t.TempDir())
	command.Env = append(os.Environ(), "PATH="+programs(t)+":"+os.Getenv("PATH"))
	output := &strings.Builder{}
	command.Stdout, command.Stderr = output, output
	// Servers in the background hold the output until the namespace has ended.
	command.WaitDelay = time.Second
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(runTimeout, func() { _ = command.Process.Kill() })
	defer timer.Stop()
	if err := command.Wait(); err != nil {
		t.Errorf("%v\n%s", err, output.String())
	}
}

// programs is a directory with the servers under the names that the page gives them.
func programs(t *testing.T) string {
	directory := t.TempDir()
	for name, kind := range map[string]instance.Kind{
		"tidemill": instance.Subject, "valkey-server": instance.Valkey,
		"redis-server": instance.Redis,
	} {
		path, err := exec.LookPath(instance.Binary(kind))
		if err != nil {
			t.Fatal(err)
		}
		if path, err = filepath.Abs(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(directory, name)); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}
