package main

import (
	"context"
	"errors"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	add("takes-more-than-it-lists", takesMore, workflow.Queries("listed"), workflow.Updates("listed"))
	add("unanswered-update", func(ctx context.Context, _ string) ([]string, error) {
		slowUpdates(ctx)
		return nil, workflow.Sleep(ctx, "sleep", 2*time.Hour)
	})
	add("unanswered-update-when-failing", func(ctx context.Context, _ string) ([]string, error) {
		slowUpdates(ctx)
		return nil, errors.Join(workflow.Sleep(ctx, "sleep", 1500*time.Millisecond), errors.New("no"))
	})
	add("unanswered-update-when-told", func(ctx context.Context, _ string) ([]string, error) {
		if err := workflow.SetCancelPolicy(ctx, workflow.CooperativeCancel); err != nil {
			return nil, err
		}
		slowUpdates(ctx)
		return nil, workflow.Sleep(ctx, "sleep", 2*time.Hour)
	})
}

// takesMore handles more queries and updates than it lists.
func takesMore(ctx context.Context, _ string) ([]string, error) {
	for _, name := range []string{"listed", "unlisted"} {
		workflow.Query(ctx, name, func(in int) (int, error) { return in + 1, nil })
		workflow.OnUpdate(ctx, name, func(_ context.Context, in int) (int, error) { return in + 2, nil })
	}
	return nil, workflow.Sleep(ctx, "sleep", time.Hour)
}

// slowUpdates handles updates that take an hour, even if their context ends.
func slowUpdates(ctx context.Context) {
	workflow.OnUpdate(ctx, "slow", func(ctx context.Context, _ int) (int, error) {
		return 1, workflow.Sleep(context.WithoutCancel(ctx), "update", time.Hour)
	})
}
