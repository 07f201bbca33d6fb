package differential

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tidemill/tests/internal/wire"
)

// password is that of the default user in sequences of clients that have not authenticated; without
// one any will do.
const password = "secret"

const sentinel = "end of sequence 5f3a"

// Endpoint is a server that sequences are sent to, one at a time: a sequence owns its server's
// whole keyspace.
type Endpoint struct {
	Address  string
	conn     *wire.Conn
	observer *observer // nil where only replies are compared
}

// Answers are a sequence's replies. Replies[i] belongs to Calls[i]; it is the zero Reply where
// CLIENT REPLY silenced the call or the connection was closed before.
type Answers struct {
	Replies []wire.Reply
	// Closed tells that the server closed the connection within the sequence.
	Closed bool
	// Stray is set when more or fewer replies came than calls asked for.
	Stray string
	// Observed is nil without an observer, and when the connection was closed.
	Observed *Observed
}

// Run empties the server, sends the whole sequence as one pipeline and collects the replies.
func (e *Endpoint) Run(sequence Sequence) (Answers, error) {
	if err := e.prepare(sequence.Protocol); err != nil {
		e.hangUp() // a reply that was late would count as the next one
		return Answers{}, fmt.Errorf("prepare: %w", err)
	}
	calls := append(append([]Call(nil), sequence.Calls...), epilogue...)
	var request []byte
	for _, call := range calls {
		request = wire.AppendCommand(request, call.Arguments...)
	}
	// Sent beside the reading, because a server may stop reading until its replies are taken.
	go func(conn *wire.Conn) { _ = conn.SendRaw(request) }(e.conn)
	answers, err := e.collect(calls)
	answers.Replies = answers.Replies[:len(sequence.Calls)]
	if e.observer != nil && err == nil && !answers.Closed && answers.Stray == "" {
		answers.Observed, err = e.observer.finish(e)
	}
	if answers.Closed || answers.Stray != "" || err != nil {
		e.hangUp()
	}
	return answers, err
}

// hangUp closes the connection, if there is one; the next run makes another.
func (e *Endpoint) hangUp() {
	if e.conn != nil {
		e.conn.Close()
		e.conn = nil
	}
}

// epilogue makes the end of a sequence visible whatever state it left the connection in.
var epilogue = []Call{
	{Name: "discard", Arguments: wire.Arguments("DISCARD")},
	{Name: "client|reply", Arguments: wire.Arguments("CLIENT", "REPLY", "ON")},
	{Name: "auth", Arguments: wire.Arguments("AUTH", "default", password)},
	{Name: "echo", Arguments: wire.Arguments("ECHO", sentinel)},
}

func (e *Endpoint) prepare(protocol int) error {
	isNew := e.conn == nil
	if isNew {
		conn, err := wire.Dial(e.Address)
		if err != nil {
			return err
		}
		conn.Timeout = 20 * time.Second
		e.conn = conn
	}
	commands := [][]string{
		{"AUTH", "default", password}, {"CONFIG", "SET", "requirepass", ""},
		{"CLIENT", "UNPAUSE"}, {"RESET"}, {"FLUSHALL"}, {"HELLO", strconv.Itoa(protocol)},
	}
	for _, command := range commands {
		reply, err := e.conn.Do(command...)
		if err != nil {
			return err
		}
		if reply.IsError() {
			return fmt.Errorf("%v: %s", command, reply)
		}
	}
	if e.observer != nil {
		return e.observer.start(e)
	}
	if isNew {
		return e.awaitSolitude()
	}
	return nil
}

// awaitSolitude waits until the server has forgotten the connections before this one: it notices
// that we closed one when it reads there, which may be after it has answered here, and CLIENT LIST
// tells of both until then.
func (e *Endpoint) awaitSolitude() error {
	for end := time.Now().Add(e.conn.Timeout); ; time.Sleep(time.Millisecond) {
		reply, err := e.conn.Do("CLIENT", "LIST")
		if err != nil {
			return err
		}
		count := strings.Count(string(reply.Text), " laddr=")
		if count == 1 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d connections, where this should be the only one: %s", count, reply)
		}
	}
}

func (e *Endpoint) collect(calls []Call) (Answers, error) {
	answers := Answers{Replies: make([]wire.Reply, len(calls))}
	silent := silenced(calls)
	for index := range calls {
		if silent[index] {
			continue
		}
		reply, err := e.conn.Receive()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
			errors.Is(err, syscall.ECONNRESET) {
			answers.Closed = true
			return answers, nil
		}
		if err != nil {
			return answers, fmt.Errorf("reply to call %d (%s): %w", index, calls[index], err)
		}
		answers.Replies[index] = reply
		if isLast := index == len(calls)-1; (string(reply.Text) == sentinel) != isLast {
			answers.Stray = fmt.Sprintf("call %d of %d (%s) got %.80s", index, len(calls),
				calls[index], reply)
			return answers, nil
		}
	}
	return answers, nil
}

