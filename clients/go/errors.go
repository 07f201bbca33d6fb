package tidemill

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// May I retry? These two answer it. An operation that fails without the server's answer is one of
// them, never both.
var (
	// ErrNotSent: the server cannot have executed the command; repeating it is safe.
	ErrNotSent = errors.New("tidemill: not sent")
	// ErrMaybeSent: the command left, its outcome is unknown.
	ErrMaybeSent = errors.New("tidemill: outcome unknown")
)

// Failures before or instead of sending.
var (
	// ErrClosed: the client or the connection was closed by Close.
	ErrClosed = errors.New("tidemill: closed")
	// ErrArgument: an argument cannot be encoded, or a call makes no sense; nothing was sent.
	ErrArgument = errors.New("tidemill: bad argument")
	// ErrCrossSlot: the keys of one command or transaction belong to different slots.
	ErrCrossSlot = errors.New("tidemill: keys in different slots")
	// ErrNoNode: no node of the cluster is known to serve the slot.
	ErrNoNode = errors.New("tidemill: no node for slot")
)

// Failures of the answer.
var (
	// ErrNil: the server answered nil where a value was asked for.
	ErrNil = errors.New("tidemill: nil reply")
	// ErrType: the reply has another type than asked for.
	ErrType = errors.New("tidemill: unexpected reply type")
	// ErrProtocol: the peer does not speak the protocol; the connection is closed. What was sent on
	// it is not repeated, because the answer would be the same.
	ErrProtocol = errors.New("tidemill: protocol error")
	// ErrLimit comes with ErrProtocol: a reply is larger than those that are accepted (a line or a
	// string of 512 MiB, 64 Mi items, 128 levels).
	ErrLimit = errors.New("tidemill: limit exceeded")
	// ErrTxAborted: EXEC found a watched key changed; nothing was executed.
	ErrTxAborted = errors.New("tidemill: transaction aborted, a watched key changed")
	// ErrPanic: a user's callback (of Watch, Options.Dialer, Options.Credentials) panicked; the
	// value is in the text.
	ErrPanic = errors.New("tidemill: callback panicked")
	// ErrTimeout: no byte came within IOTimeout while replies were due.
	ErrTimeout = errors.New("tidemill: no reply within the IO timeout")
)

// stageError ties a cause to the answer of "may I retry?". The answer of another operation in the
// cause (a Dialer or Credentials may return one) is hidden: an error has one stage at most.
type stageError struct {
	stage error
	cause error
}

func (e *stageError) Error() string { return e.stage.Error() + ": " + e.cause.Error() }

// Is and As search the cause in place of an Unwrap, which could hide nothing of it.
func (e *stageError) Is(target error) bool {
	if target == ErrNotSent || target == ErrMaybeSent {
		return target == e.stage
	}
	return errors.Is(e.cause, target)
}

func (e *stageError) As(target any) bool { return errors.As(e.cause, target) }

func notSent(cause error) error { return &stageError{ErrNotSent, causeOf(cause)} }

func maybeSent(cause error) error { return &stageError{ErrMaybeSent, causeOf(cause)} }

// causeOf is an error without its stage.
func causeOf(err error) error {
	if staged, ok := err.(*stageError); ok {
		return staged.cause
	}
	return err
}

// joinFailures joins errors of parts. Where some were not sent and some have an unknown outcome,
// that of the whole is unknown.
func joinFailures(failures ...error) error {
	err := errors.Join(failures...)
	if errors.Is(err, ErrNotSent) && errors.Is(err, ErrMaybeSent) {
		return maybeSent(err)
	}
	return err
}

// contextError is a context's end with its cause. That is often the failure of another operation
// (errgroup.WithContext makes it so), whose outcome is not the one of the operation that ends here:
// its stage and its answer are hidden.
type contextError struct {
	end   error
	cause error
}

func (e *contextError) Error() string { return e.end.Error() + ": " + e.cause.Error() }

func (e *contextError) Is(target error) bool {
	_, isAnswer := target.(ServerCode)
	if isAnswer || target == ErrNotSent || target == ErrMaybeSent || target == ErrTxAborted {
		return false
	}
	return errors.Is(e.end, target) || errors.Is(e.cause, target)
}

