package pubsub

import (
	"strings"
	"testing"

	"tidemill/tests/internal/instance"
)

// TestSlowSubscriber_IsCutOffAndOthersAreNot has one subscriber that reads nothing beside others
// that do, in both protocols and by pattern. The publisher is at most `ahead` messages in front of
// each of these: a reader without CPU time would exceed the limit, too.
func TestSlowSubscriber_IsCutOffAndOthersAreNot(t *testing.T) {
	const count, size, ahead = 3000, 20_000, 50
	server := instance.Start(t, instance.Subject, "--worker-threads", "2",
		"--client-output-buffer-limit", "pubsub 4mb 0 0")
	slow, publisher := server.Dial(t), server.Dial(t)
	do(t, slow, "SUBSCRIBE", "c")
	var unread [4]chan struct{}
	done := make(chan int, len(unread))
	for number := range unread {
		conn := server.Dial(t)
		if number%2 == 1 {
			do(t, conn, "HELLO", "3")
		}
		if number < 2 {
			do(t, conn, "SUBSCRIBE", "c")
		} else {
			do(t, conn, "PSUBSCRIBE", "c*")
		}
		unread[number] = make(chan struct{}, ahead)
		go func() {
			received := 0
			for range unread[number] {
				reply, err := conn.Receive()
				if err == nil && len(reply.Items[len(reply.Items)-1].Text) == size {
					received++
				}
			}
			done <- received
		}()
	}
	payload := strings.Repeat("x", size)
	for range count {
		for _, messages := range unread {
			messages <- struct{}{}
		}
		do(t, publisher, "PUBLISH", "c", payload)
	}
	for _, messages := range unread {
		close(messages)
	}
	for range unread {
		if received := <-done; received != count {
			t.Errorf("another subscriber received %d of %d messages", received, count)
		}
	}
	await(t, "the slow subscriber is not cut off", func() bool {
		return info(t, publisher, "client_output_buffer_limit_disconnections") == "1"
	})
	if left := do(t, publisher, "PUBSUB", "NUMSUB", "c").Items[1].Int(); left != 2 {
		t.Errorf("%d subscribers of the channel are left", left)
	}
	if !strings.Contains(server.Log(), "closed for overcoming of output buffer limits") {
		t.Error("the log does not tell of it")
	}
}

// TestSoftLimit_EndsASubscriberInTime leaves a subscriber above its softer limit.
func TestSoftLimit_EndsASubscriberInTime(t *testing.T) {
	server := instance.Start(t, instance.Subject,
		"--client-output-buffer-limit", "pubsub 0 1mb 1")
	slow, publisher := server.Dial(t), server.Dial(t)
	do(t, slow, "SUBSCRIBE", "c")
	payload := strings.Repeat("x", 1<<20)
	for range 20 {
		do(t, publisher, "PUBLISH", "c", payload)
	}
	if left := do(t, publisher, "PUBSUB", "NUMSUB", "c").Items[1].Int(); left != 1 {
		t.Fatalf("%d subscribers at once", left)
	}
	await(t, "the subscriber is not disconnected", func() bool {
		return do(t, publisher, "PUBSUB", "NUMSUB", "c").Items[1].Int() == 0
	})
}
