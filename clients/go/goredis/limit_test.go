package goredis

import (
	"context"
	"net"
	"os"
	"testing"
	"time"
)

func ended(l *limit, within time.Duration) bool {
	select {
	case <-l.Done():
		return true
	case <-time.After(within):
		return false
	}
}

func TestLimit_LaterDeadlineReplacesEarlierOne(t *testing.T) {
	checkLeaks(t)
	l := newLimit()
	l.set(time.Now().Add(30 * time.Millisecond))
	l.set(time.Now().Add(time.Minute))
	if ended(l, 100*time.Millisecond) {
		t.Error("ended with the earlier deadline")
	}
	l.set(time.Now().Add(10 * time.Millisecond))
	if !ended(l, 5*time.Second) || l.Err() != os.ErrDeadlineExceeded {
		t.Errorf("an earlier deadline did not hold: %v", l.Err())
	}
}

func TestLimit_PutOffDeadlineHolds(t *testing.T) {
	checkLeaks(t)
	l := newLimit()
	l.set(time.Now().Add(20 * time.Millisecond))
	later := time.Now().Add(80 * time.Millisecond)
	l.set(later)
	if !ended(l, 5*time.Second) || time.Now().Before(later) {
		t.Error("the second deadline was not met")
	}
}

func TestLimit_NewDeadlineEndsAnExpiredOne(t *testing.T) {
	checkLeaks(t)
	l := newLimit()
	l.set(time.Unix(1, 0))
	if !ended(l, 0) && !ended(l, time.Second) {
		t.Error("a deadline in the past did not end it")
	}
	l.set(time.Time{})
	if l.Err() != nil || ended(l, 20*time.Millisecond) {
		t.Error("still ended without a deadline")
	}
}

func TestLimit_CloseIsForGood(t *testing.T) {
	checkLeaks(t)
	l := newLimit()
	child, cancel := context.WithCancel(l)
	defer cancel()
	l.close()
	l.set(time.Now().Add(time.Minute))
	if l.Err() != net.ErrClosed || !ended(l, time.Second) {
		t.Errorf("%v", l.Err())
	}
	select {
	case <-child.Done():
	case <-time.After(5 * time.Second):
		t.Error("a context derived from it did not end")
	}
}

func TestLimit_StoppedCallsDoNotRun(t *testing.T) {
	checkLeaks(t)
	l := newLimit()
	called := make(chan string, 2)
	stop := context.AfterFunc(l, func() { called <- "stopped" })
	context.AfterFunc(l, func() { called <- "kept" })
	if !stop() {
		t.Error("stop came too late")
	}
	l.close()
	if name := <-called; name != "kept" {
		t.Error(name)
	}
	select {
	case name := <-called:
		t.Error(name)
	case <-time.After(20 * time.Millisecond):
	}
}
