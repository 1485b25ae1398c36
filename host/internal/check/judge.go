package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/store"
)

// result returns the Result of a replay that returned err.
func (p *player) result(ctx context.Context, err error) Result {
	switch {
	case errors.Is(err, errNotBegun):
		return Result{Outcome: Compatible, Notes: []string{"it has not begun"}}
	case ctx.Err() != nil: // Run returns it
		return Result{Outcome: NotChecked, Reason: context.Cause(ctx).Error()}
	case errors.Is(err, ErrTooLong):
		return Result{Outcome: NotChecked, Reason: fmt.Sprintf("not replayed to its end: %v, the limit is about %v", err,
			time.Duration(p.slices*sliceFuel))} // a unit of fuel is about a nanosecond
	}
	return Judge(p.of.Journal(), p.Machine, p.waits, err)
}

// Judge returns the Result of a replay of journal j. waits is true if the guest was stopped at a wait. err is the error of the
// guest's entry point, nil if it returned. If the workflow returned a failure, m has it.
func Judge(j *journal.Journal, m *replay.Machine, waits bool, err error) Result {
	var differs *replay.Mismatch
	var refused *replay.RefusedError
	var trap *engine.Trap
	out := m.Outcome()
	failed := out.Failed && !out.Cancelled // a failure that is not due to a cancel
	switch {
	case errors.As(err, &differs):
		return Result{Outcome: Diverges, Seq: differs.Seq, Want: differs.Want, Got: differs.Got}
	case errors.Is(err, replay.ErrSuspend):
		r := Result{Outcome: Compatible}
		if !waits {
			r.Notes = append(r.Notes, "the workflow goes on with a call of its own")
		} else if j.Ended() == store.KindCompleted {
			r.Notes = append(r.Notes, "the run has completed, and the workflow waits")
		}
		return r
	case errors.Is(err, replay.ErrContinue), err == nil && !failed:
		return returned(j, m, "its return", "")
	case errors.As(err, &trap):
		return returned(j, m, "break down", trap.Message)
	case errors.As(err, &refused):
		return returned(j, m, "fail", refused.Error())
	case err == nil:
		return returned(j, m, "fail", string(out.Failure[:min(len(out.Failure), maxFailure)]))
	}
	return Result{Outcome: NotChecked, Reason: err.Error()}
}

// maxFailure is the maximum number of bytes that a Result shows of a workflow's failure.
const maxFailure = 500

// returned returns the Result for a workflow that ended. what says how it ended, and why is the reason of a failure, else
// empty.
func returned(j *journal.Journal, m *replay.Machine, what, why string) Result {
	got := what
	if why != "" {
		got += ": " + why
	}
	var differs *replay.Mismatch
	if errors.As(m.LeftOver(), &differs) {
		return Result{Outcome: Diverges, Seq: differs.Seq, Want: differs.Want, Got: got}
	}
	switch end := j.Ended(); {
	case why != "" && end == store.KindInvalid:
		return Result{Outcome: Diverges, Seq: store.Seq(j.Len()), Want: "no end", Got: got}
	case why != "" && end == store.KindCompleted:
		return Result{Outcome: Diverges, Seq: store.Seq(j.Len() - 1), Want: end.String(), Got: got}
	case end == store.KindInvalid:
		return Result{Outcome: Compatible, Notes: []string{"the workflow returns"}}
	}
	return Result{Outcome: Compatible}
}
