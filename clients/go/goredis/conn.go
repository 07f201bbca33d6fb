package goredis

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	tidemill "go.tidemill.dev/client"
)

const (
	// shareBytesMax is how large commands may be that travel on the shared link; larger ones would
	// make its other users wait. More than this is not held back until go-redis reads.
	shareBytesMax = 256 << 10
	// keepBytesMax bounds the buffers that an idle virtual connection keeps.
	keepBytesMax = 16 << 10
	// sendAttempts bounds how often commands are given to another link because they were not sent.
	sendAttempts = 3
)

// conn is a virtual connection. To go-redis it looks like a socket that it alone uses; the commands
// written to it travel
//   - on the link that all virtual connections in the same state share, as a rule;
//   - on a link held for this caller while a WATCH or MULTI is open or a command blocks;
//   - on a socket of its own, byte by byte, once a command made a stream of it or asked for its
//     identity.
//
// Commands are sent when go-redis reads, because that is when it has written all it wants to send.
type conn struct {
	endpoint  *endpoint
	limit     *limit
	life      context.Context
	endLife   context.CancelFunc
	socket    atomic.Pointer[socket]
	closeOnce sync.Once

	turn     chan struct{} // held by the goroutine that reads or sends; guards the next block
	in       []byte        // replies not yet read are in[at:]
	at       int
	err      error // behind the replies
	session  *session
	held     *tidemill.Link
	watching bool
	multi    bool
	asking   bool
	pinned   bool // held until the end: its state is not known any more

	mu        sync.Mutex // guards the rest
	out       []byte
	empty     []byte // the other buffer for out
	commands  []command
	splitter  splitter
	malformed bool
	waiting   bool // a reader waits for something to be written
	wrote     chan struct{}
	writeAt   time.Time
	readAt    time.Time
}

// socket is a connection of its own, see kindThrough.
type socket struct{ net.Conn }

func newConn(s *session) *conn {
	c := &conn{endpoint: s.endpoint, limit: newLimit(), turn: make(chan struct{}, 1), session: s,
		wrote: make(chan struct{}, 1)}
	c.life, c.endLife = context.WithCancel(context.Background())
	return c
}

// Write takes commands. It sends nothing, unless the commands are large or make a stream of the
// connection.
func (c *conn) Write(data []byte) (int, error) {
	if s := c.socket.Load(); s != nil {
		return s.Write(data)
	}
	c.mu.Lock()
	if s := c.socket.Load(); s != nil {
		c.mu.Unlock()
		return s.Write(data)
	}
	if c.life.Err() != nil {
		c.mu.Unlock()
		return 0, net.ErrClosed
	}
	if !c.writeAt.IsZero() && !time.Now().Before(c.writeAt) {
		c.mu.Unlock()
		return 0, os.ErrDeadlineExceeded
	}
	c.out = append(c.out, data...)
	// A large command's end is waited for, instead of copying its beginning at every write.
	urgent := c.split() || len(c.out) > shareBytesMax && len(c.commands) > 0
	wake := c.waiting && (len(c.commands) > 0 || c.malformed)
	deadline := c.writeAt
	c.mu.Unlock()
	if urgent {
		if err := c.sendNow(deadline); err != nil {
			return 0, err
		}
	}
	if wake || urgent {
		select {
		case c.wrote <- struct{}{}:
		default:
		}
	}
	return len(data), nil
}

// split finds the commands in out; true when there is one that go-redis may not read after.
func (c *conn) split() (urgent bool) {
	for !c.malformed {
		found, ok, malformed := c.splitter.next(c.out)
		c.malformed = malformed
		if !ok {
			break
		}
		c.commands = append(c.commands, found)
		urgent = urgent || found.kind == kindThrough
	}
	return urgent || c.malformed
}

// takeTurn waits for the turn. A free one is taken even when ctx has ended: go-redis may read once
// more after a failure, and has to be told the same again.
func (c *conn) takeTurn(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return failure(ctx.Err())
	}
}

// sendNow sends what is complete from within Write.
func (c *conn) sendNow(deadline time.Time) error {
	ctx := c.life
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	if err := c.takeTurn(ctx); err != nil {
		return err
	}
	defer func() { <-c.turn }()
	if c.err == nil {
		c.err = failure(c.send(ctx))
	}
	return c.err
}

// Read returns replies, after it has sent the commands they belong to.
func (c *conn) Read(buffer []byte) (int, error) {
	for {
		if err := c.takeTurn(c.limit); err != nil {
			return 0, err
		}
		n, s, err := c.readOrSend(buffer)
		<-c.turn
		switch {
		case s != nil:
			return s.Read(buffer)
		case n > 0 || err != nil:
			return n, err
		}
		select {
		case <-c.wrote:
		case <-c.limit.Done():
			return 0, failure(c.limit.Err())
		}
	}
}

