package sched

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// ErrIllegal says that an action does not fit the status of the run.
var ErrIllegal = errors.New("not possible in the run's status")

// Cancel asks a run to end: one that takes a cancel is told, once; another one ends as cancelled, and no code of the
// workflow runs any more. It gives whether that changed anything.
func (s *Scheduler) Cancel(ctx context.Context, run store.RunKey) (changed bool, err error) {
	err = s.change(ctx, run, func(o *owner) error {
		changed, err = o.cancel()
		return err
	})
	return changed, err
}

func (o *owner) cancel() (bool, error) {
	_, active := o.journal.StartedUnixMs()
	if o.journal.Ended() == store.KindInvalid && o.journal.CancelPolicy() == abi.CancelCooperative && active && o.status == 0 {
		if o.journal.CancelUnixMs() != 0 {
			return false, nil
		}
		_, err := o.append(store.Entry{Kind: store.KindCancel})
		o.changedLocked()
		return true, err
	}
	o.status, o.reason = 0, ""
	_, err := o.append(store.Entry{Kind: store.KindCancelled})
	return true, err
}

// Terminate ends a run at once.
func (s *Scheduler) Terminate(ctx context.Context, run store.RunKey) error {
	return s.change(ctx, run, func(o *owner) error {
		o.status, o.reason = 0, ""
		_, err := o.append(store.Entry{Kind: store.KindTerminated})
		return err
	})
}

// Signal gives a signal to a run, which keeps it until its workflow takes it; durable when it returns. It gives
// whether it is a new one: one with a known idempotency key and the same payload is not.
func (s *Scheduler) Signal(ctx context.Context, run store.RunKey, n NewSignal) (fresh bool, err error) {
	err = s.change(ctx, run, func(o *owner) error {
		fresh, err = o.signal(n.Name, n.Data, n.Key)
		return err
	})
	return fresh, err
}

// signal accepts a signal. The owner is locked.
func (o *owner) signal(name string, data []byte, key string) (fresh bool, err error) {
	if end := o.journal.Ended(); end != store.KindInvalid {
		return false, fmt.Errorf("%w: %s", journal.ErrEnded, end)
	}
	same, err := o.journal.CheckSignal(name, key, data)
	if err != nil || same {
		return false, err
	}
	if _, err = o.append(store.Entry{Kind: store.KindSignalAccepted, Name: name, Data: data, Target: key}); err != nil {
		return false, err
	}
	o.changedLocked()
	return true, nil
}

// Pause stops a run where it waits next, until Unpause: attempts that are running finish, nothing new begins.
func (s *Scheduler) Pause(ctx context.Context, run store.RunKey) (changed bool, err error) {
	return s.setPaused(ctx, run, store.KindPaused)
}

// Unpause lets a paused run go on; what came due meanwhile comes first, in order.
func (s *Scheduler) Unpause(ctx context.Context, run store.RunKey) (changed bool, err error) {
	return s.setPaused(ctx, run, store.KindUnpaused)
}

func (s *Scheduler) setPaused(ctx context.Context, run store.RunKey, kind store.Kind) (changed bool, err error) {
	err = s.change(ctx, run, func(o *owner) error {
		switch {
		case o.journal.Ended() != store.KindInvalid:
			return journal.ErrEnded
		case o.status == store.Stuck:
			return fmt.Errorf("run %q is stuck: %w", run.ID, ErrIllegal)
		case o.journal.Paused() == (kind == store.KindPaused):
			return nil
		}
		changed = true
		_, err := o.append(store.Entry{Kind: kind})
		o.changedLocked()
		return err
	})
	return changed, err
}

// Retry lets a failed or stuck run go on: from the failure that led to its end, which is forgotten, and under another
// version if one is given.
func (s *Scheduler) Retry(ctx context.Context, run store.RunKey, version *store.Version) error {
	if err := s.with(ctx, run, func(*owner) error { return nil }); err != nil {
		return err
	}
	return s.change(ctx, run, func(o *owner) error {
		switch {
		case o.journal.Ended() != store.KindFailed && o.journal.Ended() != store.KindInvalid:
			return journal.ErrEnded
		case o.journal.Ended() == store.KindInvalid && o.status != store.Stuck:
			return fmt.Errorf("run %q is neither failed nor stuck: %w", run.ID, ErrIllegal)
		case o.dirty():
			return fmt.Errorf("run %q is about to be written, try again: %w", run.ID, ErrIllegal)
		}
		e := store.Entry{Kind: store.KindRetried, Ref: o.journal.RetryFrom()}
		if version != nil {
			if version.Workflow != o.state.Workflow {
				return fmt.Errorf("run %q is one of workflow %q, not of %q: %w", run.ID, o.state.Workflow, version.Workflow, ErrIllegal)
			}
			e.Target = version.Module.String()
		}
		if _, err := o.append(e); err != nil {
			return err
		}
		if version != nil {
			o.ident.version, o.ident.module = version.Number, version.Module
		}
		o.status, o.reason, o.faults, o.retryMs, o.pending, o.logLines = 0, "", 0, 0, true, 0
		return nil
	})
}

// ErrLive says that a live run is not deleted.
var ErrLive = fmt.Errorf("run has not ended: %w", ErrIllegal)

// Delete deletes an ended run with its journal, log and output. Its id stays taken for 30 days.
func (s *Scheduler) Delete(ctx context.Context, run store.RunKey) error {
	if err := s.usable(); err != nil {
		return err
	}
	var kept *owner
	err := s.with(ctx, run, func(o *owner) error {
		if o.journal.Ended() == store.KindInvalid || o.dirty() {
			return fmt.Errorf("run %q: %w", run.ID, ErrLive)
		}
		s.mu.Lock()
		o.refs++
		s.mu.Unlock()
		kept = o
		return nil
	})
	if err != nil {
		return err
	}
	defer s.release(kept)
	kept.commitMu.Lock()
	defer kept.commitMu.Unlock()
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.dead != nil || kept.journal.Ended() == store.KindInvalid {
		return fmt.Errorf("run %q: %w", run.ID, ErrLive)
	}
	st := kept.state
	st.Deleted, st.UpdatedUnixMs, st.WakeUnixMs = true, s.nowMs(), store.NoWake
	err = s.write(ctx, &store.RunCommit{Run: run, State: st, Delete: true})
	kept.stopLocked(errDropped)
	return err
}

func compact(input []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, input) == nil {
		return b.Bytes()
	}
	return input
}
