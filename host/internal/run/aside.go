package run

import (
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// imported is New of a run that another installation has exported. Its entries were committed there: what they ask of other runs
// was asked there.
func imported(n *NewRun, j *journal.Journal, replaces bool) Record {
	i, s := n.Import, j.Started()
	r := Record{Key: n.Key, Exists: true, Journal: j, Restored: len(i.Entries), Iteration: s.Iteration, Version: n.Version,
		Module: n.Module, past: pastOf(i, s.Iteration), Draft: Draft{Create: true, Replace: replaces, imported: i},
		Log: Log{lines: i.LogLines, records: uint64(len(i.Logs)), fresh: i.Logs}}
	r.State = store.RunState{Run: n.Key, Workflow: n.Workflow, Version: n.Version, Module: n.Module, Iteration: s.Iteration,
		InputDigest: InputDigest(i.First().Input), CreatedUnixMs: i.First().UnixMs, WakeUnixMs: store.NoWake,
		Schedule: s.Schedule, NominalUnixMs: s.NominalMs, Import: i.ID, ImportUnixMs: i.UnixMs, Aside: j.Aside(),
		TraceParent: s.TraceParent}
	j.Suspend(store.Suspension{Seq: min(i.Rested, store.Seq(len(i.Entries)))})
	j.Resume()
	r.State.StartedUnixMs = i.StartedMs()
	r.State.Incarnation, _ = ParseIncarnation(s.Incarnation) // who imports it has looked
	if s.Parent != nil {
		r.State.Parent = s.Parent.RunID
	}
	if i.Stuck != "" && !r.Ended() {
		r.Stick(i.Stuck)
	}
	return r
}

// importOf says what an import means for what is there of its id: nil if there is nothing, or if it came here before.
func (r *Record) importOf(n *NewRun, now int64) error {
	i := n.Import
	switch {
	case r.Tombstone != nil && Forgotten(r.Tombstone, n, now):
		return nil
	case r.Tombstone != nil:
		return fmt.Errorf("run %q: %w: it was deleted here, and %s", n.Key.ID, store.ErrExists, freeAgain(n))
	case !r.Exists, r.State.Import == i.ID && i.Copy == (r.State.Aside == store.AsideCopy):
		return nil
	case r.State.Aside == store.AsideMoved && r.Journal.Move() == i.ID:
		return fmt.Errorf("run %q: %w: this is where it was moved from; take it back with `wfhost unpause %[1]s --moved`", n.Key.ID,
			store.ErrExists)
	case r.State.Import == i.ID && i.Copy:
		return fmt.Errorf("run %q: %w: it was adopted here, and is no copy", n.Key.ID, store.ErrExists)
	case r.State.Aside == store.AsideCopy:
		return fmt.Errorf("run %q: %w as a copy: delete that first", n.Key.ID, store.ErrExists)
	}
	return fmt.Errorf("run %q: %w: it is a different run with this id", n.Key.ID, store.ErrExists)
}

// Forgotten reports whether a state is what is left of a run that was deleted so long ago that its id is free.
func Forgotten(st *store.RunState, n *NewRun, now int64) bool {
	return st.Deleted && now-st.UpdatedUnixMs >= n.KeepsIDsMs()
}

// freeAgain says when the id of a deleted run is free again.
func freeAgain(n *NewRun) string {
	const dayMs = 24 * 3600 * 1000
	if ms := n.KeepsIDsMs(); ms%dayMs != 0 || ms == dayMs {
		return "its id is free again " + abi.FormatDuration(ms) + " after that"
	}
	return fmt.Sprintf("its id is free again after %d days", n.KeepsIDsMs()/dayMs)
}

// Reasons with which runs are shown to which nothing happens.
const (
	copied = "a copy of an imported run, to which nothing happens"
	moved  = "exported to go on in another installation"
)

// Deletable reports whether a run may be deleted: it has ended, or is a copy.
func (r *Record) Deletable() bool { return r.Ended() || r.Journal.Aside() == store.AsideCopy }

// Move returns a function that makes the entry with which a run is set aside under the id of a move, and none of a run that was
// set aside before, or has ended.
func Move(id string) func(*Record) (store.Entry, error) {
	return func(r *Record) (e store.Entry, err error) {
		switch {
		case r.Ended() || r.Journal.Aside() == store.AsideMoved:
			return e, nil
		case r.Journal.Aside() == store.AsideCopy:
			return e, abi.Errorf(abi.Conflict, "run %q is a copy, which is not moved: export it without --move", r.Key.ID)
		}
		if err := InTheWay(r.Journal); err != nil {
			return e, err
		}
		r.tellSchedule()
		return store.Entry{Kind: store.KindMoved, Target: id}, nil
	}
}

// TakeBack makes the entry with which a run goes on that was moved, and none of another one.
func (r *Record) TakeBack() (e store.Entry, err error) {
	if r.Journal.Aside() != store.AsideMoved {
		return e, nil
	}
	r.tellSchedule()
	return store.Entry{Kind: store.KindAdopted, Target: r.Journal.Move()}, nil
}

// tellSchedule has the next commit tell the schedule of the run that it is no longer in the way, or is again.
func (r *Record) tellSchedule() {
	for _, cmd := range r.Sender().TellSchedule(r.Journal) {
		r.Draft.Send(cmd)
	}
}

// Same reports whether a state says the same as that of the record, but for the time at which it was made. retryMs is the instant
// before which there is no activation.
func (r *Record) Same(st *store.RunState, now, retryMs int64) bool {
	a, b := *st, r.State
	a.UpdatedUnixMs = b.UpdatedUnixMs
	// It is due already, whatever the instant.
	overdue := a.WakeUnixMs == now && b.WakeUnixMs != store.NoWake && b.WakeUnixMs <= now
	if overdue || a.Status == store.Running || a.Status == store.Queued && retryMs <= now || r.Waiting != "" {
		a.WakeUnixMs = b.WakeUnixMs
	}
	return string(store.AppendState(nil, &a)) == string(store.AppendState(nil, &b))
}
