package tidemill

import (
	"errors"
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
		"`DialTimeout`": length(o.DialTimeout),
		"`IOTimeout`":   length(o.IOTimeout),
		"`ConnectWait`": fmt.Sprintf("%s (cluster, sentinel %s)",
			length(o.ConnectWait), length(clusterWaitDefault)),
		"`PingInterval`":             length(o.PingInterval),
		"`BackoffMin`, `BackoffMax`": length(o.BackoffMin) + ", " + length(o.BackoffMax),
		"`MaxPending`":               fmt.Sprint(o.MaxPending),
		"`MaxGatherDelay`":           length(gatherPause),
		"`ReadFrom`":                 "`ReadPrimary`",
		"`Cache`": fmt.Sprintf(
			"none; when set: `MaxBytes` %d MiB, `TTL` %.0f min", cacheBytesDefault>>20,
			cacheTTLDefault.Minutes()),
	} {
		row := fmt.Sprintf("| %s | %s |", option, value)
		if !strings.Contains(string(readme), row) {
			t.Errorf("README.md does not say %s", row)
		}
	}
}

func TestOptions_NonsenseIsRefused(t *testing.T) {
	for i, change := range []func(*Options){
		func(o *Options) { o.MaxPending = -1 },
		func(o *Options) { o.DialTimeout = -1 },
		func(o *Options) { o.ConnectWait = -1 },
		func(o *Options) { o.BackoffMin = -1 },
		func(o *Options) { o.BackoffMax = -1 },
		func(o *Options) { o.Database = -1 },
		func(o *Options) { o.Cache = &CacheOptions{MaxBytes: -1} },
		func(o *Options) { o.Cache, o.ForceRESP2 = &CacheOptions{}, true },
		func(o *Options) { o.ReadFrom = ReadSameZone },
		func(o *Options) { o.ReadFrom = ReadSameZone + 1 },
	} {
		var o Options
		change(&o)
		if c, err := New(o); !errors.Is(err, ErrArgument) || c != nil {
			t.Error(i, c, err)
		}
	}
	ctx := testContext(t, time.Second)
	if _, err := NewCluster(ctx, nil, Options{}); !errors.Is(err, ErrArgument) {
		t.Error("a cluster without seeds:", err)
	}
	if _, err := NewSentinel(nil, "main", Options{}); !errors.Is(err, ErrArgument) {
		t.Error("a primary without sentinels:", err)
	}
}
