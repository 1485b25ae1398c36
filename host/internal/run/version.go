package run

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// ErrIllegal: the event is not possible in the run's status.
var ErrIllegal = errors.New("not possible in the run's status")

// refusal is an ErrIllegal whose text is complete without the text of ErrIllegal.
type refusal struct{ error }

func (refusal) Is(target error) bool { return target == ErrIllegal }

func (r refusal) Unwrap() error { return r.error }

// Refuse returns an error of ErrIllegal with the given text.
func Refuse(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// ErrMoved: the run has changed since it was checked.
var ErrMoved = fmt.Errorf("the run has moved since it was checked: %w", ErrIllegal)

// Checked identifies the part of a run that was replayed against another version. While all fields are equal, the run
// has not changed, since entries are only appended.
type Checked struct {
	Incarnation store.Incarnation
	Iteration   uint32
	Length      store.Seq
	Version     uint32
}

// Migrated is the options of a migration's entry, as JSON.
type Migrated struct {
	From uint32 `json:"from"`
	To   uint32 `json:"to"`
}

// Migration returns the entry that moves the run to another version. It returns ErrMoved if the run has changed since
// it was checked, and an error if the journal has no room for calls: only deliveries may use the remaining room.
func (r *Record) Migration(to *store.Version, c Checked) (e store.Entry, err error) {
	j := r.Journal
	switch {
	case r.Ended():
		return e, journal.ErrEnded
	case to.Workflow != r.State.Workflow:
		return e, r.another(to)
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

// Retrial returns the entry that resumes a failed or stuck run, under another version if one is given.
func (r *Record) Retrial(version *store.Version) (e store.Entry, err error) {
	switch {
	case r.Ended() && !r.Failed():
		return e, journal.ErrEnded
	case !r.Ended() && r.Status != store.Stuck:
		return e, fmt.Errorf("run %q is neither failed nor stuck: %w", r.Key.ID, ErrIllegal)
	case version != nil && version.Workflow != r.State.Workflow:
		return e, r.another(version)
	}
	e, err = r.Journal.Retry()
	if err != nil {
		return e, Refuse("run %q: %w", r.Key.ID, err)
	}
	if version != nil {
		e.Target = version.Module.String()
	}
	if r.Ended() { // its end has returned its slot
		r.State.Slot = store.SlotNone
	}
	return e, nil
}

func (r *Record) another(v *store.Version) error {
	return fmt.Errorf("run %q is one of workflow %q, not of %q: %w", r.Key.ID, r.State.Workflow, v.Workflow, ErrIllegal)
}

// GoOn clears the stuck status and, if version is set, moves the run to that version.
func (r *Record) GoOn(version *store.Version) {
	if version != nil {
		r.Version, r.Module = version.Number, version.Module
	}
	r.Free()
	r.Log.Recount()
}

// Restart is a planned restart of a run. The caller sets the id, the incarnation and the other fields of New that
// belong to the new run, and resolves the plan's open calls.
type Restart struct {
	New  NewRun
	Plan *Plan
}

// PlanRestart plans a restart of an iteration with the same workflow, version, input and random numbers. With a name,
// the new run also keeps what the run did before the call of that name. The version is that of the run or, with a
// name in an earlier iteration, the last one that the iteration ran under.
func (r *Record) PlanRestart(j *journal.Journal, name string) (x Restart, err error) {
	s := j.Started()
	x.New = NewRun{Workflow: r.State.Workflow, Version: r.Version, Module: r.Module, Input: j.Entries()[0].Input,
		InputDigest: InputDigest(j.Entries()[0].Input), Attributes: s.Attributes, Conflict: ConflictFail}
	if s.Iteration == 0 {
		x.New.InputDigest = r.State.InputDigest
	}
	if s.Limit != nil {
		x.New.Priority = s.Limit.Priority
	}
	x.Plan, err = NewPlan(j, name)
	if err != nil {
		return x, err
	}
	x.New.Copy = x.Plan.Copy
	if name == "" {
		x.New.Signal = SignalOfStart(j)
	}
	if name != "" && j != r.Journal {
		x.New.Version, x.New.Module, err = lastVersion(j)
	}
	return x, err
}

// lastVersion returns the version that an iteration last ran under. The number is 0 if the journal records only its
// module.
func lastVersion(j *journal.Journal) (version uint32, module store.Digest, err error) {
	version = j.Started().Version
	text := j.Started().Module
	for _, e := range j.Entries() {
		if e.Kind == store.KindMigrated {
			var m Migrated
			if err := json.Unmarshal(e.Options, &m); err != nil {
				return 0, module, fmt.Errorf("options of entry %d: %w: %w", e.Seq, store.ErrCorrupt, err)
			}
			version, text = m.To, e.Target
		}
		if e.Kind == store.KindRetried && e.Target != "" && e.Target != text {
			version, text = 0, e.Target
		}
	}
	module, err = store.ParseDigest(text)
	return version, module, err
}

// Finish adds a migration entry to the copy, if the new run's module differs from the one that made the copied
// entries. A replay then knows the version that made them.
func (x *Restart) Finish() error {
	c, n := x.Plan.Copy, &x.New
	if len(c.Entries) == 0 || c.Started.Module == n.Module.String() {
		return nil
	}
	options, err := json.Marshal(Migrated{From: c.Started.Version, To: n.Version})
	if err != nil {
		return err
	}
	c.Entries = append(c.Entries, store.Entry{Kind: store.KindMigrated, Seq: store.Seq(len(c.Entries) + 1),
		UnixMs: c.Entries[len(c.Entries)-1].UnixMs, Target: n.Module.String(), Options: options})
	return nil
}
