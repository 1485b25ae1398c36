package host

import (
	"context"

	"github.com/wfhost/wfhost/host/internal/run"
)

// Cancel asks a run to end. A workflow that handles a cancel is told, once, and ends by itself. Any other run ends as
// cancelled: its timers are gone, attempts of its steps in flight are told to stop, and none of its code runs any
// more. Cancel reports whether it changed anything; a second cancel does not. Durable on return. It returns
// ErrTerminal if the run has ended.
func (s *scope) Cancel(ctx context.Context, id string) (changed bool, err error) {
	key, err := s.key(ctx, id)
	if err == nil {
		changed, err = s.h.rt.Runs.Change(ctx, key, run.Cancel{})
	}
	return changed, translate(err)
}

// Terminate ends a run as terminated, whatever it would do about a cancel. Durable on return. ErrTerminal if it
// has ended.
func (s *scope) Terminate(ctx context.Context, id string) error {
	key, err := s.key(ctx, id)
	if err == nil {
		_, err = s.h.rt.Runs.Change(ctx, key, run.Terminate{})
	}
	return translate(err)
}

// Wake ends sleeps of a run before their time, and returns how many it ended. Durable on return.
//
// With a name it ends the sleep of that name and nothing else: the run's clocks stay as they are, so that its
// deadlines, tickers and other sleeps come when they would have come. Without one it skips the time for which the run
// sleeps: it ends all of its sleeps, polls of time.Sleep included, and its monotonic clock moves by what was skipped,
// so that timers of the guest's own come earlier. A run that waits for the instant of WithStartAt begins, and counts as
// one sleep; its deadline stays as it is.
func (s *scope) Wake(ctx context.Context, id, name string) (n int, err error) {
	key, err := s.key(ctx, id)
	if err == nil {
		n, err = s.h.rt.Runs.Wake(ctx, key, name)
	}
	return n, translate(err)
}

// Pause stops a run where it waits next, until Unpause: attempts of steps that are running finish, nothing new
// begins, and nothing that comes due wakes it. It reports whether that changed anything. Durable on return.
// ErrTerminal if it has ended, ErrConflict if it is stuck.
func (s *scope) Pause(ctx context.Context, id string) (changed bool, err error) {
	key, err := s.key(ctx, id)
	if err == nil {
		changed, err = s.h.rt.Runs.Change(ctx, key, run.Pause{})
	}
	return changed, translate(err)
}

// Unpause lets a paused run continue. What came due meanwhile comes first, in the order of the deadlines. It reports
// whether the run was paused. Durable on return.
func (s *scope) Unpause(ctx context.Context, id string) (changed bool, err error) {
	key, err := s.key(ctx, id)
	if err == nil {
		changed, err = s.h.rt.Runs.Change(ctx, key, run.Unpause{})
	}
	return changed, translate(err)
}

// TakeBack lets a run continue that was exported with ExportOptions.Move, where it was exported. What came due
// meanwhile comes first, in the order of the deadlines. It reports whether that changed anything: a run that was not
// moved stays as it is. Durable on return. The caller knows that the run was adopted by no other host: otherwise it
// acts twice. ErrConflict if another namespace of this one has adopted it.
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

// Retry lets a failed or stuck run continue. A failed run forgets the failures that led to its end, and makes new
// attempts of those steps. It keeps everything else: results, signals, tokens, and what is known of its children. With
// a version other than 0 the run continues under that version of its workflow. It has no deadline any more. Durable on
// return.
//
// Retry returns ErrTerminal if the run ended otherwise, and ErrConflict if it lives. It also returns ErrConflict, and
// changes nothing, if the workflow made another call that reaches outside after the failure, such as a compensation, since
// that would be done again. The error names the step from which Restart can repeat the run.
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
	free := s.h.rt.Versions.Hold()
	v, err := s.h.store.Modules().Version(ctx, key.Namespace, st.Workflow, version)
	if err != nil {
		free()
		return translate(err)
	}
	return translate(s.h.rt.Runs.Retry(ctx, key, &v, free))
}

// Delete deletes an ended run with its journal, log and output. Its id, input hash and outcome are kept for 30 days, or as long
// as Retention.KeepIDsFor says, so that a start which is repeated by mistake is refused. If nobody can name the id again, nothing
// is kept. Durable on return. ErrConflict if the run lives.
func (s *scope) Delete(ctx context.Context, id string) error {
	key, err := s.key(ctx, id)
	if err == nil {
		err = s.h.rt.Runs.Delete(ctx, key, nil)
	}
	return translate(err)
}
