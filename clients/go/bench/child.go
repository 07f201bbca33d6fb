package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// load says what a measurement process does: "rate:20000" or "closed:64".
type load struct {
	open   bool
	number int // requests per second, or goroutines
}

func parseLoad(text string) (load, error) {
	kind, digits, _ := strings.Cut(text, ":")
	number, err := strconv.Atoi(digits)
	if err != nil || (kind != "rate" && kind != "closed") {
		return load{}, fmt.Errorf("load %q is neither rate:N nor closed:N", text)
	}
	return load{kind == "rate", number}, nil
}

const (
	rateGoroutines = 256
	keyCount       = 10000
)

// figures is what one measurement process prints.
type figures struct {
	Operations int
	Seconds    float64
	ServerNs   float64 // CPU of the server over the window
	ClientNs   float64
	MeanUs     float64
	P99Us      float64
	Allocs     float64 // per operation
	AllocBytes float64
	Stats      string `json:",omitempty"`
	Errors     int
}

// runChild measures one client under one load and prints figures as JSON.
func runChild(
	name, address, loadText string, serverPid int, duration time.Duration, size int,
) error {
	l, err := parseLoad(loadText)
	if err != nil {
		return err
	}
	goroutines := l.number
	if l.open {
		goroutines = rateGoroutines
	}
	p, err := peers[name](address, goroutines)
	if err != nil {
		return err
	}
	defer p.close()
	var measuring, stopping atomic.Bool
	histograms := make([]*histogram, goroutines)
	var failures atomic.Int64
	var group sync.WaitGroup
	for i := range goroutines {
		histograms[i] = &histogram{}
		group.Add(1)
		go func() {
			defer group.Done()
			w := worker{peer: p, random: rand.New(rand.NewPCG(uint64(i), 7)),
				histogram: histograms[i], measuring: &measuring, size: size}
			if l.open {
				w.runPlan(&stopping, float64(l.number)/rateGoroutines)
			} else {
				w.runClosed(&stopping)
			}
			failures.Add(int64(w.failures))
		}()
	}
	time.Sleep(duration / warmUpShare)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	result := figures{}
	serverBefore, clientBefore, started := cpuOf(serverPid), cpuOf(os.Getpid()), time.Now()
	measuring.Store(true)
	time.Sleep(duration)
	measuring.Store(false)
	result.Seconds = time.Since(started).Seconds()
	result.ServerNs, result.ClientNs = cpuOf(serverPid)-serverBefore,
		cpuOf(os.Getpid())-clientBefore
	runtime.ReadMemStats(&after)
	if p.stats != nil {
		result.Stats = p.stats()
	}
	stopping.Store(true)
	group.Wait()
	var all histogram
	for _, h := range histograms {
		all.add(h)
	}
	result.Operations, result.MeanUs, result.P99Us = all.count, all.mean(), all.percentile(0.99)
	result.Allocs = float64(after.Mallocs-before.Mallocs) / float64(max(all.count, 1))
	result.AllocBytes = float64(after.TotalAlloc-before.TotalAlloc) / float64(max(all.count, 1))
	result.Errors = int(failures.Load())
	return json.NewEncoder(os.Stdout).Encode(result)
}

// worker is one goroutine of the load.
type worker struct {
	peer      peer
	random    *rand.Rand
	histogram *histogram
	measuring *atomic.Bool
	size      int
	failures  int
}

func (w *worker) runClosed(stopping *atomic.Bool) {
	for !stopping.Load() {
		w.once(func() error { return w.peer.get(keys[w.random.IntN(keyCount)]) })
	}
}

// runPlan sends series of 1 to 8 requests at its own random times. There is no shared limiter,
// which would itself bunch the requests.
func (w *worker) runPlan(stopping *atomic.Bool, perSecond float64) {
	sleeper := newSleeper()
	defer sleeper.close()
	between := float64(time.Second) * 4.5 / perSecond
	next := time.Now().Add(time.Duration(w.random.Float64() * between))
	for !stopping.Load() {
		sleeper.until(next)
		next = next.Add(time.Duration(w.random.ExpFloat64() * between))
		for range 1 + w.random.IntN(8) {
			key := keys[w.random.IntN(keyCount)]
			if w.random.IntN(5) == 0 {
				length := 16 + w.random.IntN(33)
				if w.size > 0 {
					length = w.size
				}
				w.once(func() error { return w.peer.set(key, filler[:length]) })
			} else {
				w.once(func() error { return w.peer.get(key) })
			}
		}
	}
}

func (w *worker) once(operation func() error) {
	started := time.Now()
	err := operation()
	if w.measuring.Load() {
		w.histogram.record(time.Since(started))
	}
	if err != nil {
		w.failures++
	}
}

var keys = func() (names [keyCount]string) {
	for i := range names {
		names[i] = fmt.Sprintf("key:%08d", i)
	}
	return names
}()

var filler = strings.Repeat("v", 64<<10)

// sleeper sleeps exactly: the runtime's sleep wakes an idle process on ticks of a millisecond.
type sleeper struct {
	file *os.File
	fd   uintptr
}

func newSleeper() *sleeper {
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, 1,
		syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		panic(errno)
	}
	return &sleeper{os.NewFile(fd, "timerfd"), fd}
}

func (s *sleeper) until(at time.Time) {
	d := time.Until(at)
	if d <= 0 {
		return
	}
	setting := [4]int64{0, 0, int64(d / time.Second), int64(d % time.Second)}
	syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, s.fd, 0, uintptr(unsafe.Pointer(&setting)), 0,
		0, 0)
	var expirations [8]byte
	_, _ = s.file.Read(expirations[:])
}

func (s *sleeper) close() { _ = s.file.Close() }

// cpuOf sums the CPU time of a process's threads in nanoseconds. Threads that ended are not
// counted; neither the server nor the Go runtime ends any within a measurement.
func cpuOf(pid int) (total float64) {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		first, _, _ := strings.Cut(string(data), " ")
		ns, _ := strconv.ParseFloat(first, 64)
		total += ns
	}
	return total
}
