package main

import (
	"context"
	"sync"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	workflow.Register("sleeper", func(ctx context.Context, length string) (string, error) {
		return "slept", workflow.SleepText(ctx, "sleep", length)
	})
	add("several-wait-for-a-child", severalWait)
	add("a-wait-ends-before-others", oneWaitEnds)
	add("waits-for-a-child-are-cancelled", waitsCancelled)
	add("child-ends-at-the-time-out", childEndsAtTimeout)
}

// severalWait starts goroutines that wait for the same child, beginning at different times and for different durations.
func severalWait(ctx context.Context, _ string) ([]string, error) {
	c, err := workflow.StartChild[string](ctx, "child", "sleeper", "1m")
	if err != nil {
		return nil, err
	}
	told := make([]string, 4)
	var wg sync.WaitGroup
	for i := range told {
		wg.Go(func() {
			of, cancel := ctx, context.CancelFunc(func() {})
			if i > 1 {
				of, cancel = context.WithTimeout(ctx, time.Duration(i)*time.Hour)
			}
			defer cancel()
			told[i] = outcome(c.Wait(of))
		})
		if i%2 == 1 {
			if err := workflow.Sleep(ctx, string(rune('a'+i)), time.Second); err != nil {
				return nil, err
			}
		}
	}
	wg.Wait()
	again, err := c.Wait(ctx)
	return append(told, outcome(again, err)), nil
}

// oneWaitEnds starts several goroutines that wait for the same child. When one wait ends early, the child is withdrawn. Some
// waits end at the same instant.
func oneWaitEnds(ctx context.Context, _ string) ([]string, error) {
	c, err := workflow.StartChild[string](ctx, "child", "sleeper", "1h")
	if err != nil {
		return nil, err
	}
	short, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	contexts := []context.Context{short, ctx, short, context.WithoutCancel(ctx)}
	told := make([]string, len(contexts))
	var wg sync.WaitGroup
	for i, of := range contexts {
		wg.Go(func() { told[i] = outcome(c.Wait(of)) })
	}
	wg.Wait()
	again, err := c.Wait(ctx)
	return append(told, outcome(again, err)), nil
}

// waitsCancelled starts goroutines that wait for a child when the run is cancelled cooperatively.
func waitsCancelled(ctx context.Context, _ string) ([]string, error) {
	if err := workflow.SetCancelPolicy(ctx, workflow.CooperativeCancel); err != nil {
		return nil, err
	}
	c, err := workflow.StartChild[string](ctx, "child", "sleeper", "1h")
	if err != nil {
		return nil, err
	}
	told := make([]string, 3)
	var wg sync.WaitGroup
	for i, of := range []context.Context{context.WithoutCancel(ctx), ctx, ctx} {
		wg.Go(func() { told[i] = outcome(c.Wait(of)) })
	}
	wg.Wait()
	return told, nil
}

// childEndsAtTimeout waits for children that end when the wait times out, or a millisecond before.
func childEndsAtTimeout(ctx context.Context, _ string) (told []string, _ error) {
	for _, within := range []time.Duration{time.Minute, time.Minute + time.Millisecond} {
		of, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		c, err := workflow.StartChild[string](ctx, within.String(), "sleeper", "1m")
		if err != nil {
			return nil, err
		}
		told = append(told, outcome(c.Wait(of)), outcome(c.Wait(ctx)))
	}
	return told, nil
}
