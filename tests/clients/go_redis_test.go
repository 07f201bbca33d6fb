package clients

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tidemill/tests/internal/instance"
)

func TestGoRedis_ConnectsPipelinesTransactsBlocksScans(t *testing.T) {
	ctx := t.Context()
	client := redis.NewClient(&redis.Options{Addr: instance.Start(t, instance.Subject).Address})
	defer client.Close()
	replies, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := range 100 {
			pipe.Set(ctx, "key:"+strconv.Itoa(number), number, 0)
		}
		return nil
	})
	if err != nil || len(replies) != 100 {
		t.Fatalf("pipeline: %d replies, %v", len(replies), err)
	}
	err = client.Watch(ctx, func(transaction *redis.Tx) error {
		client.Set(ctx, "key:1", "changed", 0)
		_, err := transaction.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, "key:1", "lost", 0)
			return nil
		})
		return err
	}, "key:1")
	if !errors.Is(err, redis.TxFailedErr) {
		t.Errorf("EXEC after a watched key changed: %v", err)
	}
	time.AfterFunc(50*time.Millisecond, func() { client.RPush(ctx, "queue", "element") })
	if popped, err := client.BLPop(ctx, 5*time.Second, "queue").Result(); err != nil ||
		popped[1] != "element" {
		t.Errorf("BLPOP: %v, %v", popped, err)
	}
	seen := map[string]bool{}
	scan := client.Scan(ctx, 0, "key:*", 7).Iterator()
	for scan.Next(ctx) {
		seen[scan.Val()] = true
	}
	if err := scan.Err(); err != nil || len(seen) != 100 {
		t.Errorf("scan saw %d of 100 keys, %v", len(seen), err)
	}
}
