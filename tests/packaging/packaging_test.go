// Package packaging builds the Debian package of the server under test and looks into it: files,
// modes, scripts, the service's unit, whether the packed server starts with the packed
// configuration, and what dpkg makes of it in a layer over the host's files. The host itself stays
// as it is.
package packaging

import (
	"bytes"
	"errors"
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
	"tidemill/tests/internal/wire"
)

// exposureMax is systemd-analyze's measure of what a service could do to its host, from 0 to 10.
const exposureMax = 2.0

func run(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	var output, problems bytes.Buffer
	command := exec.Command(name, arguments...)
	command.Dir, command.Stdout, command.Stderr = instance.Root(), &output, &problems
	if err := command.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, arguments, err, output.Bytes(), problems.Bytes())
	}
	return output.String()
}

func TestPackage_HoldsWhatAServiceNeeds(t *testing.T) {
	if !instance.SubjectIsTidemill() {
		t.Skip("the server under test is a stand-in")
	}
	directory := t.TempDir()
	file := strings.TrimSpace(run(t, "scripts/deb", instance.Binary(instance.Subject), directory))
	root := filepath.Join(directory, "root")
	run(t, "dpkg-deb", "--raw-extract", file, root)
	t.Run("files", func(t *testing.T) { checkFiles(t, file) })
	t.Run("control", func(t *testing.T) { checkControl(t, root) })
	t.Run("unit", func(t *testing.T) { checkUnit(t, root) })
	t.Run("server", func(t *testing.T) { checkServer(t, root) })
	t.Run("dpkg", func(t *testing.T) { checkInstallation(t, file) })
}

// checkInstallation lets dpkg install, upgrade, remove and purge, in a layer over the host's files.
func checkInstallation(t *testing.T, file string) {
	layer := t.TempDir()
	isolated := func(script string, arguments ...string) *exec.Cmd {
		return exec.Command("unshare", append([]string{"--mount", "bash", "-c", script, "bash"},
			arguments...)...)
	}
	probe := `mount -t tmpfs tmpfs "$1" && mkdir "$1"/{upper,work,root} &&
		mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root" &&
		chroot "$1/root" dpkg --version`
	if output, err := isolated(probe, layer).CombinedOutput(); err != nil {
		t.Skipf("this host lets nobody install into a layer over its files: %v\n%s", err, output)
	}
	script, err := filepath.Abs("install.sh")
	if err != nil {
		t.Fatal(err)
	}
	output, err := isolated(`exec "$@"`, script, file, layer).CombinedOutput()
	if err != nil || strings.Contains(string(output), "WRONG:") ||
		!strings.Contains(string(output), "all steps done") {
		t.Errorf("%v\n%s", err, output)
	}
}

func checkFiles(t *testing.T, file string) {
	modes := map[string]string{}
	for line := range strings.Lines(run(t, "dpkg-deb", "--contents", file)) {
		fields := strings.Fields(line)
		if fields[1] != "root/root" {
			t.Errorf("owner: %s", line)
		}
		if !strings.HasSuffix(fields[5], "/") {
			modes[strings.TrimPrefix(fields[5], ".")] = fields[0]
		}
	}
	want := map[string]string{
		"/usr/bin/tidemill":                        "-rwxr-xr-x",
		"/lib/systemd/system/tidemill.service":     "-rw-r--r--",
		"/usr/lib/sysusers.d/tidemill.conf":        "-rw-r--r--",
		"/etc/tidemill/tidemill.conf":              "-rw-r-----", // it may hold a password
		"/usr/share/doc/tidemill/configuration.md": "-rw-r--r--",
		"/usr/share/doc/tidemill/operations.md":    "-rw-r--r--",
		"/usr/share/doc/tidemill/README.md":        "-rw-r--r--",
		"/usr/share/doc/tidemill/changelog.gz":     "-rw-r--r--",
		"/usr/share/doc/tidemill/copyright":        "-rw-r--r--",

		"/usr/share/bash-completion/completions/tidemill":    "-rw-r--r--",
		"/usr/share/zsh/vendor-completions/_tidemill":        "-rw-r--r--",
		"/usr/share/fish/vendor_completions.d/tidemill.fish": "-rw-r--r--",
	}
	for _, page := range []string{
		"", "-server", "-bench", "-check-aof", "-check-rdb", "-completions",
		"-experiment", "-experiment-ab",
		"-experiment-init", "-experiment-list",
		"-experiment-run", "-tune", "-tune-ab", "-tune-apply", "-tune-capture", "-tune-doctor",
		"-tune-plan", "-tune-revert",
		"-tune-run", "-tune-verify",
	} {
		want["/usr/share/man/man1/tidemill"+page+".1.gz"] = "-rw-r--r--"
	}
	for path, mode := range want {
		if modes[path] != mode {
			t.Errorf("%s: mode %q, want %s", path, modes[path], mode)
		}
		delete(modes, path)
	}
	for path := range modes {
		t.Errorf("%s is not expected", path)
	}
}

