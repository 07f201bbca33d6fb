package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	tidemill "go.tidemill.dev/client"
)

func TestClient_ManyGoroutinesShareOneConnection(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	client, outside, ctx := newTestClient(t, s), s.plain(t), testContext(t)
	var group sync.WaitGroup
	for worker := range 64 {
		group.Go(func() {
			for round := range 30 {
				key := fmt.Sprintf("key:%d:%d", worker, round)
				if err := client.Set(ctx, key, "value of "+key, 0).Err(); err != nil {
					t.Error(err)
				}
				if value, err := client.Get(ctx, key).Result(); err != nil ||
					value != "value of "+key {
					t.Errorf("%s: %q, %v", key, value, err)
				}
			}
		})
	}
	group.Wait()
	if count := connections(t, outside); count != 1 {
		t.Errorf("%d real connections, wanted 1", count)
	}
	if stats := client.PoolStats(); stats.TotalConns < 2 {
		t.Errorf("%d virtual connections: nothing was shared", stats.TotalConns)
	}
}

func TestClient_ErrorsAreThoseOfGoRedis(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	for protocol := 2; protocol <= 3; protocol++ {
		client, ctx := newTestClient(t, s, func(o *redis.Options) { o.Protocol = protocol }),
			testContext(t)
		if err := client.Get(ctx, "absent").Err(); err != redis.Nil {
			t.Errorf("absent key: %v", err)
		}
		client.Set(ctx, "text", "x", 0)
		err := client.Incr(ctx, "text").Err()
		if _, ok := errors.AsType[redis.Error](err); !ok ||
			err.Error() != "ERR value is not an integer or out of range" {
			t.Errorf("%T %v", err, err)
		}
		if err := client.LPush(ctx, "text", 1).Err(); !redis.HasErrorPrefix(err, "WRONGTYPE") {
			t.Errorf("%v", err)
		}
	}
}

func TestClient_DialErrorIsReported(t *testing.T) {
	checkLeaks(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	client := NewClient(&redis.Options{Addr: address, MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	err = client.Ping(testContext(t)).Err()
	if dial, ok := errors.AsType[*net.OpError](err); !ok || dial.Op != "dial" {
		t.Errorf("%T %v", err, err)
	}
}

func TestClient_WrongPasswordIsReportedAndNotRemembered(t *testing.T) {
	checkLeaks(t)
	s := startServer(t, "--requirepass", "right")
	ctx := testContext(t)
	wrong := newTestClient(t, s, func(o *redis.Options) { o.Password = "wrong" })
	for range 2 {
		if err := wrong.Ping(ctx).Err(); !redis.HasErrorPrefix(err, "WRONGPASS") {
			t.Errorf("wrong password: %v", err)
		}
	}
	right := newTestClient(t, s, func(o *redis.Options) { o.Password = "right" })
	if err := right.Ping(ctx).Err(); err != nil {
		t.Error(err)
	}
}

func TestClient_PasswordChangeShowsOnceTheConnectionIsLost(t *testing.T) {
	checkLeaks(t)
	s := startServer(t, "--requirepass", "first")
	ctx := testContext(t)
	client := newTestClient(t, s, func(o *redis.Options) { o.Password = "first" })
	other := redis.NewClient(&redis.Options{
		Addr: s.address, Password: "first", ClientName: "outside",
	})
	defer other.Close()
	idle := client.Conn() // keeps alive what is remembered of the server
	defer idle.Close()
	for _, used := range []redis.Cmdable{idle, client} {
		if err := used.Ping(ctx).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.ConfigSet(ctx, "requirepass", "second").Err(); err != nil {
		t.Fatal(err)
	}
	if err := other.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the new password to be asked for", func() bool {
		return redis.HasErrorPrefix(client.Ping(ctx).Err(), "WRONGPASS")
	})
}

func TestConn_RefusedLoginIsTriedAgain(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	client, outside, ctx := newTestClient(t, s), s.plain(t), testContext(t)
	conn := client.Conn()
	defer conn.Close()
	login := func() error { return conn.Do(ctx, "AUTH", "user", "secret").Err() }
	if err := login(); !redis.HasErrorPrefix(err, "WRONGPASS") {
		t.Errorf("unknown user: %v", err)
	}
	outside.Do(ctx, "ACL", "SETUSER", "user", "on", ">secret", "+@all", "~*")
	if err := login(); err != nil {
		t.Errorf("known user: %v", err)
	}
	if name := conn.Do(ctx, "ACL", "WHOAMI").Val(); name != "user" {
		t.Errorf("logged in as %v", name)
	}
	if name := client.Do(ctx, "ACL", "WHOAMI").Val(); name != "default" {
		t.Errorf("the others are logged in as %v", name)
	}
}

func TestConn_DatabasesDoNotMix(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	ctx := testContext(t)
	first := newTestClient(t, s, func(o *redis.Options) { o.DB = 1 })
	second := newTestClient(t, s, func(o *redis.Options) { o.DB = 2 })
	first.Set(ctx, "key", "one", 0)
	second.Set(ctx, "key", "two", 0)
	conn := first.Conn()
	defer conn.Close()
	for round := range 3 {
		if err := conn.Select(ctx, 2).Err(); err != nil {
			t.Fatal(err)
		}
		if value := conn.Get(ctx, "key").Val(); value != "two" {
			t.Errorf("round %d: %q after SELECT 2", round, value)
		}
		if value := first.Get(ctx, "key").Val(); value != "one" {
			t.Errorf("round %d: %q in the client's own database", round, value)
		}
		if err := conn.Select(ctx, 1).Err(); err != nil {
			t.Fatal(err)
		}
		if value := conn.Get(ctx, "key").Val(); value != "one" {
			t.Errorf("round %d: %q after SELECT 1", round, value)
		}
	}
	if err := conn.Select(ctx, 99).Err(); err == nil {
		t.Error("SELECT 99 was accepted")
	}
	if value := conn.Get(ctx, "key").Val(); value != "one" {
		t.Errorf("%q after a refused SELECT", value)
	}
}

func TestClient_TransactionsTravelOnTheSharedConnection(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	client, outside, ctx := newTestClient(t, s), s.plain(t), testContext(t)
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			key := fmt.Sprintf("counter:%d", worker)
			for round := range 20 {
				var value *redis.IntCmd
				_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
					pipe.Incr(ctx, key)
					value = pipe.Incr(ctx, key)
					return nil
				})
				if err != nil || value.Val() != int64(2*round+2) {
					t.Errorf("%v, %v", value, err)
				}
			}
		})
	}
	group.Wait()
	if count := connections(t, outside); count != 1 {
		t.Errorf("%d real connections, wanted 1", count)
	}
}

