package linearizability

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	waiterCount    = 12
	fairnessRounds = 40
)

// TestWaiters_AreServedInArrivalOrder blocks connections, which the server spreads over its
// workers, one after the other on one key, and feeds the key in several ways.
func TestWaiters_AreServedInArrivalOrder(t *testing.T) {
	for _, configured := range configurations() {
		t.Run(configured.name, func(t *testing.T) {
			server := instance.Start(t, instance.Subject, configured.directives...)
			feed := server.Dial(t)
			var waiters []*wire.Conn
			for range waiterCount {
				waiters = append(waiters, server.Dial(t))
			}
			for round := range fairnessRounds {
				serveInOrder(t, feed, waiters, round)
			}
		})
	}
}

func serveInOrder(t *testing.T, feed *wire.Conn, waiters []*wire.Conn, round int) {
	t.Helper()
	for index, waiter := range waiters {
		command := []string{"BLPOP", "elsewhere", "queue", "0"}
		if (index+round)%3 == 0 {
			command = []string{"BLMPOP", "0", "1", "queue", "LEFT"}
		}
		if err := waiter.Send(command...); err != nil {
			t.Fatal(err)
		}
		awaitBlocked(t, feed, index+1)
	}
	feedQueue(t, feed, round)
	for index, waiter := range waiters {
		reply, err := waiter.Receive()
		if err != nil {
			t.Fatalf("round %d, waiter %d: %v", round, index, err)
		}
		want := strconv.Quote("element" + strconv.Itoa(index))
		if !strings.Contains(reply.String(), want) {
			t.Fatalf("round %d: waiter %d got %s, want %s", round, index, reply, want)
		}
	}
}

// feedQueue adds one element per waiter, in order: by one push, by many, in a transaction, by
// moves.
func feedQueue(t *testing.T, feed *wire.Conn, round int) {
	t.Helper()
	var elements []string
	for index := range waiterCount {
		elements = append(elements, "element"+strconv.Itoa(index))
	}
	do := func(words ...string) {
		if reply, err := feed.Do(words...); err != nil || reply.IsError() {
			t.Fatalf("%v: %v %v", words, reply, err)
		}
	}
	switch round % 4 {
	case 0:
		do(append([]string{"RPUSH", "queue"}, elements...)...)
	case 1:
		for _, element := range elements {
			do("RPUSH", "queue", element)
		}
	case 2:
		do("MULTI")
		for _, element := range elements {
			do("RPUSH", "queue", element)
		}
		do("EXEC")
	case 3:
		do(append([]string{"RPUSH", "source"}, elements...)...)
		for range elements {
			do("LMOVE", "source", "queue", "LEFT", "RIGHT")
		}
	}
}

// awaitBlocked waits until INFO shows this count of blocked clients.
func awaitBlocked(t *testing.T, control *wire.Conn, count int) {
	t.Helper()
	want := fmt.Sprintf("blocked_clients:%d\r\n", count)
	var last wire.Reply
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		var err error
		if last, err = control.Do("INFO", "clients"); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(last.Text), want) {
			return
		}
	}
	t.Fatalf("%d clients are not blocked after 5 s:\n%s", count, last.Text)
}
