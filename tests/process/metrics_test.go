package process

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"tidemill/tests/internal/instance"
)

// scrape returns the families of our metrics page.
func scrape(t *testing.T, address string) map[string]*dto.MetricFamily {
	t.Helper()
	families, response := scrapeAny(t, address)
	if response.StatusCode != http.StatusOK ||
		response.Header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("%s, %v", response.Status, response.Header)
	}
	return families
}

// scrapeAny returns the families of a metrics page of any server, and the response that they came
// with.
func scrapeAny(t *testing.T, address string) (map[string]*dto.MetricFamily, *http.Response) {
	t.Helper()
	client := http.Client{Timeout: closeTimeout}
	var response *http.Response
	var body []byte
	// A request that does not arrive within a second ends a connection, and so does an answer that
	// is not received within two.
	waitFor(t, "a scrape of "+address, func() bool {
		var err error
		if response, err = client.Get("http://" + address + "/metrics"); err != nil {
			return false
		}
		defer response.Body.Close()
		body, err = io.ReadAll(response.Body)
		return err == nil
	})
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return families, response
}

// sum adds the samples of a family that have all the labels.
func sum(families map[string]*dto.MetricFamily, name string, labels ...string) (total float64) {
	for _, metric := range families[name].GetMetric() {
		matches := 0
		for _, label := range metric.GetLabel() {
			for index := 0; index < len(labels); index += 2 {
				if label.GetName() == labels[index] && label.GetValue() == labels[index+1] {
					matches++
				}
			}
		}
		if 2*matches == len(labels) {
			total += metric.GetCounter().GetValue() + metric.GetGauge().GetValue() +
				metric.GetUntyped().GetValue()
		}
	}
	return total
}

func startWithMetrics(t *testing.T) (*instance.Server, string) {
	t.Helper()
	server := instance.Start(t, instance.Subject, "--metrics-port", instance.OtherPort,
		"--worker-threads", "2")
	return server, "127.0.0.1:" + strconv.Itoa(server.OtherPort)
}

// requestTime is the time within which a request to the metrics has to arrive.
const requestTime = time.Second

// dialWith connects to the metrics and sends requests. A test that had no CPU for so long that they
// may have been late begins with another connection.
func dialWith(t *testing.T, address, requests string) net.Conn {
	t.Helper()
	for {
		begun := time.Now()
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(begun.Add(closeTimeout))
		// The server may refuse it before it has all of it.
		_, _ = io.WriteString(conn, requests)
		if time.Since(begun) < requestTime {
			t.Cleanup(func() { conn.Close() })
			return conn
		}
		conn.Close()
	}
}

func TestMetrics_AreThoseOfInfo(t *testing.T) {
	server, address := startWithMetrics(t)
	before := scrape(t, address)
	conn := server.Dial(t)
	for index := range 100 {
		expectOK(t, conn, "SET", "key"+strconv.Itoa(index), "value", "EX", "1000")
	}
	for range 30 {
		do(t, conn, "GET", "key1")
		do(t, conn, "GET", "missing")
	}
	do(t, conn, "NOSUCHCOMMAND")
	do(t, conn, "SELECT", "3")
	expectOK(t, conn, "SET", "other", "value")
	waitFor(t, "the connection that saw the start to be gone", func() bool {
		return sum(scrape(t, address), "tidemill_clients") == 1
	})
	after := scrape(t, address)
	grown := func(name string, labels ...string) float64 {
		return sum(after, name, labels...) - sum(before, name, labels...)
	}
	for name, pair := range map[string][2]float64{
		"commands SET":  {grown("tidemill_commands_total", "command", "set"), 101},
		"commands GET":  {grown("tidemill_commands_total", "command", "get"), 60},
		"hits":          {grown("tidemill_keyspace_hits_total"), 30},
		"misses":        {grown("tidemill_keyspace_misses_total"), 30},
		"errors":        {grown("tidemill_error_replies_total", "code", "ERR"), 1},
		"keys of 0":     {sum(after, "tidemill_keys", "db", "0"), 100},
		"expiring of 0": {sum(after, "tidemill_keys_expiring", "db", "0"), 100},
		"keys of 3":     {sum(after, "tidemill_keys", "db", "3"), 1},
		"expiring of 3": {sum(after, "tidemill_keys_expiring", "db", "3"), 0},
		"clients":       {sum(after, "tidemill_clients"), 1},
		"of workers":    {sum(after, "tidemill_worker_connections"), 1},
		"workers":       {float64(len(after["tidemill_worker_connections"].GetMetric())), 2},
		"client limit": {sum(after, "tidemill_clients_limit"),
			float64(field(t, conn, "clients", "maxclients"))},
		"connections": {sum(after, "tidemill_connections_total"),
			float64(field(t, conn, "stats", "total_connections_received"))},
		"build and flags": {sum(after, "tidemill_build_info", "rcu_flavour", "qsbr"), 1},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %v, want %v", name, pair[0], pair[1])
		}
	}
	// A worker publishes what it counted once per iteration.
	waitFor(t, "agreement about memory", func() bool {
		live := sum(scrape(t, address), "tidemill_memory_bytes", "state", "live")
		return live == float64(field(t, conn, "memory", "used_memory_dataset"))
	})
	for name, family := range after {
		if len(family.GetMetric()) == 0 && name != "tidemill_error_replies_total" {
			t.Errorf("%s has no samples", name)
		}
		isCounter := family.GetType() == dto.MetricType_COUNTER
		if family.GetHelp() == "" || isCounter != strings.HasSuffix(name, "_total") {
			t.Errorf("%s: type %v, help %q", name, family.GetType(), family.GetHelp())
		}
	}
}

