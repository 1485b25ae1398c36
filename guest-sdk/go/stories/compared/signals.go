package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	add("signals-at-time-outs", signalsAtTimeouts)
	add("signal-when-many-wait", signalWhenFull)
}

// signalsAtTimeouts waits for signals that arrive at the instant of the timeout.
func signalsAtTimeouts(ctx context.Context, _ string) (told []string, _ error) {
	for range 20 {
		told = append(told, outcome(workflow.ReceiveTimeout[int](ctx, "s", time.Hour)))
	}
	return told, nil
}

// signalWhenFull waits for a signal of one name while the run accepts no more signals of other names.
func signalWhenFull(ctx context.Context, _ string) ([]string, error) {
	workflow.OnUpdate(ctx, "u", func(context.Context, string) (string, error) { return "updated", nil })
	for {
		v, err := workflow.Receive[string](ctx, "awaited")
		if err != nil || v == "end" {
			return []string{outcome(v, err)}, nil
		}
	}
}
