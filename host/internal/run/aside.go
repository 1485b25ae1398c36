package run

import (
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// imported is newRecord for a run that another installation exported. Its entries were committed there, and their
// commands to other runs were sent there.
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
	r.State.Incarnation, _ = ParseIncarnation(s.Incarnation) // the importer has checked it
	if s.Parent != nil {
		r.State.Parent = s.Parent.RunID
	}
	if i.Stuck != "" && !r.Ended() {
		r.Stick(i.Stuck)
	}
	return r
}

// importOf returns nil if an import may use the id: the id is unused, or holds the same import. Otherwise it returns
// an error of store.ErrExists.
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

// Forgotten reports whether a state is the tombstone of a run that was deleted long enough ago for its id to be free
// again.
func Forgotten(st *store.RunState, n *NewRun, now int64) bool {
	return st.Deleted && now-st.UpdatedUnixMs >= n.KeepsIDsMs()
}

// freeAgain returns the text that says when a deleted run's id becomes free again.
func freeAgain(n *NewRun) string {
	const dayMs = 24 * 3600 * 1000
	if ms := n.KeepsIDsMs(); ms%dayMs != 0 || ms == dayMs {
		return "its id is free again " + abi.FormatDuration(ms) + " after that"
	}
	return fmt.Sprintf("its id is free again after %d days", n.KeepsIDsMs()/dayMs)
}

// Reasons shown for runs that are set aside.
const (
	copied = "a copy of an imported run, to which nothing happens"
	moved  = "exported to go on in another installation"
)

// Deletable reports whether a run may be deleted: it has ended, or is a copy.
func (r *Record) Deletable() bool { return r.Ended() || r.Journal.Aside() == store.AsideCopy }

// Move returns a function for Amend that sets a run aside under the id of a move. The function returns no entry for a
// run that has ended or was already moved.
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

// TakeBack returns the entry that resumes a moved run, or no entry if the run was not moved.
func (r *Record) TakeBack() (e store.Entry, err error) {
	if r.Journal.Aside() != store.AsideMoved {
		return e, nil
	}
	r.tellSchedule()
	return store.Entry{Kind: store.KindAdopted, Target: r.Journal.Move()}, nil
}

// tellSchedule makes the next commit notify the run's schedule that the run no longer blocks it, or blocks it again.
func (r *Record) tellSchedule() {
	for _, cmd := range r.Sender().TellSchedule(r.Journal) {
		r.Draft.Send(cmd)
	}
}

// Same reports whether st equals the state of the record, apart from the time of the update. retryMs is the earliest
// instant of the next activation.
func (r *Record) Same(st *store.RunState, now, retryMs int64) bool {
	a, b := *st, r.State
	a.UpdatedUnixMs = b.UpdatedUnixMs
	// The run is due already, whatever the instant.
	overdue := a.WakeUnixMs == now && b.WakeUnixMs != store.NoWake && b.WakeUnixMs <= now
	if overdue || a.Status == store.Running || a.Status == store.Queued && retryMs <= now {
		a.WakeUnixMs = b.WakeUnixMs
	}
	return string(store.AppendState(nil, &a)) == string(store.AppendState(nil, &b))
}
