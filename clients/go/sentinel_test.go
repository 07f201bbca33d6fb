package tidemill

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSentinel_FollowsAFailover(t *testing.T) {
	checkLeaks(t)
	ctx := testContext(t, time.Minute)
	primary := startServer(t, "valkey-server")
	port := strings.TrimPrefix(primary.address, "127.0.0.1:")
	replica := startServer(t, "valkey-server", "--replicaof", "127.0.0.1 "+port, "--repl-diskless-sync-delay", "0")
	direct := newTestClient(t, replica.address)
	waitFor(t, 20*time.Second, "replication", func() bool {
		info, _ := direct.Info(ctx, "replication").Text()
		return strings.Contains(info, "master_link_status:up")
	})
	sentinel := startSentinel(t, port)
	watcher := newTestClient(t, sentinel, func(o *Options) { o.ForceRESP2 = true })
	waitFor(t, 20*time.Second, "sentinel to find the replica", func() bool {
		replicas, _ := watcher.Do(ctx, "SENTINEL", "REPLICAS", "main").Array()
		return len(replicas) == 1
	})
	c, err := NewSentinel([]string{fmt.Sprintf("127.0.0.1:%d", freePort(t)), sentinel}, "main", Options{ConnectWait: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Set(ctx, "before", 1).Err(); err != nil {
		t.Fatal(err)
	}
	primary.stop()
	waitFor(t, 30*time.Second, "writes after the failover", func() bool {
		attempt, cancel := context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		return c.Set(attempt, "after", 1).Err() == nil
	})
	if n, err := direct.Exists(ctx, "after").Int64(); n != 1 || err != nil {
		t.Fatal("the write is not on the former replica:", n, err)
	}
}

func startSentinel(t *testing.T, primaryPort string) (address string) {
	t.Helper()
	path, err := exec.LookPath("valkey-server")
	if err != nil {
		t.Skip("valkey-server is not installed")
	}
	port := freePort(t)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor main 127.0.0.1 %s 1\n"+
		"sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n", port, t.TempDir(), primaryPort)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &testServer{address: fmt.Sprintf("127.0.0.1:%d", port), binary: path, args: []string{file, "--sentinel"}}
	s.start(t)
	t.Cleanup(s.stop)
	return s.address
}
