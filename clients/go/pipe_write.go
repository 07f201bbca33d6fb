package tidemill

import (
	"bytes"
	"runtime"
)

// writeLoop holds the writer role whenever it was given it. Two goroutines run it: while one
// gathers by giving its turn away, a caller who finds the batch large enough hands the role to the
// other, which the scheduler runs at once.
func (p *pipe) writeLoop() {
	for {
		select {
		case <-p.writeGo:
		case <-p.closed:
			return
		}
		for p.gatherCompany() && p.flush() {
		}
	}
}

// gatherCompany decides when to flush; false when the role was handed on meanwhile. Runnable
// goroutines get their turn as long as requests keep coming; that costs nothing when there are
// none. Only when independent arrivals are frequent enough does it wait on a timer, for a bounded
// time.
func (p *pipe) gatherCompany() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	count, yields := len(p.queue), 0
	if count == 0 || p.urgent {
		p.urgent = false
		return true
	}
	p.turn++
	turn := p.turn
	p.gathering = true
	for yields < gatherYieldsMax && count < p.gauge.enough && p.dead == nil {
		p.mu.Unlock()
		runtime.Gosched()
		yields++
		p.mu.Lock()
		if p.turn != turn {
			return false
		}
		if len(p.queue) == count {
			break
		}
		count = len(p.queue)
	}
	p.gathering = false
	p.stats.Yields += uint64(yields)
	rounds.Add(1)
	if count < flushRequests && p.dead == nil && p.pauseLength > 0 {
		p.pauseForCompany(count)
	}
	return true
}

// pauseForCompany is called with the mutex held and returns with it held.
func (p *pipe) pauseForCompany(count int) {
	delay := p.gauge.pause(p.pauseLength, count)
	if delay == 0 {
		return
	}
	if p.writer.pauser == nil {
		p.writer.pauser = newPauser()
	}
	p.pausing = true
	p.stats.Pauses++
	started := now()
	p.mu.Unlock()
	p.writer.pauser.sleep(delay)
	p.mu.Lock()
	p.pausing = false
	p.stats.GatherTime += now() - started
}

// flush writes what is queued; false when the role was given up.
func (p *pipe) flush() bool {
	w := &p.writer
	p.mu.Lock()
	if len(p.queue) == 0 || p.dead != nil {
		p.writing = false
		last := p.claimEnd()
		p.mu.Unlock()
		if last {
			p.finish()
		}
		return false
	}
	w.batch, p.queue = p.queue, w.batch[:0]
	p.mu.Unlock()
	if p.measured.Load() {
		started := now()
		defer func() { p.working[1].Add(int64(now() - started)) }()
	}
	for len(w.batch) > 0 {
		taken := p.fillChunk()
		first := w.sequence - uint64(taken)
		n, err := p.writeChunk(taken)
		if err != nil {
			p.failedWriteAt(first, n, err)
			break
		}
	}
	if cap(w.out) > writeBufferKeepBytes {
		w.out = nil
	}
	return true
}

// fillChunk encodes requests from the batch's front until the chunk is large enough, and enters
// them into flight. It returns how many entered.
func (p *pipe) fillChunk() (taken int) {
	w := &p.writer
	w.out, w.ends = w.out[:0], w.ends[:0]
	looked := 0
	for _, r := range w.batch {
		if len(w.out) > 0 && len(w.out)+len(r.wire) > flushBytes {
			break
		}
		looked++
		if !r.state.CompareAndSwap(stateQueued, stateSent) {
			continue
		}
		r.sequence = w.sequence
		w.sequence++
		w.out = append(w.out, r.wire...)
		w.ends = append(w.ends, len(w.out))
		w.batch[taken] = r
		taken++
	}
	p.mu.Lock()
	w.fresh = p.gauge.pending == len(p.queue)+len(w.batch)
	p.flight = append(p.flight, w.batch[:taken]...)
	p.gauge.end(looked - taken)
	p.gauge.move(len(w.out))
	p.wakeWaiters()
	p.stats.note(taken)
	p.mu.Unlock()
	rest := copy(w.batch, w.batch[looked:])
	clear(w.batch[rest:])
	w.batch = w.batch[:rest]
	return taken
}

