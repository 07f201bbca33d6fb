package abuse

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// savingPatience is the longest time that a save of what a limited server holds may take.
const savingPatience = time.Minute

// scrapeOnce asks for the metrics, by a connection that is not kept.
func scrapeOnce(t *testing.T, port int) {
	t.Helper()
	client := http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	response, err := client.Get("http://127.0.0.1:" + strconv.Itoa(port) + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(body), "tidemill_keys{") {
		t.Errorf("a scrape of a full server: %v, %.200q", err, body)
	}
}

// awaitSaves waits until nothing is written in the background, and checks that it succeeded.
func awaitSaves(t *testing.T, conn *wire.Conn) {
	t.Helper()
	deadline := time.Now().Add(savingPatience)
	for {
		facts := string(mustDo(t, conn, "INFO", "persistence").Text)
		if !strings.Contains(facts, "_in_progress:1") {
			for _, fact := range []string{"rdb_last_bgsave_status", "aof_last_bgrewrite_status"} {
				if !strings.Contains(facts, fact+":ok\r\n") {
					t.Errorf("%s is not ok:\n%s", fact, facts)
				}
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is not over within %v:\n%s", savingPatience, facts)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestFullServer_SavesAndIsScraped looks at the threads that are no workers, while the system gives
// the server no more memory: none of them ends it, and its data are saved.
func TestFullServer_SavesAndIsScraped(t *testing.T) {
	for _, log := range []string{"no", "yes"} {
		t.Run("appendonly "+log, func(t *testing.T) { saveAndScrapeFull(t, log) })
	}
}

func saveAndScrapeFull(t *testing.T, log string) {
	directory := t.TempDir()
	// Not compressed, so that a file is long enough to be written by a thread of its own.
	server, err := instance.Launch(instance.Subject, directory, "--worker-threads", "2",
		"--metrics-port", instance.OtherPort, "--appendonly", log, "--save", "3600 1",
		"--rdbcompression", "no")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	conn := server.Dial(t)
	conn.Timeout = savingPatience
	limitMemory(t, server, headroomBytes)
	fillSmall(t, conn, 0)
	for round := range 3 {
		if round > 0 {
			// The stack of a thread that has ended is kept for the next one; there is nothing else.
			limitMemory(t, server, 0)
		}
		scrapeOnce(t, server.OtherPort)
		mustDo(t, conn, "BGSAVE")
		awaitSaves(t, conn)
		mustDo(t, conn, "SAVE")
		if log == "yes" {
			mustDo(t, conn, "BGREWRITEAOF")
			awaitSaves(t, conn)
		}
		fillSmall(t, conn, round+1)
	}
	keys := mustDo(t, conn, "DBSIZE").Int()
	if err := server.Stop(); err != nil {
		t.Fatalf("%v\n%s", err, server.Log())
	}
	again, err := instance.Launch(instance.Subject, directory, "--appendonly", log)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Kill()
	if found := mustDo(t, again.Dial(t), "DBSIZE").Int(); found != keys {
		t.Errorf("%d keys, the full server had %d", found, keys)
	}
}
