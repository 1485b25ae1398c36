package run

import (
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// happen does nothing: what is due is looked for before and after any event.
func (Due) happen(*turn) error { return nil }

func (e Look) happen(t *turn) error { return e.Func(t.Run) }

// happen accepts the signal. One with a known idempotency key and the same payload changes nothing, after the run's end too: who
// sends it again has had no answer, and gets the first one.
func (e Signal) happen(t *turn) error {
	again, _ := t.rec.Journal.Known(e.Name, e.Key) // keys of old releases have no name: they are none after the end
	if end := t.rec.Journal.Ended(); end != store.KindInvalid && (e.Key == "" || again.Name != e.Name) {
		return fmt.Errorf("%w: %s", journal.ErrEnded, end)
	}
	same, err := t.rec.Journal.CheckSignal(e.Name, e.Key, e.Data)
	if err == nil && !same && e.If != nil {
		err = e.If(t.rec.Journal)
	}
	if err != nil || same {
		return err
	}
	if err := t.append(store.Entry{Kind: store.KindSignalAccepted, Name: e.Name, Data: e.Data, Target: e.Key}); err != nil {
		return err
	}
	t.fx.Answer.Changed = true
	return nil
}

// happen tells the workflow, or ends the run.
func (Cancel) happen(t *turn) error {
	if err := t.fireDue(); err != nil { // of a paused run: its deadline may have told it, or ended it
		return err
	}
	active := t.Begun() || t.rec.Iteration > 0 // the iterations before may have left something to clean up
	if !t.rec.Ended() && t.rec.Journal.CancelPolicy() == abi.CancelCooperative && active && t.rec.Status == 0 {
		if t.rec.Journal.CancelUnixMs() != 0 {
			return nil
		}
		t.fx.Answer.Changed = true
		return t.append(store.Entry{Kind: store.KindCancel})
	}
	return t.end(store.KindCancelled)
}

func (Terminate) happen(t *turn) error { return t.end(store.KindTerminated) }
func (Pause) happen(t *turn) error     { return t.setPaused(store.KindPaused) }
func (Unpause) happen(t *turn) error   { return t.setPaused(store.KindUnpaused) }

// end ends the run by a person's wish.
func (t *turn) end(kind store.Kind) error {
	if t.rec.Ended() {
		return journal.ErrEnded
	}
	err := t.append(store.Entry{Kind: kind})
	if err == nil {
		t.rec.Free()
		t.fx.Answer.Changed = true
	}
	return err
}

// setPaused appends the kind, Paused or Unpaused, unless the run is so already.
func (t *turn) setPaused(kind store.Kind) error {
	switch {
	case t.rec.Ended():
		return journal.ErrEnded
	case t.rec.Status == store.Stuck:
		return fmt.Errorf("run %q is stuck: %w", t.rec.Key.ID, ErrIllegal)
	case t.rec.Journal.Paused() == (kind == store.KindPaused) && t.rec.Journal.Aside() == store.NotAside:
		return nil
	}
	t.fx.Answer.Changed = true
	e := store.Entry{Kind: kind}
	if kind == store.KindPaused && t.rec.LeaveQueue() {
		e.Code = LeftQueue
	}
	return t.append(e)
}

// happen ends the sleeps, as if they had come due.
func (e Wake) happen(t *turn) error {
	switch {
	case t.rec.Ended():
		return journal.ErrEnded
	case t.rec.Status == store.Stuck:
		return fmt.Errorf("run %q is stuck: %w", t.rec.Key.ID, ErrIllegal)
	}
	n, err := t.rec.Journal.Skip(e.Name, t.now)
	t.settle()
	t.fx.Answer.Count = n
	return err
}

// happen lets a failed or stuck run go on from the step that failed. What was acknowledged stays.
func (e Retry) happen(t *turn) error {
	entry, err := t.rec.Retrial(e.Version)
	return t.change(entry, e.Version, err)
}

// happen lets the run go on as it was: its journal has no entry of it, since nothing has happened to it.
func (Reread) happen(t *turn) error {
	if LeftByVersion(&t.rec.State) && t.rec.Status == store.Stuck {
		t.rec.GoOn(nil)
		t.sendAway()
	}
	return nil
}

// happen lets a live run go on under another version. Attempts that go on are finished by the version that began them.
func (e Migrate) happen(t *turn) error {
	if err := t.fireDue(); err != nil { // of a paused or stuck run: it would stand before the entry, and was not checked
		return err
	}
	entry, err := t.rec.Migration(&e.Version, e.Checked)
	return t.change(entry, &e.Version, err)
}

// change appends an entry with which the run goes on, under another version if one is given, unless there is an error.
func (t *turn) change(entry store.Entry, version *store.Version, err error) error {
	if err != nil {
		return err
	}
	if err := t.append(entry); err != nil {
		return err
	}
	t.rec.GoOn(version)
	t.sendAway()
	return nil
}

// sendAway has the guest come to its wait anew: what it waited for may not be what another version waits for.
func (t *turn) sendAway() {
	t.faults, t.fx.Answer.Changed = Faults{}, true
	t.comeAnew()
}

// comeAnew has the guest come to its wait once more.
func (t *turn) comeAnew() {
	t.rec.Journal.Resume()
	t.pending = true
	if t.stands == guestParked {
		t.suspend()
	} else {
		t.leave() // one that waits for a place, or goes on, is sent away: it has seen what is void now, or is of another version
	}
}

// happen sets the run aside, or lets it go on. Attempts that go on are made again where it goes on.
func (e Amend) happen(t *turn) error {
	entry, err := e.Make(&t.rec)
	if err != nil || entry.Kind == store.KindInvalid {
		return err
	}
	err = t.append(entry)
	if err == nil && !e.Beside {
		t.dropAll()
		t.sendAway()
	}
	return err
}

// happen leaves the run to a person.
func (e Unstorable) happen(t *turn) error {
	if !t.rec.Ended() {
		t.leave() // one that was asked for just now would do the same again
		t.stick(fmt.Sprintf("what it did next cannot be stored: %v", e.Cause))
	}
	return nil
}

// happen deletes the run. What is left of it, if anything, says that its id is taken.
func (e Delete) happen(t *turn) error {
	if !t.rec.Deletable() || e.If != nil && !e.If(&t.rec.State) {
		return fmt.Errorf("run %q: %w", t.rec.Key.ID, ErrLive)
	}
	if t.rec.Dirty() { // its end is told to others first
		t.fx.Again = true
		return nil
	}
	t.fx.Answer.Children = t.rec.Journal.Children()
	t.rec.Delete(t.now, e.Alone)
	t.leave() // one that computes, or waits for a place, is sent away when it comes
	t.fx.Answer.Changed = true
	return nil
}