func TestWatch_ChangedKeyFailsTheTransaction(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	client, outside, ctx := newTestClient(t, s), s.plain(t), testContext(t)
	for range 5 {
		err := client.Watch(ctx, func(tx *redis.Tx) error {
			outside.Incr(ctx, "watched")
			_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Set(ctx, "watched", "mine", 0)
				return nil
			})
			return err
		}, "watched")
		if err != redis.TxFailedErr {
			t.Errorf("changed key: %v", err)
		}
	}
	if value := client.Get(ctx, "watched").Val(); value != "5" {
		t.Errorf("watched is %q", value)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 10 {
				for incrementInWatch(ctx, client, "optimistic") == redis.TxFailedErr {
				}
			}
		})
	}
	group.Wait()
	if value := client.Get(ctx, "optimistic").Val(); value != "80" {
		t.Errorf("optimistic is %q", value)
	}
	// The shared one, and at most one for each watcher: they are given back, not left behind.
	if count := connections(t, outside); count > 9 {
		t.Errorf("%d real connections", count)
	}
}

func TestConn_ExecGivesTheHeldConnectionBack(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	client, outside, ctx := newTestClient(t, s), s.plain(t), testContext(t)
	for _, end := range []string{"EXEC", "DISCARD"} {
		for range 4 {
			conn := client.Conn()
			defer conn.Close()
			for _, line := range [][]any{{"WATCH", "key"}, {"GET", "key"}, {"MULTI"},
				{"INCR", "key"}, {end}, {"PING"}} {
				if err := conn.Do(ctx, line...).Err(); err != nil && err != redis.Nil {
					t.Fatalf("%v: %v", line, err)
				}
			}
		}
	}
	if value := client.Get(ctx, "key").Val(); value != "4" {
		t.Errorf("key is %q", value)
	}
	if count := connections(t, outside); count > 2 {
		t.Errorf("%d real connections, wanted the shared one and one that was held in turn", count)
	}
}

