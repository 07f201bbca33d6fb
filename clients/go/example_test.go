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

func ExampleClient_Watch() {
	client, _ := tidemill.New(tidemill.Options{Address: server})
	defer client.Close()
	ctx := context.Background()
	client.Set(ctx, "stock", 3)
	for {
		replies, err := client.Watch(ctx, func(d *tidemill.Dedicated) (*tidemill.Tx, error) {
			left, err := d.Do(ctx, "GET", "stock").Int64()
			if err != nil || left == 0 {
				return nil, err // nothing is executed
			}
			var tx tidemill.Tx
			tx.Add("SET", "stock", left-1)
			return &tx, nil
		}, "stock")
		if errors.Is(err, tidemill.ErrTxAborted) {
			continue // somebody else was faster
		}
		fmt.Println(replies, err)
		return
	}
}

func ExampleScript_Run() {
	client, _ := tidemill.New(tidemill.Options{Address: server})
	defer client.Close()
	add := tidemill.NewScript(`return redis.call("incrby", KEYS[1], ARGV[1])`)
	for range 2 { // the source is sent once, its digest from then on
		fmt.Println(add.Run(context.Background(), client, []string{"sum"}, 21).Int64())
	}
}

func ExampleClient_Iterate() {
	client, _ := tidemill.New(tidemill.Options{Address: server})
	defer client.Close()
	ctx := context.Background()
	client.MSet(ctx, "user:1", "Ada", "user:2", "Grace", "other", 1)
	count := 0
	for key, err := range client.Iterate(ctx, "user:*") {
		if err != nil {
			fmt.Println(err)
			return
		}
		_, _ = key, client.Unlink(ctx, key)
		count++
	}
	fmt.Println(count)
}

func ExampleAs() {
	client, _ := tidemill.New(tidemill.Options{Address: server})
	defer client.Close()
	ctx := context.Background()
	type user struct {
		Name string `redis:"name"`
		Age  int    `redis:"age"`
	}
	client.HSet(ctx, "user:7", "name", "Ada", "age", 36)
	fmt.Println(tidemill.As[user](client.HGetAll(ctx, "user:7")))
	_, err := tidemill.As[int](client.Get(ctx, "missing"))
	fmt.Println(errors.Is(err, tidemill.ErrNil))
	fmt.Println(tidemill.As[*int](client.Get(ctx, "missing"))) // nil, and no error
}

func ExampleClient_Dedicate() {
	client, _ := tidemill.New(tidemill.Options{Address: server})
	defer client.Close()
	ctx := context.Background()
	own, err := client.Dedicate(ctx) // a connection whose state is yours
	if err != nil {
		fmt.Println(err)
		return
	}
	defer own.Close()
	own.Do(ctx, "SELECT", 3)
	fmt.Println(own.Do(ctx, "SET", "k", "v").Text())
	fmt.Println(client.Exists(ctx, "k").Int64()) // database 0
}

func ExampleClient_Do_blocking() {
	client, _ := tidemill.New(tidemill.Options{Address: server})
	defer client.Close()
	ctx := context.Background()
	done := make(chan []string)
	go func() { // gets a connection of its own: nobody else waits for it
		popped, _ := client.Do(ctx, "BLPOP", "jobs", 0).Strings()
		done <- popped
	}()
	client.RPush(ctx, "jobs", "paint")
	fmt.Println(<-done)
}

func ExampleServerCode() {
	client, _ := tidemill.New(tidemill.Options{Address: server})
	defer client.Close()
	ctx := context.Background()
	client.Set(ctx, "text", "words")
	err := client.Do(ctx, "INCR", "text").Err()
	var answer *tidemill.ServerError
	if errors.As(err, &answer) {
		fmt.Println(answer.Code)
	}
	err = client.Do(ctx, "LPUSH", "text", 1).Err()
	fmt.Println(errors.Is(err, tidemill.ServerCode("WRONGTYPE")))
}

func ExampleWithIdempotent() {
	client, _ := tidemill.New(tidemill.Options{Address: server})
	defer client.Close()
	// Writing the same value twice is harmless, so an unknown outcome may be repeated.
	ctx := tidemill.WithIdempotent(context.Background())
	fmt.Println(client.Set(ctx, "colour", "blue").Err())
}

func ExampleClient_Async() {
	client, _ := tidemill.New(tidemill.Options{Address: server})
	defer client.Close()
	done := make(chan string, 1)
	client.Async(context.Background(), func(reply tidemill.Reply) {
		text, err := reply.Text() // brief: all replies wait while this runs
		done <- fmt.Sprint(text, err)
	}, "PING")
	fmt.Println(<-done)
}

func ExampleClient_RunBatch() {
	client, _ := tidemill.New(tidemill.Options{Address: server})
	defer client.Close()
	var batch tidemill.Batch // one write, no transaction
	batch.Add("SET", "a", 1)
	batch.Add("INCRBY", "a", 41)
	batch.Add("LPUSH", "a", "no list")
	replies, err := client.RunBatch(context.Background(), &batch)
	fmt.Println(len(replies), err)
	fmt.Println(replies[1].Int64())
	fmt.Println(errors.Is(replies[2].Err(), tidemill.ServerCode("WRONGTYPE")))
}

// counting is a hook that counts operations.
type counting struct{ operations, failures *int }

func (c counting) Start(
	ctx context.Context, _ string, _ int,
) (context.Context, func(error)) {
	*c.operations++
	return ctx, func(err error) {
		if err != nil {
			*c.failures++
		}
	}
}

func ExampleHook() {
	var operations, failures int
	client, _ := tidemill.New(tidemill.Options{
		Address: server, Hook: counting{&operations, &failures},
	})
	defer client.Close()
	ctx := context.Background()
	client.Set(ctx, "k", "v")
	client.Do(ctx, "LPUSH", "k", 1)
	fmt.Println(operations, failures)
}

func ExampleClient_Shutdown() {
	client, _ := tidemill.New(tidemill.Options{Address: server})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	fmt.Println(client.Shutdown(ctx)) // pending operations end first
	fmt.Println(errors.Is(client.Get(ctx, "k").Err(), tidemill.ErrClosed))
}
