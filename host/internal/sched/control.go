package sched

import (
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// NewRun says what a run is started with.
type NewRun struct {
	Key         store.RunKey
	Workflow    string
	Version     uint32
	Module      store.Digest
	Input       []byte
	InputDigest store.Digest
}

// Start starts a run: durable when it returns. A run of that id with the same workflow and input is given back as
// it is, with created false; with others it is store.ErrExists.
func (s *Scheduler) Start(ctx context.Context, n NewRun) (st store.RunState, created bool, err error) {
	if err := s.usable(); err != nil {
		return st, false, err
	}
	for {
		st, created, err = s.start(ctx, n)
		if !errors.Is(err, errDropped) || s.usable() != nil {
			return st, created, err
		}
	}
}

func (s *Scheduler) start(ctx context.Context, n NewRun) (st store.RunState, created bool, err error) {
	o := s.acquire(n.Key)
	defer s.release(o)
	o.mu.Lock()
	if o.dead != nil {
		o.mu.Unlock()
		return st, false, errDropped
	}
	if err = o.load(ctx); errors.Is(err, store.ErrNotFound) {
		if err = o.begin(n); err == nil {
			created = true
		}
	}
	o.mu.Unlock()
	if err != nil {
		return st, false, err
	}
	if created {
		s.enqueue(n.Key, false)
	}
	if err := o.durably(ctx, 1); err != nil {
		return st, false, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !created && (o.state.Workflow != n.Workflow || o.state.InputDigest != n.InputDigest) {
		return o.state, false, fmt.Errorf("run %q: %w with another workflow or input", n.Key.ID, store.ErrExists)
	}
	st = o.state
	if o.journal.Ended() == store.KindInvalid && o.act != nil {
		st.Status = store.Running
	}
	return st, created, nil
}

// begin makes entry 0 of a run that is not in the store. The owner is locked.
func (o *owner) begin(n NewRun) error {
	seed := make([]byte, 32)
	o.s.cfg.Random(seed)
	var incarnation store.Incarnation
	o.s.cfg.Random(incarnation[:])
	started := journal.Started{RunID: n.Key.ID, Workflow: n.Workflow, Version: n.Version, Module: n.Module.String(),
		Incarnation: incarnation.String(), RunAttempt: 1, Seed: seed}
	now := o.s.nowMs()
	j := &journal.Journal{}
	if _, err := j.Append(started.Entry(n.Input), now); err != nil {
		return err
	}
	o.journal, o.create, o.loaded, o.pending = j, true, true, true
	o.state = store.RunState{Run: n.Key, Incarnation: incarnation, Workflow: n.Workflow, Version: n.Version,
		Module: n.Module, InputDigest: n.InputDigest, CreatedUnixMs: now, WakeUnixMs: store.NoWake}
	return nil
}

// durably waits until the first n entries are durable. While an activation is under way it is given a moment,
// since its own commit brings them along; then they are committed as they are.
func (o *owner) durably(ctx context.Context, n int) error {
	changed, stop := o.s.Watch(o.key)
	defer stop()
	if o.s.active() {
		t := budgetClock.NewTimer(o.s.cfg.StartLinger)
		defer t.Stop()
		for waiting := true; waiting; {
			if done, err := o.isDurable(n); done || err != nil {
				return err
			}
			select {
			case <-changed:
			case <-t.C():
				waiting = false
			case <-ctx.Done():
				waiting = false // the run exists in memory: it is committed all the same
			}
		}
	}
	if done, err := o.isDurable(n); done || err != nil {
		return err
	}
	return o.commit(ctx)
}

func (o *owner) isDurable(n int) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.durable >= n && !o.create, o.dead
}

// active tells whether runs are activated at the moment.
func (s *Scheduler) active() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// end ends a run by the given end; durable when it returns. ErrTerminal if it has ended.
func (s *Scheduler) end(ctx context.Context, run store.RunKey, kind store.Kind) error {
	return s.change(ctx, run, func(o *owner) error {
		o.status, o.reason = 0, ""
		_, err := o.append(store.Entry{Kind: kind})
		return err
	})
}

// Cancel ends a run as cancelled. No code of the workflow runs any more.
func (s *Scheduler) Cancel(ctx context.Context, run store.RunKey) error {
	return s.end(ctx, run, store.KindCancelled)
}

// Terminate ends a run as terminated.
func (s *Scheduler) Terminate(ctx context.Context, run store.RunKey) error {
	return s.end(ctx, run, store.KindTerminated)
}

// Wake resolves sleeps of a run before their time, and gives their number.
func (s *Scheduler) Wake(ctx context.Context, run store.RunKey, name string) (n int, err error) {
	err = s.change(ctx, run, func(o *owner) error {
		if o.dead != nil {
			return o.dead
		}
		if end := o.journal.Ended(); end != store.KindInvalid {
			return journal.ErrEnded
		}
		n, err = o.journal.Skip(name, s.nowMs())
		o.changedLocked()
		return err
	})
	return n, err
}

// change applies f to a run, makes it durable, and lets the run go on.
func (s *Scheduler) change(ctx context.Context, run store.RunKey, f func(o *owner) error) error {
	if err := s.usable(); err != nil {
		return err
	}
	var changed *owner
	err := s.with(ctx, run, func(o *owner) error {
		s.mu.Lock()
		o.refs++ // kept over the commit below
		s.mu.Unlock()
		changed = o
		return f(o)
	})
	if changed != nil {
		defer s.release(changed)
	}
	if errors.Is(err, journal.ErrEnded) {
		return fmt.Errorf("run %q: %w", run.ID, ErrTerminal)
	}
	if err != nil {
		return err
	}
	if err := changed.commit(ctx); err != nil {
		return err
	}
	s.enqueue(run, true)
	return nil
}

// State gives a run's durable state; a run that something goes on with is shown as running or queued.
func (s *Scheduler) State(ctx context.Context, run store.RunKey) (store.RunState, error) {
	st, err := s.cfg.Store.State(ctx, run)
	if err != nil || st.Status.Terminal() || st.Status.Attention() {
		return st, err
	}
	s.mu.Lock()
	o := s.owners[run]
	s.mu.Unlock()
	if o == nil {
		return st, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dead == nil && o.loaded && (o.act != nil || len(o.attempts) > 0) {
		st.Status, st.Reason = store.Running, ""
	}
	return st, nil
}
