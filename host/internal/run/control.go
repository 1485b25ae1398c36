package run

import (
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// apply does nothing: the step handles what is due before and after every event.
func (Due) apply(*transition) error { return nil }

func (e Look) apply(t *transition) error { return e.Func(t.Run) }

// apply accepts the signal. A signal with a known idempotency key and the same payload changes nothing, even after
// the run's end: its sender did not get the first answer, and gets it now.
func (e Signal) apply(t *transition) error {
	again, _ := t.rec.Journal.Known(e.Name, e.IdempotencyKey) // keys of old releases have no name, and do not count after the end
	if end := t.rec.Journal.Ended(); end != store.KindInvalid && (e.IdempotencyKey == "" || again.Name != e.Name) {
		return fmt.Errorf("%w: %s", journal.ErrEnded, end)
	}
	same, err := t.rec.Journal.CheckSignal(e.Name, e.IdempotencyKey, e.Data)
	if err == nil && !same && e.If != nil {
		err = e.If(t.rec.Journal)
	}
	if err != nil || same {
		return err
	}
	accepted := store.Entry{Kind: store.KindSignalAccepted, Name: e.Name, Data: e.Data, Target: e.IdempotencyKey}
	if err := t.append(accepted); err != nil {
		return err
	}
	t.fx.Answer.Changed = true
	return nil
}

// apply tells a workflow that handles cancels, or ends the run.
func (Cancel) apply(t *transition) error {
	if err := t.fireDue(); err != nil { // a paused run's deadline may have told or ended it already
		return err
	}
	active := t.Begun() || t.rec.Iteration > 0 // earlier iterations may need cleaning up
	if !t.rec.Ended() && t.rec.Journal.CancelPolicy() == abi.CancelCooperative && active && t.rec.Status == 0 {
		if t.rec.Journal.CancelUnixMs() != 0 {
			return nil
		}
		t.fx.Answer.Changed = true
		return t.append(store.Entry{Kind: store.KindCancel})
	}
	return t.end(store.KindCancelled)
}

func (Terminate) apply(t *transition) error { return t.end(store.KindTerminated) }
func (Pause) apply(t *transition) error     { return t.setPaused(store.KindPaused) }
func (Unpause) apply(t *transition) error   { return t.setPaused(store.KindUnpaused) }

// end ends the run at a person's request.
func (t *transition) end(kind store.Kind) error {
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

// setPaused appends kind, Paused or Unpaused, unless the run is already in that state.
func (t *transition) setPaused(kind store.Kind) error {
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

// apply ends the sleeps as if they had come due.
func (e Wake) apply(t *transition) error {
	switch {
	case t.rec.Ended():
		return journal.ErrEnded
	case t.rec.Status == store.Stuck:
		return fmt.Errorf("run %q is stuck: %w", t.rec.Key.ID, ErrIllegal)
	}
	n, err := t.rec.Journal.Skip(e.Name, t.now)
	t.finish()
	t.fx.Answer.Count = n
	return err
}

// apply resumes a failed or stuck run from the step that failed. Acknowledged work stays.
func (e Retry) apply(t *transition) error {
	entry, err := t.rec.Retrial(e.Version)
	return t.change(entry, e.Version, err)
}

// apply resumes the run unchanged. The journal gets no entry, since nothing happened to the run.
func (Reread) apply(t *transition) error {
	if LeftByVersion(&t.rec.State) && t.rec.Status == store.Stuck {
		t.rec.GoOn(nil)
		t.sendAway()
	}
	return nil
}

// apply moves a live run to another version. The version that began an attempt finishes it.
func (e Migrate) apply(t *transition) error {
	if err := t.fireDue(); err != nil { // of a paused or stuck run; a timer's entry would precede this one and was not checked
		return err
	}
	entry, err := t.rec.Migration(&e.Version, e.Checked)
	return t.change(entry, &e.Version, err)
}

// change appends the entry that resumes the run, under another version unless version is nil. It returns err
// unchanged if it is set.
func (t *transition) change(entry store.Entry, version *store.Version, err error) error {
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

// sendAway resets the faults of the host and makes the guest run to its wait again: another version may wait
// elsewhere.
func (t *transition) sendAway() {
	t.faults, t.fx.Answer.Changed = Faults{}, true
	t.comeAnew()
}

// comeAnew makes the guest run to its wait again.
func (t *transition) comeAnew() {
	t.rec.Journal.Resume()
	t.pending = true
	if t.stands == guestParked {
		t.suspend()
	} else {
		t.dropGuest() // a guest that is queued or computing is sent away: it has seen void entries, or is of another version
	}
}

// apply sets the run aside or resumes it. Attempts in flight are repeated when the run resumes.
func (e Amend) apply(t *transition) error {
	entry, err := e.Make(&t.rec)
	if err != nil || entry.Kind == store.KindInvalid {
		return err
	}
	err = t.append(entry)
	if err == nil && !e.Beside {
		for _, a := range t.Attempts() {
			t.mayHaveBegun(a)
		}
		t.dropAll()
		t.sendAway()
	}
	return err
}

// apply marks the run stuck.
func (e Unstorable) apply(t *transition) error {
	if !t.rec.Ended() {
		t.dropGuest() // a guest that was just requested would do the same again
		t.stick(fmt.Sprintf("what it did next cannot be stored: %v", e.Cause))
	}
	return nil
}

// apply deletes the run. If a tombstone stays, it keeps the id taken.
func (e Delete) apply(t *transition) error {
	if !t.rec.Deletable() || e.If != nil && !e.If(&t.rec.State) {
		return fmt.Errorf("run %q: %w", t.rec.Key.ID, ErrLive)
	}
	if t.rec.Dirty() { // first its end is sent to other runs
		t.fx.Again = true
		return nil
	}
	t.fx.Answer.Children = t.rec.Journal.Children()
	t.rec.Delete(t.now, e.Alone)
	t.dropGuest() // a guest that is computing or queued is sent away when it reports
	t.fx.Answer.Changed = true
	return nil
}
