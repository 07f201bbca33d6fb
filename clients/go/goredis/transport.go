package goredis

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	tidemill "go.tidemill.dev/client"
)

const (
	// spareLinksMax bounds the idle exclusive connections of one session.
	spareLinksMax = 16
	// knownRepliesMax bounds the remembered replies to session commands of one address.
	knownRepliesMax = 1024
)

// transport is what the virtual connections of one go-redis client have in common.
type transport struct {
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	timeout   time.Duration // of dialing and handshake
	ioTimeout time.Duration // of shared links

	mu        sync.Mutex
	endpoints map[place]*endpoint
}

type place struct{ network, address string }

// connect is the dialer that go-redis is given. The connection it returns is virtual, but the
// address is known to answer: without a living connection to it, one is dialed, and its error is
// go-redis's.
func (t *transport) connect(ctx context.Context, network, address string) (net.Conn, error) {
	e := t.enter(place{network, address})
	s := e.session(state{})
	if err := s.prove(ctx); err != nil {
		s.leave()
		e.leave()
		return nil, err
	}
	return newConn(s), nil
}

func (t *transport) enter(at place) *endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.endpoints[at]
	if e == nil {
		e = &endpoint{
			transport: t, place: at, sessions: map[state]*session{}, known: map[question][]byte{},
		}
		t.endpoints[at] = e
	}
	e.users++
	return e
}

// endpoint is one server address. It lives as long as virtual connections to it, and with it its
// real ones.
type endpoint struct {
	transport *transport
	place     place
	users     int // guarded by the transport's mutex

	mu       sync.Mutex
	sessions map[state]*session
	known    map[question][]byte
}

// question is a session command given in a state; its reply is remembered.
type question struct {
	state   state
	command string
}

func (e *endpoint) leave() {
	e.transport.mu.Lock()
	defer e.transport.mu.Unlock()
	if e.users--; e.users == 0 {
		delete(e.transport.endpoints, e.place)
	}
}

// session returns the session for a state and enters it.
func (e *endpoint) session(of state) *session {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.sessions[of]
	if s == nil {
		s = &session{endpoint: e, state: of, opening: make(chan struct{}, 1)}
		e.sessions[of] = s
	}
	s.users++
	return s
}

// alive is true while some connection to the address lives.
func (e *endpoint) alive() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sessions {
		if s.shared != nil && !s.shared.Lost() {
			return true
		}
		for _, link := range s.spare {
			if !link.Lost() {
				return true
			}
		}
	}
	return false
}

func (e *endpoint) recall(q question) ([]byte, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	reply, ok := e.known[q]
	return reply, ok
}

func (e *endpoint) remember(q question, reply []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.known) >= knownRepliesMax {
		clear(e.known)
	}
	e.known[q] = reply
}

// forget makes the next virtual connections ask the server itself again.
func (e *endpoint) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.known)
}

// session is what virtual connections in equal states share: one pipelined link, and spare
// exclusive ones.
type session struct {
	endpoint *endpoint
	state    state
	opening  chan struct{} // held while the shared link is opened or a reply is learned

	// Guarded by the endpoint's mutex.
	users  int
	shared *tidemill.Link
	spare  []*tidemill.Link
}

func (s *session) leave() {
	s.endpoint.mu.Lock()
	defer s.endpoint.mu.Unlock()
	if s.users--; s.users > 0 {
		return
	}
	delete(s.endpoint.sessions, s.state)
	if s.shared != nil {
		s.shared.Close()
	}
	for _, link := range s.spare {
		link.Close()
	}
	s.shared, s.spare = nil, nil
}

