package differential

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tidemill/tests/internal/wire"
)

// eventDirectives let a server publish all events, without misses.
var eventDirectives = []string{"--notify-keyspace-events", "EAn"}

const (
	eventChannels = "__keyevent@*"
	endOfEvents   = "end of events"
)

// Observed is what a sequence did beside its replies.
type Observed struct {
	// Events are those of the keyspace in their order, without those that a clock causes.
	Events []string
	// Changes is what INFO calls rdb_changes_since_last_save.
	Changes int64
}

// observer reads a server's events on a connection of its own.
type observer struct {
	conn    *wire.Conn
	changes int64
}

// start forgets the sequences before.
func (o *observer) start(e *Endpoint) error {
	if o.conn == nil {
		conn, err := wire.Dial(e.Address)
		if err != nil {
			return err
		}
		conn.Timeout = e.conn.Timeout
		o.conn = conn
		if _, err := conn.Do("PSUBSCRIBE", eventChannels); err != nil {
			return err
		}
		if _, err := conn.Do("SUBSCRIBE", endOfEvents); err != nil {
			return err
		}
	}
	changes, err := changesOf(e.conn)
	o.changes = changes
	return err
}

// finish collects what happened since start.
func (o *observer) finish(e *Endpoint) (*Observed, error) {
	changes, err := changesOf(e.conn)
	if err != nil {
		return nil, err
	}
	if _, err := e.conn.Do("PUBLISH", endOfEvents, ""); err != nil {
		return nil, err
	}
	observed := &Observed{Changes: changes - o.changes}
	for {
		message, err := o.conn.Receive()
		if err != nil {
			return nil, fmt.Errorf("events: %w", err)
		}
		if string(message.Items[0].Text) == "message" {
			return observed, nil
		}
		database, event, _ := strings.Cut(string(message.Items[2].Text), "__:")
		if event == "expired" || event == "hexpired" {
			continue
		}
		observed.Events = append(observed.Events, fmt.Sprintf("%s %s %q", event,
			strings.TrimPrefix(database, "__keyevent@"), message.Items[3].Text))
	}
}

func changesOf(conn *wire.Conn) (int64, error) {
	info, err := conn.Do("INFO", "persistence")
	if err != nil {
		return 0, err
	}
	const name = "rdb_changes_since_last_save:"
	_, rest, found := strings.Cut(string(info.Text), name)
	if !found {
		return 0, fmt.Errorf("INFO without %s: %s", name, info)
	}
	line, _, _ := strings.Cut(rest, "\r\n")
	return strconv.ParseInt(line, 10, 64)
}

// compareObserved finds the first difference between what a sequence did to two servers.
func compareObserved(sequence Sequence, valkey, subject *Observed) *Mismatch {
	if valkey == nil || subject == nil {
		return nil
	}
	end := len(sequence.Calls)
	for index := range max(len(valkey.Events), len(subject.Events)) {
		left, right := eventAt(valkey, index), eventAt(subject, index)
		if left != right {
			name := strings.Fields(left)[0] + "/" + strings.Fields(right)[0]
			return &Mismatch{end, Call{Name: "(event " + name + ")"}, left, right}
		}
	}
	// A string that grows by writes that were refused counts as a change here: the log has it.
	mayGrow := slices.ContainsFunc(sequence.Calls, func(call Call) bool {
		return call.Name == "bitfield" && call.mentions("FAIL")
	})
	if valkey.Changes != subject.Changes && !mayGrow {
		return &Mismatch{
			end, Call{Name: "(changes)"}, strconv.FormatInt(valkey.Changes, 10),
			strconv.FormatInt(subject.Changes, 10),
		}
	}
	return nil
}

func eventAt(observed *Observed, index int) string {
	if index >= len(observed.Events) {
		return "none"
	}
	return observed.Events[index]
}
