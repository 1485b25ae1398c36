// Package progress keeps what handlers record of their attempts while they are at work, so that the next attempt of the step
// can go on from there: the newest in memory, and in the journal of the run at a bounded rate.
package progress

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/step"
	"github.com/wfhost/wfhost/store"
)

const (
	// interval is the shortest time between two records of one step: a crash loses what came since the last one, and ten seconds
	// of work are seldom worth an fsync.
	interval = 10 * time.Second
	// share bounds the records of a step that goes on for long: the time between them is also one part in so many of that since its
	// first heartbeat. A day makes some 380 records, a week some 500.
	share = 64
)

// Keeper has the details of the steps whose handlers have recorded any lately. It is safe for concurrent use.
type Keeper struct {
	clock clock.Clock
	write func(a handler.Attempt, details []byte) error // returns nil when they are durable, or of no use any more

	mu     sync.Mutex // guards what follows; nothing is called but the clock's timers while it is held, and nothing else is locked
	steps  map[string]*details
	closed bool
}

// details are those of one step. They are forgotten when they are durable and an interval has passed.
type details struct {
	writing chan struct{} // of one; full while they are written, so that the journal has them in order

	// What follows is guarded by the Keeper's mu.
	attempt handler.Attempt // that recorded the newest
	newest  []byte
	dirty   bool // the newest are not in the journal
	busy    bool // some are being written, or were less than an interval ago
	since   time.Time
	stop    func() // of the timer; nil while there is none
}

// New returns a Keeper that writes by a function.
func New(c clock.Clock, write func(a handler.Attempt, details []byte) error) *Keeper {
	return &Keeper{clock: c, write: write, steps: map[string]*details{}}
}

// Record takes details, which must not be changed, and reports whether the attempt is still the newest of its step. It waits
// until they are durable, if an interval has passed since the last ones were; else they are at the end of the interval.
func (k *Keeper) Record(a handler.Attempt, newest []byte) bool {
	k.mu.Lock()
	d := k.steps[a.IdempotencyKey]
	if d == nil && k.closed {
		k.mu.Unlock()
		return true
	}
	if d == nil {
		d = &details{writing: make(chan struct{}, 1), since: k.clock.Now()}
		k.steps[a.IdempotencyKey] = d
	}
	if a.Number < d.attempt.Number {
		k.mu.Unlock()
		return false
	}
	d.attempt, d.newest, d.dirty = a, newest, true
	now := !d.busy
	d.busy = true
	k.mu.Unlock()
	if now {
		k.store(d)
	}
	return true
}

// store makes the newest details durable, and has the next ones follow after an interval. Those that cannot be written, as the
// disk is full or the journal has no room, stay in memory and are tried again then.
func (k *Keeper) store(d *details) {
	k.flush(d)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	d.stop = clock.AfterFunc(k.clock, max(interval, k.clock.Now().Sub(d.since)/share), func() { k.ring(d) })
}

// flush writes the newest details, if they are not in the journal, and returns when nothing of the step is being written.
func (k *Keeper) flush(d *details) {
	d.writing <- struct{}{}
	defer func() { <-d.writing }()
	k.mu.Lock()
	a, newest, dirty := d.attempt, d.newest, d.dirty
	d.dirty = false
	k.mu.Unlock()
	if !dirty || k.write(a, newest) == nil {
		return
	}
	k.mu.Lock()
	d.dirty = true
	k.mu.Unlock()
}

func (k *Keeper) ring(d *details) {
	k.mu.Lock()
	again := d.dirty || len(d.writing) > 0 // which may fail
	d.stop = nil
	if !again {
		delete(k.steps, d.attempt.IdempotencyKey)
	}
	k.mu.Unlock()
	if again {
		k.store(d)
	}
}

// Close makes what is in memory durable, as far as it can be written, and forgets it: the host is about to close.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.closed = true
	steps := slices.Collect(maps.Values(k.steps))
	for _, d := range steps {
		if d.stop != nil {
			d.stop()
		}
	}
	k.mu.Unlock()
	var writes sync.WaitGroup
	for _, d := range steps {
		writes.Go(func() { k.flush(d) }) // at once, so that they share their commits
	}
	writes.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.steps)
}

// Flush makes the details of a step durable, before an attempt of it ends that may be followed by another one.
func (k *Keeper) Flush(idempotencyKey string) {
	k.mu.Lock()
	d := k.steps[idempotencyKey]
	k.mu.Unlock()
	if d != nil {
		k.flush(d)
	}
}

// Latest returns the newest details that an attempt can go on from: those in memory, else those of the journal.
func (k *Keeper) Latest(a *handler.Attempt) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.steps[a.IdempotencyKey]; d != nil {
		return d.newest
	}
	return a.Details
}

// Entry returns a function that makes the entry of details, and none if the run does not wait for the step any more. Its error
// is an *abi.Error of abi.Limit if the journal has room for nothing but what it needs.
func Entry(a handler.Attempt, newest []byte) func(*run.Record) (store.Entry, error) {
	return func(r *run.Record) (e store.Entry, err error) {
		if r.Ended() || r.State.Incarnation != a.Incarnation {
			return e, nil
		}
		for h := range r.Journal.Steps {
			if step.IdempotencyKey(r.State.Incarnation, r.Iteration, h.Name) == a.IdempotencyKey {
				if err := r.Journal.CallRoom(); err != nil {
					return e, err
				}
				return store.Entry{Kind: store.KindProgress, Handle: h.ID, Attempt: a.Number, Data: newest}, nil
			}
		}
		return e, nil
	}
}
