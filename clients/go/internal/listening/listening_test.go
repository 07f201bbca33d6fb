package listening

import (
	"net"
	"os"
	"runtime"
	"testing"
)

func listen(t *testing.T) (port int, listener net.Listener) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().(*net.TCPAddr).Port, listener
}

func TestAt_IsTrueOfTheProcessThatListens(t *testing.T) {
	one, _ := listen(t)
	two, closed := listen(t)
	if pid := os.Getpid(); !At(pid) || !At(pid, one) || !At(pid, one, two) {
		t.Error("own listeners are not found")
	}
	closed.Close()
	if At(os.Getpid(), one, two) {
		t.Error("nobody listens at one of the ports")
	}
	if parent := os.Getppid(); runtime.GOOS == "linux" && At(parent, one) {
		t.Error("process", parent, "does not listen")
	}
}