// A scrape must not stop grace periods, nor writers the scrape.
func TestMetrics_BesideWriters(t *testing.T) {
	server, address := startWithMetrics(t)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for number := range 4 {
		conn := server.Dial(t)
		writers.Go(func() {
			for index := 0; ; index++ {
				select {
				case <-stop:
					return
				default:
				}
				key := fmt.Sprintf("key%d.%d", number, index%1000)
				if _, err := conn.Do("SET", key, strings.Repeat("v", 500)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		families := scrape(t, address)
		if keys := sum(families, "tidemill_keys"); keys > 4000 {
			t.Errorf("%v keys", keys)
		}
	}
	close(stop)
	writers.Wait()
	waitFor(t, "end of retired memory", func() bool {
		return sum(scrape(t, address), "tidemill_memory_bytes", "state", "retired") == 0
	})
}

func TestMetrics_ListenerSurvivesAbuse(t *testing.T) {
	_, address := startWithMetrics(t)
	for request, want := range map[string]string{
		"GET /other HTTP/1.0\r\n\r\n":                         "HTTP/1.1 404 ",
		"DELETE /metrics HTTP/1.0\r\n\r\n":                    "HTTP/1.1 405 ",
		"*1\r\n$4\r\nPING\r\n\r\n":                            "HTTP/1.1 400 ",
		"GET /" + strings.Repeat("x", 100_000):                "HTTP/1.1 431 ",
		strings.Repeat("\x00\xff", 100):                       "HTTP/1.1 400 ",
		"GET /metrics HTTP/1.1\r\nHost: x\r\n":                "HTTP/1.1 408 ", // never whole
		"":                                                    "",
		"HEAD /metrics HTTP/1.1\r\nConnection: close\r\n\r\n": "HTTP/1.1 200 ",
	} {
		conn := dialWith(t, address, request)
		answer, _ := io.ReadAll(conn)
		conn.Close()
		if !strings.HasPrefix(string(answer), want) || want == "" && len(answer) > 0 {
			t.Errorf("%.40q answered %.40q", request, answer)
		}
	}
	if len(scrape(t, address)) == 0 {
		t.Error("no metrics afterwards")
	}
}

// Idle connections to the metrics port are closed after a second and do not keep others waiting.
func TestMetrics_ScrapeBesideIdleConnections(t *testing.T) {
	_, address := startWithMetrics(t)
	const idle = 10
	closed := make(chan struct{}, idle)
	begun := time.Now()
	for range idle {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetReadDeadline(time.Now().Add(closeTimeout))
		go func() {
			if text, err := io.ReadAll(conn); len(text) > 0 || err != nil {
				t.Errorf("%q, %v", text, err)
			}
			closed <- struct{}{}
		}()
	}
	if len(scrape(t, address)) == 0 {
		t.Error("no metrics")
	}
	// Served one after the other, each of the ten would have had its second before.
	if took := time.Since(begun); took >= idle*requestTime {
		t.Errorf("the scrape took %v, as long as %d idle connections", took, idle)
	}
	for range idle {
		<-closed
	}
}

// One connection carries many requests, also sent at once; those that do not take their answers do
// not keep others waiting; and connections are bounded: a new one takes the place of an idle one.
func TestMetrics_ConnectionsAreKeptAndBounded(t *testing.T) {
	server, address := startWithMetrics(t)
	const requests = 5
	asked := strings.Repeat("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", requests)
	conn := dialWith(t, address, asked)
	in := bufio.NewReader(conn)
	for round := range 2 {
		if round > 0 {
			if _, err := io.WriteString(conn, asked); err != nil {
				t.Fatal(err)
			}
		}
		for range requests {
			response, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(response.Body); response.StatusCode != http.StatusOK ||
				len(body) < 1000 || err != nil {
				t.Fatalf("%s, %d bytes, %v", response.Status, len(body), err)
			}
		}
	}
	// Half-closed is no end: what was asked is answered.
	half := dialWith(t, address, "GET /metrics HTTP/1.1\r\n\r\n")
	_ = half.(*net.TCPConn).CloseWrite()
	if text, err := io.ReadAll(half); !strings.HasPrefix(string(text), "HTTP/1.1 200 ") ||
		err != nil {
		t.Errorf("half-closed: %.40q, %v", text, err)
	}
	deaf := strings.Repeat("GET /metrics HTTP/1.1\r\n\r\n", 2000)
	for range 5 {
		slow := dialWith(t, address, "")
		_ = slow.(*net.TCPConn).SetReadBuffer(1)
		go func() { _, _ = io.WriteString(slow, deaf) }()
	}
	before, err := instance.OpenFiles(server.PID)
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		dialWith(t, address, "")
	}
	if len(scrape(t, address)) == 0 {
		t.Error("no metrics")
	}
	const most = 16
	if after, err := instance.OpenFiles(server.PID); after > before+most || err != nil {
		t.Errorf("%d open files, before %d, %v", after, before, err)
	}
}

func TestMetrics_AreOffByDefault(t *testing.T) {
	server := instance.Start(t, instance.Subject)
	if _, exists := threads(t, server.PID)["metrics"]; exists {
		t.Error("there is a thread called metrics")
	}
}

// The words of `metrics-bind` mean what those of `bind` do: both families at one port, and an
// address behind `-` may be missing.
func TestMetrics_ListenWhereThePortWould(t *testing.T) {
	for _, words := range [][]string{
		{"*", "-::*"}, {"0.0.0.0", "-::"}, {"-192.0.2.1", "127.0.0.1"},
	} {
		directives := append([]string{"--metrics-port", instance.OtherPort, "--metrics-bind"},
			words...)
		port := strconv.Itoa(instance.Start(t, instance.Subject, directives...).OtherPort)
		scrape(t, "127.0.0.1:"+port)
		loopback, err := net.Listen("tcp6", "[::1]:0")
		if err != nil {
			t.Logf("no IPv6 here: %v", err)
			continue
		}
		loopback.Close()
		if words[1] != "127.0.0.1" {
			scrape(t, "[::1]:"+port)
		}
	}
	output, err := startToEnd(t, "--metrics-port", strconv.Itoa(freePort(t)), "--metrics-bind",
		"192.0.2.1")
	if err == nil || !strings.Contains(output, "(metrics): bind: Cannot assign requested address") {
		t.Errorf("%v:\n%s", err, output)
	}
}

func TestMetrics_PortTaken(t *testing.T) {
	_, address := startWithMetrics(t)
	_, port, _ := net.SplitHostPort(address)
	socket := filepath.Join(t.TempDir(), "socket")
	output, err := startToEnd(t, "--metrics-port", port, "--unixsocket", socket)
	if err == nil || !strings.Contains(output, "Address already in use") {
		t.Errorf("%v:\n%s", err, output)
	}
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the start that failed left its unix socket")
	}
}

// listenAddress waits until a process listens at a port of the system's choice, and returns its
// address.
func listenAddress(t *testing.T, pid int) string {
	t.Helper()
	var ports []int
	waitFor(t, "a listening process", func() bool {
		ports = instance.ListenedPorts(pid)
		return len(ports) > 0
	})
	return "127.0.0.1:" + strconv.Itoa(ports[0])
}

// The exporter that most installations have reads INFO and CONFIG; it must find what it looks for.
func TestRedisExporter_ScrapesWithoutError(t *testing.T) {
	binary := "prometheus-redis-exporter"
	if path := os.Getenv("REDIS_EXPORTER"); path != "" {
		binary = path
	}
	if _, err := exec.LookPath(binary); err != nil {
		t.Fatalf("%v: `make setup` installs it", err)
	}
	server := instance.Start(t, instance.Subject)
	conn := server.Dial(t)
	expectOK(t, conn, "SET", "key", "value")
	exporter := exec.Command(binary, "-redis.addr", "redis://"+server.Address,
		"-web.listen-address", "127.0.0.1:0", "-is-cluster=false")
	exporter.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var output strings.Builder
	exporter.Stdout, exporter.Stderr = &output, &output
	if err := exporter.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = exporter.Process.Kill(); _ = exporter.Wait() }()
	families, _ := scrapeAny(t, listenAddress(t, exporter.Process.Pid))
	for name, want := range map[string]float64{
		"redis_up": 1, "redis_exporter_last_scrape_error": 0,
		"redis_target_scrape_request_errors_total": 0,
		"redis_connected_clients":                  2, "redis_config_maxclients": 10000,
	} {
		if families[name] == nil || sum(families, name) != want {
			t.Errorf("%s is %v, want %v", name, sum(families, name), want)
		}
	}
	if keys := sum(families, "redis_db_keys", "db", "db0"); keys != 1 {
		t.Errorf("%v keys", keys)
	}
}
