package tidemill

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Subscription receives messages on connections of its own and subscribes again after a
// reconnection; what was published in between is lost, as always with pub/sub, and Reconnected
// counts it. A connection that dies unnoticed is found by TCP keep-alive, after about two minutes
// unless Options.Dialer says otherwise. In a cluster it follows its shard channels to the nodes
// that serve them, and with EveryNode the primaries as they change.
type Subscription struct {
	messages    chan Message
	overflow    Overflow
	options     *Options
	places      places
	sharded     bool
	cancel      context.CancelFunc
	done        chan struct{}
	dropped     atomic.Uint64
	reconnected atomic.Uint64
	changes     chan *change
	mu          sync.Mutex
	err         error

	// The rest belongs to run.
	wanted  map[topic]bool
	legs    map[*leg]bool
	lost    []topic
	open    []*change // begun, not confirmed
	refused error     // a server sent a topic elsewhere
	events  chan legEvent
	group   sync.WaitGroup
	running bool
	paces   map[*node]*pacing // of connections to nodes where they fail or do not last
	moves   pacing            // of topics sent elsewhere
	due     time.Time         // of the next attempt
}

// places say which node a subscription goes to.
type places interface {
	// place says what to subscribe to at which node: of what is lost, or of what is wanted and
	// missing there. legs are the connections there are.
	place(lost []topic, wanted map[topic]bool, legs map[*leg]bool) map[*node][]topic
	// stale is true for a connection that is not needed any more.
	stale(l *leg) bool
	// interval is how often place has to be asked again, 0 for only after a loss.
	interval() time.Duration
	// life ends when the client is closed.
	life() context.Context
	failed(error)
}

// leg is one connection of a subscription.
type leg struct {
	node   *node
	topics map[topic]bool // subscribed to, or asked for
	conn   net.Conn
	parser parser
	buffer []byte
	held   int
	early  []Message
	end    context.CancelFunc
	ending bool

	// Commands given after the first ones, see subscription_change.go.
	awaiting  []legCommand
	sent      uint64
	confirmed uint64
}

// stop closes the leg's connection; its end comes as an event.
func (l *leg) stop() {
	l.ending = true
	l.end()
}

// legEvent tells run that a leg ended, or what the server said that is no message.
type legEvent struct {
	leg  *leg
	kind string // "subscribe" and so on; "" for an error
	name string
	err  error
	all  bool // the leg's topics are lost
}

func subscribe(
	ctx context.Context, wanted SubscribeOptions, options *Options, at places,
) (*Subscription, error) {
	topics, err := wanted.topics()
	if err != nil {
		return nil, err
	}
	s := &Subscription{messages: make(chan Message, wanted.Buffer), overflow: wanted.Overflow,
		options: options, places: at,
		sharded: len(wanted.Shard) > 0, done: make(chan struct{}), changes: make(chan *change),
		wanted: topicSet(topics),
		legs:   map[*leg]bool{}, lost: topics, events: make(chan legEvent),
		paces: map[*node]*pacing{}}
	if at.life().Err() != nil {
		return nil, notSent(ErrClosed)
	}
	if ctx.Err() != nil {
		return nil, notSent(endOf(ctx))
	}
	background, cancel := context.WithCancel(at.life())
	s.cancel = cancel
	chase := newPursuit(options)
	for {
		err := s.connectLost(ctx, background)
		if err == nil {
			s.running = true
			go s.run(background)
			return s, nil
		}
		if !sentElsewhere(err) || !chase.wait(ctx) {
			s.end()
			return nil, err
		}
	}
}

func topicSet(topics []topic) map[topic]bool {
	set := make(map[topic]bool, len(topics))
	for _, t := range topics {
		set[t] = true
	}
	return set
}

