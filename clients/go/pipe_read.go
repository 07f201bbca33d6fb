package tidemill

import (
	"fmt"
	"runtime"
	"time"
)

// readerRole is touched only by the holder of the role, but for the watch's fields at its end,
// which the pipe's mutex guards.
type readerRole struct {
	parser   parser
	buffer   []byte
	start    int // unread bytes are buffer[start:end]
	end      int
	due      []*request // taken from the pipe's flight; due[next:] await replies
	next     int
	resolved []*request
	filled   bool // the last read filled the buffer: the next will find bytes too
	bytes    int  // read since replies were settled last

	watched uint64 // progress the watch saw last
	stuck   time.Duration
	idle    bool
	pingDue bool
}

// readLoop holds the reader role whenever it was given it.
func (p *pipe) readLoop() {
	for {
		select {
		case <-p.readGo:
		case <-p.closed:
			return
		}
		for {
			if err := p.readMeasured(); err != nil && !p.retryRead(err) {
				p.kill(err)
				p.releaseReader(true)
				return
			}
			if p.offerReader() {
				break
			}
			if p.reader.filled {
				// Whom this read answered asks again while the rest is on its way. Without their
				// turn, a reader that always finds bytes would answer all before anybody could, and
				// large values would leave the connection empty after each round.
				runtime.Gosched()
			}
		}
	}
}

// offerReader gives the role back when callers come one at a time, so that the next may read
// itself.
func (p *pipe) offerReader() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.attached || p.dead != nil || p.gauge.pending > 0 || p.gauge.streak < soloStreak-1 {
		return false
	}
	p.reading = false
	return true
}

// releaseReader gives the role back, or on to the pipe's reader when replies are due.
func (p *pipe) releaseReader(dying bool) {
	p.mu.Lock()
	if !dying && (p.attached || len(p.flight) > 0 || p.reader.next < len(p.reader.due)) {
		p.mu.Unlock()
		p.readGo <- struct{}{}
		return
	}
	p.reading = false
	last := p.claimEnd()
	p.mu.Unlock()
	if last {
		p.finish()
	}
}

// readOnce reads what there is, waiting for at least one byte, and resolves complete replies.
func (p *pipe) readOnce() error {
	parse, _, err := p.fill()
	if parse {
		return p.parseReplies()
	}
	return err
}

// readMeasured is readOnce and counts the time that was no waiting. A read that filled its buffer
// did not wait, or not for long.
func (p *pipe) readMeasured() error {
	if !p.measured.Load() {
		return p.readOnce()
	}
	started := now()
	parse, full, err := p.fill()
	if !full {
		started = now()
	}
	if parse {
		err = p.parseReplies()
	}
	p.working[0].Add(int64(now() - started))
	return err
}

// fill reads once; parse is true when there are bytes to look at.
func (p *pipe) fill() (parse, full bool, err error) {
	role := &p.reader
	if space := role.parser.want(); len(space) >= readDirectBytes && role.start == role.end {
		n, err := p.conn.Read(space)
		role.parser.filled(n)
		role.filled = false
		role.bytes += n
		if n > 0 {
			p.progress.Add(1)
			err = nil
		}
		return false, n == len(space), err
	}
	if role.start == role.end {
		role.start, role.end = 0, 0
		if len(role.buffer) > readBufferMaxBytes {
			role.buffer = make([]byte, readBufferMaxBytes) // it grew for a long line
		} else if role.filled && len(role.buffer) < readBufferMaxBytes {
			role.buffer = make([]byte, 2*len(role.buffer))
		}
	}
	if role.end == len(role.buffer) {
		p.makeRoom()
	}
	n, err := p.conn.Read(role.buffer[role.end:])
	role.end += n
	role.bytes += n
	role.filled = role.end == len(role.buffer)
	if n == 0 {
		return false, false, err
	}
	p.progress.Add(1)
	return true, role.filled, nil
}

// makeRoom moves an incomplete line to the front, or grows for one that fills the buffer.
func (p *pipe) makeRoom() {
	role := &p.reader
	target := role.buffer
	if role.start == 0 {
		target = make([]byte, 2*len(role.buffer))
	}
	role.end = copy(target, role.buffer[role.start:role.end])
	role.buffer, role.start = target, 0
}

func (p *pipe) parseReplies() error {
	role := &p.reader
	defer p.settle()
	for role.start < role.end {
		used, reply, done, err := role.parser.next(role.buffer[role.start:role.end])
		role.start += used
		if err != nil {
			return err
		}
		if !done {
			return nil
		}
		if err := p.deliver(reply); err != nil {
			return err
		}
	}
	return nil
}

func (p *pipe) deliver(reply Reply) error {
	if reply.kind == KindPush {
		if p.onPush != nil {
			p.onPush(reply)
		}
		return nil
	}
	role := &p.reader
	if role.next == len(role.due) {
		p.mu.Lock()
		role.due, p.flight = p.flight, role.due[:0]
		role.next = 0
		p.mu.Unlock()
		if len(role.due) == 0 {
			return fmt.Errorf("%w: reply without a request", ErrProtocol)
		}
	}
	r := role.due[role.next]
	if r.accept(reply) {
		role.due[role.next] = nil
		role.next++
		role.resolved = append(role.resolved, r)
	}
	return nil
}

// settle counts the resolved requests out before it wakes their callers, so that what those send
// next finds its place among the pending ones.
func (p *pipe) settle() {
	role := &p.reader
	if len(role.resolved) == 0 {
		return
	}
	p.mu.Lock()
	p.gauge.move(role.bytes)
	role.bytes = 0
	p.gauge.end(len(role.resolved))
	p.stats.Reads++
	p.wakeWaiters()
	p.mu.Unlock()
	if p.primary != nil {
		for _, r := range role.resolved {
			p.primary.answered(r)
		}
	}
	round, at := rounds.Load(), now()
	for i, r := range role.resolved {
		role.resolved[i] = nil
		r.last.answered(round, at)
		r.complete()
	}
	role.resolved = role.resolved[:0]
}
