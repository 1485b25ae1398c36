// Command real is step a, a sleep, step b.
package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("real", run) }

func main() {}

func run(ctx context.Context, ms int) (string, error) {
	a, err := workflow.Call[string](ctx, "a", "host/effect", "a")
	if err != nil {
		return "", err
	}
	if err := workflow.Sleep(ctx, "pause", time.Duration(ms)*time.Millisecond); err != nil {
		return "", err
	}
	b, err := workflow.Call[string](ctx, "b", "host/effect", "b")
	return a + b, err
}

func init() { workflow.Register("beside", beside) }

// beside sleeps while a step runs, and tells when it has woken.
func beside(ctx context.Context, ms int) (string, error) {
	done := make(chan error, 1)
	go func() {
		_, err := workflow.Call[string](ctx, "slow", "host/slow", "")
		done <- err
	}()
	time.Sleep(time.Duration(ms) * time.Millisecond)
	if _, err := workflow.Emit(ctx, "woke", ms); err != nil {
		return "", err
	}
	return "woke first", <-done
}
