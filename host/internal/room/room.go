// Package room bounds the memory of all journals together. A journal is in memory whole while something goes on with its run, and
// has at most abi.MaxJournalBytes; a hundred of those are more than a host should take.
//
// Over the budget, a run that is to be read waits as a key, and a guest that makes its journal longer waits at its next call,
// without a place. Nobody fails. One of those that wait goes on in any case, guests first: they hold memory until they are
// done. If that one takes long, such as one whose step goes on for an hour, the next one goes on after a while, too.
package room

import (
	"context"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
)

const (
	// smallBytes is a journal that is read without waiting, and not counted: there are few runs in memory, and thousands of
	// these are a few hundred megabytes.
	smallBytes = 64 << 10
	// growBytes is how much longer a journal becomes before it is counted again.
	growBytes = 256 << 10
	// patience is how long one that goes on over the budget keeps the next one from doing so.
	patience = time.Second
	// lookEvery is how often a guest that waits sees whether its run is wanted by others.
	lookEvery = 20 * time.Millisecond
)

// Budget is the room for journals. A nil Budget has room for all. Its methods may be called concurrently.
type Budget struct {
	limit int64
	clock clock.Clock

	mu      sync.Mutex // guards the fields below; nothing is called while it is held
	held    int64
	peak    int64
	runs    map[store.RunKey]int64    // bytes of those that are counted
	passes  map[store.RunKey]struct{} // of those, the ones that go on over the budget
	passed  time.Time                 // when the newest of them began to
	growing []*waiter                 // guests
	loading []*waiter                 // runs to be read
}

type waiter struct {
	run   store.RunKey
	bytes int64 // to be counted when it goes on
	goes  chan struct{}
}

// New returns a budget of so many bytes.
func New(limit int64) *Budget {
	return &Budget{limit: limit, clock: clock.System(), runs: map[store.RunKey]int64{}, passes: map[store.RunKey]struct{}{}}
}

// Held returns how many bytes are counted, and Peak how many were at most.
func (b *Budget) Held() int64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// Peak returns the most bytes that were counted at a time.
func (b *Budget) Peak() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.peak
}

// Load waits until there is room for the journal of a run that is to be read, and counts it, until ctx is done, whose cause is
// the error then.
func (b *Budget) Load(ctx context.Context, run store.RunKey, bytes int64) error {
	if b == nil || bytes < smallBytes {
		return nil
	}
	b.mu.Lock()
	if _, counted := b.runs[run]; counted || len(b.growing)+len(b.loading) == 0 && b.held+bytes <= b.limit {
		b.countLocked(run, bytes)
		b.mu.Unlock()
		return nil
	}
	w := &waiter{run: run, bytes: bytes, goes: make(chan struct{})}
	b.loading = append(b.loading, w)
	b.grantLocked()
	b.mu.Unlock()
	return b.wait(ctx, w, nil)
}

// Forget says that a journal is no longer in memory, or not more than for a while.
func (b *Budget) Forget(run store.RunKey) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if bytes, counted := b.runs[run]; counted {
		b.held -= bytes
		delete(b.runs, run)
		delete(b.passes, run)
		b.grantLocked()
	}
}

// Share is the journal of a guest. The zero Share is not counted. It is used by the guest's goroutine.
type Share struct {
	b    *Budget
	run  store.RunKey
	next int64 // bytes at which it is counted again
}

// Share returns the share of a guest, of whose run the journal is in memory, and counts it.
func (b *Budget) Share(run store.RunKey, bytes int64) Share {
	if b != nil && bytes >= smallBytes {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.countLocked(run, bytes)
	}
	return Share{b: b, run: run, next: bytes + growBytes}
}

// Grown reports whether the journal has become so much longer that Wait is to be called.
func (s *Share) Grown(bytes int64) bool { return s.b != nil && bytes >= s.next }

// Wait counts the journal, and waits while there is no room for what it may still become, until look returns an error, which is
// called every now and then, or ctx is done.
func (s *Share) Wait(ctx context.Context, bytes int64, look func() error) error {
	s.next = bytes + growBytes
	b := s.b
	b.mu.Lock()
	if ctx.Err() != nil { // the run may be lost, and forgotten already
		b.mu.Unlock()
		return context.Cause(ctx)
	}
	b.countLocked(s.run, bytes)
	if _, passes := b.passes[s.run]; passes || b.held <= b.limit {
		b.mu.Unlock()
		return nil
	}
	w := &waiter{run: s.run, goes: make(chan struct{})}
	b.growing = append(b.growing, w)
	b.grantLocked()
	b.mu.Unlock()
	return b.wait(ctx, w, look)
}

// wait waits until w goes on, and looks for the next one every now and then.
func (b *Budget) wait(ctx context.Context, w *waiter, look func() error) error {
	for {
		t := b.clock.NewTimer(lookEvery)
		select {
		case <-w.goes:
			t.Stop()
			return nil
		case <-ctx.Done():
			t.Stop()
			b.leave(w)
			return context.Cause(ctx)
		case <-t.C():
		}
		if look != nil {
			if err := look(); err != nil {
				b.leave(w)
				return err
			}
		}
		b.mu.Lock()
		b.grantLocked()
		b.mu.Unlock()
	}
}

// leave takes one that waits away.
func (b *Budget) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.goes: // at the same time; what was counted for it is forgotten with the run
		if w.bytes > 0 {
			b.held -= b.runs[w.run]
			delete(b.runs, w.run)
			delete(b.passes, w.run)
		}
	default:
		b.growing, b.loading = without(b.growing, w), without(b.loading, w)
	}
	b.grantLocked()
}

func without(list []*waiter, w *waiter) []*waiter {
	for i := range list {
		if list[i] == w {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

func (b *Budget) countLocked(run store.RunKey, bytes int64) {
	b.held += bytes - b.runs[run]
	b.runs[run] = bytes
	b.peak = max(b.peak, b.held)
}

// grantLocked lets those go on for which there is room, and one in any case.
func (b *Budget) grantLocked() {
	for len(b.growing) > 0 {
		if b.held > b.limit && !b.passLocked(b.growing[0]) {
			return
		}
		close(b.growing[0].goes)
		b.growing = b.growing[1:]
	}
	for len(b.loading) > 0 {
		w := b.loading[0]
		if b.held+w.bytes > b.limit && !b.passLocked(w) {
			return
		}
		b.countLocked(w.run, w.bytes)
		close(w.goes)
		b.loading = b.loading[1:]
	}
}

// passLocked reports whether one may go on though there is no room.
func (b *Budget) passLocked(w *waiter) bool {
	now := b.clock.Now()
	if len(b.passes) > 0 && now.Sub(b.passed) < patience {
		return false
	}
	b.passes[w.run], b.passed = struct{}{}, now
	return true
}
