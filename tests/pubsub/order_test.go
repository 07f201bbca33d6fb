package pubsub

import (
	"fmt"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	channels   = 3
	publishers = 4
	// Messages of one publisher, among all channels.
	messages = 4000
)

// A journal is what one subscriber received of each channel, with the times at which it subscribed
// in between: stretches without a gap.
type journal struct {
	name      string
	stretches map[string][][]string
}

// deliveries counts the messages.
func (j *journal) deliveries() (count int64) {
	for _, stretches := range j.stretches {
		for _, stretch := range stretches {
			count += int64(len(stretch))
		}
	}
	return count
}

func (j *journal) add(channel, payload string) {
	last := len(j.stretches[channel]) - 1
	j.stretches[channel][last] = append(j.stretches[channel][last], payload)
}

func channelName(index int) string { return fmt.Sprintf("ch%d.", index) }

// publish sends messages at random to the channels, and returns how many received them. One that
// subscribes as well checks that its own messages come behind the replies.
func publish(conn *wire.Conn, id int, seed int64, own *journal) (received int64, err error) {
	const pipelined = 20
	random := rand.New(rand.NewSource(seed + int64(id)))
	answered := 0
	receive := func() error {
		reply, err := conn.Receive()
		if err != nil {
			return err
		}
		if reply.Kind == ':' {
			received += reply.Int()
			answered++
			return nil
		}
		if own == nil || reply.Kind != '>' {
			return fmt.Errorf("PUBLISH is answered %s", reply)
		}
		payload := string(reply.Items[2].Text)
		own.add(string(reply.Items[1].Text), payload)
		from, number, _ := strings.Cut(payload, ":")
		if count, _ := strconv.Atoi(number); from == strconv.Itoa(id) && count >= answered {
			return fmt.Errorf("own message %s is before the reply to its PUBLISH", payload)
		}
		return nil
	}
	for sent := 0; sent < messages; {
		var request []byte
		for range pipelined {
			channel := channelName(random.Intn(channels))
			payload := fmt.Sprintf("%d:%d", id, sent)
			request = wire.AppendCommand(request, wire.Arguments("PUBLISH", channel, payload)...)
			sent++
		}
		if err := conn.SendRaw(request); err != nil {
			return 0, err
		}
		for answered < sent {
			if err := receive(); err != nil {
				return 0, err
			}
		}
	}
	return received, nil
}

// listen subscribes to everything, by channels or by a pattern, until `end` is published.
func listen(conn *wire.Conn, j *journal, byPattern bool) error {
	for {
		reply, err := conn.Receive()
		if err != nil {
			return err
		}
		items := reply.Items
		if byPattern {
			items = items[1:]
		}
		channel, payload := string(items[1].Text), string(items[2].Text)
		if payload == "end" {
			return nil
		}
		j.add(channel, payload)
	}
}

// comeAndGo subscribes and unsubscribes until everything is published.
func comeAndGo(conn *wire.Conn, j *journal, seed int64, isOver *atomic.Bool) error {
	random := rand.New(rand.NewSource(seed))
	for !isOver.Load() {
		channel := channelName(random.Intn(channels))
		j.stretches[channel] = append(j.stretches[channel], nil)
		if err := take(conn, j, "subscribe", "SUBSCRIBE", channel); err != nil {
			return err
		}
		for range random.Intn(10) {
			if err := take(conn, j, "pong", "PING"); err != nil {
				return err
			}
		}
		if err := take(conn, j, "unsubscribe", "UNSUBSCRIBE", channel); err != nil {
			return err
		}
	}
	return nil
}

// take sends a call and takes messages up to its answer, which begins with a word.
func take(conn *wire.Conn, j *journal, answer string, call ...string) error {
	if err := conn.Send(call...); err != nil {
		return err
	}
	for {
		reply, err := conn.Receive()
		if err != nil {
			return err
		}
		switch kind := string(reply.Items[0].Text); kind {
		case answer:
			return nil
		case "message":
			if answer == "subscribe" {
				return fmt.Errorf("%s before its subscription", reply)
			}
			j.add(string(reply.Items[1].Text), string(reply.Items[2].Text))
		default:
			return fmt.Errorf("%s instead of %s", reply, answer)
		}
	}
}

func newJournal(name string) *journal {
	j := &journal{name: name, stretches: map[string][][]string{}}
	for index := range channels {
		j.stretches[channelName(index)] = [][]string{nil}
	}
	return j
}

