package schedule

import (
	"context"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// Stored is a schedule as it is durable.
type Stored struct {
	Key store.RunKey
	State
}

// Create makes a schedule, durable on return. store.ErrExists if there is one of the id.
func (k *Keeper) Create(ctx context.Context, key store.RunKey, d Definition, note string, paused bool) (*Stored, error) {
	if err := k.wait(ctx); err != nil {
		return nil, err
	}
	now := k.cfg.Now()
	s := &State{CreatedMs: now, CursorMs: now, Paused: paused, Note: note}
	if err := s.define(d, now); err != nil {
		return nil, err
	}
	defer k.lock(key)()
	rec := store.Schedule{Key: key, WakeUnixMs: store.NoWake}
	return &Stored{key, *s}, k.commit(ctx, rec, s)
}

// define sets the definition of a state.
func (s *State) define(d Definition, now int64) error {
	if err := d.Check(); err != nil {
		return err
	}
	s.Definition, s.UpdatedMs = d, now
	next, err := decode(s.encode())
	if err != nil {
		return err
	}
	if n := len(s.encode()); n > store.MaxScheduleBytes-growth {
		return abi.Errorf(abi.TooLarge, "the input and attributes of a schedule take %d bytes as JSON, the limit is %d", n,
			store.MaxScheduleBytes-growth)
	}
	if s.times = next.times; s.Ended() {
		return abi.Errorf(abi.InvalidArgument, "%q is never due after %v", d.When, abi.TimeOf(max(s.CursorMs, s.FromMs)))
	}
	return nil
}

// Update replaces the definition of a schedule, durable on return. Nothing that was due by then, and is not by the former
// definition, is started.
func (k *Keeper) Update(ctx context.Context, key store.RunKey, f func(d *Definition) error) (*Stored, error) {
	return k.call(ctx, key, func(_ context.Context, s *State) error {
		d, now := s.Definition, k.cfg.Now()
		if err := f(&d); err != nil {
			return err
		}
		if d.When != s.When || d.Zone != s.Zone || d.FromMs != s.FromMs {
			s.CursorMs = now
		}
		s.FaultMs, s.Faults, s.RetryMs, s.Error = 0, 0, 0, ""
		return s.define(d, now)
	})
}

// call changes a schedule for a caller, and returns it as it is durable then.
func (k *Keeper) call(ctx context.Context, key store.RunKey, f func(context.Context, *State) error) (*Stored, error) {
	if err := k.wait(ctx); err != nil {
		return nil, err
	}
	var after *State
	err := k.change(ctx, key, func(ctx context.Context, s *State) error {
		after = s
		return f(ctx, s)
	})
	if err != nil {
		return nil, err
	}
	return &Stored{key, *after}, nil
}

// Pause stops a schedule: nothing is started by itself until Resume, and what is due meanwhile is left out.
func (k *Keeper) Pause(ctx context.Context, key store.RunKey, note string) (*Stored, error) {
	if len(note) > MaxNoteBytes {
		return nil, abi.Errorf(abi.InvalidArgument, "the note has %d bytes, the limit is %d", len(note), MaxNoteBytes)
	}
	return k.call(ctx, key, func(_ context.Context, s *State) error {
		s.Paused, s.Note = true, note
		return nil
	})
}

// Resume lets a paused schedule go on with what is due from now on.
func (k *Keeper) Resume(ctx context.Context, key store.RunKey, note string) (*Stored, error) {
	if len(note) > MaxNoteBytes {
		return nil, abi.Errorf(abi.InvalidArgument, "the note has %d bytes, the limit is %d", len(note), MaxNoteBytes)
	}
	return k.call(ctx, key, func(_ context.Context, s *State) error {
		if s.Paused {
			s.CursorMs = max(s.CursorMs, k.cfg.Now())
		}
		s.Paused, s.Note = false, note
		return nil
	})
}

// Trigger starts a run now, for this instant, by the schedule's policy or another one. It returns the id of the run, empty if it
// waits for the end of another one. store.ErrConflict if the policy skips it.
func (k *Keeper) Trigger(ctx context.Context, key store.RunKey, policy Overlap) (run string, err error) {
	_, err = k.call(ctx, key, func(ctx context.Context, s *State) error {
		if policy == "" {
			policy = s.Overlap
		}
		if err := CheckOverlap(policy); err != nil {
			return err
		}
		if err := k.refresh(ctx, key, s); err != nil {
			return err
		}
		in := Instant{AtMs: k.cfg.Now(), Kind: Triggered}
		lost := s.Lost
		do, waits := s.Trigger(in, policy)
		switch {
		case waits:
			return k.do(ctx, key, s, do) // cancels
		case do.Start == nil && s.Lost > lost:
			return abi.Errorf(abi.Limit, "%d starts of schedule %q wait already, the limit", MaxBuffered, key.ID)
		case do.Start == nil:
			return abi.Errorf(abi.Conflict, "schedule %q starts no run: %s, and the overlap policy is %q", key.ID,
				s.Missed[len(s.Missed)-1].Reason, policy)
		}
		for _, other := range do.Terminate {
			if err := k.host.TerminateRun(ctx, store.RunKey{Namespace: key.Namespace, ID: other}); err != nil {
				return err
			}
			s.RunEnded(other)
		}
		id := RunID(key, in)
		live, err := k.host.StartRun(ctx, key, &s.Definition, id, in)
		if err != nil {
			return err
		}
		s.Fired(in, id, live, k.cfg.Now())
		run = id
		return nil
	})
	return run, err
}

// Backfill has the instants of a range started, the first of them after one instant and the last of them not after another one.
// all starts them beside each other, otherwise one after the other. Those that have a run already are left out.
func (k *Keeper) Backfill(ctx context.Context, key store.RunKey, afterMs, toMs int64, all bool) (*Stored, error) {
	if now := k.cfg.Now(); toMs > now || afterMs >= toMs {
		return nil, abi.Errorf(abi.InvalidArgument, "a backfill is from an instant to a later one that has passed, got %v to %v",
			abi.TimeOf(afterMs), abi.TimeOf(toMs))
	}
	return k.call(ctx, key, func(_ context.Context, s *State) error {
		if len(s.Backfills) >= MaxBackfills {
			return abi.Errorf(abi.Limit, "%d ranges are being filled already, the limit", MaxBackfills)
		}
		s.Backfills = append(s.Backfills, Backfill{AfterMs: afterMs, ToMs: toMs, All: all})
		return nil
	})
}

// Delete removes a schedule, durable on return. Its runs go on.
func (k *Keeper) Delete(ctx context.Context, key store.RunKey) error {
	if err := k.wait(ctx); err != nil {
		return err
	}
	defer k.lock(key)()
	rec, err := k.cfg.Store.Schedule(ctx, key)
	if err != nil {
		return err
	}
	rec.Revision++
	if err := k.set(ctx, store.ScheduleSet{Schedule: rec, Delete: true}); err != nil {
		return err
	}
	k.host.Arm(key, store.NoWake, nil)
	return nil
}

// Get returns a schedule. store.ErrNotFound if there is none.
func (k *Keeper) Get(ctx context.Context, key store.RunKey) (*Stored, error) {
	_, s, err := k.read(ctx, key)
	if err != nil {
		return nil, err
	}
	return &Stored{key, *s}, nil
}

// List returns at most limit schedules of a namespace in the order of their ids, behind one.
func (k *Keeper) List(ctx context.Context, ns store.NamespaceID, after string, limit int) (list []*Stored, err error) {
	page, err := k.cfg.Store.Schedules(ctx, store.ScheduleQuery{Namespace: ns, After: after, Limit: limit})
	if err != nil {
		return nil, err
	}
	for _, rec := range page {
		s, err := decode(rec.Data)
		if err != nil {
			return nil, fmt.Errorf("schedule %q: %w", rec.Key.ID, err)
		}
		list = append(list, &Stored{rec.Key, *s})
	}
	return list, nil
}
