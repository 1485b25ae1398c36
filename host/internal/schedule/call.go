package schedule

import (
	"context"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// Stored is a schedule with its key, as the store has it.
type Stored struct {
	Key store.RunKey
	State
}

// Create creates a schedule, durable on return. It returns store.ErrExists if the id is taken.
func (k *Keeper) Create(ctx context.Context, key store.RunKey, d Definition, note string, paused bool) (*Stored, error) {
	if err := k.life.Wait(ctx); err != nil {
		return nil, err
	}
	now := k.cfg.Now()
	s := &State{CreatedMs: now, CursorMs: now, Paused: paused, Note: note}
	if err := s.define(d, now); err != nil {
		return nil, err
	}
	defer k.lock(key)()
	rec := store.Schedule{Key: key, WakeUnixMs: store.NoWake}
	return &Stored{key, *s}, k.commit(ctx, &rec, s)
}

// define sets the definition of a state.
func (s *State) define(d Definition, now int64) error {
	if err := d.Check(); err != nil {
		return err
	}
	s.Definition, s.UpdatedMs = d, now
	s.Revision++
	next, err := decode(s.encode())
	if err != nil {
		return err
	}
	if n := len(s.encode()); n > store.MaxScheduleBytes-growth {
		return abi.Errorf(abi.TooLarge, "the input and attributes of a schedule take %d bytes as JSON, the limit is %d", n,
			store.MaxScheduleBytes-growth)
	}
	s.times = next.times
	if s.Ended() {
		until := ""
		if d.UntilMs != 0 {
			until = ", and until " + instant(d.UntilMs)
		}
		return abi.Errorf(abi.InvalidArgument, "%q is never due after %s%s", d.When, instant(max(s.CursorMs, s.FromMs)), until)
	}
	return nil
}

// Update replaces the definition of a schedule, durable on return. If the rule, the zone or the start has changed, the
// schedule continues from now: it does not start instants of the new rule that have passed, and an instant of the old
// rule that jitter still delays is missed. A revision other than 0 must be the current one, otherwise Update returns
// abi.Conflict.
func (k *Keeper) Update(ctx context.Context, key store.RunKey, revision uint64, f func(d *Definition) error) (*Stored, error) {
	return k.call(ctx, key, func(s *State) error {
		if revision != 0 && revision != s.Revision {
			return abi.Errorf(abi.Conflict, "schedule %q has been changed meanwhile: its revision is %d, and %d was to be replaced",
				key.ID, s.Revision, revision)
		}
		d, now := s.Definition, k.cfg.Now()
		if err := f(&d); err != nil {
			return err
		}
		if d.When != s.When || d.Zone != s.Zone || d.FromMs != s.FromMs {
			if at, ok := s.late(key.ID, now); ok && at > s.CursorMs && !s.Paused {
				s.miss(one(Instant{AtMs: at}, "the schedule was changed before the start, which jitter delayed"))
			}
			s.CursorMs = now
		}
		s.Fault, s.Error = nil, ""
		return s.define(d, now)
	})
}

// call changes a schedule for a caller and returns its new durable state.
func (k *Keeper) call(ctx context.Context, key store.RunKey, f func(*State) error) (*Stored, error) {
	return detached(ctx, k, func(ctx context.Context) (*Stored, error) {
		var after *State
		err := k.change(ctx, key, func(s *State) error {
			after = s
			return f(s)
		})
		if err != nil {
			return nil, err
		}
		return &Stored{key, *after}, nil
	})
}

// detached runs f to its end even if ctx ends first; then it returns the cause of ctx. Otherwise a schedule could lose
// track of a run that is being started.
func detached[T any](ctx context.Context, k *Keeper, f func(context.Context) (T, error)) (out T, err error) {
	if err := k.life.Wait(ctx); err != nil {
		return out, err
	}
	type result struct {
		out T
		err error
	}
	done := make(chan result, 1)
	begun := k.life.Go(func(ctx context.Context) {
		out, err := f(ctx)
		done <- result{out, err}
	})
	if !begun {
		return out, store.ErrClosed
	}
	select {
	case r := <-done:
		return r.out, r.err
	case <-ctx.Done():
		return out, context.Cause(ctx)
	}
}

// Pause pauses a schedule until Resume. Instants that are due in the meantime are skipped.
func (k *Keeper) Pause(ctx context.Context, key store.RunKey, note string) (*Stored, error) {
	if len(note) > MaxNoteBytes {
		return nil, abi.Errorf(abi.InvalidArgument, "the note has %d bytes, the limit is %d", len(note), MaxNoteBytes)
	}
	return k.call(ctx, key, func(s *State) error {
		s.Fault, s.Error = nil, ""
		s.Paused, s.Note = true, note
		return nil
	})
}

// Resume resumes a paused schedule from now on, even if a wrong clock had moved its cursor into the future. An instant
// that has passed and whose start jitter still delays remains due.
func (k *Keeper) Resume(ctx context.Context, key store.RunKey, note string) (*Stored, error) {
	if len(note) > MaxNoteBytes {
		return nil, abi.Errorf(abi.InvalidArgument, "the note has %d bytes, the limit is %d", len(note), MaxNoteBytes)
	}
	return k.call(ctx, key, func(s *State) error {
		now := k.cfg.Now()
		if due := s.due(key.ID, now); s.Paused && (due > s.CursorMs || s.CursorMs > now) {
			s.CursorMs = due
		}
		s.Fault, s.Error = nil, ""
		s.Paused, s.Note = false, note
		return nil
	})
}

// Trigger starts a run for the current instant, under the given overlap policy or, if empty, the schedule's. It returns the
// id of the run, empty if the start waits for another run to end. It returns store.ErrConflict if the policy skips the start.
func (k *Keeper) Trigger(ctx context.Context, key store.RunKey, policy Overlap) (run string, err error) {
	return detached(ctx, k, func(ctx context.Context) (string, error) {
		defer k.lock(key)()
		rec, s, err := k.open(ctx, key)
		if err != nil {
			return "", err
		}
		t := &pass{k, key, s}
		if err := t.refresh(ctx); err != nil {
			return "", err
		}
		do, err := s.Trigger(key.ID, policy, k.cfg.Now())
		if err != nil {
			return "", err
		}
		run, refusal, err := t.ask(ctx, &rec, do)
		if err != nil {
			k.host.Arm(key, 0, err) // retries what is durable
			return "", err
		}
		if err := k.advance(ctx, &rec, s); err != nil {
			k.host.Arm(key, 0, err)
			if run == "" {
				return "", err
			}
		}
		return run, refusal
	})
}

// Backfill starts the instants after afterMs and up to toMs: all of them concurrently if all is set, otherwise one after
// the other. Instants that already have a run are skipped.
func (k *Keeper) Backfill(ctx context.Context, key store.RunKey, afterMs, toMs int64, all bool) (*Stored, error) {
	now := k.cfg.Now()
	if toMs > now || afterMs >= toMs {
		return nil, abi.Errorf(abi.InvalidArgument, "a backfill is from an instant to a later one that has passed, got %s to %s",
			instant(afterMs+1), instant(toMs))
	}
	return k.call(ctx, key, func(s *State) error {
		if len(s.Backfills) >= MaxBackfills {
			return abi.Errorf(abi.Limit, "%d ranges are being filled already, the limit", MaxBackfills)
		}
		if err := s.checkFill(afterMs, toMs); err != nil {
			return err
		}
		s.Backfills = append(s.Backfills, Backfill{AfterMs: afterMs, ToMs: toMs, All: all, AskedMs: now})
		return nil
	})
}

// Delete deletes a schedule, durable on return. Its runs continue.
func (k *Keeper) Delete(ctx context.Context, key store.RunKey) error {
	if err := k.life.Wait(ctx); err != nil {
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

// Get returns a schedule, or store.ErrNotFound.
func (k *Keeper) Get(ctx context.Context, key store.RunKey) (*Stored, error) {
	_, s, err := k.read(ctx, key)
	if err != nil {
		return nil, err
	}
	return &Stored{key, *s}, nil
}

// List returns at most limit schedules of a namespace, ordered by id, starting behind the id after.
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