func (e *contextError) As(target any) bool {
	if _, isAnswer := target.(**ServerError); isAnswer {
		return false
	}
	return errors.As(e.end, target) || errors.As(e.cause, target)
}

// endOf is why an operation ends whose context is over.
func endOf(ctx context.Context) error {
	end, cause := ctx.Err(), context.Cause(ctx)
	if (end == context.Canceled || end == context.DeadlineExceeded) && cause == end {
		return end
	}
	return &contextError{end, cause}
}

// keepUnknown is the outcome of an attempt after another one: what was not sent this time may have
// been executed then.
func keepUnknown(earlier, reply Reply) Reply {
	if reply.kind == KindNone && errors.Is(earlier.Err(), ErrMaybeSent) &&
		errors.Is(reply.Err(), ErrNotSent) {
		return failedReply(maybeSent(reply.Err()))
	}
	return reply
}

// lastOutcome is keepUnknown for an attempt at count commands that no other one follows: an error
// does not tell what an earlier attempt at a write did.
func lastOutcome(earlier, reply Reply, flags commandFlags, count int) Reply {
	if flags&commandReads != 0 || !errors.Is(earlier.Err(), ErrMaybeSent) {
		return keepUnknown(earlier, reply)
	}
	if count > 1 {
		items := reply.items()
		for n := range items {
			items[n] = lastOutcome(earlier, items[n], flags, 1)
		}
	}
	var refused *ServerError
	if errors.As(reply.Err(), &refused) {
		return failedReply(maybeSent(refused))
	}
	return keepUnknown(earlier, reply)
}

// splitError tells how far a command went of which several nodes execute parts.
type splitError struct {
	parts, unexecuted int
	cause             error
}

func (e *splitError) Error() string {
	return fmt.Sprintf("of %d parts %d were not executed: %v", e.parts, e.unexecuted, e.cause)
}

func (e *splitError) Unwrap() error { return e.cause }

// ServerError is an error reply. Code is its first word ("WRONGTYPE"), Message the whole text.
type ServerError struct {
	Code    string
	Message string
}

func (e *ServerError) Error() string { return e.Message }

// reason is the code, of EXEC's refusal that of what it was refused for ("EXECABORT Transaction
// discarded because of: READONLY You can't write ..."). Nothing was executed.
func (e *ServerError) reason() string {
	if _, why, found := strings.Cut(e.Message, " because of: "); found && e.Code == "EXECABORT" {
		code, _, _ := strings.Cut(why, " ")
		return code
	}
	return e.Code
}

// Is makes errors.Is(err, tidemill.ServerCode("WRONGTYPE")) work.
func (e *ServerError) Is(target error) bool {
	code, ok := target.(ServerCode)
	return ok && string(code) == e.Code
}

// ServerCode is an error to compare with: errors.Is(err, ServerCode("NOSCRIPT")).
type ServerCode string

func (c ServerCode) Error() string { return string(c) }

func newServerError(text string) *ServerError {
	code, _, _ := strings.Cut(text, " ")
	return &ServerError{Code: code, Message: text}
}

// redirection is a parsed MOVED or ASK.
type redirection struct {
	ask     bool
	slot    int
	address string
}

// parseRedirection reads "MOVED 3999 127.0.0.1:6381"; the address may lack a host.
func parseRedirection(e *ServerError) (redirection, bool) {
	if e.Code != "MOVED" && e.Code != "ASK" {
		return redirection{}, false
	}
	fields := strings.Fields(e.Message)
	if len(fields) < 3 {
		return redirection{}, false
	}
	slot, err := strconv.Atoi(fields[1])
	if err != nil || slot < 0 || slot >= slotCount {
		return redirection{}, false
	}
	return redirection{ask: e.Code == "ASK", slot: slot, address: fields[2]}, true
}

func argumentError(format string, values ...any) error {
	return notSent(fmt.Errorf("%w: %s", ErrArgument, fmt.Sprintf(format, values...)))
}
