// Package run holds one run as a state machine. A Run takes events (a call of the API, a timer that is due, a guest
// that waits, an attempt that has ended) and returns effects (start a guest, start an attempt, answer a caller). It is
// pure: it has no lock, goroutine, clock, context or store, and the same events at the same instants give the same
// effects. Its model is the Ready of go.etcd.io/raft: the caller does what the effects say, and each effect's comment
// says what has to be durable before it.
//
// The caller does five things:
//
//	r := run.New(key, …) or run.Load(…)      // the run, as it is in the store
//	fx := r.Step(now, event)                 // an event happens to it
//	commit := r.Prepare(now)                 // what has to be made durable, if anything
//	…                                        // the effects that need nothing durable at once, the others after the commit
//	wake, ok := r.NextWake(now)              // when to come again with Due
//
// A commit that fails, or whose outcome is unknown, ends the life of the Run in memory: the caller drops it and loads it again.
//
// While a guest computes, it has the run to itself: the run is lent to it through a Lease, and the caller keeps events back
// until the guest waits, yields or ends. So nothing is appended behind a guest's back, and there is nothing to lock.
//
// A Run is made of the record of what is durable (Record), the guest, and the attempts that go on. What an event does to them is
// its method happen, in a turn, which gathers the effects.
package run

import (
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Run is one run in memory. It is used by one goroutine at a time: its writer, or the guest that has its lease.
type Run struct {
	rec     Record                    // what is durable, or will be
	handled func(handler string) bool // reports whether a handler is registered
	active  bool                      // guests and attempts may start
	own     Clock                     // nil: the host's clock is the run's
	t       *turn                     // of the newest step

	guest
	attempts
}

// Config is what a Run is made with.
type Config struct {
	// Handled reports whether a handler of that name, without its prefix, is registered here.
	Handled func(name string) bool
	// Active reports whether guests and attempts may start. SetActive changes it.
	Active bool
	Clock  Clock // what the clocks of runs show; nil: what the host's does
}

// New returns a run of which the store has nothing. Only Start changes it.
func New(key store.RunKey, cfg Config) *Run {
	return &Run{rec: Record{Key: key}, handled: cfg.Handled, active: cfg.Active, own: cfg.Clock, t: &turn{},
		attempts: attempts{going: map[int64]*Attempt{}}}
}

// Load returns a run as the store has it. A deleted run has no entries. An error wraps store.ErrCorrupt, or is what
// the journal says of an entry that this release does not know.
func Load(state store.RunState, entries []store.Entry, cfg Config) (*Run, error) {
	rec, err := loadRecord(state, entries)
	if err != nil {
		return nil, err
	}
	r := New(state.Run, cfg)
	r.rec = rec
	if !rec.Exists {
		return r, nil
	}
	r.faults.Count = state.Faults
	switch state.Status {
	case store.Queued, store.Running: // its host died in the middle of it
		r.pending = true
		if state.Faults > 0 {
			r.faults.RetryMs, r.rec.Reason = state.WakeUnixMs, state.Reason
		}
	case store.Stuck:
		r.rec.Stick(state.Reason)
	}
	if state.Suspension.Seq == 0 { // it has not come to a wait: it is new, delayed, or was paused before that
		r.pending = true
	}
	if !state.Status.Terminal() {
		rec.Journal.Suspend(state.Suspension)
		if state.Suspension.Seq == 0 {
			rec.Journal.Suspend(store.Suspension{Seq: min(state.Rested, store.Seq(rec.Journal.Len()))})
		}
	}
	if r.pending { // it remembers where the guest has been
		rec.Journal.Resume()
	}
	return r, nil
}

// Key returns the run's key.
func (r *Run) Key() store.RunKey { return r.rec.Key }

// Exists reports whether there is a run: false after New, and for what is left of a deleted run.
func (r *Run) Exists() bool { return r.rec.Exists }

// State returns the run's state as of the newest commit that was prepared.
func (r *Run) State() store.RunState { return r.rec.State }

// Journal returns the run's journal, nil if there is no run. It must not be changed.
func (r *Run) Journal() *journal.Journal { return r.rec.Journal }

// Begun reports whether the run's first activation has begun.
func (r *Run) Begun() bool { return r.rec.Begun() }

// Failed reports whether the run has ended as failed, so that it may be retried.
func (r *Run) Failed() bool { return r.rec.Failed() }

// SetActive says whether guests and attempts may start. The caller steps the run with Due after it made it active.
func (r *Run) SetActive(active bool) { r.active = active }

// Running reports whether a guest is there, or an attempt of a step goes on.
func (r *Run) Running() bool { return r.stands != guestNone || len(r.going) > 0 }

// AtRest reports whether the caller may drop the run from memory: nothing goes on with it, and all of it has been
// handed to commits. Dropping a run that is at rest loses nothing once these commits are durable.
func (r *Run) AtRest() bool { return !r.Running() && !r.rec.Dirty() }

// Over reports whether the run has ended, and its end has been handed to a commit.
func (r *Run) Over() bool { return r.rec.Exists && r.rec.Ended() && !r.rec.Dirty() }

// Wants reports whether something has to be committed that nothing more is to be gathered for: a guest that is about to
// compute brings its own, and lines of a body's log go with its outcome. A run that has ended, or got stuck, while its
// guest waits for a place gathers nothing more.
func (r *Run) Wants() bool {
	if r.Computes() && (!r.rec.Exists || !r.rec.Closed()) {
		return false
	}
	return r.rec.Wants() || r.rec.Exists && len(r.going) == 0
}

// Fresh reports whether nothing of the run is durable, or on its way.
func (r *Run) Fresh() bool { return r.rec.Draft.Create }

// Continued reports whether the next commit ends an iteration. Until it is prepared, no guest begins the next one: the
// caller steps the run with Due then.
func (r *Run) Continued() bool { return r.rec.Draft.Continued() }

// settle stops what goes on with a run that has ended by what was appended.
func (r *Run) settle() {
	if !r.rec.Exists || !r.rec.Ended() {
		return
	}
	r.dropAll()
	if r.stands == guestForked { // the body was all that its instance did
		r.leave()
	}
	r.pending = false
}

// Ready reports whether the guest has something to do, and may: after a fault of the host it waits a while.
func (r *Run) Ready(now int64) bool {
	return !r.rec.Held() && (r.pending || r.rec.Journal.Deliverable()) && !r.rec.WaitsForSlot() &&
		max(r.faults.RetryMs, r.rec.StartsAt()) <= r.own.Of(&r.rec, now)
}

// NextWake returns the instant after now at which something of the run comes due by itself, false if nothing does. What
// is due by now has been dealt with by the step before, or waits for something else than time.
func (r *Run) NextWake(now int64) (unixMs int64, ok bool) {
	now = r.own.Of(&r.rec, now)
	if !r.rec.Exists {
		return 0, false
	}
	if r.rec.Held() { // its deadline counts all the same
		at, has := r.rec.Journal.Deadline()
		return at, has && at > now
	}
	consider := func(at int64) {
		if at > now && (!ok || at < unixMs) {
			unixMs, ok = at, true
		}
	}
	if r.stands == guestNone && (r.pending || r.rec.Journal.Deliverable()) && r.rec.State.Slot != store.SlotAsked {
		consider(max(r.faults.RetryMs, r.rec.StartsAt()))
	}
	if at, has := r.rec.Journal.WakeAfter(now); has {
		consider(at)
	}
	if !r.active { // steps that may begin wait until it is
		for h := range r.rec.Journal.Steps {
			if r.going[h.ID] == nil {
				consider(max(h.Step.RetryMs, h.Step.FirstMs))
			}
		}
	}
	return unixMs, ok
}
