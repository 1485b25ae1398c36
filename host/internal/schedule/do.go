package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// turn is one look at a schedule, whose lock is held.
type turn struct {
	k   *Keeper
	key store.RunKey
	s   *State
}

// run returns the key of a run of the schedule.
func (t *turn) run(id string) store.RunKey { return store.RunKey{Namespace: t.key.Namespace, ID: id} }

// decide does what is due.
func (t *turn) decide(ctx context.Context) error {
	for done := 0; done < maxStarts; { // the rest is due at once
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
		if do.Find == nil { // State bounds what is looked for
			done++
		}
	}
	return nil
}

// refresh forgets the runs that have ended. Their ends are told, too, but that may be on its way. A run whose record is damaged
// does not go on: it is not counted, so that the schedule does.
func (t *turn) refresh(ctx context.Context) error {
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

// instant returns the one that something is done for.
func (do *Do) instant() Instant {
	switch {
	case do.Find != nil:
		return *do.Find
	case do.Wait != nil:
		return *do.Wait
	}
	return *do.Start
}

// do does what a state has decided.
func (t *turn) do(ctx context.Context, do Do) error {
	in, s := do.instant(), t.s
	run := RunID(t.key, in)
	found, err := t.k.host.Find(ctx, t.key, run)
	switch {
	case err != nil && !errors.Is(err, store.ErrCorrupt): // StartRun says that it is
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

// ask does what a trigger asks for, and returns the run that it has started, or why it has started none. With err nobody knows
// that. A start is made durable as one to be made before it is made: so the schedule knows its run, whatever crashes.
func (t *turn) ask(ctx context.Context, rec *store.Schedule, do Do) (run string, refusal, err error) {
	if do.Start == nil && do.Wait == nil {
		return "", nil, nil // it waits
	}
	if do.Start != nil {
		if err := t.k.commit(ctx, rec, t.s); err != nil {
			return "", nil, err
		}
	}
	in := do.instant()
	live, err := t.start(ctx, do)
	switch {
	case errors.Is(err, ErrLater), errors.Is(err, ErrNever): // it is not tried again: its caller knows
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

// start ends the runs that are to make room, and starts the run. No run is ended for one that can never be started. The newest
// run is ended first: it may wait for the place of an older one, which it would have as soon as that has ended.
func (t *turn) start(ctx context.Context, do Do) (live bool, err error) {
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

// notEnded returns the error of a start whose way a run is in that could not be ended. It is tried again like one that is refused
// for now, and missed in the end: the run may be damaged. A host that stops, or has lost the partition, is no such thing.
func notEnded(ctx context.Context, what, run string, err error) error {
	if ctx.Err() != nil || errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrFailed) {
		return err
	}
	return fmt.Errorf("%w: run %s could not be %s: %w", ErrLater, run, what, err)
}
