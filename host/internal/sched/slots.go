package sched

import (
	"container/list"
	"context"
	"sync"
)

// slots admits instances. An instance whose guest only waits for an attempt may be evicted: the one that has
// waited longest goes first when somebody needs a slot.
type slots struct {
	mu      sync.Mutex
	free    int
	total   int
	waiters list.List // of chan struct{}
	linger  list.List // of *lingering, oldest first
}

type lingering struct{ evict chan struct{} }

func newSlots(n int) *slots { return &slots{free: n, total: n} }

// acquire waits for a slot.
func (s *slots) acquire(ctx context.Context) error {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return nil
	}
	c := make(chan struct{})
	w := s.waiters.PushBack(c)
	s.evictLocked()
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

// park says that the holder of a slot could be evicted: it gets a channel that is closed when it is, and a
// function that it calls when it goes on.
func (s *slots) park() (evict <-chan struct{}, unpark func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &lingering{evict: make(chan struct{})}
	e := s.linger.PushBack(l)
	if s.waiters.Len() > 0 {
		s.evictLocked()
	}
	return l.evict, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		select {
		case <-l.evict:
		default:
			s.linger.Remove(e)
		}
	}
}

func (s *slots) evictLocked() {
	if e := s.linger.Front(); e != nil {
		close(s.linger.Remove(e).(*lingering).evict) //nolint:forcetypeassert // it holds nothing else
	}
}

// evictAll evicts every parked holder.
func (s *slots) evictAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.linger.Len() > 0 {
		s.evictLocked()
	}
}

func (s *slots) inUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total - s.free
}