// silenced follows CLIENT REPLY through the calls and marks those that get no reply.
func silenced(calls []Call) []bool {
	silent := make([]bool, len(calls))
	off, skip := false, false
	for index, call := range calls {
		isReply := call.Name == "client|reply" && len(call.Arguments) == 3
		mode := ""
		if isReply {
			mode = strings.ToUpper(string(call.Arguments[2]))
		}
		switch {
		case mode == "ON":
			off, skip = false, false
		case call.Name == "reset" && len(call.Arguments) == 1:
			silent[index] = skip // RESET undoes OFF before it replies, and SKIP only after
			off = false
		case mode == "OFF":
			off = true
			silent[index] = true
		case mode == "SKIP":
			silent[index] = true
			skip = !off
			continue
		default:
			silent[index] = off || skip
		}
		skip = false
	}
	return silent
}

// Mismatch is the first call of a sequence whose replies differ.
type Mismatch struct {
	Index   int
	Call    Call
	Valkey  string
	Subject string
}

// kind groups mismatches that are likely one bug: the command and the two replies without their
// numbers.
func (m *Mismatch) kind() string {
	digest := func(text string) string {
		text = strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return '#'
			}
			return r
		}, text)
		if !strings.HasPrefix(text, "-") {
			return text[:min(1, len(text))]
		}
		return text
	}
	return m.Call.Name + " " + digest(m.Valkey) + " / " + digest(m.Subject)
}

// compare finds the first difference between two servers' answers.
func compare(sequence Sequence, valkey, subject Answers) *Mismatch {
	var queued []Call
	listsShrank := false
	for index, call := range sequence.Calls {
		call.ListsShrank = listsShrank
		call.IsOfSmall = index > 0 &&
			isOfSmall(call, sequence.Calls[index-1], valkey.Replies[index-1])
		listsShrank = listsShrank || takesFromLists(call)
		left, right := valkey.Replies[index], subject.Replies[index]
		if !equal(call, queued, left, right) {
			return &Mismatch{index, call, left.String(), right.String()}
		}
		switch {
		case string(left.Text) == "QUEUED":
			queued = append(queued, call)
		case call.Name == "exec" || call.Name == "discard" || call.Name == "reset":
			queued = nil
		}
	}
	last := Call{Name: "(end)"}
	if valkey.Closed != subject.Closed {
		return &Mismatch{len(sequence.Calls), last, fmt.Sprint("closed=", valkey.Closed),
			fmt.Sprint("closed=", subject.Closed)}
	}
	if valkey.Stray != subject.Stray {
		return &Mismatch{
			len(sequence.Calls), last, "stray " + valkey.Stray, "stray " + subject.Stray,
		}
	}
	return compareObserved(sequence, valkey.Observed, subject.Observed)
}

// isOfSmall tells whether a call is on the key whose encoding the call before it asked for, and
// that is one that a scan walks in one step.
func isOfSmall(call, before Call, encoding wire.Reply) bool {
	isSmall := slices.Contains([]string{"listpack", "intset"}, string(encoding.Text))
	return isSmall && before.Name == "object|encoding" && len(before.Arguments) == 3 &&
		len(call.Arguments) > 1 && bytes.Equal(call.Arguments[1], before.Arguments[2])
}

// Pair is an oracle and a server under test that run the same sequences.
type Pair struct{ Valkey, Subject Endpoint }

// stretchedFrom is how long both servers may take over a sequence for their clocks to be comparable
// within the tolerance.
const stretchedFrom = clockToleranceMs * time.Millisecond / 2

// Check runs one sequence on both servers. One that a busy machine has stretched proves nothing
// about times: when such a run shows a mismatch, only its repetition counts.
func (p *Pair) Check(sequence Sequence) (*Mismatch, error) {
	const attemptsMax = 10
	for attempt := 1; ; attempt++ {
		start := time.Now()
		mismatch, err := p.checkOnce(sequence)
		if mismatch == nil || err != nil || time.Since(start) < stretchedFrom ||
			attempt == attemptsMax {
			return mismatch, err
		}
	}
}

func (p *Pair) checkOnce(sequence Sequence) (*Mismatch, error) {
	type outcome struct {
		answers Answers
		err     error
	}
	oracle := make(chan outcome, 1)
	go func() {
		answers, err := p.Valkey.Run(sequence)
		oracle <- outcome{answers, err}
	}()
	subject, subjectErr := p.Subject.Run(sequence)
	valkey := <-oracle
	if valkey.err != nil {
		return nil, fmt.Errorf("seed %d: oracle: %w", sequence.Seed, valkey.err)
	}
	if valkey.answers.Stray != "" {
		return nil, fmt.Errorf("seed %d: this harness lost count of the oracle's replies: %s",
			sequence.Seed, valkey.answers.Stray)
	}
	if subjectErr != nil {
		return &Mismatch{
			len(sequence.Calls), Call{Name: "(connection)"}, "replies", subjectErr.Error(),
		}, nil
	}
	return compare(sequence, valkey.answers, subject), nil
}
