package process

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// ownNetworkMark names the test that runs in a network of its own, in the environment of that run.
const ownNetworkMark = "TIDEMILL_TEST_IN_OWN_NETWORK"

// inOwnNetwork runs a claim in a network namespace that has nothing but a loopback interface, as
// the root of a user namespace: there are addresses and settings of the kernel that nobody else
// sees. The test's program is started there once more for it. Where namespaces are refused nothing
// is proven, which the test says.
func inOwnNetwork(t *testing.T, claim func(t *testing.T)) {
	if os.Getenv(ownNetworkMark) == t.Name() {
		startLoopback(t)
		claim(t)
		return
	}
	if output, err := namespaced("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Skipf("nothing is proven, for there is no network of one's own here: %v %s", err, output)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The kernel ends the program when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	again := namespaced(program, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	again.Env = append(os.Environ(), ownNetworkMark+"="+t.Name())
	output, err := again.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "--- PASS: "+t.Name()+" ") {
		t.Errorf("in a network of its own: %v\n%s", err, output)
	}
}

// namespaced is a command in a user and a network namespace that are made for it.
func namespaced(name string, arguments ...string) *exec.Cmd {
	command := exec.Command(name, arguments...)
	command.WaitDelay = closeTimeout
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	return command
}

// Addresses for documentation (RFC 5737, RFC 3849), which inOwnNetwork gives to the loopback
// interface: for a server, a client at one of them is on another host.
const (
	otherHost     = "192.0.2.1"
	otherHostIPv6 = "2001:db8::1"
)

// startLoopback gives the loopback interface of the namespace its addresses.
func startLoopback(t *testing.T) {
	t.Helper()
	addresses := []string{otherHost + "/32"}
	if hasIPv6() {
		addresses = append(addresses, otherHostIPv6+"/128")
	}
	calls := [][]string{{"link", "set", "lo", "up"}}
	for _, address := range addresses {
		call := []string{"address", "add", address, "dev", "lo"}
		if strings.Contains(address, ":") {
			// Else the address is tentative, and not to be bound, until the kernel's worker has
			// run.
			call = append(call, "nodad")
		}
		calls = append(calls, call)
	}
	for _, call := range calls {
		if output, err := exec.Command("ip", call...).CombinedOutput(); err != nil {
			t.Fatalf("ip %q: %v %s", call, err, output)
		}
	}
}

// hasIPv6 tells whether the kernel gives interfaces IPv6 addresses.
func hasIPv6() bool {
	disabled, err := os.ReadFile("/proc/sys/net/ipv6/conf/lo/disable_ipv6")
	return err == nil && strings.TrimSpace(string(disabled)) == "0"
}
