package host

import (
	"context"

	"github.com/wfhost/wfhost/host/internal/run"
)

// Cancel asks a run to end. A workflow that handles cancels receives the cancel once and ends by itself. Any other
// run ends as cancelled: its timers are removed, attempts of its steps in flight are cancelled, and its code runs no
// more. Cancel reports whether it changed anything; a second cancel does not. Durable on return. ErrTerminal if the
// run has ended.
func (s *scope) Cancel(ctx context.Context, id string) (changed bool, err error) {
	key, err := s.key(ctx, id)
	if err == nil {
		changed, err = s.h.rt.Runs.Change(ctx, key, run.Cancel{})
	}
	return changed, translate(err)
}

// Terminate ends a run as terminated, even if it handles cancels. Durable on return. ErrTerminal if it has ended.
func (s *scope) Terminate(ctx context.Context, id string) error {
	key, err := s.key(ctx, id)
	if err == nil {
		_, err = s.h.rt.Runs.Change(ctx, key, run.Terminate{})
	}
	return translate(err)
}

// Wake ends sleeps of a run early, and returns how many it ended. Durable on return.
//
// With a name it ends only the sleep of that name: the run's clocks do not change, so its deadlines, tickers and
// other sleeps are due as before. Without a name it skips the time until the run would wake: it ends all of its
// sleeps, including polls of time.Sleep, and advances its monotonic clock by the skipped time, so that timers inside
// the guest are due earlier. A run that waits for the instant of WithStartAt begins, and counts as one sleep; its
// deadline does not change.
func (s *scope) Wake(ctx context.Context, id, name string) (n int, err error) {
	key, err := s.key(ctx, id)
	if err == nil {
		n, err = s.h.rt.Runs.Wake(ctx, key, name)
	}
	return n, translate(err)
}

// Pause stops a run at its next wait, until Unpause. Attempts of steps in flight finish, no new work begins, and no
// deadline wakes the run. It reports whether that changed anything. Durable on return. ErrTerminal if the run has
// ended, ErrConflict if it is stuck.
func (s *scope) Pause(ctx context.Context, id string) (changed bool, err error) {
	key, err := s.key(ctx, id)
	if err == nil {
		changed, err = s.h.rt.Runs.Change(ctx, key, run.Pause{})
	}
	return changed, translate(err)
}

// Unpause resumes a paused run. Deadlines that have passed meanwhile come first, in their order. It reports whether
// the run was paused. Durable on return.
func (s *scope) Unpause(ctx context.Context, id string) (changed bool, err error) {
	key, err := s.key(ctx, id)
	if err == nil {
		changed, err = s.h.rt.Runs.Change(ctx, key, run.Unpause{})
	}
	return changed, translate(err)
}

// TakeBack resumes a run that was exported with ExportOptions.Move, on the host that exported it. Deadlines that have
// passed meanwhile come first, in their order. It reports whether that changed anything: a run that was not moved
// stays as it is. Durable on return. The caller must know that no other host has adopted the run: otherwise the run
// acts twice. ErrConflict if another namespace of this host has adopted it.
func (s *scope) TakeBack(ctx context.Context, id string) (changed bool, err error) {
	key, err := s.key(ctx, id)
	if err != nil {
		return false, translate(err)
	}
	one := s.h.importing.acting.of(id)
	one.Lock()
	defer one.Unlock()
	var incarnation, move string
	err = s.h.rt.Runs.Look(ctx, key, func(of *run.Run) error {
		j := of.Journal()
		incarnation, move = j.Started().Incarnation, j.Move()
		return nil
	})
	if err == nil && move != "" {
		err = s.elsewhere(ctx, id, incarnation, move)
	}
	if err == nil {
		changed, err = s.h.rt.Runs.Change(ctx, key, run.Amend{Make: (*run.Record).TakeBack})
	}
	return changed, translate(err)
}

// Retry resumes a failed or stuck run. A failed run forgets the failures that led to its end, and makes new attempts
// of those steps. It keeps everything else: results, signals, tokens, and what it knows of its children. With a
// version other than 0 the run continues under that version of its workflow. It has no deadline any more. Durable on
// return.
//
// Retry returns ErrTerminal if the run ended otherwise, and ErrConflict if it is live. It also returns ErrConflict,
// and changes nothing, if the workflow made a call with an outside effect after the failure, such as a compensation,
// since a retry would repeat that call. The error names the step from which Restart can repeat the run.
func (s *scope) Retry(ctx context.Context, id string, version uint32) error {
	key, err := s.key(ctx, id)
	if err != nil {
		return translate(err)
	}
	if version == 0 {
		return translate(s.h.rt.Runs.Retry(ctx, key, nil, func() {}))
	}
	st, err := s.h.rt.Runs.State(ctx, key)
	if err != nil {
		return translate(err)
	}
	free := s.h.rt.Versions.LockDeletions()
	v, err := s.h.store.Modules().Version(ctx, key.Namespace, st.Workflow, version)
	if err != nil {
		free()
		return translate(err)
	}
	return translate(s.h.rt.Runs.Retry(ctx, key, &v, free))
}

// Delete deletes an ended run with its journal, log and output. Its id, input hash and outcome are kept for 30 days,
// or as long as Retention.KeepIDsFor says, so that a start which is repeated by mistake is refused. If no caller can
// reuse the id, nothing is kept. Durable on return. ErrConflict if the run is live.
func (s *scope) Delete(ctx context.Context, id string) error {
	key, err := s.key(ctx, id)
	if err == nil {
		err = s.h.rt.Runs.Delete(ctx, key, nil)
	}
	return translate(err)
}
