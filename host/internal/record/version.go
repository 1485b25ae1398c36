package record

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/origin"
	"github.com/wfhost/wfhost/store"
)

// ErrIllegal: the event is not possible in the run's status.
var ErrIllegal = errors.New("not possible in the run's status")

// ErrMoved: the run is not as it was when it was checked.
var ErrMoved = fmt.Errorf("the run has moved since it was checked: %w", ErrIllegal)

// Checked is what of a run was replayed against another version: a run is as it was as long as all of it is the same, since
// entries are only appended.
type Checked struct {
	Incarnation store.Incarnation
	Iteration   uint32
	Length      store.Seq
	Version     uint32
}

// Migrated is what the options of a migration's entry hold, as JSON.
type Migrated struct {
	From uint32 `json:"from"`
	To   uint32 `json:"to"`
}

// Migration returns the entry with which the run goes on under another version. ErrMoved if the run is not as it was checked.
// There is none where the journal has no room for calls, since nothing but a delivery may use the rest.
func Migration(r *Record, to *store.Version, c Checked) (e store.Entry, err error) {
	j := r.Journal
	switch {
	case r.Ended():
		return e, journal.ErrEnded
	case to.Workflow != r.State.Workflow:
		return e, another(r, to)
	case c != Checked{r.State.Incarnation, r.Iteration, store.Seq(j.Len()), r.Version}:
		return e, fmt.Errorf("run %q: %w", r.Key.ID, ErrMoved)
	}
	if err := j.CallRoom(); err != nil {
		return e, fmt.Errorf("run %q: %w", r.Key.ID, err)
	}
	e = store.Entry{Kind: store.KindMigrated, Target: to.Module.String()}
	e.Options, err = json.Marshal(Migrated{From: r.Version, To: to.Number})
	return e, err
}

// Retrial returns the entry with which a failed or stuck run goes on, under another version if one is given.
func Retrial(r *Record, version *store.Version) (e store.Entry, err error) {
	switch {
	case r.Ended() && !r.Failed():
		return e, journal.ErrEnded
	case !r.Ended() && r.Status != store.Stuck:
		return e, fmt.Errorf("run %q is neither failed nor stuck: %w", r.Key.ID, ErrIllegal)
	case version != nil && version.Workflow != r.State.Workflow:
		return e, another(r, version)
	}
	e, err = r.Journal.Retry()
	if err != nil {
		return e, fmt.Errorf("run %q: %w: %w", r.Key.ID, err, ErrIllegal)
	}
	if version != nil {
		e.Target = version.Module.String()
	}
	if r.Ended() { // its end has returned its slot
		r.State.Slot = store.SlotNone
	}
	return e, nil
}

func another(r *Record, v *store.Version) error {
	return fmt.Errorf("run %q is one of workflow %q, not of %q: %w", r.Key.ID, r.State.Workflow, v.Workflow, ErrIllegal)
}

// GoOn takes the run from the person to whom it was left, under another version if one is given.
func (r *Record) GoOn(version *store.Version) {
	if version != nil {
		r.Version, r.Module = version.Number, version.Module
	}
	r.Free()
	r.Log.Recount()
}

// Copy returns what a restart of the run begins with: the same workflow, version, input and random numbers; with a name, also
// what the run did before the call of that name. The caller fills in what is the new run's own, id and incarnation first.
func Copy(r *Record, name string) (n origin.NewRun, err error) {
	if !r.Exists {
		return n, r.NotFound()
	}
	j := r.Journal
	n = origin.NewRun{Workflow: r.State.Workflow, Version: r.Version, Module: r.Module, Input: j.Entries()[0].Input,
		InputDigest: r.State.InputDigest, Attributes: j.Started().Attributes, Conflict: origin.ConflictFail}
	if x := j.Started().Limit; x != nil {
		n.Priority = x.Priority
	}
	n.Copy, err = origin.NewCopy(j, name)
	if err == nil && len(n.Copy.Entries) > 0 && j.Started().Module != r.Module.String() {
		err = goesOver(&n)
	}
	return n, err
}

// goesOver adds to what is copied the entry with which the new run goes on under another version than the one that made the
// copied entries: so that a replay sees the version that these were made with.
func goesOver(n *origin.NewRun) error {
	c := n.Copy
	options, err := json.Marshal(Migrated{From: c.Started.Version, To: n.Version})
	if err != nil {
		return err
	}
	c.Entries = append(c.Entries, store.Entry{Kind: store.KindMigrated, Seq: store.Seq(len(c.Entries) + 1),
		UnixMs: c.Entries[len(c.Entries)-1].UnixMs, Target: n.Module.String(), Options: options})
	return nil
}
