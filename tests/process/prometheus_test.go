package process

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tidemill/tests/internal/instance"
)

// need returns a program that `make setup` installs.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is missing; make setup installs it", name)
	}
	return path
}

var rulesFile = filepath.Join(instance.Root(), "packaging/prometheus/tidemill.rules.yml")

// metricNames are the names of our metrics in a text.
var metricNames = regexp.MustCompile(`tidemill_[a-z_]+`)

func TestAlertRules_AreAccepted(t *testing.T) {
	output, err := exec.Command(need(t, "promtool"), "check", "rules", rulesFile).CombinedOutput()
	if err != nil || !strings.Contains(string(output), "SUCCESS") {
		t.Errorf("%v\n%s", err, output)
	}
}

// dashboardQueries returns the queries of the dashboard, with its variables filled in.
func dashboardQueries(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(instance.Root(), "packaging/grafana/tidemill.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	var queries []string
	fill := strings.NewReplacer("$instance", ".+", "$__rate_interval", "4s")
	for _, panel := range dashboard.Panels {
		if len(panel.Targets) == 0 {
			t.Errorf("panel %q has no query", panel.Title)
		}
		for _, target := range panel.Targets {
			queries = append(queries, fill.Replace(target.Expr))
		}
	}
	return queries
}

// prometheus is a server that scrapes one of ours.
type prometheus struct{ address string }

func startPrometheus(t *testing.T, target string) *prometheus {
	t.Helper()
	program := need(t, "prometheus")
	directory := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\n"+
		"rule_files: [%q]\n"+
		"scrape_configs:\n  - job_name: tidemill\n    static_configs: [{targets: [%q]}]\n",
		rulesFile, target)
	path := filepath.Join(directory, "prometheus.yml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &strings.Builder{}
	command := exec.Command(program, "--config.file="+path, "--web.listen-address=127.0.0.1:0",
		"--storage.tsdb.path="+filepath.Join(directory, "data"), "--log.level=warn")
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return &prometheus{listenAddress(t, command.Process.Pid)}
}

// ask returns the data of an answer of the API; nothing while there is none.
func (p *prometheus) ask(path string, values url.Values, data any) error {
	response, err := http.Get("http://" + p.address + path + "?" + values.Encode())
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// query returns the number of series of a query's result.
func (p *prometheus) query(expression string) (int, error) {
	var data struct{ Result []json.RawMessage }
	err := p.ask("/api/v1/query", url.Values{"query": {expression}}, &data)
	return len(data.Result), err
}

// TestDashboardAndAlerts_FindTheirMetrics lets a Prometheus scrape a server and asks it what the
// dashboard asks; alerts have to be evaluated, and to name metrics that there are.
func TestDashboardAndAlerts_FindTheirMetrics(t *testing.T) {
	need(t, "prometheus")
	server, address := startWithMetrics(t)
	p := startPrometheus(t, address)
	conn := server.Dial(t)
	expectOK(t, conn, "CONFIG", "SET", "maxmemory", "1gb")
	expectOK(t, conn, "SET", "expiring", "v", "EX", "1000")
	use := func() {
		do(t, conn, "GET", "expiring")
		do(t, conn, "GET", "missing")
		do(t, conn, "NOSUCHCOMMAND")
	}
	for _, expression := range dashboardQueries(t) {
		waitFor(t, "a result of "+expression, func() bool {
			use()
			count, err := p.query(expression)
			if err != nil && strings.Contains(err.Error(), "parse error") {
				t.Fatal(expression, err)
			}
			return err == nil && count > 0
		})
	}
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range metricNames.FindAllString(string(rules), -1) {
		// A scrape that was late leaves no series until the next one.
		waitFor(t, "the series "+name+" of alerts", func() bool {
			count, err := p.query(name)
			return err == nil && count > 0
		})
	}
	var evaluated struct {
		Groups []struct {
			Rules []struct{ Name, Health, State, LastError string }
		}
	}
	waitFor(t, "all alerts to be evaluated", func() bool {
		err := p.ask("/api/v1/rules", nil, &evaluated)
		if err != nil || len(evaluated.Groups) == 0 {
			return false
		}
		for _, rule := range evaluated.Groups[0].Rules {
			if rule.Health == "unknown" {
				return false
			}
		}
		return true
	})
	for _, rule := range evaluated.Groups[0].Rules {
		if rule.Health != "ok" || rule.State == "firing" {
			t.Errorf("%s is %s, %s: %s", rule.Name, rule.Health, rule.State, rule.LastError)
		}
	}
	server.Kill()
	waitFor(t, "the alert of a server that is down", func() bool {
		count, err := p.query(`ALERTS{alertname="TidemillDown"}`)
		return err == nil && count == 1
	})
}
