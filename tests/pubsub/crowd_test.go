package pubsub

import (
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// subscriberBytesMax is what a subscriber of a channel may take, its connection included.
const subscriberBytesMax = 4096

// openFilesMax is the number of files that this process may open.
func openFilesMax(t *testing.T) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return int(limit.Cur)
}

// TestCrowd_OfSubscribersIsTold lets 15,000 clients subscribe to one channel: all get each message,
// and they are small.
func TestCrowd_OfSubscribersIsTold(t *testing.T) {
	count := min(15_000, openFilesMax(t)-200)
	server := instance.Start(t, instance.Subject, "--maxclients", "16000")
	publisher := server.Dial(t)
	before, err := instance.ResidentBytes(server.PID)
	if err != nil {
		t.Fatal(err)
	}
	crowd := make([]*wire.Conn, count)
	for index := range crowd {
		crowd[index] = server.Dial(t)
		do(t, crowd[index], "SUBSCRIBE", "c")
	}
	after, err := instance.ResidentBytes(server.PID)
	if err != nil {
		t.Fatal(err)
	}
	each := (after - before) / int64(count)
	t.Logf("%d bytes for each of %d subscribers", each, count)
	if each > subscriberBytesMax {
		t.Errorf("a subscriber takes %d bytes", each)
	}
	for number := range 3 {
		payload := fmt.Sprint("message ", number)
		if reply := do(t, publisher, "PUBLISH", "c", payload); reply.Int() != int64(count) {
			t.Fatalf("PUBLISH reaches %s of %d", reply, count)
		}
		for index, conn := range crowd {
			reply, err := conn.Receive()
			if err != nil || string(reply.Items[2].Text) != payload {
				t.Fatalf("subscriber %d gets %s, %v", index, reply, err)
			}
		}
	}
}

// slowPublish is the time of a message on a long channel beside patterns that make a careless
// matcher try again and again.
func slowPublish(t *testing.T, kind instance.Kind) time.Duration {
	t.Helper()
	server := instance.Start(t, kind)
	listener, publisher := server.Dial(t), server.Dial(t)
	for number := range 100 {
		do(t, listener, "PSUBSCRIBE", strings.Repeat("*a", 20)+fmt.Sprintf("*b%d", number))
	}
	channel := strings.Repeat("a", 500)
	do(t, publisher, "PUBLISH", channel, "message")
	least := time.Duration(math.MaxInt64)
	for range 3 {
		began := time.Now()
		for range 10 {
			if reply := do(t, publisher, "PUBLISH", channel, "message"); reply.Int() != 0 {
				t.Errorf("%s: a message matches %s of the patterns", kind, reply)
			}
		}
		least = min(least, time.Since(began))
	}
	return least
}

// TestPatterns_ThatAreSlowCostNoMoreThanInValkey publishes beside patterns of many stars.
func TestPatterns_ThatAreSlowCostNoMoreThanInValkey(t *testing.T) {
	ours, valkey := slowPublish(t, instance.Subject), slowPublish(t, instance.Valkey)
	t.Logf("%v, Valkey %v", ours, valkey)
	if ours > 3*valkey+100*time.Millisecond {
		t.Errorf("messages beside slow patterns take %v, Valkey's %v", ours, valkey)
	}
}

// TestUsers_ByTheThousandAreMadeInAnEvenTime makes users: the last thousand must not take much
// longer than the second, as they would if each one copied all before it.
func TestUsers_ByTheThousandAreMadeInAnEvenTime(t *testing.T) {
	server := instance.Start(t, instance.Subject)
	conn := server.Dial(t)
	const thousands = 20
	var times [thousands]time.Duration
	for thousand := range times {
		began := time.Now()
		var requests []byte
		for number := range 1000 {
			requests = wire.AppendCommand(requests, wire.Arguments("ACL", "SETUSER",
				fmt.Sprintf("user-%d-%d", thousand, number), "on", ">password", "~p:*",
				"+@read")...)
		}
		if err := conn.SendRaw(requests); err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			if reply, err := conn.Receive(); err != nil || string(reply.Text) != "OK" {
				t.Fatalf("ACL SETUSER: %s %v", reply, err)
			}
		}
		times[thousand] = time.Since(began)
	}
	t.Logf("%v", times)
	first := times[1]
	last := min(times[thousands-1], times[thousands-2], times[thousands-3])
	if last > 5*first+100*time.Millisecond {
		t.Errorf("a thousand users take %v, behind %d others %v", first, (thousands-1)*1000, last)
	}
	user := server.Dial(t)
	lastName := fmt.Sprintf("user-%d-999", thousands-1)
	if reply := do(t, user, "AUTH", lastName, "password"); string(reply.Text) != "OK" {
		t.Errorf("the last user is answered %s", reply)
	}
}

// TestUser_ThatDeletesItselfInATransaction sees what it sees in Valkey.
func TestUser_ThatDeletesItselfInATransaction(t *testing.T) {
	seen := map[instance.Kind]string{}
	for _, kind := range []instance.Kind{instance.Subject, instance.Valkey} {
		server := instance.Start(t, kind)
		admin, conn := server.Dial(t), server.Dial(t)
		do(t, admin, "ACL", "SETUSER", "me", "on", ">password", "~*", "+@all")
		do(t, conn, "AUTH", "me", "password")
		do(t, conn, "MULTI")
		for _, words := range [][]string{
			{"SET", "k", "v"}, {"ACL", "DELUSER", "me"}, {"SET", "k", "w"}, {"GET", "k"},
		} {
			do(t, conn, words...)
		}
		conn.Timeout = 5 * time.Second
		reply, err := conn.Do("EXEC")
		text := fmt.Sprintf("%s error %t", reply, err != nil)
		_, err = conn.Do("PING")
		text += fmt.Sprintf(", closed %t", err != nil)
		text += ", k is " + do(t, admin, "GET", "k").String()
		seen[kind] = text
	}
	if seen[instance.Subject] != seen[instance.Valkey] {
		t.Errorf("%s, Valkey %s", seen[instance.Subject], seen[instance.Valkey])
	}
}
