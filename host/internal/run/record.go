package run

import (
	"fmt"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Record is what is durable of a run, or will be with its next commit.
type Record struct {
	Key       store.RunKey
	Tombstone *store.RunState // what is left of a deleted run

	Exists   bool // the run has a journal; else there is none of this id, or only a tombstone
	Journal  *journal.Journal
	Restored int            // entries that were read from the store
	State    store.RunState // as of the newest commit that was prepared, or of the creation

	// What the run is made of. It changes when the run continues as new or goes on under another version.
	Iteration uint32
	Version   uint32
	Module    store.Digest

	past past // iterations that are over

	Status  store.Status // Stuck, or 0: the journal says what the status is
	Reason  string
	Waiting string // why it waits, where the journal does not say it

	Draft Draft
	Log   Log
}

// room is for how many more entries a journal that is loaded has room: a delivery, an attempt and a call are appended without
// copying all once more.
const room = 4

// loadRecord returns a record as the store has it. A deleted run has no entries. An error wraps store.ErrCorrupt, or is what
// the journal says of an entry that this release does not know.
func loadRecord(state store.RunState, entries []store.Entry) (Record, error) {
	if state.Deleted {
		return Record{Key: state.Run, Tombstone: &state}, nil
	}
	j := journal.Sized(len(entries) + room)
	for _, e := range entries {
		if err := j.Load(e); err != nil {
			return Record{}, fmt.Errorf("run %q: %w", state.Run.ID, err)
		}
	}
	if j.Len() == 0 {
		return Record{}, fmt.Errorf("run %q: %w: its journal is empty", state.Run.ID, store.ErrCorrupt)
	}
	if state.Aside == store.AsideCopy {
		j.Freeze()
	}
	return Record{Key: state.Run, Exists: true, Journal: j, Restored: j.Len(), State: state, Iteration: state.Iteration,
		Version: state.Version, Module: state.Module, past: past{state.Kept, state.Past}, Draft: Draft{prepared: j.Len()},
		Log: Log{lines: state.LogLines, records: state.LogRecords}}, nil
}

// newRecord returns the record of a run that begins with a journal. replaces says that there was a run of this id before.
func newRecord(n *NewRun, j *journal.Journal, replaces bool) Record {
	if n.Import != nil {
		return imported(n, j, replaces)
	}
	r := Record{Key: n.Key, Exists: true, Journal: j, Iteration: j.Started().Iteration, Version: n.Version, Module: n.Module,
		Draft: Draft{Create: true, Replace: replaces}}
	r.State = store.RunState{Run: n.Key, Incarnation: n.Incarnation, Workflow: n.Workflow, Version: n.Version,
		Module: n.Module, Iteration: r.Iteration, InputDigest: n.InputDigest, CreatedUnixMs: j.All()[0].UnixMs,
		TraceParent: j.Started().TraceParent,
		WakeUnixMs:  store.NoWake, Schedule: n.Schedule, NominalUnixMs: n.NominalMs}
	r.State.ID = n.ID
	r.past.kept = r.Iteration // a restart may begin with a later one
	if n.Parent != nil {
		r.State.Parent, r.State.ParentIteration = n.Parent.RunID, n.Parent.Iteration+1
	}
	if n.Ack != 0 {
		r.Draft.Ack(n.Ack)
	}
	return r
}

// Continue goes over to the journal of the next iteration.
func (r *Record) Continue(c *Continue, next *journal.Journal) {
	r.Draft.next(r.Journal, r.Sender())
	r.Draft.freed = r.past.end(r.Journal, next.Started().Iteration, c.Keep)
	r.Log.lines = 0
	r.Journal, r.Restored, r.Waiting = next, 0, ""
	r.Iteration, r.Version, r.Module = next.Started().Iteration, c.Version, c.Module
}

// Delete leaves a tombstone, which the next commit puts where the run was, unless nobody names the run again. alone says that its
// parent does not ask how it has ended: it is deleted, too, or has continued as new since.
func (r *Record) Delete(now int64, alone bool) {
	st := r.State
	r.Exists, r.Draft.Delete = false, true
	if r.nameless(alone) {
		return
	}
	if p := r.Journal.Started().Parent; p != nil { // its release may have started it without
		st.ParentIteration = p.Iteration + 1
	}
	st.Deleted, st.UpdatedUnixMs, st.WakeUnixMs, st.Past = true, now, store.NoWake, nil
	r.State, r.Tombstone = st, &st
}

// nameless reports whether nobody names the run again once it is deleted. A file of one that was exported to go on elsewhere,
// or came from there, may come again.
func (r *Record) nameless(alone bool) bool {
	st := &r.State
	switch {
	case st.Aside == store.AsideCopy: // nobody has started it by mistake, and nobody waits for it
		return true
	case st.Import != "" || r.Journal.Move() != "":
		return false
	}
	return st.ID == store.IDDrawn || st.ID == store.IDDerived && alone
}

// Forget removes what is left of a deleted run with the next commit, if which selects it.
func (r *Record) Forget(which func(*store.RunState) bool) error {
	if r.Tombstone == nil || which == nil || r.Draft.any() || !which(r.Tombstone) {
		return r.NotFound()
	}
	r.State, r.Tombstone, r.Draft.Delete, r.Draft.forget = *r.Tombstone, nil, true, true
	r.State.Deleted = false
	return nil
}

// ErrDeleted says that there was a run, which was deleted. It is a store.ErrNotFound. What is left of a run stays for as long as
// there is a parent that may ask for it: a run of which nothing is left never was, for all who ask.
var ErrDeleted = fmt.Errorf("%w: it was deleted", store.ErrNotFound)

// NotFound is the error of what is asked of a run that is not there.
func (r *Record) NotFound() error {
	if r.Tombstone != nil {
		return fmt.Errorf("run %q: %w", r.Key.ID, ErrDeleted)
	}
	return fmt.Errorf("run %q: %w", r.Key.ID, store.ErrNotFound)
}

// Length returns the number of entries, 0 if there is no run.
func (r *Record) Length() int {
	if !r.Exists {
		return 0
	}
	return r.Journal.Len()
}

// Begun reports whether the run's first activation has begun.
func (r *Record) Begun() bool {
	if !r.Exists {
		return false
	}
	_, ok := r.Journal.StartedUnixMs()
	return ok
}

// StartsAt returns the instant before which the first activation does not begin, 0 once it has begun, or once something has
// happened to the run at that instant or later: a clock that is set back does not stop a run.
func (r *Record) StartsAt() int64 {
	at := r.Journal.Started().AtUnixMs
	if r.Begun() || at <= r.Journal.LastUnixMs() {
		return 0
	}
	return at
}

// Failed reports whether the run has ended as failed, so that it may be retried.
func (r *Record) Failed() bool { return r.Exists && r.Journal.Ended() == store.KindFailed }

// Ended reports whether the run has come to its end.
func (r *Record) Ended() bool { return r.Journal.Ended() != store.KindInvalid }

// Closed reports whether the guest may append nothing: the run has ended, or is left to a person.
func (r *Record) Closed() bool { return r.Ended() || r.Status != 0 }

// Held reports whether nothing may happen to the run by itself: it has ended, is stuck, paused or set aside.
func (r *Record) Held() bool {
	return r.Closed() || r.Journal.Paused() || r.Journal.Aside() != store.NotAside
}

// Stick leaves the run to a person.
func (r *Record) Stick(reason string) { r.Status, r.Reason = store.Stuck, reason }

// LeftByVersion reports whether a run was left to a person only because the release that was to read it was older than the
// one that had written it. Releases up to v0.1.0 did that; those after it write nothing about such a run.
func LeftByVersion(st *store.RunState) bool {
	return st.Status == store.Stuck && strings.Contains(st.Reason, store.ErrVersion.Error())
}

// Free takes the run from the person to whom it was left.
func (r *Record) Free() { r.Status, r.Reason = 0, "" }

// Hopeless reports whether nothing can ever wake the run.
func (r *Record) Hopeless() bool {
	_, wake := r.Journal.Wake()
	if r.Journal.CancelPolicy() == abi.CancelCooperative && r.Journal.CancelUnixMs() == 0 {
		return false // it may wait for its cancel
	}
	s, _ := r.Journal.Suspension()
	deaf := s.Poll && !s.Events // it waits for none of its handles
	return !wake && (r.Journal.OpenHandles() == 0 || deaf)
}

// Sender returns the run as one that asks something of others.
func (r *Record) Sender() Sender {
	return Sender{Run: r.Key, Incarnation: r.State.Incarnation, Module: r.Module}
}

// Dirty reports whether something has to be committed, beside a status that may have changed.
func (r *Record) Dirty() bool { return r.Wants() || len(r.Log.fresh) > 0 }

// Wants reports whether more has to be committed than lines of a log.
func (r *Record) Wants() bool { return r.Draft.any() || r.Length() > r.Draft.prepared }
