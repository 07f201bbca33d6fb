package goredis

import (
	"net"
	"os"
	"sync"
	"time"
)

// limit is the context of a virtual connection's reads: it ends with the read deadline, which
// go-redis sets anew for every command, and with Close. A timer that fires before a later deadline
// is put off instead of being stopped and started with each command.
type limit struct {
	mu      sync.Mutex
	done    chan struct{}
	err     error
	at      time.Time // zero: no deadline
	fires   time.Time // when the timer does; zero: it is not running
	timer   *time.Timer
	waiting []*waiting
}

type waiting struct{ call func() }

func newLimit() *limit { return &limit{done: make(chan struct{})} }

// set changes the deadline, also of reads that wait.
func (l *limit) set(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == net.ErrClosed {
		return
	}
	if l.err != nil {
		l.err, l.done = nil, make(chan struct{})
	}
	l.at = at
	if at.IsZero() || !l.fires.IsZero() && !at.Before(l.fires) {
		return
	}
	left := time.Until(at)
	if left <= 0 {
		l.end(os.ErrDeadlineExceeded)
		return
	}
	l.fires = at
	if l.timer == nil {
		l.timer = time.AfterFunc(left, l.tick)
	} else {
		l.timer.Reset(left)
	}
}

func (l *limit) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fires = time.Time{}
	if l.err != nil || l.at.IsZero() {
		return
	}
	if left := time.Until(l.at); left > 0 {
		l.fires = l.at
		l.timer.Reset(left)
		return
	}
	l.end(os.ErrDeadlineExceeded)
}

// close ends the limit for good.
func (l *limit) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.err == nil {
		l.end(net.ErrClosed)
	}
	l.err = net.ErrClosed
}

// end is called with the mutex held.
func (l *limit) end(err error) {
	l.err = err
	close(l.done)
	for _, w := range l.waiting {
		go w.call()
	}
	l.waiting = nil
}

// Deadline is part of context.Context.
func (l *limit) Deadline() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at, !l.at.IsZero()
}

// Done is part of context.Context; the channel is another one after the deadline has passed.
func (l *limit) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done
}

// Err is part of context.Context.
func (l *limit) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Value is part of context.Context.
func (l *limit) Value(any) any { return nil }

// AfterFunc spares package context a goroutine for each context derived from this one.
func (l *limit) AfterFunc(call func()) (stop func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		go call()
		return func() bool { return false }
	}
	w := &waiting{call}
	l.waiting = append(l.waiting, w)
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, other := range l.waiting {
			if other == w {
				l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
				return true
			}
		}
		return false
	}
}
