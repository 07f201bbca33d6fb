package linearizability

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// withMetrics adds a metrics port, the server's OtherPort, to the directives of a server that has
// one.
func withMetrics(directives []string) []string {
	if !instance.SubjectIsTidemill() {
		return directives
	}
	return append([]string{"--metrics-port", instance.OtherPort}, directives...)
}

// fillerKeys is how many keys fillWithoutEnd writes.
const fillerKeys = 4

// fillerBytes are the lengths of the values that take the place of freed databases in the server's
// memory.
var fillerBytes = []int{60 << 10, 120 << 10, 190 << 10, 250 << 10, 300 << 10, 380 << 10}

// fillWithoutEnd writes a key that is in no history, so that what a flush freed is soon other
// bytes.
func fillWithoutEnd(server string, done <-chan struct{}) error {
	conn, err := wire.Dial(server)
	if err != nil {
		return err
	}
	defer conn.Close()
	for round := 0; ; round++ {
		select {
		case <-done:
			return nil
		default:
		}
		value := strings.Repeat("\xff", fillerBytes[round%len(fillerBytes)])
		if _, err := conn.Do("SET", "filler"+strconv.Itoa(round%fillerKeys), value); err != nil {
			return err
		}
	}
}

// scrapeWithoutEnd reads the metrics again and again beside what a test does, until the returned
// function is called. The thread that serves them walks the databases like any reader: a count
// above keysMax is of one that was freed.
func scrapeWithoutEnd(t *testing.T, server *instance.Server, keysMax int) (stop func()) {
	t.Helper()
	address := "http://127.0.0.1:" + strconv.Itoa(server.OtherPort) + "/metrics"
	if reply, err := server.Dial(t).Do("FLUSHALL"); err != nil || reply.IsError() {
		t.Fatalf("FLUSHALL: %v %v", reply, err)
	}
	var group sync.WaitGroup
	done := make(chan struct{})
	client := &http.Client{Timeout: 10 * time.Second}
	group.Go(func() {
		if err := fillWithoutEnd(server.Address, done); err != nil {
			t.Error(err)
		}
	})
	group.Go(func() {
		for scrapes := 0; ; scrapes++ {
			select {
			case <-done:
				client.CloseIdleConnections()
				t.Logf("%d scrapes", scrapes)
				return
			default:
			}
			if err := scrapeOnce(client, address, keysMax+fillerKeys); err != nil {
				t.Error(err)
				<-done
				return
			}
		}
	})
	return func() {
		close(done)
		group.Wait()
	}
}

func scrapeOnce(client *http.Client, address string, keysMax int) error {
	response, err := client.Get(address)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "tidemill_keys{") &&
			!strings.HasPrefix(line, "tidemill_keys_expiring{") {
			continue
		}
		_, figure, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if count, err := strconv.ParseUint(figure, 10, 64); err != nil || count > uint64(keysMax) {
			return fmt.Errorf("a scrape counts what was never there: %s", strings.TrimSpace(line))
		}
	}
	return nil
}
