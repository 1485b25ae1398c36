package sched

import (
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// ConflictPolicy says what a start does when there is a run of its id.
type ConflictPolicy uint8

// The policies.
const (
	ConflictExisting  ConflictPolicy = iota // the same workflow and input give that run, others are refused
	ConflictFail                            // it is refused
	ConflictTerminate                       // that run is terminated, and replaced
	ConflictReplace                         // that run is replaced if it has ended, else refused
)

// NewRun says what a run is started with.
type NewRun struct {
	Key         store.RunKey
	Workflow    string
	Version     uint32
	Module      store.Digest
	Input       []byte
	InputDigest store.Digest
	AtUnixMs    int64 // the first activation is not before; 0 = at once
	TimeoutMs   int64 // from the start, or AtUnixMs, to the run's deadline; 0 = none
	Attributes  map[string]string
	Signal      *NewSignal // accepted in the same commit, by the run that is there too
	Conflict    ConflictPolicy
	Parent      *journal.Parent
	restart     *restart
	replaces    store.Incarnation // of the ended run whose place it takes
	ack         store.CommandSeq  // the command that asked for it; 0 = none
}

// NewSignal is a signal to a run.
type NewSignal struct {
	Name string
	Data []byte
	Key  string // idempotency key; empty = none
}

// idRetentionMs is how long the id of a deleted run stays taken: a start that is repeated by mistake comes earlier.
const idRetentionMs = 30 * 24 * 3600 * 1000

// Start starts a run: durable when it returns. A run of that id with the same workflow and input is given back as
// it is, with created false; with others it is store.ErrExists.
func (s *Scheduler) Start(ctx context.Context, n NewRun) (st store.RunState, created bool, err error) {
	if err := s.usable(); err != nil {
		return st, false, err
	}
	for {
		st, created, err = s.start(ctx, &n)
		if !errors.Is(err, errDropped) || s.usable() != nil {
			return st, created, err
		}
	}
}

func (s *Scheduler) start(ctx context.Context, n *NewRun) (st store.RunState, created bool, err error) {
	o := s.acquire(n.Key)
	defer s.release(o)
	o.mu.Lock()
	if o.dead != nil {
		o.mu.Unlock()
		return st, false, errDropped
	}
	created, err = o.beginOr(ctx, n)
	o.mu.Unlock()
	if err != nil {
		return st, false, err
	}
	if created {
		s.enqueue(n.Key, false)
	}
	if n.ack != 0 { // nobody waits for a child's start, and its command is to leave the inbox
		err = o.commit(ctx)
	} else {
		err = o.durably(ctx, 1)
	}
	if err != nil {
		return st, false, err
	}
	if n.Signal != nil {
		if err := o.commit(ctx); err != nil {
			return st, false, err
		}
		s.enqueue(n.Key, true)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	st = o.state
	if o.journal.Ended() == store.KindInvalid && o.act != nil {
		st.Status = store.Running
	}
	return st, created, nil
}

// beginOr begins the run, or says what becomes of the start with a run that is there. The owner is locked.
func (o *owner) beginOr(ctx context.Context, n *NewRun) (created bool, err error) {
	err = o.load(ctx)
	switch {
	case errors.Is(err, store.ErrNotFound) && o.state.Deleted:
		if age := o.s.nowMs() - o.state.UpdatedUnixMs; n.Conflict <= ConflictFail && age < idRetentionMs {
			return false, fmt.Errorf("run %q: %w: it was deleted, and its id is free again after 30 days", n.Key.ID, store.ErrExists)
		}
		o.replace = true
		return true, o.begin(*n)
	case errors.Is(err, store.ErrNotFound):
		return true, o.begin(*n)
	case err != nil:
		return false, err
	}
	live := o.journal.Ended() == store.KindInvalid
	switch n.Conflict {
	case ConflictFail:
		return false, fmt.Errorf("run %q: %w", n.Key.ID, store.ErrExists)
	case ConflictTerminate, ConflictReplace:
		if live && n.Conflict == ConflictReplace {
			return false, fmt.Errorf("run %q: %w and has not ended", n.Key.ID, store.ErrExists)
		}
		return o.succeed(ctx, n, live)
	case ConflictExisting:
	}
	if o.state.Workflow != n.Workflow || o.state.InputDigest != n.InputDigest {
		return false, fmt.Errorf("run %q: %w with another workflow or input", n.Key.ID, store.ErrExists)
	}
	if n.Signal != nil && live {
		_, err = o.signal(n.Signal.Name, n.Signal.Data, n.Signal.Key)
	}
	return false, err
}

// succeed ends a run, so that the next one of its id can take its place: by errDropped, which makes the start begin anew
// with an owner of its own, that nothing of the old run can reach. The old run's end is durable, and told to whom it
// concerns, before its records are replaced. The owner is locked.
func (o *owner) succeed(ctx context.Context, n *NewRun, live bool) (bool, error) {
	if n.replaces == o.state.Incarnation && !live {
		o.replace = true
		return true, o.begin(*n)
	}
	if live {
		o.status, o.reason = 0, ""
		if _, err := o.append(store.Entry{Kind: store.KindTerminated}); err != nil {
			return false, err
		}
	}
	o.mu.Unlock()
	err := o.commit(ctx)
	o.mu.Lock()
	if err != nil {
		return false, err
	}
	n.replaces = o.state.Incarnation
	o.dead = errors.Join(o.dead, errDropped)
	return false, errDropped
}

// begin makes entry 0 of a run that is not in the store. The owner is locked.
func (o *owner) begin(n NewRun) error {
	seed := make([]byte, 32)
	o.s.cfg.Random(seed)
	var incarnation store.Incarnation
	o.s.cfg.Random(incarnation[:])
	now := o.s.nowMs()
	started := journal.Started{RunID: n.Key.ID, Workflow: n.Workflow, Version: n.Version, Module: n.Module.String(),
		Incarnation: incarnation.String(), RunAttempt: 1, Seed: seed, Attributes: n.Attributes, Parent: n.Parent}
	if n.AtUnixMs > now {
		started.AtUnixMs = n.AtUnixMs
	}
	if n.TimeoutMs > 0 {
		due, err := abi.AddMs(max(now, n.AtUnixMs), n.TimeoutMs)
		if err != nil {
			return err
		}
		started.DeadlineUnixMs = due
	}
	j := &journal.Journal{}
	if n.restart != nil {
		started.Seed, started.RunAttempt = n.restart.seed, 2
		if len(n.restart.entries) > 0 { // the copy begins when the original did
			now = n.restart.entries[0].UnixMs
		}
	}
	if _, err := j.Append(started.Entry(n.Input), now); err != nil {
		return err
	}
	if n.restart != nil {
		if err := n.restart.replayInto(j); err != nil {
			return err
		}
	}
	o.journal = j
	if n.Signal != nil {
		if _, err := o.signal(n.Signal.Name, n.Signal.Data, n.Signal.Key); err != nil {
			return err
		}
	}
	o.create, o.loaded, o.pending, o.durable, o.restored, o.logLines, o.records = true, true, true, 0, 0, 0, 0
	o.ident = identity{version: n.Version, module: n.Module}
	o.state = store.RunState{Run: n.Key, Incarnation: incarnation, Workflow: n.Workflow, Version: n.Version,
		Module: n.Module, InputDigest: n.InputDigest, CreatedUnixMs: now, WakeUnixMs: store.NoWake}
	if n.Parent != nil {
		o.state.Parent = n.Parent.RunID
	}
	if n.ack != 0 {
		o.acks = append(o.acks, n.ack)
	}
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

// Wake resolves sleeps of a run before their time, and gives their number.
func (s *Scheduler) Wake(ctx context.Context, run store.RunKey, name string) (n int, err error) {
	err = s.change(ctx, run, func(o *owner) error {
		if o.dead != nil {
			return o.dead
		}
		if end := o.journal.Ended(); end != store.KindInvalid {
			return journal.ErrEnded
		}
		if o.status == store.Stuck {
			return fmt.Errorf("run %q is stuck: %w", run.ID, ErrIllegal)
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
	if err == nil && st.Deleted {
		return store.RunState{}, fmt.Errorf("run %q: %w: it was deleted", run.ID, store.ErrNotFound)
	}
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
