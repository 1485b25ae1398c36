package host

import (
	"context"
	"errors"
	"time"

	"github.com/wfhost/wfhost/host/internal/budget"
)

// TriggerSchedule starts a run of a schedule now, whether it is paused or not. Its nominal instant is now. policy is used in
// place of that of the schedule, unless it is empty. The run is durable on return. The zero Run says that the start waits for
// the end of another one. ErrConflict if the policy skips it. If ctx ends first, the run may be started all the same.
func (s *scope) TriggerSchedule(ctx context.Context, id string, policy Overlap) (Run, error) {
	key, err := s.scheduleKey(ctx, id, true)
	if err != nil {
		return Run{}, translate(err)
	}
	began := budget.Clock.Now()
	run, err := s.h.keeper.Trigger(ctx, key, policy)
	if err != nil || run == "" {
		return Run{}, s.slowly(ctx, began, translate(err))
	}
	return s.Get(ctx, run)
}

// BackfillSchedule has the instants of a range started that has passed, the first of them at from or later, the last at to or
// earlier: one after the other, or all beside each other. An instant that has a run already is not started again, and none is
// before Spec.From or behind Spec.Until. The range is durable on return, and is filled whether the schedule is paused or not.
// ErrInvalid if it has not passed, or has no beginning.
func (s *scope) BackfillSchedule(ctx context.Context, id string, from, to time.Time, all bool) (Schedule, error) {
	key, err := s.scheduleKey(ctx, id, true)
	if err != nil {
		return Schedule{}, translate(err)
	}
	if from.IsZero() || to.IsZero() {
		return Schedule{}, &joined{errors.New("a backfill has a first and a last instant, got none"), ErrInvalid}
	}
	return s.shown(s.h.keeper.Backfill(ctx, key, roundedUp(from)-1, to.UnixMilli(), all))
}
