package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	add("context-ends-in-an-attempt", func(ctx context.Context, _ string) ([]string, error) { return slowWithin(ctx, 10) })
	add("context-ends-between-attempts", func(ctx context.Context, _ string) ([]string, error) { return slowWithin(ctx, 4) })
	add("cancel-in-an-attempt", slowCancelled)
}

// slowWithin calls a handler that takes so many seconds, with a context that ends after 5 s.
func slowWithin(ctx context.Context, seconds int) ([]string, error) {
	within, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := workflow.Call[int](within, "step", "host/slow", seconds, workflow.Attempts(3), workflow.Delay(2*time.Second))
	return []string{outcome(nil, err)}, nil
}

// slowCancelled calls a slow handler, and takes a cancel meanwhile.
func slowCancelled(ctx context.Context, _ string) ([]string, error) {
	if err := workflow.SetCancelPolicy(ctx, workflow.CooperativeCancel); err != nil {
		return nil, err
	}
	_, err := workflow.Call[int](ctx, "step", "host/slow", 10, workflow.Attempts(3), workflow.Delay(time.Second))
	return []string{outcome(nil, err)}, nil
}
