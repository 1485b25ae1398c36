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
