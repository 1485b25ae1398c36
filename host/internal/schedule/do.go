package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// pass processes one schedule while holding its lock.
type pass struct {
	k   *Keeper
	key store.RunKey
	s   *State
}

// run returns the key of a run of the schedule.
func (t *pass) run(id string) store.RunKey { return store.RunKey{Namespace: t.key.Namespace, ID: id} }

// decide performs the actions that are due, at most maxStarts starts.
func (t *pass) decide(ctx context.Context) error {
	for done := 0; done < maxStarts; { // the timer is due at once for the rest
		if err := t.refresh(ctx); err != nil {
			return err
		}
		do, ok := t.s.Next(t.key.ID, t.k.cfg.Now())
		if !ok {
			return nil
		}
		if err := t.do(ctx, do); err != nil {
			return err
		}
		if do.Find == nil { // State bounds the searches
			done++
		}
	}
	return nil
}

// refresh removes the ended runs from Running. Their ends are also reported by commands, which may still be under way. A
// run whose record is damaged cannot continue, so refresh removes it too: otherwise it would block the schedule.
func (t *pass) refresh(ctx context.Context) error {
	for _, run := range slices.Clone(t.s.Running) {
		live, err := t.k.host.Live(ctx, t.run(run))
		if errors.Is(err, store.ErrCorrupt) {
			t.s.Error = clip(fmt.Sprintf("run %s is not counted any more: %v", run, err))
			t.k.cfg.Logger.Error("a schedule has a run that cannot be read", "schedule", t.key.ID, "run", run, "cause", err)
			live, err = false, nil
		}
		if err != nil {
			return err
		}
		t.s.RunLives(run, live)
	}
	return nil
}

// instant returns the instant of an action.
func (do *Do) instant() Instant {
	switch {
	case do.Find != nil:
		return *do.Find
	case do.Wait != nil:
		return *do.Wait
	}
	return *do.Start
}

// do performs an action and reports its outcome to the state.
func (t *pass) do(ctx context.Context, do Do) error {
	in, s := do.instant(), t.s
	run := RunID(t.key, in)
	found, err := t.k.host.Find(ctx, t.key, run)
	switch {
	case err != nil && !errors.Is(err, store.ErrCorrupt): // StartRun reports a corrupt record
		return err
	case found != nil && found.AtMs == in.AtMs:
		s.Found(in, run, found, t.k.cfg.Now())
		return nil
	case do.Find != nil:
		s.Absent(in)
		return nil
	}
	live, err := t.start(ctx, do)
	switch {
	case err == nil && do.Wait != nil:
		s.Replace(in)
	case err == nil:
		s.Fired(in, run, live, t.k.cfg.Now())
	case errors.Is(err, ErrLater):
		s.Refused(in, err.Error(), t.k.cfg.Now())
	case errors.Is(err, ErrNever):
		s.Failed(in, err.Error())
	default:
		s.Error = clip(err.Error())
		return err
	}
	if err != nil {
		t.k.cfg.Logger.Warn("a schedule could not start a run", "schedule", t.key.ID, "instant", abi.TimeOf(in.AtMs), "cause", err)
	}
	return nil
}

// ask performs the action of a trigger. It returns the id of the run, or in refusal why none was started. With err it is
// unknown whether a run was started. The trigger is durable in Asked before its start, so the schedule knows the run
// whatever crashes.
func (t *pass) ask(ctx context.Context, rec *store.Schedule, do Do) (run string, refusal, err error) {
	if do.Start == nil && do.Wait == nil {
		return "", nil, nil // the start waits
	}
	if do.Start != nil {
		if err := t.k.commit(ctx, rec, t.s); err != nil {
			return "", nil, err
		}
	}
	in := do.instant()
	live, err := t.start(ctx, do)
	switch {
	case errors.Is(err, ErrLater), errors.Is(err, ErrNever): // no retry: the caller sees the refusal
		t.s.advance(in)
		return "", err, nil
	case err != nil:
		return "", nil, err
	case do.Wait != nil:
		t.s.Replace(in)
		return "", nil, nil
	}
	run = RunID(t.key, in)
	t.s.Fired(in, run, live, t.k.cfg.Now())
	return run, nil, nil
}

// start cancels or terminates the runs that are in the way and starts the run. It ends no run for a start that could never
// succeed. It ends the newest run first: that run may wait for the slot of an older one, and would get it as soon as the
// older one ends.
func (t *pass) start(ctx context.Context, do Do) (live bool, err error) {
	host := t.k.host
	if len(do.Cancel)+len(do.Terminate) > 0 {
		if err := host.Startable(ctx, t.key, &t.s.Definition); err != nil {
			return false, err
		}
	}
	for _, run := range slices.Backward(do.Cancel) {
		if err := host.CancelRun(ctx, t.run(run)); err != nil {
			return false, notEnded(ctx, "cancelled", run, err)
		}
	}
	for _, run := range slices.Backward(do.Terminate) {
		if err := host.TerminateRun(ctx, t.run(run)); err != nil {
			return false, notEnded(ctx, "terminated", run, err)
		}
		t.s.RunLives(run, false)
	}
	if do.Start == nil {
		return false, nil
	}
	return host.StartRun(ctx, t.key, &t.s.Definition, RunID(t.key, *do.Start), *do.Start)
}

// notEnded returns the error of a start whose predecessor run could not be ended, perhaps because that run is damaged. The
// start is retried as ErrLater and finally missed. If the host is stopping or has lost the partition, err is returned as
// it is.
func notEnded(ctx context.Context, what, run string, err error) error {
	if ctx.Err() != nil || errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrFailed) {
		return err
	}
	return fmt.Errorf("%w: run %s could not be %s: %w", ErrLater, run, what, err)
}
