package sched

import (
	"context"
	"errors"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/store"
)

// Replay runs a workflow against the journal of a run, in memory: nothing is appended, no step is attempted. It
// gives nil if the workflow does what the journal records, else a *replay.Mismatch or what stopped it.
func (s *Scheduler) Replay(ctx context.Context, run store.RunKey) error {
	if err := s.usable(); err != nil {
		return err
	}
	state, err := s.cfg.Store.State(ctx, run)
	if err != nil {
		return err
	}
	o := &owner{s: s, key: run}
	if err := o.load(ctx); err != nil {
		return err
	}
	mod, err := s.module(ctx, state.Module)
	if err != nil {
		return err
	}
	startedMs, ok := o.journal.StartedUnixMs()
	if !ok {
		return nil // it has not begun
	}
	if err := s.slots.acquire(ctx); err != nil {
		return err
	}
	defer s.slots.release()
	g := &guest{}
	g.init(s, mod)
	g.log = func(uint64, int32, string) {}
	g.waitFn = func() error { return replay.ErrSuspend }
	entries := o.journal.Entries()
	g.Machine = replay.New(replay.Config{Mode: replay.Check, Started: o.journal.Started(), Input: entries[0].Input,
		StartedUnixMs: startedMs, Tail: bodyTail{entries}, BodiesEvent: mod.bodiesEvent, OnWait: g.observer(), Strict: true,
		Rested: passed(o.journal)})
	_, err = g.call(ctx, mod.entry)
	if errors.Is(err, replay.ErrSuspend) {
		return nil
	}
	if end := o.journal.Ended(); err != nil && end != store.KindInvalid && failedEnd(o.journal) {
		return nil // it breaks down as it did
	}
	return errors.Join(err, g.LeftOver())
}

// passed returns how many entries the guest had when it last waited: all of them, if it has ended otherwise than by a
// failure, which may have been a limit.
func passed(j *journal.Journal) store.Seq {
	if end := j.Ended(); end != store.KindInvalid && end != store.KindFailed {
		return store.Seq(j.Len())
	}
	return j.Rested()
}

// failedEnd tells whether the run ended by a failure.
func failedEnd(j *journal.Journal) bool { return j.Ended() == store.KindFailed }
