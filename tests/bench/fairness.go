package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	fairnessRatioLimit = 2.0
	fairnessListItems  = 1_000_000
	fairnessListBytes  = int64(len("*1000000\r\n")) +
		fairnessListItems*int64(len("$10\r\nv000000000\r\n"))
	fairnessValueBytes = 64 << 20
	// The reply to GET of such a value.
	fairnessValueReplyBytes = int64(len("$67108864\r\n") + fairnessValueBytes + len("\r\n"))
	fairnessCommandKeys     = 1_000
	fairnessSettling        = 500 * time.Millisecond
	offencePiece            = 64 << 10
	aloneName               = "neighbours alone"
)

// offence is what one client does to its neighbours: the requests that it repeats, and whether it
// reads replies.
type offence struct {
	name    string
	request func() []byte
	reads   bool
	// replyBytes is the length of a reply that is awaited before the next request: Valkey would
	// gather the replies to all that it has read in memory, gigabytes of them.
	replyBytes int64
}

var offences = []offence{
	{"one that pipelines and never reads", func() []byte {
		return repeated(10_000, "GET", fmt.Sprintf("key:%012d", 1))
	}, false, 0},
	{"one that pipelines 10,000 at a time", func() []byte {
		return repeated(10_000, "GET", fmt.Sprintf("key:%012d", 1))
	}, true, 0},
	{"one that sends values of 64 MiB", func() []byte {
		return repeated(1, "SET", "huge", strings.Repeat("x", fairnessValueBytes))
	}, true, 0},
	{"one that reads values of 64 MiB", func() []byte {
		return repeated(1, "GET", "huge") // the one before has set it
	}, true, fairnessValueReplyBytes},
	{"one that sends MSET of 1,000 keys", func() []byte {
		arguments := []string{"MSET"}
		for key := range fairnessCommandKeys {
			arguments = append(arguments, fmt.Sprintf("many:%06d", key), "value")
		}
		return repeated(100, arguments...)
	}, true, 0},
	{"one that reads 1,000,000 elements", func() []byte {
		return repeated(1, "LRANGE", listKey(0), "0", "-1")
	}, true, fairnessListBytes},
}

func repeated(count int, arguments ...string) []byte {
	return []byte(strings.Repeat(string(wire.AppendCommand(nil, wire.Arguments(arguments...)...)),
		count))
}

// measureFairness compares the p99 of fifty closed-loop clients beside one offender with theirs
// alone.
//
// The offender runs at idle priority on the load's CPU: what it takes from its neighbours, it takes
// within the server. Short runs leave it at normal priority, because a busy machine gives an idle
// one no time at all; their ratios say little.
func measureFairness(report *Report, chosen settings) error {
	contenders := []contender{
		{name: "tidemill", kind: instance.Subject, directives: tidemillDirectives(1)},
		{name: "valkey", kind: instance.Valkey},
	}
	neighbours := load{
		connections: smallConnectionCount, pipeline: 1, keys: smallKeyCount, valueMin: 32,
		valueMax: 32,
		seconds:  chosen.Seconds / 2, sleeps: true, cpus: loadCPU,
	}
	return withServers(serverCPU, contenders, func(contenders []contender) error {
		for _, c := range contenders {
			filling := neighbours
			filling.fill, filling.pipeline = true, 100
			if _, err := filling.run(c.server); err != nil {
				return err
			}
			if err := fillCollections(c.server, 1, fairnessListItems); err != nil {
				return err
			}
		}
		for round := range chosen.PartRounds {
			for turn := range contenders {
				c := contenders[(round+turn)%len(contenders)]
				if err := measureOffences(report, c, neighbours); err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
			}
		}
		for _, each := range offences {
			name := "neighbours of " + each.name
			ratio := ratioOf(report.series(name, "tidemill"), report.series(aloneName, "tidemill"),
				func(s Sample) float64 { return s.P99us })
			report.verdict(name+": p99 / alone", fairnessRatioLimit, ratio)
		}
		return nil
	})
}

func measureOffences(report *Report, c contender, neighbours load) error {
	sample, err := neighbours.run(c.server)
	if err != nil {
		return err
	}
	report.add(aloneName, c.name, sample)
	for _, each := range offences {
		offender, err := startOffender(each.name, c.server)
		if err != nil {
			return err
		}
		time.Sleep(fairnessSettling)
		sample, err := neighbours.run(c.server)
		traffic, stopErr := offender.stop()
		if err != nil || stopErr != nil {
			return fmt.Errorf("%s: %v %v", each.name, err, stopErr)
		}
		report.add("neighbours of "+each.name, c.name, sample)
		report.addUp("MB sent by "+each.name, c.name, float64(traffic.Sent)/1e6)
		report.addUp("MB received by "+each.name, c.name, float64(traffic.Received)/1e6)
		time.Sleep(fairnessSettling) // what the offender left behind is freed
	}
	return nil
}

// traffic is what an offender achieved.
type traffic struct{ Sent, Received int64 }

type offender struct {
	process *exec.Cmd
	output  *bufio.Reader
}

func startOffender(name string, server *instance.Server) (*offender, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	words := []string{"taskset", "-c", loadCPU, self, "--offend", name, "--address", server.Address}
	if !*quick {
		words = append([]string{"chrt", "-i", "0"}, words...)
	}
	process := exec.Command(words[0], words[1:]...)
	process.Stderr = os.Stderr
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	o := &offender{process, bufio.NewReader(output)}
	// At idle priority it may take its time; what is measured before it sends is no offence.
	if _, err := o.output.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("%s: ended before it sent anything: %w", name, err)
	}
	return o, nil
}

func (o *offender) stop() (achieved traffic, err error) {
	if err := o.process.Process.Signal(syscall.SIGTERM); err != nil {
		return achieved, err
	}
	if err := json.NewDecoder(o.output).Decode(&achieved); err != nil {
		return achieved, err
	}
	return achieved, o.process.Wait()
}

// offend is an offender's process. It ends at SIGTERM and prints its traffic; a server that cut it
// off sees it again.
func offend(name, address string) error {
	var chosen *offence
	for index := range offences {
		if offences[index].name == name {
			chosen = &offences[index]
		}
	}
	if chosen == nil {
		return fmt.Errorf("no offence %q", name)
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	var sent, received atomic.Int64
	var started sync.Once
	request := chosen.request()
	go func() {
		for {
			conn, err := wire.Dial(address)
			if err != nil {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			if chosen.reads && chosen.replyBytes == 0 {
				go func() { _, _ = io.Copy(counter{&received}, conn.Conn) }()
			}
			for rest := request; err == nil; {
				var written int
				// In pieces: a client that is stuck has sent the ones before.
				written, err = conn.Conn.Write(rest[:min(len(rest), offencePiece)])
				if rest = rest[written:]; len(rest) == 0 {
					rest = request
				}
				sent.Add(int64(written))
				started.Do(func() { fmt.Println("started") })
				if err == nil && chosen.replyBytes > 0 {
					_, err = io.CopyN(counter{&received}, conn.Conn, chosen.replyBytes)
				}
			}
			conn.Close()
		}
	}()
	<-terminated
	return json.NewEncoder(os.Stdout).Encode(traffic{sent.Load(), received.Load()})
}

// counter counts what is written to it.
type counter struct{ bytes *atomic.Int64 }

func (c counter) Write(bytes []byte) (int, error) {
	c.bytes.Add(int64(len(bytes)))
	return len(bytes), nil
}
