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
	Tombstone *store.RunState // of a deleted run

	Exists  bool // the run has a journal; otherwise the id is unused, or has only a tombstone
	Journal *journal.Journal
	State   store.RunState // as of the newest prepared commit, or of the creation
	// Restored is how many entries were read from the store, if the run was in progress then: the first attempts of the steps
	// called in them may have begun before the host stopped.
	Restored int
	givenUp  int // entries up to the newest step whose attempt this host has given up

	// The current iteration and its code. They change when the run continues as new or moves to another version.
	Iteration uint32
	Version   uint32
	Module    store.Digest

	past past // past iterations

	Status store.Status // Stuck, or 0: the journal determines the status
	Reason string

	Draft Draft
	Log   Log
}

// room is the spare capacity of a loaded journal: a delivery, an attempt and a call can be appended without copying
// the entries.
const room = 4

// loadRecord returns the record that the store holds. A deleted run has no entries. An error wraps store.ErrCorrupt,
// or comes from the journal if this release does not know an entry.
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
	restored := j.Len()
	if state.MayHaveBegun > 0 { // no attempt was in flight
		restored = int(state.MayHaveBegun) - 1
	}
	return Record{Key: state.Run, Exists: true, Journal: j, Restored: restored, State: state,
		Iteration: state.Iteration, Version: state.Version, Module: state.Module, past: past{state.Kept, state.Past},
		Draft: Draft{prepared: j.Len()}, Log: Log{lines: state.LogLines, records: state.LogRecords}}, nil
}

// newRecord returns the record of a run that begins with the journal j. replaces says that another run had this id
// before.
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
	r.past.kept = r.Iteration // a restart may begin with a later iteration
	if n.Parent != nil {
		r.State.Parent, r.State.ParentIteration = n.Parent.RunID, n.Parent.Iteration+1
	}
	if n.Ack != 0 {
		r.Draft.Ack(n.Ack)
	}
	return r
}

// Continue switches to the journal of the next iteration.
func (r *Record) Continue(c *Continue, next *journal.Journal) {
	r.Draft.next(r.Journal, r.Sender())
	r.Draft.freed = r.past.end(r.Journal, next.Started().Iteration, c.Keep)
	r.Log.lines = 0
	r.Journal, r.Restored, r.givenUp = next, 0, 0
	r.Iteration, r.Version, r.Module = next.Started().Iteration, c.Version, c.Module
}

// Delete makes the next commit delete the run. The commit leaves a tombstone, unless no caller can name the run
// again. alone says that the parent does not ask how the run ended: the parent is deleted too, or has continued as
// new since.
func (r *Record) Delete(now int64, alone bool) {
	st := r.State
	r.Exists, r.Draft.Delete = false, true
	if r.nameless(alone) {
		return
	}
	if p := r.Journal.Started().Parent; p != nil { // the release that started it may not have set ParentIteration
		st.ParentIteration = p.Iteration + 1
	}
	st.Deleted, st.UpdatedUnixMs, st.WakeUnixMs, st.Past = true, now, store.NoWake, nil
	r.State, r.Tombstone = st, &st
}

// nameless reports whether no caller can name the run again after its deletion. A run that was moved or imported can
// return from an export file.
func (r *Record) nameless(alone bool) bool {
	st := &r.State
	switch {
	case st.Aside == store.AsideCopy: // no start chose its id by mistake, and no run waits for it
		return true
	case st.Import != "" || r.Journal.Move() != "":
		return false
	}
	return st.ID == store.IDDrawn || st.ID == store.IDDerived && alone
}

// Forget makes the next commit remove the tombstone of a deleted run, if which selects it.
func (r *Record) Forget(which func(*store.RunState) bool) error {
	if r.Tombstone == nil || which == nil || r.Draft.any() || !which(r.Tombstone) {
		return r.NotFound()
	}
	r.State, r.Tombstone, r.Draft.Delete, r.Draft.forget = *r.Tombstone, nil, true, true
	r.State.Deleted = false
	return nil
}

// ErrDeleted says that the run was deleted. It wraps store.ErrNotFound. A tombstone stays as long as a parent may ask
// for the run. A run without a tombstone counts as never started.
var ErrDeleted = fmt.Errorf("%w: it was deleted", store.ErrNotFound)

// NotFound returns the error of a request to a run that does not exist.
func (r *Record) NotFound() error {
	if r.Tombstone != nil {
		return fmt.Errorf("run %q: %w", r.Key.ID, ErrDeleted)
	}
	return fmt.Errorf("run %q: %w", r.Key.ID, store.ErrNotFound)
}

// Length returns the number of entries, or 0 if there is no run.
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

// StartsAt returns the earliest instant of the first activation. It returns 0 once that activation has begun, or once
// the journal has an entry of that instant or later: setting the clock back does not stop a run.
func (r *Record) StartsAt() int64 {
	at := r.Journal.Started().AtUnixMs
	if r.Begun() || at <= r.Journal.LastUnixMs() {
		return 0
	}
	return at
}

// Failed reports whether the run has ended as failed, so that it may be retried.
func (r *Record) Failed() bool { return r.Exists && r.Journal.Ended() == store.KindFailed }

// Ended reports whether the run has ended.
func (r *Record) Ended() bool { return r.Journal.Ended() != store.KindInvalid }

// Closed reports whether the guest may append no more entries: the run has ended or is stuck.
func (r *Record) Closed() bool { return r.Ended() || r.Status != 0 }

// Blocked reports whether the run cannot continue by itself: it has ended, is stuck, paused or set aside.
func (r *Record) Blocked() bool {
	return r.Closed() || r.Journal.Paused() || r.Journal.Aside() != store.NotAside
}

// Stick marks the run stuck. It continues only when a person acts.
func (r *Record) Stick(reason string) { r.Status, r.Reason = store.Stuck, reason }

// LeftByVersion reports whether a run is stuck only because an older release could not read what a newer one had
// written. Releases up to v0.1.0 marked such runs stuck; later ones write no state for them.
func LeftByVersion(st *store.RunState) bool {
	return st.Status == store.Stuck && strings.Contains(st.Reason, store.ErrVersion.Error())
}

// Free clears the stuck status.
func (r *Record) Free() { r.Status, r.Reason = 0, "" }

// Hopeless reports whether no delivery can ever wake the run.
func (r *Record) Hopeless() bool {
	_, wake := r.Journal.Wake()
	if r.Journal.CancelPolicy() == abi.CancelCooperative && r.Journal.CancelUnixMs() == 0 {
		return false // it may wait for its cancel
	}
	s, _ := r.Journal.Suspension()
	deaf := s.Poll && !s.Events // it waits for none of its handles
	return !wake && (r.Journal.OpenHandles() == 0 || deaf)
}

// Sender returns the run as the sender of commands.
func (r *Record) Sender() Sender {
	return Sender{Run: r.Key, Incarnation: r.State.Incarnation, Module: r.Module}
}

// Dirty reports whether there is anything to commit, beside a changed status.
func (r *Record) Dirty() bool { return r.Wants() || len(r.Log.fresh) > 0 }

// Wants reports whether there is more to commit than log lines.
func (r *Record) Wants() bool { return r.Draft.any() || r.Length() > r.Draft.prepared }
