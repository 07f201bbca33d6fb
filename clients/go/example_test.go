package tidemill_test

import (
	"context"
	"errors"
	"fmt"

	tidemill "go.tidemill.dev/client"
)

func Example() {
	client, err := tidemill.New(tidemill.Options{Address: "127.0.0.1:6379"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ctx := context.Background()
	if err := client.Set(ctx, "greeting", "hello", "EX", 60).Err(); errors.Is(err, tidemill.ErrNotSent) {
		fmt.Println("the server has not seen it: safe to repeat")
	}
	greeting, err := client.Get(ctx, "greeting").Text()
	fmt.Println(greeting, err)
}

func ExampleClient_RunTx() {
	client, _ := tidemill.New(tidemill.Options{})
	defer client.Close()
	var tx tidemill.Tx
	tx.Add("INCR", "visits")
	tx.Add("EXPIRE", "visits", 3600)
	replies, err := client.RunTx(context.Background(), &tx)
	if err == nil {
		fmt.Println(tidemill.As[int](replies[0]))
	}
}
