package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	workflow.Register("s01", func(ctx context.Context, ms int64) (string, error) {
		a, err := workflow.Do(ctx, "a", func(workflow.Step) (string, error) { return "a", nil })
		if err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, "nap", time.Duration(ms)*time.Millisecond); err != nil {
			return "", err
		}
		b, err := workflow.Do(ctx, "b", func(workflow.Step) (string, error) { return "b", nil })
		return a + b, err
	})
}

func main() {}