func incrementInWatch(ctx context.Context, client *redis.Client, key string) error {
	return client.Watch(ctx, func(tx *redis.Tx) error {
		value, err := tx.Get(ctx, key).Int()
		if err != nil && err != redis.Nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, key, value+1, 0)
			return nil
		})
		return err
	}, key)
}

func TestClient_BlockedCommandDelaysNobody(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	client, ctx := newTestClient(t, s), testContext(t)
	popped := make(chan []string, 1)
	go func() { popped <- client.BLPop(ctx, 20*time.Second, "queue").Val() }()
	outside := s.plain(t)
	waitFor(t, "BLPOP to block", func() bool {
		return strings.Contains(outside.Info(ctx, "clients").Val(), "blocked_clients:1")
	})
	for i := range 100 {
		if err := client.Set(ctx, "other", i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	client.RPush(ctx, "queue", "item")
	if got := <-popped; len(got) != 2 || got[1] != "item" {
		t.Errorf("popped %v", got)
	}
}

func TestPubSub_DeliversAndResubscribes(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	client, outside, ctx := newTestClient(t, s), s.plain(t), testContext(t)
	subscription := client.Subscribe(ctx, "news")
	defer subscription.Close()
	if _, err := subscription.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	messages := subscription.Channel()
	client.Publish(ctx, "news", "first")
	if m := <-messages; m.Payload != "first" {
		t.Errorf("%v", m)
	}
	if err := subscription.PSubscribe(ctx, "n*"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the pattern", func() bool { return outside.PubSubNumPat(ctx).Val() == 1 })
	outside.ClientKillByFilter(ctx, "TYPE", "pubsub")
	waitFor(t, "both subscriptions again", func() bool {
		return outside.PubSubNumPat(ctx).Val() == 1 &&
			outside.PubSubNumSub(ctx, "news").Val()["news"] == 1
	})
	client.Publish(ctx, "news", "second")
	for range 2 {
		if m := <-messages; m.Payload != "second" {
			t.Errorf("%v", m)
		}
	}
}

func TestConn_AskingForItsIdentityKeepsOneConnection(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	client, ctx := newTestClient(t, s), testContext(t)
	conn := client.Conn()
	defer conn.Close()
	id, err := conn.ClientID(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	unblocked := make(chan error, 1)
	go func() { unblocked <- conn.BLPop(ctx, 20*time.Second, "nothing").Err() }()
	waitFor(t, "CLIENT UNBLOCK to find it", func() bool {
		return client.ClientUnblock(ctx, id).Val() == 1
	})
	if err := <-unblocked; err != redis.Nil {
		t.Errorf("%v", err)
	}
}

func TestPipeline_LargeOnesArriveWholeAndInOrder(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	client, ctx := newTestClient(t, s), testContext(t)
	large := strings.Repeat("x", 300<<10)
	for range 3 {
		commands, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := range 2000 {
				pipe.Set(ctx, fmt.Sprint("many:", i), i, 0)
				pipe.Get(ctx, fmt.Sprint("many:", i))
			}
			pipe.Set(ctx, "large", large, 0)
			pipe.Get(ctx, "large")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2000 {
			if value := commands[2*i+1].(*redis.StringCmd).Val(); value != fmt.Sprint(i) {
				t.Fatalf("%d: %q", i, value)
			}
		}
		if value := commands[4001].(*redis.StringCmd).Val(); value != large {
			t.Fatalf("large value came back with %d bytes", len(value))
		}
	}
}

func TestPipeline_MixedKindsKeepTheirOrder(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	client, ctx := newTestClient(t, s), testContext(t)
	conn := client.Conn()
	defer conn.Close()
	commands, err := conn.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.RPush(ctx, "list", "a", "b")
		pipe.BLPop(ctx, time.Second, "list")
		pipe.Select(ctx, 3)
		pipe.RPush(ctx, "list", "c")
		pipe.BLPop(ctx, time.Second, "list")
		pipe.Do(ctx, "MULTI")
		pipe.Do(ctx, "SELECT", 0)
		pipe.Do(ctx, "LPOP", "list")
		pipe.Do(ctx, "EXEC")
		pipe.Do(ctx, "LLEN", "list")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"rpush list a b: 2", "blpop list 1: [list a]", "select 3: OK",
		"rpush list c: 1",
		"blpop list 1: [list c]", "MULTI: OK", "SELECT 0: QUEUED", "LPOP list: QUEUED",
		"EXEC: [OK b]", "LLEN list: 0"}
	for i, command := range commands {
		if command.String() != want[i] {
			t.Errorf("%q, wanted %q", command, want[i])
		}
	}
}

func TestClient_TimeoutSkipsTheLateReply(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	ctx := testContext(t)
	client := newTestClient(t, s, func(o *redis.Options) {
		o.ReadTimeout, o.MaxRetries = 2*time.Second, -1
	})
	outside := s.plain(t)
	for i := range 20 {
		outside.Set(ctx, fmt.Sprint("key:", i), fmt.Sprint("value:", i), 0)
	}
	if err := client.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	s.signal(t, syscall.SIGSTOP)
	err := client.Get(ctx, "key:0").Err()
	s.signal(t, syscall.SIGCONT)
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() || !errors.Is(err, tidemill.ErrMaybeSent) {
		t.Errorf("%T %v", err, err)
	}
	for i := range 20 {
		if value := client.Get(ctx, fmt.Sprint("key:", i)).Val(); value != fmt.Sprint("value:", i) {
			t.Errorf("key:%d is %q", i, value)
		}
	}
}

func TestClient_PassedDeadlinesAreNetErrors(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	for name, set := range map[string]func(*redis.Options){
		"read":  func(o *redis.Options) { o.ReadTimeout, o.WriteTimeout = time.Nanosecond, -1 },
		"write": func(o *redis.Options) { o.ReadTimeout, o.WriteTimeout = -1, time.Nanosecond },
	} {
		client := newTestClient(t, s, set, func(o *redis.Options) { o.MaxRetries = -1 })
		err := client.Ping(testContext(t)).Err()
		if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() {
			t.Errorf("%s: %T %v", name, err, err)
		}
	}
}

func TestClient_ContextEndsTheWait(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	client := newTestClient(t, s, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	started := time.Now()
	if err := client.BLPop(ctx, time.Minute, "nothing").Err(); err == nil ||
		time.Since(started) > 20*time.Second {
		t.Errorf("%v after %v", err, time.Since(started))
	}
}

func TestClient_KilledConnectionsRepeatNoWrite(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	client := newTestClient(t, s, func(o *redis.Options) { o.MaxRetries = -1 })
	outside, ctx := s.plain(t), testContext(t)
	stopping, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	outcomes := map[string]error{}
	acknowledged, unknown := 0, 0
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			for round := 0; stopping.Err() == nil; round++ {
				value := fmt.Sprintf("%d:%d", worker, round)
				err := client.RPush(ctx, "list", value).Err()
				mu.Lock()
				outcomes[value] = err
				switch {
				case err == nil:
					acknowledged++
				case errors.Is(err, tidemill.ErrMaybeSent):
					unknown++
				}
				mu.Unlock()
			}
		})
	}
	kills := 0
	isEnough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return kills >= 5 && acknowledged >= 100 && unknown > 0
	}
	for began := time.Now(); time.Since(began) < time.Second || !isEnough(); {
		if ctx.Err() != nil {
			t.Fatalf("%d kills, %d acknowledged, %d unknown: nothing is tested", kills,
				acknowledged, unknown)
		}
		if outside.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Val() > 0 {
			kills++
		}
		time.Sleep(5 * time.Millisecond)
	}
	stop()
	group.Wait()
	found := map[string]int{}
	for _, value := range outside.LRange(ctx, "list", 0, -1).Val() {
		found[value]++
	}
	for value, err := range outcomes {
		switch count := found[value]; {
		case count > 1:
			t.Errorf("%s was written %d times", value, count)
		case err == nil && count != 1:
			t.Errorf("%s was acknowledged and is not there", value)
		case errors.Is(err, tidemill.ErrNotSent) && count != 0:
			t.Errorf("%s is there: %v", value, err)
		}
	}
	if err := client.Ping(ctx).Err(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestClient_CloseLeavesNoConnection(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	client, outside, ctx := newTestClient(t, s), s.plain(t), testContext(t)
	client.Ping(ctx)
	client.BLPop(ctx, time.Second, "nothing")
	watching := client.Conn()
	watching.Do(ctx, "WATCH", "key")
	watching.Close()
	if connections(t, outside) == 0 {
		t.Error("no connection before Close")
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	waitFor(t, "the connections to go", func() bool { return connections(t, outside) == 0 })
	if err := client.Ping(ctx).Err(); err != redis.ErrClosed {
		t.Errorf("after Close: %v", err)
	}
}