// readOrSend returns what there is to read, or the socket to read from, or nothing when nothing was
// written. The turn is held.
func (c *conn) readOrSend(buffer []byte) (int, *socket, error) {
	for {
		if c.at < len(c.in) {
			n := copy(buffer, c.in[c.at:])
			if c.at += n; c.at == len(c.in) {
				c.in, c.at = reuse(c.in), 0
			}
			return n, nil, nil
		}
		if c.err != nil {
			return 0, nil, c.err
		}
		if s := c.socket.Load(); s != nil {
			return 0, s, nil
		}
		c.mu.Lock()
		ready := len(c.commands) > 0 || c.malformed
		c.waiting = !ready
		c.mu.Unlock()
		if !ready {
			return 0, nil, nil
		}
		c.err = failure(c.send(c.limit))
	}
}

func reuse(buffer []byte) []byte {
	if cap(buffer) > keepBytesMax {
		return nil
	}
	return buffer[:0]
}

// send sends the complete commands and collects their replies. The turn is held.
func (c *conn) send(ctx context.Context) error {
	c.mu.Lock()
	batch, commands, malformed := c.out, c.commands, c.malformed
	cut := 0
	if len(commands) > 0 {
		cut = commands[len(commands)-1].end
	}
	if !malformed {
		c.out = append(c.empty[:0], batch[cut:]...)
		c.splitter.move(-cut)
		c.commands, c.empty = nil, nil
	}
	c.mu.Unlock()
	if malformed {
		return c.goThrough(ctx, nil)
	}
	err := c.sendBatch(ctx, batch, commands)
	c.mu.Lock()
	if c.empty == nil {
		c.empty = reuse(batch)
	}
	if c.commands == nil {
		c.commands = commands[:0]
	}
	c.mu.Unlock()
	return err
}

func (c *conn) sendBatch(ctx context.Context, batch []byte, commands []command) error {
	start := 0
	for i := 0; i < len(commands); {
		first := commands[i]
		switch {
		case first.kind == kindThrough:
			return c.goThrough(ctx, batch[start:commands[len(commands)-1].end])
		case first.kind == kindSession && !c.multi:
			if err := c.change(ctx, batch[start:first.end]); err != nil {
				return err
			}
			start = first.end
			i++
			continue
		}
		count, together := run(commands[i:], c.multi)
		end := commands[i+count-1].end
		var err error
		if together && c.held == nil && end-start <= shareBytesMax {
			err = c.share(ctx, batch[start:end], count)
		} else {
			err = c.hold(ctx, batch[start:end], commands[i:i+count])
		}
		if err != nil {
			return err
		}
		start = end
		i += count
	}
	return nil
}

// run counts the commands that can travel together, up to one that changes the session or makes a
// stream. shareable tells whether they leave nothing behind on the connection, so that it may be a
// shared one.
func run(commands []command, multi bool) (count int, shareable bool) {
	shareable = !multi
	asking := false
	for _, next := range commands {
		if next.kind == kindThrough || next.kind == kindSession && !multi {
			break
		}
		count++
		shareable = shareable && (next.kind == kindPlain || next.kind == kindUnwatch ||
			next.kind == kindMulti || next.kind == kindExec || next.kind == kindAsking ||
			next.kind == kindBlocks && multi)
		switch next.kind {
		case kindMulti:
			multi = true
		case kindExec:
			multi = false
		}
		asking = next.kind == kindAsking
	}
	return count, shareable && !multi && !asking
}

// share forwards commands on the session's shared link. What was not sent is sent again; the rest
// is for go-redis to decide.
func (c *conn) share(ctx context.Context, batch []byte, count int) error {
	for attempt := 1; ; attempt++ {
		link, err := c.session.link(ctx)
		if err != nil {
			return err
		}
		before := len(c.in)
		c.in, err = link.Forward(ctx, batch, count, c.in)
		again := errors.Is(err, tidemill.ErrNotSent) && len(c.in) == before && ctx.Err() == nil
		if !again || attempt == sendAttempts {
			return err
		}
	}
}

// hold forwards commands on a link of this caller's own, and gives it back when nothing is left
// open on it.
func (c *conn) hold(ctx context.Context, batch []byte, commands []command) error {
	if err := c.grab(ctx); err != nil {
		return err
	}
	var err error
	c.in, err = c.held.Forward(ctx, batch, len(commands), c.in)
	if err != nil {
		return err // the connection is of no use any more; Close drops the link
	}
	for _, sent := range commands {
		c.note(sent.kind)
	}
	if !c.watching && !c.multi && !c.asking && !c.pinned {
		c.session.give(c.held)
		c.held = nil
	}
	return nil
}

