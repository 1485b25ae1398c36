package handler

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

const (
	// interval is the shortest time between two records of a step. A crash loses the details since the last record, and
	// ten seconds of work are seldom worth an fsync.
	interval = 10 * time.Second
	// share bounds the records of a long step: the time between them is also at least 1/share of the time since its first
	// heartbeat. That makes some 380 records in a day, and some 500 in a week.
	share = 64
)

// ProgressKeeper keeps the details that handlers record during their attempts, so that the next attempt of the step
// can continue from there. The newest details are in memory, and go to the run's journal at a bounded rate.
// It is safe for concurrent use.
type ProgressKeeper struct {
	clock clock.Clock
	write func(a Attempt, details []byte) error // returns nil when they are durable, or no longer needed

	mu     sync.Mutex // guards the fields below; while it is held, only the clock is called, and no other lock is taken
	steps  map[string]*details
	closed bool
}

// details are the details of one step. They are dropped once they are durable and an interval has passed.
type details struct {
	writing chan struct{} // buffered 1; full while they are written, so that they reach the journal in order

	// The ProgressKeeper's mu guards the fields below.
	attempt Attempt // the attempt that recorded the newest details
	newest  []byte
	dirty   bool // newest is not in the journal
	busy    bool // details are being written, or were written less than an interval ago
	since   time.Time
	stop    func() // stops the timer; nil if there is none
}

// NewProgressKeeper returns a ProgressKeeper that stores details with write.
func NewProgressKeeper(c clock.Clock, write func(a Attempt, details []byte) error) *ProgressKeeper {
	return &ProgressKeeper{clock: c, write: write, steps: map[string]*details{}}
}

// Record takes details, which must not be changed afterwards, and reports whether the attempt is still the newest of
// its step. It blocks until they are durable if an interval has passed since the last record; otherwise they are
// written at the end of the interval.
func (k *ProgressKeeper) Record(a Attempt, newest []byte) bool {
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

// store writes the newest details, and schedules the next write after an interval. If the write fails, since the disk
// is full or the journal has no room, the details stay in memory until that write.
func (k *ProgressKeeper) store(d *details) {
	k.flush(d)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	d.stop = clock.AfterFunc(k.clock, max(interval, k.clock.Now().Sub(d.since)/share), func() { k.ring(d) })
}

// flush writes the newest details if they are not in the journal. It returns when no write of the step is in progress.
func (k *ProgressKeeper) flush(d *details) {
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

func (k *ProgressKeeper) ring(d *details) {
	k.mu.Lock()
	again := d.dirty || len(d.writing) > 0 // the write in progress may fail
	d.stop = nil
	if !again {
		delete(k.steps, d.attempt.IdempotencyKey)
	}
	k.mu.Unlock()
	if again {
		k.store(d)
	}
}

// Close writes the details in memory, as far as that is possible, and drops them. The host is about to close.
func (k *ProgressKeeper) Close() {
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
		writes.Go(func() { k.flush(d) }) // concurrently, so that they share commits
	}
	writes.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.steps)
}

// Flush makes the details of a step durable. It is called before the end of an attempt that another one may follow.
func (k *ProgressKeeper) Flush(idempotencyKey string) {
	k.mu.Lock()
	d := k.steps[idempotencyKey]
	k.mu.Unlock()
	if d != nil {
		k.flush(d)
	}
}

// Latest returns the newest details from which an attempt can continue: from memory, or else from the journal.
func (k *ProgressKeeper) Latest(a *Attempt) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.steps[a.IdempotencyKey]; d != nil {
		return d.newest
	}
	return a.Details
}

// ProgressEntry returns a function that makes the journal entry for details. It makes none if the run no longer waits for the
// step. Its error is an *abi.Error of abi.Limit if the journal has room only for the entries that it needs.
func ProgressEntry(a Attempt, newest []byte) func(*run.Record) (store.Entry, error) {
	return func(r *run.Record) (e store.Entry, err error) {
		if r.Ended() || r.State.Incarnation != a.Incarnation {
			return e, nil
		}
		for h := range r.Journal.Steps {
			if run.IdempotencyKey(r.State.Incarnation, r.Iteration, h.Name) == a.IdempotencyKey {
				if err := r.Journal.CallRoom(); err != nil {
					return e, err
				}
				return store.Entry{Kind: store.KindProgress, Handle: h.ID, Attempt: a.Number, Data: newest}, nil
			}
		}
		return e, nil
	}
}
