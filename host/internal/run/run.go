// Package run holds one run as a state machine. A Run takes events (a call of the API, a due timer, a waiting guest,
// the end of an attempt) and returns effects (start a guest, start an attempt, answer a caller). It is pure: it has
// no lock, goroutine, clock, context or store, and the same events at the same instants give the same effects. Its
// model is the Ready of go.etcd.io/raft: the caller carries out the effects, and each effect's comment says what must
// be durable before it.
//
// The caller takes five steps:
//
//	r := run.New(key, …) or run.Load(…)      // the run, as it is in the store
//	fx := r.Apply(now, event)                // apply an event
//	commit := r.Prepare(now)                 // what must be made durable, or nil
//	…                                        // carry out the effects: some at once, some after the commit
//	wake, ok := r.NextWake(now)              // when to apply Due next
//
// A commit that fails, or whose outcome is unknown, ends the life of the Run in memory: the caller drops it and loads
// it again.
//
// While a guest computes, the run is lent to it through a Lease, and the caller holds back events until the guest
// waits, yields or ends. So no other code appends to the journal meanwhile, and no lock is needed.
//
// An attempt of a step begins when the commit with the entry of the call is durable. The first attempt has no entry of its own,
// unless the step is at most once: after a crash it counts as one that may have begun. A later attempt, and each attempt of a
// step that is at most once, begins when its own entry is durable.
//
// A Run consists of its durable record (Record), its guest, and its attempts in flight. Each event has a method
// apply, which applies it in a transition. The transition gathers the effects.
package run

import (
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Run is one run in memory. One goroutine uses it at a time: its writer, or the guest that has its lease.
type Run struct {
	rec    Record // what is durable, or will be with the next commit
	ask    func(a Ask) (place any, v Verdict)
	active bool        // guests and attempts may start
	own    Clock       // nil: the run uses the host's clock
	t      *transition // of the newest event

	guest
	attempts
}

// Config configures a Run.
type Config struct {
	// Ask asks for a place for an attempt of a handler; nil: each attempt has one. With the verdict Begins the attempt holds the
	// place until the caller returns it. With any other, Admitted follows. A step that asks again while it waits keeps its
	// turn.
	Ask func(a Ask) (place any, v Verdict)
	// Active says whether guests and attempts may start. SetActive changes it.
	Active bool
	Clock  Clock // the clocks of runs; nil: the host's clock
}

// New returns a Run for an id without a record in the store. Only Start and StartChild change it.
func New(key store.RunKey, cfg Config) *Run {
	return &Run{rec: Record{Key: key}, ask: cfg.Ask, active: cfg.Active, own: cfg.Clock, t: &transition{},
		attempts: attempts{going: map[int64]*Attempt{}, asks: asks{none: true}}}
}

// Load returns the run that the store holds. A deleted run has no entries. An error wraps store.ErrCorrupt, or comes
// from the journal if this release does not know an entry.
func Load(state store.RunState, entries []store.Entry, cfg Config) (*Run, error) {
	rec, err := loadRecord(state, entries)
	if err != nil {
		return nil, err
	}
	r := New(state.Run, cfg)
	r.rec, r.none = rec, false
	if !rec.Exists {
		return r, nil
	}
	r.faults.Count = state.Faults
	switch state.Status {
	case store.Queued, store.Running: // the host died during an activation
		r.pending = true
		if state.Faults > 0 {
			r.faults.RetryMs, r.rec.Reason = state.WakeUnixMs, state.Reason
		}
	case store.Stuck:
		r.rec.Stick(state.Reason)
	}
	if state.Suspension.Seq == 0 { // the guest never waited: it is new, delayed, or was paused before
		r.pending = true
	}
	if !state.Status.Terminal() {
		rec.Journal.Suspend(state.Suspension)
		if state.Suspension.Seq == 0 {
			rec.Journal.Suspend(store.Suspension{Seq: min(state.Rested, store.Seq(rec.Journal.Len()))})
		}
	}
	if r.pending { // the journal remembers how far the guest came
		rec.Journal.Resume()
	}
	return r, nil
}

// Key returns the run's key.
func (r *Run) Key() store.RunKey { return r.rec.Key }

// Exists reports whether there is a run: false after New, and for a deleted run.
func (r *Run) Exists() bool { return r.rec.Exists }

// State returns the run's state as of the newest prepared commit.
func (r *Run) State() store.RunState { return r.rec.State }

// Journal returns the run's journal, or nil if there is no run. The caller must not change it.
func (r *Run) Journal() *journal.Journal { return r.rec.Journal }

// Begun reports whether the run's first activation has begun.
func (r *Run) Begun() bool { return r.rec.Begun() }

// Failed reports whether the run has ended as failed, so that it may be retried.
func (r *Run) Failed() bool { return r.rec.Failed() }

// SetActive sets whether guests and attempts may start. After it made the run active, the caller steps Due.
func (r *Run) SetActive(active bool) { r.active = active }

// Running reports whether the run has a guest or an attempt in flight, or will have one without waiting.
func (r *Run) Running() bool { return r.stands != guestNone || r.busy() }

// AtRest reports whether the caller may drop the run from memory: the run has no guest or attempt, and all changes
// were handed to commits. Dropping it loses nothing once these commits are durable.
func (r *Run) AtRest() bool { return !r.Running() && !r.rec.Dirty() }

// Over reports whether the run has ended, and its end was handed to a commit.
func (r *Run) Over() bool { return r.rec.Exists && r.rec.Ended() && !r.rec.Dirty() }

// Wants reports whether there are changes to commit now rather than with later ones. A guest that is about to compute
// brings more changes. Lines of a body's log are committed with its outcome. A run that ended or got stuck while its
// guest waits for a place brings no more changes.
func (r *Run) Wants() bool {
	if r.Computes() && (!r.rec.Exists || !r.rec.Closed()) {
		return false
	}
	return r.rec.Wants() || r.rec.Exists && !r.busy()
}

// Fresh reports whether the run is new and no commit of it was prepared yet.
func (r *Run) Fresh() bool { return r.rec.Draft.Create }

// Continued reports whether the next commit ends an iteration. No guest begins the next iteration until that commit
// is prepared; the caller steps Due then.
func (r *Run) Continued() bool { return r.rec.Draft.Continued() }

// finish drops the attempts and the pending activation if an appended entry has ended the run.
func (r *Run) finish() {
	if !r.rec.Exists || !r.rec.Ended() {
		return
	}
	r.dropAll()
	if r.stands == guestForked { // its instance did nothing but the body
		r.dropGuest()
	}
	r.pending = false
}

// Ready reports whether the guest has work and may start now. After a fault of the host it must wait for the delay.
func (r *Run) Ready(now int64) bool {
	return !r.rec.Blocked() && (r.pending || r.rec.Journal.Deliverable()) && !r.rec.WaitsForSlot() &&
		max(r.faults.RetryMs, r.rec.StartsAt()) <= r.own.Of(&r.rec, now)
}

// NextWake returns the next instant after now at which the run is due by time alone, or false if there is none. What
// is due by now was handled by the previous step, or does not wait for time.
func (r *Run) NextWake(now int64) (unixMs int64, ok bool) {
	now = r.own.Of(&r.rec, now)
	if !r.rec.Exists {
		return 0, false
	}
	if r.rec.Blocked() { // its deadline still counts
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
	if !r.active { // open steps wait until the run is active
		for h := range r.rec.Journal.Steps {
			if r.going[h.ID] == nil {
				consider(max(h.Step.RetryMs, h.Step.FirstMs))
			}
		}
	}
	return unixMs, ok
}
