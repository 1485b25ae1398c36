package host

import (
	"context"
	"errors"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

// Trigger starts a run of a schedule now, also if the schedule is paused. The nominal instant is now. policy,
// if not empty, replaces the policy of the schedule. The run is durable on return. The zero Run says that the start
// waits for the end of another run. ErrConflict if the policy skips it. If ctx ends first, the run may still be
// started.
func (s Schedules) Trigger(ctx context.Context, id string, policy Overlap) (Run, error) {
	key, err := s.scheduleKey(ctx, id, true)
	if err != nil {
		return Run{}, translate(err)
	}
	began := clock.System().Now()
	run, err := s.h.keeper.Trigger(ctx, key, policy)
	if err != nil || run == "" {
		return Run{}, s.slowly(ctx, began, translate(err))
	}
	return s.get(ctx, run)
}

// Backfill starts the instants of a past range, from and to included: one after the other, or all
// concurrently. It skips instants that already have a run, and instants before Spec.From or after Spec.Until. The
// range is durable on return, and is filled even if the schedule is paused. ErrInvalid if the range has not passed,
// or has no beginning.
func (s Schedules) Backfill(ctx context.Context, id string, from, to time.Time, all bool) (Schedule, error) {
	key, err := s.scheduleKey(ctx, id, true)
	if err != nil {
		return Schedule{}, translate(err)
	}
	if from.IsZero() || to.IsZero() {
		return Schedule{}, &joined{errors.New("a backfill has a first and a last instant, got none"), ErrInvalid}
	}
	return s.shown(s.h.keeper.Backfill(ctx, key, roundedUp(from)-1, to.UnixMilli(), all))
}