func (c *conn) grab(ctx context.Context) (err error) {
	if c.held == nil {
		c.held, err = c.session.take(ctx)
	}
	return err
}

// drop closes the held link, whose state is not known.
func (c *conn) drop() {
	if c.held != nil {
		c.held.Close()
		c.held = nil
	}
}

// note keeps track of what is open on the held link.
func (c *conn) note(kind kind) {
	c.asking = kind == kindAsking
	switch {
	case kind == kindMulti:
		c.multi = true
	case kind == kindExec && c.multi:
		c.multi, c.watching = false, false
	case kind == kindWatch && !c.multi:
		c.watching = true
	case kind == kindUnwatch && !c.multi:
		c.watching = false
	case kind == kindSession:
		c.pinned = true // queued in a transaction: what it did shows only in EXEC's reply
	}
}

// change sends a session command and moves to the session it leads to.
func (c *conn) change(ctx context.Context, command []byte) error {
	var next *session
	var reply []byte
	var err error
	if c.held == nil {
		next, reply, err = c.session.change(ctx, command)
	} else if reply, err = c.held.Forward(ctx, command, 1, nil); err == nil {
		next = c.session.follow(command, reply)
	}
	if err != nil {
		return err
	}
	c.in = append(c.in, reply...)
	if next != nil {
		c.session.leave()
		c.session = next
	}
	return nil
}

// goThrough gives the connection a socket of its own and passes everything on from then on. pending
// are the complete commands that have to go first; out holds what follows them.
func (c *conn) goThrough(ctx context.Context, pending []byte) error {
	if c.held != nil {
		// A transaction may be open on the held link; a socket cannot take that over.
		return errors.New(
			"goredis: a command that makes a stream of its connection, within WATCH or MULTI")
	}
	conn, early, err := c.session.connectSocket(ctx)
	if err != nil {
		return err
	}
	c.in = append(c.in, early...)
	stop := context.AfterFunc(c.life, func() { _ = conn.Close() })
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = conn.SetReadDeadline(c.readAt)
	_ = conn.SetWriteDeadline(c.writeAt)
	_, err = conn.Write(append(bytes.Clone(pending), c.out...))
	c.out, c.empty, c.commands = nil, nil, nil
	if err == nil && c.life.Err() != nil {
		err = net.ErrClosed
	}
	if err != nil {
		_ = conn.Close()
		return err
	}
	c.socket.Store(&socket{conn})
	return nil
}

// SetDeadline sets both deadlines.
func (c *conn) SetDeadline(at time.Time) error {
	return errors.Join(c.SetReadDeadline(at), c.SetWriteDeadline(at))
}

// SetReadDeadline bounds reads, those that wait already too.
func (c *conn) SetReadDeadline(at time.Time) error {
	c.limit.set(at)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readAt = at
	if s := c.socket.Load(); s != nil {
		return s.SetReadDeadline(at)
	}
	return nil
}

// SetWriteDeadline bounds later writes.
func (c *conn) SetWriteDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeAt = at
	if s := c.socket.Load(); s != nil {
		return s.SetWriteDeadline(at)
	}
	return nil
}

// Close ends reads and writes that wait, and gives back what the connection used.
func (c *conn) Close() error {
	c.closeOnce.Do(func() {
		c.endLife()
		c.mu.Lock()
		if s := c.socket.Load(); s != nil {
			_ = s.Close()
		}
		c.mu.Unlock()
		c.limit.close()
		c.turn <- struct{}{}
		defer func() { <-c.turn }()
		c.err = failure(net.ErrClosed)
		c.drop()
		c.session.leave()
		c.endpoint.leave()
	})
	return nil
}

// LocalAddr returns the socket's address when there is one of its own.
func (c *conn) LocalAddr() net.Addr {
	if s := c.socket.Load(); s != nil {
		return s.LocalAddr()
	}
	return address{network: c.endpoint.place.network}
}

// RemoteAddr returns the server's address as it was dialed.
func (c *conn) RemoteAddr() net.Addr { return address(c.endpoint.place) }

type address place

func (a address) Network() string { return a.network }
func (a address) String() string  { return a.address }

// failure gives an error what go-redis asks of those of a socket.
func failure(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(net.Error); ok {
		return err
	}
	return &connError{err}
}

// connError is an error of a virtual connection.
type connError struct{ cause error }

func (e *connError) Error() string   { return e.cause.Error() }
func (e *connError) Temporary() bool { return false }

// Unwrap returns a list because go-redis takes a single cause for the better error and drops this
// one, with its Timeout.
func (e *connError) Unwrap() []error { return []error{e.cause} }

// Timeout reports whether a deadline passed.
func (e *connError) Timeout() bool {
	var timeout interface{ Timeout() bool }
	return errors.As(e.cause, &timeout) && timeout.Timeout()
}
