package tidemill

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// States of a request. Its owner changes by compare-and-swap, so that exactly one of caller, writer
// and reader decides how it ends:
//
//	queued ── writer ──> sent ── reader ──> done
//	   └─ caller ──> withdrawn   └─ caller ──> abandoned (the reader skips its reply)
const (
	stateQueued uint32 = iota
	stateSent
	stateDone
	stateWithdrawn
	stateAbandoned
)

// request is one command, or several that travel as one (a batch, a transaction), on its way.
type request struct {
	wire     []byte
	want     int // replies due
	reply    Reply
	replies  []Reply // used when want > 1
	wake     chan struct{}
	notify   func(*request) // called by the reader instead of waking a caller
	sequence uint64         // place in the pipe's byte stream, set by the writer
	state    atomic.Uint32
	last     trace // of its previous use
	solo     bool  // its caller is the reader: no wake-up needed
}

var requests = sync.Pool{New: func() any { return &request{wake: make(chan struct{}, 1)} }}

func newRequest() *request {
	r := requests.Get().(*request)
	r.want = 1
	return r
}

// recycle returns a request that no pipe knows any more.
func (r *request) recycle() {
	if cap(r.wire) > wireKeepBytes {
		r.wire = nil
	}
	r.wire = r.wire[:0]
	r.reply, r.replies, r.notify = Reply{}, nil, nil
	r.solo = false
	r.state.Store(stateQueued)
	requests.Put(r)
}

// rearm makes an ended request ready to be sent again.
func (r *request) rearm() {
	r.reply, r.replies, r.solo = Reply{}, nil, false
	r.state.Store(stateQueued)
}

// accept takes one reply; true when it was the last one due.
func (r *request) accept(reply Reply) bool {
	if r.want == 1 {
		r.reply = reply
		return true
	}
	if r.replies == nil {
		r.replies = make([]Reply, 0, min(r.want, replyItemsAhead))
	}
	r.replies = append(r.replies, reply)
	if len(r.replies) < r.want {
		return false
	}
	r.reply = Reply{kind: KindArray, extra: &extra{items: r.replies}}
	return true
}

// fail ends the request with an error; replies that did come stay with it.
func (r *request) fail(err error) {
	r.reply = Reply{kind: KindNone, extra: &extra{err: err, items: r.replies}}
}

// complete hands a request with its replies back to its waiting caller.
func (r *request) complete() {
	if !r.state.CompareAndSwap(stateSent, stateDone) &&
		!r.state.CompareAndSwap(stateQueued, stateDone) {
		return // withdrawn or abandoned
	}
	switch {
	case r.notify != nil:
		r.notify(r)
	case !r.solo:
		r.wake <- struct{}{}
	}
}

// contain runs a user's callback and reports a panic as an error.
func contain(callback func()) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v", ErrPanic, value)
		}
	}()
	callback()
	return nil
}