// writeChunk writes the chunk and sees to it that somebody reads: before a large write, because the
// server may stop reading when nobody takes its replies; after a small one, when there is
// something.
func (p *pipe) writeChunk(taken int) (int, error) {
	w := &p.writer
	large := len(w.out) > soloBytes
	if large {
		p.ensureReader()
	}
	if taken == 0 {
		return 0, nil
	}
	n, err := p.writeOut()
	if !large {
		p.ensureReader()
	}
	return n, err
}

// writeOut writes the chunk. What counts as a sign of life is only a write before which no reply
// was due, because the silence begins with it: others succeed as long as the socket's buffer has
// room, though the server is hung. A large request may take longer than the IO timeout; each piece
// of it counts, of which a hung server's socket takes few.
func (p *pipe) writeOut() (written int, err error) {
	out := p.writer.out
	for err == nil && written < len(out) {
		var n int
		n, err = p.conn.Write(out[written:min(len(out), written+writePieceBytes)])
		written += n
		if p.writer.fresh || len(out) > writePieceBytes {
			p.progress.Add(1)
		}
	}
	return written, err
}

// ensureReader wakes the pipe's reader when replies are due and nobody reads. On a dead pipe the
// reader has left for good: a role given to it would never come back, and the pipe would never end.
func (p *pipe) ensureReader() {
	p.mu.Lock()
	wake := !p.reading && len(p.flight) > 0 && p.dead == nil
	if wake {
		p.reading = true
	}
	p.mu.Unlock()
	if wake {
		p.readGo <- struct{}{}
	}
}

// failedWriteAt finds the first request of a chunk of which the server can have executed nothing.
// It works on the chunk's copy: the requests themselves may have been answered, and recycled.
func (p *pipe) failedWriteAt(first uint64, written int, err error) {
	w := &p.writer
	unsent, start := first, 0
	for _, end := range w.ends {
		if written < end {
			if mayHaveRun(w.out[start:end], written-start) {
				unsent++
			}
			break
		}
		start = end
		unsent++
	}
	p.failedWrite(unsent, err)
}

// mayHaveRun tells whether a server that received the first bytes of one request can have executed
// a command of it. It executes each command whose end it received. MULTI and ASKING alone have no
// effect; what follows MULTI counts, because a server that refused MULTI executes it at once.
func mayHaveRun(wire []byte, written int) bool {
	for start := 0; start < len(wire); {
		name, size := firstCommand(wire[start:])
		switch {
		case size == 0:
			return written > start // bytes of a user of Link that are no command
		case written < start+size:
			return false
		case !bytes.EqualFold(name, []byte("MULTI")) && !bytes.EqualFold(name, []byte("ASKING")):
			return true
		}
		start += size
	}
	return false
}

// firstCommand returns the name and the size of the first command in wire, 0 when there is none.
func firstCommand(wire []byte) (name []byte, size int) {
	header, size, _ := cutLine(wire)
	if len(header) < 2 || header[0] != '*' {
		return nil, 0
	}
	count, _ := parseInt(header[1:])
	for i := range count {
		header, used, _ := cutLine(wire[size:])
		if len(header) < 2 || header[0] != '$' {
			return nil, 0
		}
		length, ok := parseInt(header[1:])
		size += used
		if left := int64(len(wire) - size); !ok || length < 0 || length > left-2 {
			return nil, 0
		}
		if i == 0 {
			name = wire[size : size+int(length)]
		}
		size += int(length) + 2
	}
	return name, size
}

// failedWrite records from which request on the server can have executed nothing, and kills the
// pipe.
func (p *pipe) failedWrite(unsent uint64, err error) {
	p.mu.Lock()
	p.unsent = unsent
	p.mu.Unlock()
	p.kill(err)
}

// releaseWriter ends a solo caller's writing; what others queued meanwhile goes to the pipe's
// writer.
func (p *pipe) releaseWriter() {
	p.mu.Lock()
	if len(p.queue) > 0 && p.dead == nil {
		p.mu.Unlock()
		p.writeGo <- struct{}{}
		return
	}
	p.writing = false
	last := p.claimEnd()
	p.mu.Unlock()
	if last {
		p.finish()
	}
}
