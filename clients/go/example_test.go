package tidemill_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	tidemill "go.tidemill.dev/client"
)

var server = "127.0.0.1:6379" // where the examples find one

func Example() {
	client, err := tidemill.New(tidemill.Options{Address: server})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ctx := context.Background()
	err = client.Set(ctx, "greeting", "hello", "EX", 60).Err()
	if errors.Is(err, tidemill.ErrNotSent) {
		fmt.Println("the server has not seen it: safe to repeat")
	}
	greeting, err := client.Get(ctx, "greeting").Text()
	fmt.Println(greeting, err)
}

func ExampleClient_RunTx() {
	client, _ := tidemill.New(tidemill.Options{Address: server})
	defer client.Close()
	var tx tidemill.Tx
	tx.Add("INCR", "visits")
	tx.Add("EXPIRE", "visits", 3600)
	replies, err := client.RunTx(context.Background(), &tx)
	if err == nil {
		fmt.Println(tidemill.As[int](replies[0]))
	}
}

func ExampleClient_Cached() {
	client, _ := tidemill.New(tidemill.Options{
		Address: server, Cache: &tidemill.CacheOptions{MaxBytes: 16 << 20},
	})
	defer client.Close()
	cached := client.Cached(time.Minute)
	for range 1000 {
		// sent once, until the key changes
		_, _ = cached.Get(context.Background(), "settings").Text()
	}
	fmt.Println(client.CacheStats().Hits)
}

func ExampleCluster_RunBatch() {
	ctx := context.Background()
	cluster, err := tidemill.NewCluster(ctx, []string{server},
		tidemill.Options{ReadFrom: tidemill.ReadPreferReplica})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	var batch tidemill.Batch
	for i := range 100 {
		batch.Add("INCR", fmt.Sprint("counter:", i)) // any slots
	}
	replies, err := cluster.RunBatch(ctx, &batch)
	fmt.Println(len(replies), err)
	values, err := cluster.MGet(tidemill.WithSplit(ctx), "counter:1", "counter:2").Strings()
	fmt.Println(values, err)
}

func ExampleNewSentinel() {
	client, err := tidemill.NewSentinel([]string{"10.0.0.1:26379", server}, "main",
		tidemill.Options{
			Password: "of the primary",
			Sentinel: tidemill.SentinelOptions{Username: "app", Password: "of the sentinels"},
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	fmt.Println(client.Set(context.Background(), "k", "v").Err())
}

func ExampleSubscription_Subscribe() {
	client, _ := tidemill.New(tidemill.Options{Address: server})
	defer client.Close()
	ctx := context.Background()
	sub, err := client.Subscribe(ctx, tidemill.SubscribeOptions{Channels: []string{"news"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sub.Close()
	if err := sub.Subscribe(ctx, "weather"); err != nil { // on the same connection
		fmt.Println(err)
		return
	}
	client.Publish(ctx, "weather", "rain")
	fmt.Println(<-sub.Messages())
}

func ExampleClient_Go() {
	client, _ := tidemill.New(tidemill.Options{Address: server})
	defer client.Close()
	ctx := context.Background()
	var futures []*tidemill.Future
	for range 3 {
		futures = append(futures, client.Go(ctx, "INCR", "tickets")) // in order, without waiting
	}
	for _, future := range futures {
		fmt.Println(future.Wait(ctx).Int64())
	}
}