func checkControl(t *testing.T, root string) {
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if conffiles := read("DEBIAN/conffiles"); conffiles != "/etc/tidemill/tidemill.conf\n" {
		t.Errorf("conffiles: %s", conffiles)
	}
	version := strings.Fields(
		strings.TrimPrefix(run(t, filepath.Join(root, "usr/bin/tidemill"), "--version"),
			"tidemill "))[0]
	control := read("DEBIAN/control")
	for _, line := range []string{"Package: tidemill", "Version: " + version,
		`Depends: libc6 \(>= \d+\.\d+\).*`, `Installed-Size: [1-9]\d+`} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).MatchString(control) {
			t.Errorf("no %q in:\n%s", line, control)
		}
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		run(t, "sh", "-n", filepath.Join(root, "DEBIAN", script))
	}
	sums := exec.Command("md5sum", "--check", "--quiet", "DEBIAN/md5sums")
	sums.Dir = root
	if output, err := sums.CombinedOutput(); err != nil {
		t.Errorf("md5sums: %v\n%s", err, output)
	}
}

func checkUnit(t *testing.T, root string) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("no systemd-analyze on this host")
	}
	text, err := os.ReadFile(filepath.Join(root, "lib/systemd/system/tidemill.service"))
	if err != nil {
		t.Fatal(err)
	}
	// The binary is looked for where it will be, which it is not.
	here := bytes.ReplaceAll(text, []byte("=/usr/bin/tidemill "),
		[]byte("="+filepath.Join(root, "usr/bin/tidemill")+" "))
	unit := filepath.Join(t.TempDir(), "tidemill.service")
	if err := os.WriteFile(unit, here, 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
	// Other units of the host have problems of their own; ours is named in each of its lines.
	if strings.Contains(string(output), "tidemill.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, output)
	}
	output, err = exec.Command("systemd-analyze", "security", "--offline=true",
		unit).CombinedOutput()
	match := regexp.MustCompile(
		`Overall exposure level for tidemill\.service: ([\d.]+)`).FindSubmatch(output)
	if match == nil {
		t.Fatalf("systemd-analyze security: %v\n%s", err, output)
	}
	if exposure, _ := strconv.ParseFloat(string(match[1]), 64); exposure > exposureMax {
		t.Errorf("exposure %v, at most %v", exposure, exposureMax)
	}
}

func checkServer(t *testing.T, root string) {
	binary, config := filepath.Join(root, "usr/bin/tidemill"),
		filepath.Join(root, "etc/tidemill/tidemill.conf")
	run(t, binary, "server", config, "--check-config")
	socket := filepath.Join(t.TempDir(), "socket")
	server := exec.Command(binary, "server", config, "--port", "0", "--unixsocket", socket)
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	server.Dir = t.TempDir()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Process.Kill()
	err := errors.New("not tried")
	const pause = 10 * time.Millisecond
	end := time.Now().Add(time.Minute)
	for ; err != nil && time.Now().Before(end); time.Sleep(pause) {
		var conn *wire.Conn
		if conn, err = wire.Dial(socket); err == nil {
			_, err = conn.Do("PING")
			conn.Close()
		}
	}
	if err != nil {
		t.Error(err)
	}
	_ = server.Process.Signal(syscall.SIGTERM)
	if err := server.Wait(); err != nil {
		t.Error(err)
	}
}
