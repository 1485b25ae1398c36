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
//	commit, ok := r.Prepare(now)             // what has to be made durable, if anything
//	…                                        // the effects that need nothing durable at once, the others after the commit
//	wake, ok := r.NextWake(now)              // when to come again with Due
//
// A commit that fails, or whose outcome is unknown, ends the life of the Run in memory: the caller drops it and loads
// it again.
//
// While a guest computes, it has the run to itself: the run is lent to it through a Lease, and the caller keeps events
// back until the guest waits, yields or ends. So nothing is appended behind a guest's back, and there is nothing to
// lock.
package run

import (
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Run is one run in memory. It is used by one goroutine at a time: its writer, or the guest that has its lease.
type Run struct {
	key     store.RunKey
	handled func(handler string) bool // reports whether a handler is registered
	active  bool                      // guests and attempts may start

	exists    bool            // the run has a journal; else there is none of this id, or only a tombstone
	tombstone *store.RunState // what is left of a deleted run

	journal  *journal.Journal
	state    store.RunState // as of the newest commit that was prepared, or of the creation
	create   bool           // the next commit creates the run
	replace  bool           // … and removes another one of its id
	deleting bool           // the next commit deletes the run
	restored int            // entries that were read from the store
	prepared int            // entries that were handed to commits
	old      *ended         // the iteration before, whose end the next commit brings
	ident    identity

	status  store.Status // Stuck, or 0: the journal says what the status is
	reason  string
	waiting string // why it waits, where the journal does not say it
	pending bool   // the guest has to run though nothing is deliverable: it is new, or was interrupted
	faults  uint32 // of the host, in a row
	retryMs int64  // after a fault of the host: no activation before this instant

	guest    guestState
	lease    *Lease // of the guest, from Activate to its end
	attempts map[int64]*Attempt

	logs     []store.LogLine    // to be stored with the next commit
	logLines uint64             // lines of workflow code that were stored; recount: see Lease.Log
	records  uint64             // stored lines, those of bodies included
	acks     []store.CommandSeq // commands whose effect the next commit brings
	outbox   []store.Command    // answers to commands, which the next commit sends

	fx *Effects // of the step that goes on
}

// identity is what a run is made of. It changes when the run continues as new or goes on under another version.
type identity struct {
	iteration uint32
	version   uint32
	module    store.Digest
}

// ended is the journal of an iteration that continued as new.
type ended struct {
	journal  *journal.Journal
	prepared int
}

// recountLogs is the number of stored log lines of a run that was retried: lines of the part that is replayed were
// stored before, and the first line beyond it says how many they were.
const recountLogs = ^uint64(0)

// Config is what a Run is made with.
type Config struct {
	// Handled reports whether a handler of that name, without its prefix, is registered here.
	Handled func(name string) bool
	// Active reports whether guests and attempts may start. SetActive changes it.
	Active bool
}

// New returns a run of which the store has nothing. Only Start changes it.
func New(key store.RunKey, cfg Config) *Run {
	return &Run{key: key, handled: cfg.Handled, active: cfg.Active, attempts: map[int64]*Attempt{}}
}

// Load returns a run as the store has it. A deleted run has no entries. An error wraps store.ErrCorrupt, or is what
// the journal says of an entry that this release does not know.
func Load(state store.RunState, entries []store.Entry, cfg Config) (*Run, error) {
	r := New(state.Run, cfg)
	if state.Deleted {
		r.tombstone = &state
		return r, nil
	}
	j := &journal.Journal{}
	for _, e := range entries {
		if err := j.Load(e); err != nil {
			return nil, fmt.Errorf("run %q: %w", r.key.ID, err)
		}
	}
	if j.Len() == 0 {
		return nil, fmt.Errorf("run %q: %w: its journal is empty", r.key.ID, store.ErrCorrupt)
	}
	r.exists, r.journal, r.state, r.restored, r.prepared = true, j, state, j.Len(), j.Len()
	r.ident = identity{state.Iteration, state.Version, state.Module}
	r.logLines, r.records, r.faults = state.LogLines, state.LogRecords, state.Faults
	switch state.Status {
	case store.Queued, store.Running: // its host died in the middle of it
		r.pending = true
		if state.Faults > 0 {
			r.retryMs, r.reason = state.WakeUnixMs, state.Reason
		}
	case store.Stuck:
		r.status, r.reason = state.Status, state.Reason
	}
	if state.Suspension.Seq == 0 { // it has not come to a wait: it is new, delayed, or was paused before that
		r.pending = true
	}
	if !state.Status.Terminal() {
		j.Suspend(state.Suspension)
	}
	if r.pending { // it remembers where the guest has been
		j.Resume()
	}
	return r, nil
}

// Key returns the run's key.
func (r *Run) Key() store.RunKey { return r.key }

// Exists reports whether there is a run: false after New, and for what is left of a deleted run.
func (r *Run) Exists() bool { return r.exists }

// State returns the run's state as of the newest commit that was prepared.
func (r *Run) State() store.RunState { return r.state }

// Journal returns the run's journal, nil if there is no run. It must not be changed.
func (r *Run) Journal() *journal.Journal { return r.journal }

// SetActive says whether guests and attempts may start. The caller steps the run with Due after it made it active.
func (r *Run) SetActive(active bool) { r.active = active }

// Running reports whether a guest is there, or an attempt of a step goes on.
func (r *Run) Running() bool { return r.guest != guestNone || len(r.attempts) > 0 }

// Lent reports whether a guest has the run to itself. No event but the guest's own may be stepped then.
func (r *Run) Lent() bool { return r.lease != nil && r.lease.lent }

// AtRest reports whether the caller may drop the run from memory: nothing goes on with it, and all of it has been
// handed to commits. Dropping a run that is at rest loses nothing once these commits are durable.
func (r *Run) AtRest() bool { return !r.Running() && !r.Dirty() }

// Dirty reports whether something has to be committed, beside a status that may have changed.
func (r *Run) Dirty() bool {
	return r.create || r.deleting || r.old != nil || len(r.logs) > 0 || len(r.acks) > 0 || len(r.outbox) > 0 ||
		r.exists && r.journal.Len() > r.prepared
}

// Over reports whether the run has ended, and its end has been handed to a commit.
func (r *Run) Over() bool { return r.exists && r.ended() && !r.Dirty() }

// Wants reports whether something has to be committed that nothing more is to be gathered for: a guest that is about to
// compute brings its own, and lines of a body's log go with its outcome. A run that has ended, or got stuck, while its
// guest waits for a place gathers nothing more.
func (r *Run) Wants() bool {
	switch r.guest {
	case guestAsked, guestComputing, guestResuming:
		if !r.exists || !r.ended() && r.status == 0 {
			return false
		}
	}
	if r.create || r.deleting || r.old != nil || len(r.acks) > 0 || len(r.outbox) > 0 {
		return true
	}
	return r.exists && (r.journal.Len() > r.prepared || len(r.attempts) == 0)
}

// Begun reports whether the run's first activation has begun.
func (r *Run) Begun() bool {
	if !r.exists {
		return false
	}
	_, ok := r.journal.StartedUnixMs()
	return ok
}

// startsAt returns the instant before which the first activation does not begin, 0 once it has begun: a clock that is set
// back does not stop a run.
func (r *Run) startsAt() int64 {
	if r.Begun() {
		return 0
	}
	return r.journal.Started().AtUnixMs
}

// ended reports whether the run has come to its end.
func (r *Run) ended() bool { return r.journal.Ended() != store.KindInvalid }

// held reports whether nothing may happen to the run by itself: it has ended, is stuck or paused.
func (r *Run) held() bool { return r.ended() || r.status != 0 || r.journal.Paused() }

// append appends an entry that does not come from the guest.
func (r *Run) append(now int64, e store.Entry) (store.Entry, error) {
	before := r.journal.Len()
	e, err := r.journal.Append(e, now)
	if before < abi.SuggestContinueEntries && r.journal.Len() >= abi.SuggestContinueEntries && r.fx != nil {
		r.fx.LongJournal = r.journal.Len()
	}
	r.afterAppend()
	return e, err
}

// afterAppend looks whether the run has ended by what was appended, and stops what goes on.
func (r *Run) afterAppend() {
	if !r.exists || !r.ended() {
		return
	}
	r.dropAttempts()
	r.pending = false
}

// fireDue appends the timers that are due. The deadline of the run may end it.
func (r *Run) fireDue(now int64) error {
	err := r.journal.FireDue(now)
	r.afterAppend()
	return err
}

// stick leaves the run to a person.
func (r *Run) stick(reason string) {
	r.status, r.reason = store.Stuck, reason
	if r.fx != nil {
		r.fx.Stuck = reason
	}
}

// NextWake returns the instant after now at which something of the run comes due by itself, false if nothing does. What
// is due by now has been dealt with by the step before, or waits for something else than time.
func (r *Run) NextWake(now int64) (unixMs int64, ok bool) {
	if !r.exists || r.held() {
		return 0, false
	}
	consider := func(at int64) {
		if at > now && (!ok || at < unixMs) {
			unixMs, ok = at, true
		}
	}
	if r.guest == guestNone && (r.pending || r.journal.Deliverable()) {
		consider(max(r.retryMs, r.startsAt()))
	}
	if at, has := r.journal.WakeAfter(now); has {
		consider(at)
	}
	if !r.active { // steps that may begin wait until it is
		for h := range r.journal.Handles {
			if h.Step != nil && r.attempts[h.ID] == nil {
				consider(max(h.Step.RetryMs, h.Step.FirstMs))
			}
		}
	}
	return unixMs, ok
}