func TestMessages_AreOrderedAndNotLost(t *testing.T) {
	for _, workers := range []string{"2", "4"} {
		t.Run(workers+" workers", func(t *testing.T) {
			server := instance.Start(t, instance.Subject, "--worker-threads", workers)
			checkMessages(t, server, 17)
		})
	}
}

// subscribe subscribes to channels, and takes the confirmations.
func subscribe(t *testing.T, conn *wire.Conn, channels []string) {
	t.Helper()
	do(t, conn, append([]string{"SUBSCRIBE"}, channels...)...)
	for range channels[1:] {
		if _, err := conn.Receive(); err != nil {
			t.Fatal(err)
		}
	}
}

// checkMessages publishes and subscribes side by side and judges what everybody received.
func checkMessages(t *testing.T, server *instance.Server, seed int64) {
	var whole, passing []*journal
	var listeners, comers, publishing sync.WaitGroup
	var received atomic.Int64
	var isOver atomic.Bool
	failed := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	all := make([]string, channels)
	for index := range all {
		all[index] = channelName(index)
	}
	for number := range 6 {
		conn := server.Dial(t)
		byPattern := number%3 == 2
		if number%2 == 1 {
			do(t, conn, "HELLO", "3")
		}
		j := newJournal(fmt.Sprintf("listener %d", number))
		whole = append(whole, j)
		if byPattern {
			do(t, conn, "PSUBSCRIBE", "ch*")
		} else {
			subscribe(t, conn, all)
		}
		listeners.Go(func() { failed(listen(conn, j, byPattern)) })
	}
	for number := range 3 {
		conn := server.Dial(t)
		j := newJournal(fmt.Sprintf("passing %d", number))
		passing = append(passing, j)
		comers.Go(func() { failed(comeAndGo(conn, j, seed+int64(number), &isOver)) })
	}
	var own []*journal
	for id := range publishers {
		conn := server.Dial(t)
		var j *journal
		if id%2 == 0 {
			j = newJournal(fmt.Sprintf("publisher %d", id))
			own = append(own, j)
			do(t, conn, "HELLO", "3")
			subscribe(t, conn, all)
		}
		publishing.Go(func() {
			count, err := publish(conn, id, seed, j)
			failed(err)
			received.Add(count)
			if j != nil && err == nil {
				failed(finish(conn, j))
			}
		})
	}
	publishing.Wait()
	isOver.Store(true)
	// Those that come and go leave first, then the others are told.
	comers.Wait()
	last := server.Dial(t)
	failed(last.Send("PUBLISH", all[0], "end"))
	listeners.Wait()
	if !t.Failed() {
		judge(t, whole, passing, own, received.Load())
	}
}

// finish takes what a publisher that subscribes has not received yet, and unsubscribes.
func finish(conn *wire.Conn, j *journal) error {
	if err := conn.Send("UNSUBSCRIBE"); err != nil {
		return err
	}
	for left := channels; left > 0; {
		reply, err := conn.Receive()
		if err != nil {
			return err
		}
		if string(reply.Items[0].Text) == "unsubscribe" {
			left--
			continue
		}
		j.add(string(reply.Items[1].Text), string(reply.Items[2].Text))
	}
	return nil
}

// judge compares what all received with what the first one did, who received all.
func judge(t *testing.T, whole, passing, own []*journal, received int64) {
	var delivered int64
	for _, j := range slices.Concat(whole, passing, own) {
		delivered += j.deliveries()
	}
	if delivered != received {
		t.Errorf("%d messages were delivered, PUBLISH counted %d", delivered, received)
	}
	if count := whole[0].deliveries(); count != publishers*messages {
		t.Errorf("%d of %d messages were received", count, publishers*messages)
	}
	for channel, stretches := range whole[0].stretches {
		order := stretches[0]
		next := map[string]int{}
		for _, payload := range order {
			from, number, _ := strings.Cut(payload, ":")
			count, _ := strconv.Atoi(number)
			if count < next[from] {
				t.Fatalf("%s: message %s behind a later one of its publisher", channel, payload)
			}
			next[from] = count
		}
		for _, j := range slices.Concat(whole[1:], passing, own) {
			for _, stretch := range j.stretches[channel] {
				if !isPart(order, stretch) {
					t.Fatalf("%s: %s saw another order", channel, j.name)
				}
			}
		}
	}
}

// isPart tells whether a stretch is in an order without a gap.
func isPart(order, stretch []string) bool {
	if len(stretch) == 0 {
		return true
	}
	at := slices.Index(order, stretch[0])
	return at >= 0 && at+len(stretch) <= len(order) &&
		slices.Equal(order[at:at+len(stretch)], stretch)
}
