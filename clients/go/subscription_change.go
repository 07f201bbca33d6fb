package tidemill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Topics come and go while a subscription runs. Its goroutine gives the commands on the connections
// that there are and counts confirmations; a change is done when every connection has confirmed all
// that was sent until then. What is lost meanwhile is subscribed to again like everything else, and
// waited for.

// change is one call of Subscribe, Unsubscribe and their like.
type change struct {
	removes bool
	topics  []topic
	asked   map[topic]bool // the same as a set
	done    chan error
	errs    []error
	until   map[*leg]uint64 // commands to be confirmed; nil: a topic has no connection yet
}

// legCommand is a command without its confirmation.
type legCommand struct {
	topic   topic
	removes bool
}

func (c legCommand) name() string {
	if !c.removes {
		return c.topic.command
	}
	kind, _ := strings.CutSuffix(c.topic.command, "SUBSCRIBE")
	return kind + "UNSUBSCRIBE"
}

// Subscribe adds channels and returns once the server confirmed. Channels that are subscribed to
// already are no error. With OverflowBlock, messages have to be received meanwhile.
//
// # Errors
//
// Channels that the server refused are in the error and not added; the rest is. When ctx ends first
// the error is ErrMaybeSent, and the channels stay wanted until Unsubscribe takes them away. A
// subscription to shard channels takes no others, and the other way round.
func (s *Subscription) Subscribe(ctx context.Context, channels ...string) error {
	return s.change(ctx, false, "SUBSCRIBE", channels)
}

// PSubscribe adds patterns, as Subscribe adds channels.
func (s *Subscription) PSubscribe(ctx context.Context, patterns ...string) error {
	return s.change(ctx, false, "PSUBSCRIBE", patterns)
}

// SSubscribe adds shard channels, as Subscribe adds others; in a cluster each on its slot's node.
func (s *Subscription) SSubscribe(ctx context.Context, channels ...string) error {
	return s.change(ctx, false, "SSUBSCRIBE", channels)
}

// Unsubscribe takes channels away and returns once the server confirmed; no message from them is
// put into the buffer afterwards. Those that are not subscribed to are no error. A subscription may
// become empty and stays usable. When ctx ends first the error is ErrMaybeSent, and the channels go
// away later.
func (s *Subscription) Unsubscribe(ctx context.Context, channels ...string) error {
	return s.change(ctx, true, "SUBSCRIBE", channels)
}

// PUnsubscribe takes patterns away, as Unsubscribe does channels.
func (s *Subscription) PUnsubscribe(ctx context.Context, patterns ...string) error {
	return s.change(ctx, true, "PSUBSCRIBE", patterns)
}

// SUnsubscribe takes shard channels away, as Unsubscribe does others.
func (s *Subscription) SUnsubscribe(ctx context.Context, channels ...string) error {
	return s.change(ctx, true, "SSUBSCRIBE", channels)
}

func (s *Subscription) change(
	ctx context.Context, removes bool, command string, names []string,
) error {
	if (command == "SSUBSCRIBE") != s.sharded {
		return argumentError("shard channels and others do not share a subscription")
	}
	c := &change{removes: removes, done: make(chan error, 1)}
	for _, name := range names {
		c.topics = append(c.topics, topic{command, name})
	}
	c.asked = topicSet(c.topics)
	if ctx.Err() != nil {
		return notSent(endOf(ctx))
	}
	select {
	case s.changes <- c:
	case <-s.done:
		return notSent(ErrClosed)
	case <-ctx.Done():
		return notSent(endOf(ctx))
	}
	return c.wait(ctx, s.done)
}

// wait returns how a change ended that was handed over; ended is closed with its subscription.
func (c *change) wait(ctx context.Context, ended <-chan struct{}) error {
	var unknown error
	select {
	case err := <-c.done:
		return err
	case <-ended:
		unknown = ErrClosed
	case <-ctx.Done():
		unknown = endOf(ctx)
	}
	select {
	case err := <-c.done: // at the same time
		return err
	default:
		return maybeSent(unknown)
	}
}

// begin makes a change wanted. New topics are lost ones until connectLost has placed them.
func (s *Subscription) begin(c *change) {
	s.open = append(s.open, c)
	if c.removes {
		s.unwant(c.topics)
		return
	}
	for _, t := range c.topics {
		if !s.wanted[t] {
			s.wanted[t] = true
			s.lost = append(s.lost, t)
		}
	}
}

