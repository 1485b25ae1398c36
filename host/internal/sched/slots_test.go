package sched

import (
	"context"
	"testing"
)

// TestParking bounds the memory of those who wait: the one that was parked longest gives way, and who goes on comes
// before who begins.
func TestParking(t *testing.T) {
	ctx := t.Context()
	evicted := func(p *parking) bool {
		select {
		case <-p.evict:
			return true
		default:
			return false
		}
	}
	s := newSlots(1, 100)
	park := func(bytes int64) *parking {
		if err := s.acquire(ctx); err != nil {
			t.Fatal(err)
		}
		return s.park(bytes)
	}
	a, b := park(60), park(40)
	if evicted(a) || evicted(b) || s.inUse() != 2 {
		t.Fatal("they fit")
	}
	c := park(1)
	if !evicted(a) || evicted(b) || evicted(c) || s.parkedBytes != 41 {
		t.Fatal("not the oldest one", s.parkedBytes)
	}
	a.leave()
	b.leave()
	b.leave()
	huge := park(1000)
	if !evicted(huge) || !evicted(c) || s.parkedBytes != 0 || s.inUse() != 0 {
		t.Fatal("more than the limit is kept", s.parkedBytes)
	}

	d := park(1)
	if err := s.acquire(ctx); err != nil {
		t.Fatal(err)
	}
	began, wentOn := make(chan error), make(chan error)
	waiting := func(n int) {
		for {
			s.mu.Lock()
			now := s.waiters.Len()
			s.mu.Unlock()
			if now == n {
				return
			}
		}
	}
	go func() { began <- s.acquire(ctx) }()
	waiting(1)
	go func() { wentOn <- d.resume(ctx) }()
	waiting(2)
	s.release()
	if err := <-wentOn; err != nil {
		t.Fatal(err)
	}
	s.release()
	if err := <-began; err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.acquire(gone); err == nil || s.inUse() != 1 {
		t.Fatal("a slot was given twice")
	}
	s.release()
	if s.free != 1 || s.waiters.Len() != 0 {
		t.Fatal(s.free, s.waiters.Len())
	}
}
