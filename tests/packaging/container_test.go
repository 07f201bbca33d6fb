package packaging

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	image            = "tidemill-test"
	containerUser    = "6379"
	containerTimeout = 20 * time.Second
)

// imageConfig is what an image says of how it is started.
type imageConfig struct {
	User       string
	Entrypoint []string
	Cmd        []string
	Volumes    map[string]struct{}
}

// buildah is the tool with a storage of its own, so that the host's images are left alone.
func buildah(directory string, arguments ...string) []string {
	return append([]string{
		"buildah", "--root", filepath.Join(directory, "images"),
		"--runroot", filepath.Join(directory, "run"), "--storage-driver", "vfs",
	}, arguments...)
}

func TestContainer_IsBuiltAndServesAsItsUser(t *testing.T) {
	if !instance.SubjectIsTidemill() {
		t.Skip("the server under test is a stand-in")
	}
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Skip("buildah is not installed: apt install buildah")
	}
	directory := t.TempDir()
	tool := func(arguments ...string) string {
		t.Helper()
		words := buildah(directory, arguments...)
		return strings.TrimSpace(run(t, words[0], words[1:]...))
	}
	probe := exec.Command("unshare", "--mount", "true")
	if output, err := probe.CombinedOutput(); err != nil {
		t.Skipf("this host allows no namespaces: %v %s", err, output)
	}
	t.Setenv("CONTAINER_TOOL", strings.Join(buildah(directory), " "))
	run(t, "scripts/container", instance.Binary(instance.Subject), image)

	var found struct{ OCIv1 struct{ Config imageConfig } }
	inspected := tool("inspect", "--type", "image", image)
	if err := json.Unmarshal([]byte(inspected), &found); err != nil {
		t.Fatal(err)
	}
	config := found.OCIv1.Config
	if config.User != containerUser+":"+containerUser {
		t.Errorf("user %q", config.User)
	}
	if _, isVolume := config.Volumes["/data"]; !isVolume || len(config.Volumes) != 1 {
		t.Errorf("volumes %v, one is wanted", config.Volumes)
	}
	container := tool("from", image)
	checkImageFiles(t, tool("mount", container))
	checkContainer(t, directory, container, slices.Concat(config.Entrypoint, config.Cmd))
}

// checkImageFiles looks for programs beside the server, and for files that everybody may write.
func checkImageFiles(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		inside := strings.TrimPrefix(path, root)
		isLibrary := strings.Contains(filepath.Base(path), ".so")
		if info.Mode()&0o111 != 0 && !isLibrary && inside != "/usr/bin/tidemill" {
			t.Errorf("a program beside the server: %s", inside)
		}
		if info.Mode()&(os.ModeSetuid|os.ModeSetgid|0o022) != 0 {
			t.Errorf("%s has mode %v", inside, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkContainer starts the image's own command with a port of this host's network.
func checkContainer(t *testing.T, directory, container string, command []string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := fmt.Sprint(listener.Addr().(*net.TCPAddr).Port)
	listener.Close()
	words := buildah(directory, "run", "--isolation", "chroot", container, "--")
	words = append(append(words, command...), "--port", port)
	server := exec.Command(words[0], words[1:]...)
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	output := &bytes.Buffer{}
	server.Stdout, server.Stderr = output, output
	server.WaitDelay = time.Second
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	stop := func() { _ = syscall.Kill(-server.Process.Pid, syscall.SIGKILL) }
	defer stop()

	conn := dialUntil(t, "127.0.0.1:"+port, ended, output)
	defer conn.Close()
	do := func(want string, arguments ...string) string {
		t.Helper()
		reply, err := conn.Do(arguments...)
		if err != nil || reply.IsError() || want != "" && string(reply.Text) != want {
			t.Fatalf("%q: %v %v", arguments, reply, err)
		}
		return string(reply.Text)
	}
	do("OK", "SET", "key", "value")
	do("OK", "SAVE") // into the volume
	_, rest, _ := strings.Cut(do("", "INFO", "server"), "process_id:")
	process, _, _ := strings.Cut(rest, "\r\n")
	status, err := os.ReadFile("/proc/" + process + "/status")
	if err != nil {
		t.Fatal(err)
	}
	user := strings.Repeat("\t"+containerUser, 4)
	for _, line := range []string{"Uid:" + user, "Gid:" + user, "CapEff:\t0000000000000000"} {
		if !strings.Contains(string(status), line+"\n") {
			t.Errorf("no %q in its status:\n%s", line, status)
		}
	}
	number, err := strconv.Atoi(process)
	if err != nil {
		t.Fatal(err)
	}
	// The image's STOPSIGNAL.
	if err := syscall.Kill(number, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("%v\n%s", err, output)
		}
	case <-time.After(containerTimeout):
		t.Errorf("the container goes on after SIGTERM\n%s", output)
	}
}

// dialUntil connects as soon as the server listens.
func dialUntil(t *testing.T, address string, ended chan error, output *bytes.Buffer) *wire.Conn {
	t.Helper()
	for end := time.Now().Add(containerTimeout); time.Now().Before(end); {
		if conn, err := wire.Dial(address); err == nil {
			return conn
		}
		select {
		case err := <-ended:
			t.Fatalf("the container ended: %v\n%s", err, output)
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatal("nothing listens in the container")
	return nil
}
