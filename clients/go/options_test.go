package tidemill

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestOptions_DefaultsAreThoseOfTheReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{}.withDefaults()
	length := func(d time.Duration) string {
		text := strings.NewReplacer("ms", " ms", "µs", " µs").Replace(d.String())
		if d >= time.Second {
			text = fmt.Sprint(d.Seconds(), " s")
		}
		return text
	}
	for option, value := range map[string]string{
		"`DialTimeout`":              length(o.DialTimeout),
		"`IOTimeout`":                length(o.IOTimeout),
		"`ConnectWait`":              fmt.Sprintf("%s (cluster, sentinel %s)", length(o.ConnectWait), length(clusterWaitDefault)),
		"`PingInterval`":             length(o.PingInterval),
		"`BackoffMin`, `BackoffMax`": length(o.BackoffMin) + ", " + length(o.BackoffMax),
		"`MaxPending`":               fmt.Sprint(o.MaxPending),
		"`MaxGatherDelay`":           length(gatherPause),
		"`ReadFrom`":                 "`ReadPrimary`",
		"`Cache`":                    fmt.Sprintf("none; when set: `MaxBytes` %d MiB, `TTL` %.0f min", cacheBytesDefault>>20, cacheTTLDefault.Minutes()),
	} {
		if row := fmt.Sprintf("| %s | %s |", option, value); !strings.Contains(string(readme), row) {
			t.Errorf("README.md does not say %s", row)
		}
	}
}
