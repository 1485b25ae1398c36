package workflow

import (
	"context"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/cron"
)

// maxShownBytes is the longest part of an expression in the name of a sleep.
const maxShownBytes = 100

// SleepUntilNext sleeps until the next instant of a cron expression, an interval or another text that cron.Parse accepts,
// and returns that instant. zone is a time zone such as "Europe/Berlin"; empty means UTC. Use it for loops within a
// workflow. To start runs at given times, use a schedule.
//
//	for {
//		at, err := workflow.SleepUntilNext(ctx, "0 9 * * MON-FRI", "Europe/Berlin")
//		…
//	}
//
// The instant is the first one after the workflow's own clock, by the time zone rules of its module, so a replay computes
// the same instant. If an operator ends a sleep early, the next call sleeps until the same instant. If the text cannot be
// parsed, or the expression is never due again, it returns ErrInvalidArgument.
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
