package sched

import (
	"container/list"
	"context"
	"sync"
)

// slots admits guests to the processors, and bounds the memory of those that wait within an activation. A guest has a
// slot while it computes. While a commit of its run or an attempt of one of its steps goes on, it is parked: it keeps
// its instance, but no slot. When parked instances take too much, the one that was parked longest is evicted: its run
// is replayed later.
type slots struct {
	mu      sync.Mutex
	free    int
	total   int
	waiters list.List // of chan struct{}

	parked      list.List // of *parking, oldest first
	parkedBytes int64
	parkLimit   int64
}

// parking is the place of a guest that waits.
type parking struct {
	s     *slots
	bytes int64
	evict chan struct{} // closed when the guest has to give its instance up
	e     *list.Element // nil when it has left, or was evicted
}

func newSlots(n int, parkLimit int64) *slots { return &slots{free: n, total: n, parkLimit: parkLimit} }

// acquire waits for a slot.
func (s *slots) acquire(ctx context.Context) error { return s.wait(ctx, (*list.List).PushBack) }

func (s *slots) wait(ctx context.Context, push func(*list.List, any) *list.Element) error {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return nil
	}
	c := make(chan struct{})
	w := push(&s.waiters, c)
	s.mu.Unlock()
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		select {
		case <-c: // given at the same time
			s.releaseLocked()
		default:
			s.waiters.Remove(w)
		}
		return ctx.Err()
	}
}

func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked()
}

func (s *slots) releaseLocked() {
	if w := s.waiters.Front(); w != nil {
		close(s.waiters.Remove(w).(chan struct{})) //nolint:forcetypeassert // it holds nothing else
		return
	}
	s.free++
}

// park gives the slot of a guest back, whose instance takes so many bytes. The guest ends its parking by leave or resume.
func (s *slots) park(bytes int64) *parking {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked()
	p := &parking{s: s, bytes: bytes, evict: make(chan struct{})}
	p.e = s.parked.PushBack(p)
	s.parkedBytes += bytes
	for s.parkedBytes > s.parkLimit {
		s.evictLocked()
	}
	return p
}

// leave ends the parking of a guest that gives its instance up. Twice is legal.
func (p *parking) leave() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.leaveLocked()
}

func (p *parking) leaveLocked() {
	if p.e != nil {
		p.s.parked.Remove(p.e)
		p.s.parkedBytes -= p.bytes
		p.e = nil
	}
}

// resume waits for a slot, before those who have no instance yet.
func (p *parking) resume(ctx context.Context) error {
	if err := p.s.wait(ctx, (*list.List).PushFront); err != nil {
		return err
	}
	p.leave()
	return nil
}

func (s *slots) evictLocked() {
	p := s.parked.Front().Value.(*parking) //nolint:forcetypeassert // it holds nothing else
	p.leaveLocked()
	close(p.evict)
}

// evictAll evicts every parked guest.
func (s *slots) evictAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.parked.Len() > 0 {
		s.evictLocked()
	}
}

// inUse gives the number of instances that compute or are parked.
func (s *slots) inUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total - s.free + s.parked.Len()
}