// sentElsewhere is true for refusals that end with the cluster's next topology.
func sentElsewhere(err error) bool {
	var refused *ServerError
	return errors.As(err, &refused) && (refused.Code == "MOVED" || refused.Code == "CLUSTERDOWN")
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

// Close ends the subscription and waits for its goroutines.
func (s *Subscription) Close() {
	s.cancel()
	<-s.done
}

// end stops all legs and waits for them.
func (s *Subscription) end() {
	s.cancel()
	ended := make(chan struct{})
	go func() {
		s.group.Wait()
		close(ended)
	}()
	for {
		select {
		case <-s.events:
		case <-ended:
			close(s.messages)
			return
		}
	}
}

// run replaces what is lost until the subscription or its client is closed.
func (s *Subscription) run(ctx context.Context) {
	defer close(s.done)
	defer s.end()
	var timer <-chan time.Time
	if every := s.places.interval(); every > 0 {
		tick := time.NewTicker(every)
		defer tick.Stop()
		timer = tick.C
	}
	unplaced := true
	for {
		var retry <-chan time.Time
		err := s.refused
		if err != nil {
			s.refused = nil
			s.moves.failed(time.Now(), s.options)
			s.due = s.moves.until
		} else if unplaced {
			err = s.connectLost(ctx, ctx)
		}
		if unplaced = err != nil; unplaced {
			retry = time.After(time.Until(s.due))
		}
		s.settle(err)
		if ctx.Err() != nil {
			s.mu.Lock()
			s.err = ErrClosed
			s.mu.Unlock()
			return
		}
		select {
		case event := <-s.events:
			unplaced = s.handle(event) || unplaced
		case c := <-s.changes:
			s.begin(c)
			unplaced = true
		case <-timer:
			for l := range s.legs {
				if s.places.stale(l) {
					l.stop()
				}
			}
			unplaced = true
		case <-retry:
		case <-ctx.Done():
		}
	}
}

// handle is true when topics have to be placed anew.
func (s *Subscription) handle(event legEvent) (lost bool) {
	l := event.leg
	switch {
	case event.all:
		l.stop()
		delete(s.legs, l)
		for t := range l.topics {
			if s.wanted[t] {
				s.lost = append(s.lost, t)
			}
		}
		s.reconnected.Add(1)
		s.pace(l.node).ended(time.Now(), s.options)
		s.reopen(l)
		return true
	case s.confirm(event):
		return false
	case event.kind != "sunsubscribe":
		return false
	}
	// The slot left the node, and its channel with it.
	gone := topic{"SSUBSCRIBE", event.name}
	if !l.topics[gone] {
		return false
	}
	delete(l.topics, gone)
	if s.wanted[gone] {
		s.lost = append(s.lost, gone)
	}
	if len(l.topics) == 0 {
		l.stop()
	}
	return true
}

// pace is that of a node's connections. Those of nodes that went well for a while are forgotten.
func (s *Subscription) pace(n *node) *pacing {
	if s.paces[n] == nil {
		now := time.Now()
		maps.DeleteFunc(s.paces, func(_ *node, p *pacing) bool { return p.settled(now) })
		s.paces[n] = &pacing{}
	}
	return s.paces[n]
}

// postpone keeps topics lost until their node is due.
func (s *Subscription) postpone(topics []topic, due time.Time) {
	if len(s.lost) == 0 || due.Before(s.due) {
		s.due = due
	}
	s.lost = append(s.lost, topics...)
}

var errPaused = errors.New("tidemill: waiting before the next connection")

// connectLost gives lost topics a connection again. What fails stays lost, as does what has to wait
// because connections to its node do not last. Once the subscription runs, a connection that is
// there is used, and the confirmation comes as an event.
func (s *Subscription) connectLost(ctx, background context.Context) error {
	var failures, paused error
	placed := s.places.place(s.lost, s.wanted, s.legs)
	s.lost = nil
	for n, topics := range placed {
		if l := s.legAt(n); l != nil {
			s.command(l, topics, false)
			continue
		}
		if pace := s.paces[n]; s.running && pace != nil && time.Now().Before(pace.until) {
			paused = errPaused
			s.postpone(topics, pace.until)
			continue
		}
		l, err := connectLeg(ctx, n, topics)
		if err != nil {
			s.pace(n).failed(time.Now(), s.options)
			failures = joinFailures(failures, err)
			s.postpone(topics, s.paces[n].until)
			continue
		}
		var legContext context.Context
		legContext, l.end = context.WithCancel(background)
		s.legs[l] = true
		s.group.Go(func() { s.listen(legContext, l) })
	}
	if failures != nil {
		s.places.failed(failures)
		return failures
	}
	return paused
}

func (s *Subscription) legAt(n *node) *leg {
	for l := range s.legs {
		if s.running && l.node == n && !l.ending {
			return l
		}
	}
	return nil
}

// connectLeg dials and waits until every command is confirmed, for as long as dialing may take.
// Messages that come meanwhile are kept.
func connectLeg(ctx context.Context, n *node, topics []topic) (*leg, error) {
	if n == nil {
		return nil, notSent(ErrNoNode)
	}
	ctx, cancel := context.WithTimeout(ctx, n.options.DialTimeout)
	defer cancel()
	conn, err := n.connectOwn(ctx)
	if err != nil {
		return nil, err
	}
	l := &leg{node: n, topics: topicSet(topics), conn: conn, buffer: make([]byte, readBufferBytes)}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	var wire []byte
	for _, t := range topics {
		wire = appendString(appendString(appendHeader(wire, '*', 2), t.command), t.name)
	}
	_, err = conn.Write(wire)
	var refusal error
	for confirmed := 0; err == nil && refusal == nil && confirmed < len(topics); {
		var replies []Reply
		replies, err = l.read()
		for _, reply := range replies {
			if refusal == nil {
				refusal = reply.Err()
			}
			if message, ok := parseMessage(reply); ok {
				l.early = append(l.early, message)
			} else {
				confirmed++
			}
		}
	}
	if !stop() {
		err = errors.Join(endOf(ctx), err)
	}
	if refusal != nil {
		err = refusal
	} else if err != nil {
		err = maybeSent(err)
	}
	if err != nil {
		n.forget(conn)
		return nil, fmt.Errorf("subscribing: %w", err)
	}
	return l, nil
}

// listen delivers a leg's messages until its connection ends.
func (s *Subscription) listen(ctx context.Context, l *leg) {
	stop := context.AfterFunc(ctx, func() { l.node.forget(l.conn) })
	defer stop()
	for _, message := range l.early {
		s.deliver(ctx, message)
	}
	var err error
	for err == nil {
		var replies []Reply
		replies, err = l.read()
		for _, reply := range replies {
			if message, ok := parseMessage(reply); ok {
				s.deliver(ctx, message)
			} else if kind, name, ok := parseConfirmation(reply); ok {
				s.events <- legEvent{leg: l, kind: kind, name: name}
			} else if reply.kind == KindError {
				s.events <- legEvent{leg: l, err: reply.Err()}
			}
		}
	}
	l.node.forget(l.conn)
	s.events <- legEvent{leg: l, all: true}
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

// read waits for bytes and returns the complete replies in them.
func (l *leg) read() (replies []Reply, err error) {
	if l.held == len(l.buffer) {
		l.buffer = append(l.buffer, make([]byte, len(l.buffer))...)
	}
	n, err := l.conn.Read(l.buffer[l.held:])
	l.held += n
	start := 0
	for start < l.held {
		used, reply, done, parseErr := l.parser.next(l.buffer[start:l.held])
		start += used
		if parseErr != nil {
			return replies, parseErr
		}
		if !done {
			break
		}
		replies = append(replies, reply)
	}
	l.held = copy(l.buffer, l.buffer[start:l.held])
	return replies, err
}
