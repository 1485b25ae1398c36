package run

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// apply begins the run, or applies the start's conflict policy to an existing one.
func (e Start) apply(t *transition) error {
	n := &e.New
	if err := t.rec.Refuses(n, t.now); err != nil {
		return err
	}
	switch {
	case t.rec.Draft.Delete: // the tombstone of the previous run is not durable yet
		t.fx.Again = true
	case !t.rec.Exists:
		return t.begin(n, t.rec.Draft.Replace || t.rec.Tombstone != nil)
	case n.Conflict == ConflictMove && t.rec.Dirty(): // the new run replaces a durable one
		t.fx.Again = true
	case n.Conflict == ConflictMove:
		return t.begin(n, true)
	case n.Conflict == ConflictTerminate || n.Conflict == ConflictReplace:
		return t.succeed()
	case n.Signal != nil:
		return t.signalAgain(n.Signal)
	}
	return nil
}

// signalAgain sends the signal of a start to the existing run. If that run has ended, the start is refused, unless it
// repeats the start that created the run.
func (t *transition) signalAgain(s *Signal) error {
	if !t.rec.Ended() {
		return s.apply(t)
	}
	same, _ := t.rec.Journal.CheckSignal(s.Name, s.IdempotencyKey, s.Data) // an error for lack of room no longer matters
	if entries := t.rec.Journal.All(); !same && t.rec.Iteration == 0 && len(entries) > 1 {
		e := &entries[1] // the signal of a start is entry 1
		same = e.Kind == store.KindSignalAccepted && e.Name == s.Name && e.Target == s.IdempotencyKey && bytes.Equal(e.Data, s.Data)
	}
	if same {
		return nil
	}
	return fmt.Errorf("run %q: %w: %v, it does not take the signal %q: start a run of another id, or replace this one",
		t.rec.Key.ID, ErrTerminal, t.rec.Journal.Ended(), s.Name)
}

// apply begins the run as a child.
func (e StartChild) apply(t *transition) error {
	err := Start{e.New}.apply(t)
	if errors.Is(err, store.ErrExists) && t.rec.Exists && StartedBy(t.rec.Journal.Started(), &e.Message) {
		return ErrStartedBefore
	}
	return err
}

// succeed makes room for a new run of the same id. It first ends the old run. The end must be durable and sent to the
// parent and other runs before the records are replaced. So the caller then steps the start again with the Run from
// Successor, which nothing of the old one can reach.
func (t *transition) succeed() error {
	if !t.rec.Ended() {
		t.rec.Free()
		if err := t.append(store.Entry{Kind: store.KindTerminated}); err != nil && !t.rec.Ended() {
			return err // the run's deadline may have ended it already, which is fine
		}
	}
	t.fx.Again = true
	return nil
}

// begin begins the run. replaces says that another run had its id before.
func (t *transition) begin(n *NewRun, replaces bool) error {
	j, err := n.Journal(t.own.OfStart(n, t.now), replaces)
	if err != nil {
		return err
	}
	before := *t.Run
	*t.Run = *New(t.rec.Key, Config{Ask: t.ask, Active: t.active, Clock: t.own})
	t.rec = newRecord(n, j, replaces)
	if n.Conflict == ConflictMove && before.rec.Exists {
		t.rec.State.ID = before.rec.State.ID // the first start determines how the id was chosen
	}
	if n.Signal != nil {
		if err := n.Signal.apply(t); err != nil {
			*t.Run = before
			return err
		}
	}
	t.pending = true
	t.fx.Answer.Created = true
	return nil
}

// Successor returns a Run that replaces an ended one whose commits are durable. It returns r itself if another start
// was faster, or if the run was retried.
func (r *Run) Successor() *Run {
	if r.rec.Exists && !r.rec.Ended() || r.rec.Dirty() {
		return r
	}
	next := New(r.rec.Key, Config{Ask: r.ask, Active: r.active, Clock: r.own})
	next.rec.Draft.Replace = true
	return next
}

// Restart plans a restart of the run: see Record.PlanRestart. j is the journal of an earlier iteration, or nil for
// the newest one.
func (r *Run) Restart(j *journal.Journal, name string) (Restart, error) {
	if !r.rec.Exists {
		return Restart{}, r.rec.NotFound()
	}
	if j == nil {
		j = r.rec.Journal
	}
	return r.rec.PlanRestart(j, name)
}
