//go:build linux

package tidemill

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// pauser sleeps for tens of microseconds. The runtime's own timers cannot: a process with nothing
// else to do waits in epoll_wait, which counts milliseconds. A timerfd wakes that wait like a
// socket.
type pauser struct {
	file  *os.File
	fd    uintptr
	timer *time.Timer // used when there is no timerfd
}

const timerfdFlags = syscall.O_NONBLOCK | syscall.O_CLOEXEC

func newPauser() *pauser {
	const clockMonotonic = 1
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, timerfdFlags, 0)
	if errno != 0 {
		return &pauser{timer: stoppedTimer()}
	}
	return &pauser{file: os.NewFile(fd, "timerfd"), fd: fd}
}

// sleep waits for d, or until cut.
func (p *pauser) sleep(d time.Duration) {
	if p.file == nil {
		p.timer.Reset(d)
		<-p.timer.C
		return
	}
	if !p.arm(d) {
		return
	}
	var expirations [8]byte
	_, _ = p.file.Read(expirations[:])
}

// cut ends a sleep early; without one it ends the next.
func (p *pauser) cut() {
	if p.file == nil {
		p.timer.Reset(0)
		return
	}
	p.arm(time.Nanosecond)
}

func (p *pauser) arm(d time.Duration) bool {
	setting := [4]int64{0, 0, int64(d / time.Second), int64(d % time.Second)}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, p.fd, 0,
		// SAFETY: the kernel reads the four words during the call; the array outlives it.
		uintptr(unsafe.Pointer(&setting)), 0, 0, 0)
	return errno == 0
}

func (p *pauser) close() {
	if p.file != nil {
		_ = p.file.Close()
	}
}
