package run

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// happen begins the run, or says what becomes of the start with a run that is there.
func (e Start) happen(t *turn) error {
	n := &e.New
	if err := t.rec.Refuses(n, t.now); err != nil {
		return err
	}
	switch {
	case t.rec.Draft.Delete: // what is left of the run before is not durable yet
		t.fx.Again = true
	case !t.rec.Exists:
		return t.begin(n, t.rec.Draft.Replace || t.rec.Tombstone != nil)
	case n.Conflict == ConflictMove && t.rec.Dirty(): // the new one replaces what is durable
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

// signalAgain gives the run that is there the signal of a start. One that has ended takes none: the start is refused, unless
// it is that of the run itself, repeated.
func (t *turn) signalAgain(s *Signal) error {
	if !t.rec.Ended() {
		return s.happen(t)
	}
	same, _ := t.rec.Journal.CheckSignal(s.Name, s.Key, s.Data) // whether there is room does not matter any more
	if entries := t.rec.Journal.All(); !same && t.rec.Iteration == 0 && len(entries) > 1 {
		e := &entries[1] // where the signal of a start is
		same = e.Kind == store.KindSignalAccepted && e.Name == s.Name && e.Target == s.Key && bytes.Equal(e.Data, s.Data)
	}
	if same {
		return nil
	}
	return fmt.Errorf("run %q: %w: %v, it does not take the signal %q: start a run of another id, or replace this one",
		t.rec.Key.ID, ErrTerminal, t.rec.Journal.Ended(), s.Name)
}

// happen begins the run as a child.
func (e StartChild) happen(t *turn) error {
	err := Start{e.New}.happen(t)
	if errors.Is(err, store.ErrExists) && t.rec.Exists && StartedBy(t.rec.Journal.Started(), &e.Message) {
		return ErrStartedBefore
	}
	return err
}

// succeed makes room for a run of the same id. The old one is ended first, and its end is durable and told to whom it
// concerns before its records are replaced: the start is stepped again with a Run that Successor returns, which nothing
// of the old one can reach.
func (t *turn) succeed() error {
	if !t.rec.Ended() {
		t.rec.Free()
		if err := t.append(store.Entry{Kind: store.KindTerminated}); err != nil && !t.rec.Ended() {
			return err // the run's deadline may have ended it, which is as good
		}
	}
	t.fx.Again = true
	return nil
}

// begin begins the run. replaces says that there was another one of its id.
func (t *turn) begin(n *NewRun, replaces bool) error {
	j, err := n.Journal(t.own.OfStart(n, t.now), replaces)
	if err != nil {
		return err
	}
	before := *t.Run
	*t.Run = *New(t.rec.Key, Config{Handled: t.handled, Active: t.active, Clock: t.own})
	t.rec = newRecord(n, j, replaces)
	if n.Conflict == ConflictMove && before.rec.Exists {
		t.rec.State.ID = before.rec.State.ID // the start that has begun the run has named it, or has not
	}
	if n.Signal != nil {
		if err := n.Signal.happen(t); err != nil {
			*t.Run = before
			return err
		}
	}
	t.pending = true
	t.fx.Answer.Created = true
	return nil
}

// Successor returns a Run that takes the place of one that has ended, whose commits are durable. It returns the run itself
// if that is not so: another start was quicker, or somebody has retried it.
func (r *Run) Successor() *Run {
	if r.rec.Exists && !r.rec.Ended() || r.rec.Dirty() {
		return r
	}
	next := New(r.rec.Key, Config{Handled: r.handled, Active: r.active, Clock: r.own})
	next.rec.Draft.Replace = true
	return next
}

// Restart plans a restart of the run: see Record.PlanRestart. j is the journal of an earlier iteration, nil for the newest one.
func (r *Run) Restart(j *journal.Journal, name string) (Restart, error) {
	if !r.rec.Exists {
		return Restart{}, r.rec.NotFound()
	}
	if j == nil {
		j = r.rec.Journal
	}
	return r.rec.PlanRestart(j, name)
}
