package tidemill

import (
	"context"
	"fmt"
	"net"
	"time"

	"go.tidemill.dev/client/internal/rawreply"
)

// Link is one connection with implicit pipelining and nothing around it: no handshake, no
// reconnection, commands and replies as the bytes they are. It is for adapters that bring their own
// of all that; others want [Client]. Its methods may be called from any number of goroutines.
type Link struct {
	pipe *pipe
}

// NewLink takes over a connection. Of the options, MaxPending, MaxGatherDelay and PingInterval
// apply, and IOTimeout until [Link.SetIOTimeout].
func NewLink(conn net.Conn, options Options) (*Link, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	return &Link{newRawPipe(conn, options.withDefaults())}, nil
}

// Forward sends count encoded commands as one request, waits, and appends their replies to replies
// as they came. Nothing may come between them on the connection, so a whole MULTI ... EXEC can be
// forwarded, and so can ASKING with its command. Commands that would block, or leave the connection
// in another state, must not be forwarded on a Link that others use; see [DescribeCommand].
//
// # Errors
//
// ErrNotSent or ErrMaybeSent; replies that did come are still appended. Error replies are replies.
// When the connection fails in the middle of commands, it is ErrMaybeSent as soon as one of them
// left whole.
func (l *Link) Forward(
	ctx context.Context, commands []byte, count int, replies []byte,
) ([]byte, error) {
	if count < 1 {
		return replies, argumentError("%d commands to forward", count)
	}
	r := newRequest()
	r.want = count
	r.wire = append(r.wire[:0], commands...)
	reply, reusable := l.pipe.do(ctx, r)
	if reply.kind == KindString {
		replies = append(replies, reply.text...)
	}
	for _, item := range reply.items() {
		replies = append(replies, item.text...)
	}
	err := reply.Err()
	if reusable {
		r.recycle()
	}
	return replies, err
}

// Lost reports whether the connection is gone; nothing can be forwarded then.
func (l *Link) Lost() bool { return l.pipe.gone.Load() }

// SetIOTimeout changes how long the connection may send nothing while replies are due before it is
// closed; negative: forever.
func (l *Link) SetIOTimeout(timeout time.Duration) {
	l.pipe.mu.Lock()
	l.pipe.timeout = timeout
	l.pipe.mu.Unlock()
}

// Stats returns what was counted since NewLink.
func (l *Link) Stats() PipeStats { return l.pipe.snapshot() }

// Close closes the connection at once; what is pending ends with ErrMaybeSent or ErrNotSent.
func (l *Link) Close() { l.pipe.kill(ErrClosed) }

// rawReply collects the bytes of a reply that is not decoded.
type rawReply struct {
	scanner rawreply.Scanner
	text    []byte
}

func (r *rawReply) next(data []byte) (used int, reply Reply, done bool, err error) {
	used, done, push, err := r.scanner.Next(data)
	if err != nil {
		return used, Reply{}, false, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	r.text = append(r.text, data[:used]...)
	if !done {
		return used, Reply{}, false, nil
	}
	reply = Reply{kind: KindString, text: bytesAsString(r.text)}
	if push {
		reply.kind = KindPush
	}
	r.text = nil
	return used, reply, true, nil
}

// CommandTraits say how a command can travel; see [DescribeCommand].
type CommandTraits struct {
	Blocks    bool // may wait for data
	BlocksIf  bool // waits only with the argument BLOCK
	Changes   bool // changes the state of its connection
	Listens   bool // turns its connection into a stream
	Container bool // has subcommands; give the first argument too
}

// DescribeCommand looks a command up in the table that was made from Valkey's COMMAND, in upper or
// lower case. subcommand matters for containers only and may be nil. A command that is not in the
// table has no traits.
func DescribeCommand(name, subcommand []byte) CommandTraits {
	var folded [32]byte
	if len(name) > len(folded) {
		return CommandTraits{}
	}
	info := commandTable[string(upperInto(folded[:0], name))]
	if info == nil {
		return CommandTraits{}
	}
	container := info.flags&commandHasSub != 0
	if container && len(subcommand) > 0 && len(name)+1+len(subcommand) <= len(folded) {
		full := append(upperInto(folded[:0], name), ' ')
		if sub := commandTable[string(upperInto(full, subcommand))]; sub != nil {
			info = sub
		}
	}
	return CommandTraits{
		Blocks:    info.flags&commandBlocks != 0,
		BlocksIf:  info.flags&commandBlocksIf != 0,
		Changes:   info.flags&commandChanges != 0,
		Listens:   info.flags&commandListens != 0,
		Container: container,
	}
}

// upperInto appends text in upper case, without the allocation of [bytes.ToUpper].
func upperInto(to, text []byte) []byte {
	for _, c := range text {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		to = append(to, c)
	}
	return to
}
