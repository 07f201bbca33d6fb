package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mediocregopher/radix/v4"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	tidemill "go.tidemill.dev/client"
)

// peer is what every client under test offers here. Both methods return only errors, after the
// client turned the reply into a string, which is what a user wants.
type peer struct {
	get   func(key string) error
	set   func(key, value string) error
	close func()
	stats func() string // may be nil
}

// peers makes a client by name, with the settings that its documentation recommends for 256
// goroutines.
var peers = map[string]func(address string, goroutines int) (peer, error){
	"tidemill":      openTidemill,
	"go-redis":      openGoRedis,
	"go-redis-auto": openGoRedisAuto,
	"redigo":        openRedigo,
	"radix":         openRadix,
	"rueidis":       func(a string, n int) (peer, error) { return openRueidis(a, 0) },
	"rueidis-20us": func(a string, n int) (peer, error) {
		return openRueidis(a, 20*time.Microsecond)
	},
	"rueidis-100us": func(a string, n int) (peer, error) {
		return openRueidis(a, 100*time.Microsecond)
	},
}

var background = context.Background()

func openTidemill(address string, _ int) (peer, error) {
	c, err := tidemill.New(tidemill.Options{Address: address})
	if err != nil {
		return peer{}, err
	}
	return peer{
		get: func(key string) error {
			_, err := c.Get(background, key).Text()
			if err == tidemill.ErrNil {
				return nil
			}
			return err
		},
		set:   func(key, value string) error { return c.Set(background, key, value).Err() },
		close: func() { _ = c.Close() },
		stats: func() string { return fmt.Sprintf("%+v", c.Stats()) },
	}, nil
}

func goRedisOptions(address string, goroutines int) *goredis.Options {
	return &goredis.Options{Addr: address, PoolSize: min(max(goroutines, 1), 256)}
}

func ignoreNil(err error) error {
	if err == goredis.Nil {
		return nil
	}
	return err
}

func openGoRedis(address string, goroutines int) (peer, error) {
	c := goredis.NewClient(goRedisOptions(address, goroutines))
	return peer{
		get:   func(key string) error { return ignoreNil(c.Get(background, key).Err()) },
		set:   func(key, value string) error { return c.Set(background, key, value, 0).Err() },
		close: func() { _ = c.Close() },
	}, nil
}

func openGoRedisAuto(address string, goroutines int) (peer, error) {
	options := goRedisOptions(address, goroutines) // its default for this face: one batch in flight
	c := goredis.NewClient(options)
	auto, err := c.AutoPipeline()
	if err != nil {
		return peer{}, err
	}
	return peer{
		get:   func(key string) error { return ignoreNil(auto.Get(background, key).Err()) },
		set:   func(key, value string) error { return auto.Set(background, key, value, 0).Err() },
		close: func() { _ = auto.Close(); _ = c.Close() },
	}, nil
}

func openRedigo(address string, goroutines int) (peer, error) {
	pool := &redis.Pool{MaxIdle: 256, MaxActive: 256, Wait: true, Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", address)
	}}
	do := func(command string, args ...any) error {
		conn := pool.Get()
		defer conn.Close()
		_, err := redis.String(conn.Do(command, args...))
		if err == redis.ErrNil {
			return nil
		}
		return err
	}
	return peer{
		get:   func(key string) error { return do("GET", key) },
		set:   func(key, value string) error { return do("SET", key, value) },
		close: func() { _ = pool.Close() },
	}, nil
}

func openRadix(address string, _ int) (peer, error) {
	c, err := (radix.PoolConfig{Size: 16}).New(background, "tcp", address)
	if err != nil {
		return peer{}, err
	}
	return peer{
		get: func(key string) error {
			var value string
			return c.Do(background, radix.Cmd(&value, "GET", key))
		},
		set: func(key, value string) error {
			return c.Do(background, radix.Cmd(nil, "SET", key, value))
		},
		close: func() { _ = c.Close() },
	}, nil
}

func openRueidis(address string, pause time.Duration) (peer, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{address}, MaxFlushDelay: pause, DisableCache: true,
	})
	if err != nil {
		return peer{}, err
	}
	return peer{
		get: func(key string) error {
			_, err := c.Do(background, c.B().Get().Key(key).Build()).ToString()
			if rueidis.IsRedisNil(err) {
				return nil
			}
			return err
		},
		set: func(key, value string) error {
			return c.Do(background, c.B().Set().Key(key).Value(value).Build()).Error()
		},
		close: c.Close,
	}, nil
}
