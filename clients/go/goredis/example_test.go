package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"go.tidemill.dev/client/goredis"
)

// ExampleNewClient shows that code written for go-redis changes only its constructor.
func ExampleNewClient() {
	rdb := goredis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	value, err := rdb.Get(ctx, "greeting").Result()
	switch {
	case errors.Is(err, redis.Nil):
		fmt.Println("no greeting")
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println(value)
	}
}
