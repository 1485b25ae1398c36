// Package slots lets a few do something at a time, and bounds what waits for it: uploads, which compile and start modules.
package slots

import (
	"context"
	"errors"
	"sync"
)

// ErrFull says that too much waits already.
var ErrFull = errors.New("too much waits already")

// Slots lets a few in at a time, in no order, and bounds what waits. Its methods may be called concurrently.
type Slots struct {
	free chan struct{}
	most int64 // bytes that may wait

	mu      sync.Mutex // guards the fields below
	waiting int64      // bytes
	taken   int
}

// leastBytes is what something small counts for while it waits: a goroutine, and a connection.
const leastBytes = 64 << 10

// Uploads returns the slots of uploads. They are not those of guests, so that no upload keeps a run waiting: its start-up
// computes for a second, and may hold as much memory as any instance. A compiler that needs longer is another process. Sixteen
// modules of Go may wait.
func Uploads() *Slots { return New(2, 64<<20) }

// New returns n slots, for which no more than so many bytes may wait.
func New(n int, most int64) *Slots { return &Slots{free: make(chan struct{}, n), most: most} }

// Take waits for a slot until ctx is done, whose cause is the error then. leave gives the slot back. The error is ErrFull, at
// once, if no slot is free and what waits already has, with these bytes, more than may wait.
func (s *Slots) Take(ctx context.Context, bytes int64) (leave func(), err error) {
	select {
	case s.free <- struct{}{}:
		return s.entered(), nil
	default:
	}
	bytes = max(bytes, leastBytes)
	s.mu.Lock()
	if s.waiting+bytes > s.most {
		s.mu.Unlock()
		return nil, ErrFull
	}
	s.waiting += bytes
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.waiting -= bytes
		s.mu.Unlock()
	}()
	select {
	case s.free <- struct{}{}:
		return s.entered(), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *Slots) entered() (leave func()) {
	s.count(1)
	return func() {
		s.count(-1)
		<-s.free
	}
}

func (s *Slots) count(by int) {
	s.mu.Lock()
	s.taken += by
	s.mu.Unlock()
}

// Taken returns how many slots are taken.
func (s *Slots) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}
