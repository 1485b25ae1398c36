package run

import (
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// takeSignal accepts a signal. One with a known idempotency key and the same payload changes nothing.
func (r *Run) takeSignal(now int64, s Signal) error {
	if end := r.journal.Ended(); end != store.KindInvalid {
		return fmt.Errorf("%w: %s", journal.ErrEnded, end)
	}
	same, err := r.journal.CheckSignal(s.Name, s.Key, s.Data)
	if err != nil || same {
		return err
	}
	if _, err := r.append(now, store.Entry{Kind: store.KindSignalAccepted, Name: s.Name, Data: s.Data, Target: s.Key}); err != nil {
		return err
	}
	r.fx.Answer.Changed = true
	return nil
}

func (r *Run) cancel(now int64) error {
	if err := r.fireDue(now); err != nil { // the run's deadline may have cancelled it, which a paused run is not told before
		return err
	}
	_, active := r.journal.StartedUnixMs()
	if !r.ended() && r.journal.CancelPolicy() == abi.CancelCooperative && active && r.status == 0 {
		if r.journal.CancelUnixMs() != 0 {
			return nil
		}
		r.fx.Answer.Changed = true
		_, err := r.append(now, store.Entry{Kind: store.KindCancel})
		return err
	}
	return r.end(now, store.KindCancelled)
}

func (r *Run) terminate(now int64) error { return r.end(now, store.KindTerminated) }

// end ends the run by a person's wish.
func (r *Run) end(now int64, kind store.Kind) error {
	if r.ended() {
		return journal.ErrEnded
	}
	r.status, r.reason = 0, ""
	r.fx.Answer.Changed = true
	_, err := r.append(now, store.Entry{Kind: kind})
	return err
}

func (r *Run) setPaused(now int64, kind store.Kind) error {
	switch {
	case r.ended():
		return journal.ErrEnded
	case r.status == store.Stuck:
		return fmt.Errorf("run %q is stuck: %w", r.key.ID, ErrIllegal)
	case r.journal.Paused() == (kind == store.KindPaused):
		return nil
	}
	r.fx.Answer.Changed = true
	_, err := r.append(now, store.Entry{Kind: kind})
	return err
}

func (r *Run) wake(now int64, name string) error {
	switch {
	case r.ended():
		return journal.ErrEnded
	case r.status == store.Stuck:
		return fmt.Errorf("run %q is stuck: %w", r.key.ID, ErrIllegal)
	}
	n, err := r.journal.Skip(name, now)
	r.afterAppend()
	r.fx.Answer.Count = n
	return err
}

// retry lets a failed or stuck run go on from the step that failed. What was acknowledged stays.
func (r *Run) retry(now int64, version *store.Version) error {
	switch {
	case r.ended() && r.journal.Ended() != store.KindFailed:
		return journal.ErrEnded
	case !r.ended() && r.status != store.Stuck:
		return fmt.Errorf("run %q is neither failed nor stuck: %w", r.key.ID, ErrIllegal)
	case version != nil && version.Workflow != r.state.Workflow:
		return fmt.Errorf("run %q is one of workflow %q, not of %q: %w", r.key.ID, r.state.Workflow, version.Workflow,
			ErrIllegal)
	}
	e, err := r.journal.Retry()
	if err != nil {
		return fmt.Errorf("run %q: %w: %w", r.key.ID, err, ErrIllegal)
	}
	if version != nil {
		e.Target = version.Module.String()
	}
	if _, err := r.append(now, e); err != nil {
		return err
	}
	if version != nil {
		r.ident.version, r.ident.module = version.Number, version.Module
	}
	r.status, r.reason, r.faults, r.retryMs, r.pending = 0, "", 0, 0, true
	r.logLines = recountLogs
	r.fx.Answer.Changed = true
	return nil
}

func (r *Run) delete(now int64) error {
	if !r.ended() {
		return fmt.Errorf("run %q: %w", r.key.ID, ErrLive)
	}
	if r.Dirty() { // its end is told to others first
		r.fx.Again = true
		return nil
	}
	if r.guest != guestNone { // it has no place yet
		r.suspend()
	}
	st := r.state
	st.Deleted, st.UpdatedUnixMs, st.WakeUnixMs = true, now, store.NoWake
	r.state, r.deleting, r.exists, r.tombstone = st, true, false, &st
	r.fx.Answer.Changed = true
	return nil
}
