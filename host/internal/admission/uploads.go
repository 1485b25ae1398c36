package admission

import (
	"context"
	"errors"
	"sync"
)

// ErrUploadsFull: too many bytes wait already.
var ErrUploadsFull = errors.New("too much waits already")

// Uploads is a semaphore that also bounds the bytes of its waiting callers. Callers enter in no particular order. Its methods
// may be called concurrently.
type Uploads struct {
	free chan struct{}
	most int64 // maximum of waiting

	mu      sync.Mutex // guards the fields below
	waiting int64      // bytes
	taken   int
}

// leastBytes is the minimum charged for a waiting caller, for its goroutine and connection.
const leastBytes = 64 << 10

// NewUploads returns a semaphore with two permits and at most 64 MiB waiting, enough for sixteen Go modules. The permits are
// separate from the places of guests, so that no upload delays a run: the start-up of a module computes for a second and may hold
// as much memory as any instance. Long compilations run in another process.
func NewUploads() *Uploads { return newUploads(2, 64<<20) }

// newUploads returns a semaphore with n permits. most bounds the bytes of all waiting callers.
func newUploads(n int, most int64) *Uploads {
	return &Uploads{free: make(chan struct{}, n), most: most}
}

// Take blocks until a permit is free. leave returns the permit. If ctx ends first, the error is the cause of ctx. If no permit is
// free and the call would raise the waiting bytes above the maximum, Take returns ErrUploadsFull at once.
func (s *Uploads) Take(ctx context.Context, bytes int64) (leave func(), err error) {
	select {
	case s.free <- struct{}{}:
		return s.entered(), nil
	default:
	}
	bytes = max(bytes, leastBytes)
	s.mu.Lock()
	if s.waiting+bytes > s.most {
		s.mu.Unlock()
		return nil, ErrUploadsFull
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

func (s *Uploads) entered() (leave func()) {
	s.count(1)
	return func() {
		s.count(-1)
		<-s.free
	}
}

func (s *Uploads) count(by int) {
	s.mu.Lock()
	s.taken += by
	s.mu.Unlock()
}

// Taken returns the number of taken permits.
func (s *Uploads) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}
