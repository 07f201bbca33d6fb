package process

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// Under every flavour and setting replies are right, and what was overwritten is freed in the end.
func TestRCU_SettingsFreeMemoryAndKeepValues(t *testing.T) {
	for _, flavour := range []string{"qsbr", "memb", "mb", "bp", "signal"} {
		settings := [][]string{
			{"--rcu-read-section", "iteration"}, {"--rcu-read-section", "command"},
		}
		if flavour == "qsbr" {
			settings = [][]string{{"--rcu-quiescent", "iteration"}, {"--rcu-quiescent", "batch"},
				{"--rcu-quiescent", "command"}}
		}
		for _, setting := range settings {
			t.Run(flavour+" "+setting[1], func(t *testing.T) {
				server := instance.Start(t, instance.Subject,
					append(setting, "--rcu-flavour", flavour, "--worker-threads", "2")...)
				overwrite(t, server)
				conn := server.Dial(t)
				waitFor(t, "end of retired memory", func() bool {
					return field(t, conn, "memory", "used_memory_retired") == 0
				})
			})
		}
	}
}

// overwrite lets clients replace values that others read, in pipelines, and checks what is read.
func overwrite(t *testing.T, server *instance.Server) {
	t.Helper()
	const clients, rounds, pipeline = 6, 30, 64
	var group sync.WaitGroup
	for number := range clients {
		conn := server.Dial(t)
		group.Go(func() {
			for round := range rounds {
				var batch bytes.Buffer
				for index := range pipeline {
					key := fmt.Sprintf("key%d", index%8)
					value := strings.Repeat(string(rune('a'+(number+round+index)%26)), 300)
					batch.Write(wire.AppendCommand(nil, wire.Arguments("SET", key, value)...))
					batch.Write(wire.AppendCommand(nil, wire.Arguments("GET", key)...))
				}
				if err := conn.SendRaw(batch.Bytes()); err != nil {
					t.Error(err)
					return
				}
				for range pipeline {
					set, err := conn.Receive()
					if err != nil || string(set.Text) != "OK" {
						t.Errorf("SET: %s, %v", set, err)
						return
					}
					got, err := conn.Receive()
					if err != nil || len(got.Text) != 300 ||
						strings.Trim(string(got.Text), string(got.Text[:1])) != "" {
						t.Errorf("GET: %s, %v", got, err)
						return
					}
				}
			}
		})
	}
	group.Wait()
}
