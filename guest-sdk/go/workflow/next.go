package workflow

import (
	"context"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/cron"
)

// maxShownBytes bounds what of an expression is in the name of a sleep.
const maxShownBytes = 100

// SleepUntilNext sleeps until the next instant of a cron expression, an interval or another text that cron.Parse takes, in a
// time zone such as "Europe/Berlin", empty for UTC. It returns that instant. It is for loops within a workflow; runs that a
// host starts by time are those of a schedule.
//
//	for {
//		at, err := workflow.SleepUntilNext(ctx, "0 9 * * MON-FRI", "Europe/Berlin")
//		…
//	}
//
// The instant is the first one after the workflow's own clock, with the rules of time zones in its module, so that a replay
// comes to the same one. A sleep that an operator has ended early is followed by another one until the same instant. Text
// that cannot be read, and an expression that is never due again, are ErrInvalidArgument.
func SleepUntilNext(ctx context.Context, when, zone string) (time.Time, error) {
	times, err := cron.Parse(when, zone)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: %w", ErrInvalidArgument, err)
	}
	now := time.Now()
	next, ok := times.Next(now)
	if !ok {
		return time.Time{}, fmt.Errorf("%w: %q is never due after %s", ErrInvalidArgument, when, now.UTC().Format(time.RFC3339))
	}
	shown := times.String()
	shown = shown[:min(len(shown), maxShownBytes)]
	return next, SleepUntil(ctx, shown+" after "+now.UTC().Format("2006-01-02T15:04:05.999Z"), next)
}
