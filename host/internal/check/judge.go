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

// result says what the end of a replay means.
func (p *player) result(ctx context.Context, err error) Result {
	switch {
	case errors.Is(err, errNotBegun):
		return Result{Outcome: Compatible, Notes: []string{"it has not begun"}}
	case ctx.Err() != nil: // which Run returns
		return Result{Outcome: NotChecked, Reason: context.Cause(ctx).Error()}
	case errors.Is(err, ErrTooLong):
		return Result{Outcome: NotChecked, Reason: fmt.Sprintf("not replayed to its end: %v, the limit is about %v", err,
			time.Duration(p.slices*sliceFuel))} // a unit of fuel is some nanosecond
	}
	return Judge(p.of.Journal(), p.Machine, p.waits, err)
}

// Judge says what the end of a replay means for the run of a journal: waits says that the guest was stopped where it waits, and
// err is how its entry point has ended, nil if it returned. A guest that returned a failure has told the machine.
func Judge(j *journal.Journal, m *replay.Machine, waits bool, err error) Result {
	var differs *replay.Mismatch
	var refused *replay.RefusedError
	var trap *engine.Trap
	out := m.Outcome()
	failed := out.Failed && !out.Cancelled // a failure that is not what a cancel has led to
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

// maxFailure bounds what a report shows of a workflow's failure.
const maxFailure = 500

// returned says what it means that the workflow has come to its end. why is why it failed, empty if it did not.
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