// open takes the session's turn to open a link.
func (s *session) open(ctx context.Context) error {
	select {
	case s.opening <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) opened() { <-s.opening }

// prove makes sure that the address answers. The connection it may need is kept for the first
// command.
func (s *session) prove(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	defer s.opened()
	if s.endpoint.alive() {
		return nil
	}
	link, err := s.connect(ctx)
	if err == nil {
		s.give(link)
	}
	return err
}

// link returns the session's shared link, opening it when there is none.
func (s *session) link(ctx context.Context) (*tidemill.Link, error) {
	if link := s.current(); link != nil {
		return link, nil
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	defer s.opened()
	if link := s.current(); link != nil {
		return link, nil
	}
	link, err := s.take(ctx)
	if err != nil {
		return nil, err
	}
	link.SetIOTimeout(s.endpoint.transport.ioTimeout)
	s.endpoint.mu.Lock()
	s.shared = link
	s.endpoint.mu.Unlock()
	return link, nil
}

func (s *session) current() *tidemill.Link {
	s.endpoint.mu.Lock()
	defer s.endpoint.mu.Unlock()
	if s.shared != nil && !s.shared.Lost() {
		return s.shared
	}
	return nil
}

// take returns a link for exclusive use.
func (s *session) take(ctx context.Context) (*tidemill.Link, error) {
	s.endpoint.mu.Lock()
	for len(s.spare) > 0 {
		last := len(s.spare) - 1
		link := s.spare[last]
		s.spare = s.spare[:last]
		if !link.Lost() {
			s.endpoint.mu.Unlock()
			return link, nil
		}
	}
	s.endpoint.mu.Unlock()
	return s.connect(ctx)
}

// give returns a link that is in the session's state and has no reply due.
func (s *session) give(link *tidemill.Link) {
	s.endpoint.mu.Lock()
	defer s.endpoint.mu.Unlock()
	if link.Lost() || s.users == 0 || len(s.spare) >= spareLinksMax {
		link.Close()
		return
	}
	s.spare = append(s.spare, link)
}

// change gives a session command. When the server accepts it, next is the session the caller is in
// then, entered; otherwise it is nil.
func (s *session) change(
	ctx context.Context, command []byte,
) (next *session, reply []byte, err error) {
	q := question{s.state, string(command)}
	if reply, ok := s.endpoint.recall(q); ok {
		return s.follow(command, reply), reply, nil
	}
	if err := s.open(ctx); err != nil {
		return nil, nil, err
	}
	defer s.opened()
	if reply, ok := s.endpoint.recall(q); ok {
		return s.follow(command, reply), reply, nil
	}
	link, err := s.take(ctx)
	if err != nil {
		return nil, nil, err
	}
	reply, err = link.Forward(ctx, command, 1, nil)
	if err != nil {
		link.Close()
		return nil, nil, err
	}
	if next = s.follow(command, reply); next != nil {
		next.give(link)
	} else {
		s.give(link)
	}
	if next != nil || unknownToServer(reply) {
		s.endpoint.remember(q, reply)
	}
	return next, reply, nil
}

// follow returns the session, entered, that an accepted command leads to; nil when it was refused.
func (s *session) follow(command, reply []byte) *session {
	if isError(reply) {
		return nil
	}
	return s.endpoint.session(s.state.after(command))
}

// unknownToServer is true for the one refusal that stays: an old server does not know CLIENT
// SETINFO, say. A wrong password may be the right one next time.
func unknownToServer(reply []byte) bool {
	const start = "-ERR unknown"
	return len(reply) > len(start) && bytes.EqualFold(reply[:len(start)], []byte(start))
}

func isError(reply []byte) bool {
	return len(reply) > 0 && (reply[0] == '-' || reply[0] == '!')
}

// connect opens a link in the session's state.
func (s *session) connect(ctx context.Context) (*tidemill.Link, error) {
	conn, _, err := s.connectSocket(ctx)
	if err != nil {
		return nil, err
	}
	// How long a command may take is for go-redis's deadlines to say, until others share the link.
	return tidemill.NewLink(conn, tidemill.Options{IOTimeout: -1})
}

// connectSocket opens a connection in the session's state. What came behind the replies is returned
// too.
func (s *session) connectSocket(ctx context.Context) (net.Conn, []byte, error) {
	t := s.endpoint.transport
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	conn, err := t.dial(ctx, s.endpoint.place.network, s.endpoint.place.address)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	commands, count := s.state.prologue()
	rest, err := greet(conn, commands, count)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		s.endpoint.forget()
		return nil, nil, fmt.Errorf("goredis: preparing a connection: %w", err)
	}
	return conn, rest, nil
}