func (s *Subscription) unwant(topics []topic) {
	for _, t := range topics {
		delete(s.wanted, t)
	}
	s.lost = slices.DeleteFunc(s.lost, func(t topic) bool { return !s.wanted[t] })
	for l := range s.legs {
		s.command(l, slices.DeleteFunc(slices.Clone(topics), func(t topic) bool {
			return !l.topics[t]
		}), true)
	}
}

// command sends commands on a leg that listens already. A failure ends the leg, which brings its
// topics back.
func (s *Subscription) command(l *leg, topics []topic, removes bool) {
	if len(topics) == 0 || l.ending {
		return
	}
	var wire []byte
	for _, t := range topics {
		given := legCommand{t, removes}
		wire = appendString(appendString(appendHeader(wire, '*', 2), given.name()), t.name)
		l.awaiting = append(l.awaiting, given)
		l.sent++
		if removes {
			delete(l.topics, t)
		} else {
			l.topics[t] = true
		}
	}
	if s.options.IOTimeout > 0 {
		_ = l.conn.SetWriteDeadline(time.Now().Add(s.options.IOTimeout))
	}
	if _, err := l.conn.Write(wire); err != nil {
		l.stop()
	}
}

// confirm takes the server's answer to the oldest command of a leg; false when the event is none.
func (s *Subscription) confirm(event legEvent) bool {
	l := event.leg
	if len(l.awaiting) == 0 {
		return event.err != nil
	}
	first := l.awaiting[0]
	if event.err == nil &&
		(event.name != first.topic.name || !strings.EqualFold(event.kind, first.name())) {
		return false
	}
	l.awaiting = l.awaiting[1:]
	l.confirmed++
	if event.err != nil && !first.removes {
		s.refuse(l, first.topic, event.err)
	}
	return true
}

// refuse puts a topic that belongs elsewhere back to the lost ones, and gives up one that is not
// allowed.
func (s *Subscription) refuse(l *leg, t topic, err error) {
	if !l.topics[t] {
		return // taken away meanwhile
	}
	delete(l.topics, t)
	if sentElsewhere(err) {
		s.lost = append(s.lost, t)
		s.refused = err
		s.places.failed(err)
		s.reopen(nil)
		return
	}
	s.giveUp([]topic{t}, err)
}

// giveUp ends the wish for topics and tells who wished.
func (s *Subscription) giveUp(topics []topic, err error) {
	s.unwant(topics)
	for _, c := range s.open {
		if !c.removes && slices.ContainsFunc(topics, func(t topic) bool { return c.asked[t] }) {
			c.errs = append(c.errs, fmt.Errorf("subscribing: %w", err))
		}
	}
}

// reopen makes changes wait for a new placement: those that a leg did not confirm before it ended,
// or all.
func (s *Subscription) reopen(ended *leg) {
	for _, c := range s.open {
		if ended == nil || c.until[ended] > ended.confirmed {
			c.until = nil
		}
		delete(c.until, ended)
	}
}

// settle ends the changes that are confirmed. err is why topics are still lost.
func (s *Subscription) settle(err error) {
	var refused *ServerError
	if errors.As(err, &refused) && !sentElsewhere(err) {
		// A connection was refused as a whole; who just added something is told.
		lost := topicSet(s.lost)
		for _, c := range s.open {
			if c.until == nil && !c.removes {
				given := slices.DeleteFunc(slices.Clone(c.topics), func(t topic) bool {
					return !lost[t]
				})
				s.giveUp(given, err)
				for _, t := range given {
					delete(lost, t)
				}
			}
		}
	}
	var lost map[topic]bool
	if err != nil && len(s.open) > 0 {
		lost = topicSet(s.lost)
	}
	s.open = slices.DeleteFunc(s.open, func(c *change) bool {
		if c.until == nil &&
			!slices.ContainsFunc(c.topics, func(t topic) bool { return lost[t] }) {
			c.until = map[*leg]uint64{}
			for l := range s.legs {
				c.until[l] = l.sent
			}
		}
		if c.until == nil {
			return false
		}
		for l, sent := range c.until {
			if l.confirmed < sent {
				return false
			}
		}
		c.done <- joinFailures(c.errs...)
		return true
	})
}
