package tidemill

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Message is one published message. Pattern is set when it came by a pattern.
type Message struct {
	Pattern string
	Channel string
	Payload string
}

// Overflow says what happens to a message when the subscriber's buffer is full.
type Overflow uint8

// The overflow policies. None drops silently: Dropped counts.
const (
	OverflowBlock      Overflow = iota // stop reading; past its output limit the server closes the connection
	OverflowDropNewest                 // the new message is dropped
	OverflowDropOldest                 // the oldest buffered message is dropped
)

// SubscribeOptions name what to listen to. Channels and Patterns may be mixed, Shard (SSUBSCRIBE) stands
// alone.
type SubscribeOptions struct {
	Channels []string
	Patterns []string
	Shard    []string
	Buffer   int // messages [256]
	Overflow Overflow
}

// Subscription receives messages on a connection of its own and subscribes again after a reconnection;
// what was published in between is lost, as always with pub/sub, and Reconnected counts it.
type Subscription struct {
	messages    chan Message
	overflow    Overflow
	node        *node
	commands    [][]any
	cancel      context.CancelFunc
	done        chan struct{}
	dropped     atomic.Uint64
	reconnected atomic.Uint64
	mu          sync.Mutex
	err         error
}

const subscribeBufferDefault = 256

// Subscribe connects, subscribes and returns once the server confirmed. Close must be called.
func (c *Client) Subscribe(ctx context.Context, options SubscribeOptions) (*Subscription, error) {
	setDefault(&options.Buffer, subscribeBufferDefault)
	var commands [][]any
	for _, group := range []struct {
		name  string
		names []string
	}{{"SUBSCRIBE", options.Channels}, {"PSUBSCRIBE", options.Patterns}, {"SSUBSCRIBE", options.Shard}} {
		for _, name := range group.names {
			commands = append(commands, []any{group.name, name})
		}
	}
	if len(commands) == 0 || options.Buffer < 0 || (len(options.Shard) > 0 && len(commands) > len(options.Shard)) {
		return nil, argumentError("nothing to subscribe to, or shard channels mixed with others")
	}
	s := &Subscription{messages: make(chan Message, options.Buffer), overflow: options.Overflow, node: c.node,
		commands: commands, done: make(chan struct{})}
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	background, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go s.run(background, conn)
	return s, nil
}

// Messages is closed when the subscription ends; Err says why.
func (s *Subscription) Messages() <-chan Message { return s.messages }

// Dropped counts messages that the overflow policy dropped.
func (s *Subscription) Dropped() uint64 { return s.dropped.Load() }

// Reconnected counts lost connections, each of which may have lost messages.
func (s *Subscription) Reconnected() uint64 { return s.reconnected.Load() }

// Err is the reason of the end: ErrClosed after Close.
func (s *Subscription) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the subscription and waits for its goroutine.
func (s *Subscription) Close() {
	s.cancel()
	<-s.done
}

// connect dials and waits until every command is confirmed. Messages that come meanwhile are kept.
func (s *Subscription) connect(ctx context.Context) (*subscribedConn, error) {
	conn, err := s.node.connectOwn(ctx)
	if err != nil {
		return nil, err
	}
	sub := &subscribedConn{conn: conn, buffer: make([]byte, readBufferBytes)}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var wire []byte
	for _, command := range s.commands {
		if wire, err = appendCommand(wire, command); err != nil {
			break
		}
	}
	if err == nil {
		_, err = conn.Write(wire)
	}
	for confirmed := 0; err == nil && confirmed < len(s.commands); {
		var replies []Reply
		replies, err = sub.read()
		for _, reply := range replies {
			if err == nil {
				err = reply.Err()
			}
			if message, ok := parseMessage(reply); ok {
				sub.early = append(sub.early, message)
			} else {
				confirmed++
			}
		}
	}
	if err != nil {
		s.node.forget(conn)
		return nil, fmt.Errorf("subscribing: %w", err)
	}
	return sub, nil
}

// run delivers messages until the context ends, reconnecting with backoff.
func (s *Subscription) run(ctx context.Context, sub *subscribedConn) {
	defer close(s.done)
	defer close(s.messages)
	for {
		stop := context.AfterFunc(ctx, func() { s.node.forget(sub.conn) })
		s.listen(ctx, sub)
		stop()
		s.node.forget(sub.conn)
		pause := s.node.options.BackoffMin
		for {
			if ctx.Err() != nil || s.node.isClosed() {
				s.mu.Lock()
				s.err = ErrClosed
				s.mu.Unlock()
				return
			}
			var err error
			if sub, err = s.connect(ctx); err == nil {
				break
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
			pause = min(2*pause, s.node.options.BackoffMax)
		}
		s.reconnected.Add(1)
	}
}

func (s *Subscription) listen(ctx context.Context, sub *subscribedConn) {
	for _, message := range sub.early {
		s.deliver(ctx, message)
	}
	for {
		replies, err := sub.read()
		for _, reply := range replies {
			if message, ok := parseMessage(reply); ok {
				s.deliver(ctx, message)
			}
		}
		if err != nil {
			return
		}
	}
}

func (s *Subscription) deliver(ctx context.Context, message Message) {
	for {
		select {
		case s.messages <- message:
			return
		default:
		}
		switch s.overflow {
		case OverflowDropNewest:
			s.dropped.Add(1)
			return
		case OverflowDropOldest:
			select {
			case <-s.messages:
				s.dropped.Add(1)
			default:
			}
		default:
			select {
			case s.messages <- message:
			case <-ctx.Done():
			}
			return
		}
	}
}

func (n *node) isClosed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.closed
}

// subscribedConn reads pushes of a connection that nothing else uses.
type subscribedConn struct {
	conn   net.Conn
	parser parser
	buffer []byte
	held   int
	early  []Message
}

// read waits for bytes and returns the complete replies in them.
func (c *subscribedConn) read() (replies []Reply, err error) {
	if c.held == len(c.buffer) {
		c.buffer = append(c.buffer, make([]byte, len(c.buffer))...)
	}
	n, err := c.conn.Read(c.buffer[c.held:])
	c.held += n
	start := 0
	for start < c.held {
		used, reply, done, parseErr := c.parser.next(c.buffer[start:c.held])
		start += used
		if parseErr != nil {
			return replies, parseErr
		}
		if !done {
			break
		}
		replies = append(replies, reply)
	}
	c.held = copy(c.buffer, c.buffer[start:c.held])
	return replies, err
}

// parseMessage recognises a message in RESP2's array or RESP3's push.
func parseMessage(reply Reply) (Message, bool) {
	if reply.kind != KindArray && reply.kind != KindPush {
		return Message{}, false
	}
	items := reply.items()
	if len(items) < 3 {
		return Message{}, false
	}
	switch kind, _ := items[0].Text(); {
	case kind == "message" || kind == "smessage":
		return Message{Channel: items[1].text, Payload: items[2].text}, true
	case kind == "pmessage" && len(items) == 4:
		return Message{Pattern: items[1].text, Channel: items[2].text, Payload: items[3].text}, true
	}
	return Message{}, false
}
