package main

import (
	"context"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	add("signals-at-time-outs", signalsAtTimeouts)
	add("signal-when-many-wait", signalWhenFull)
	add("channel-of-an-earlier-iteration", channelOfEarlier)
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

// channelOfEarlier continues as new while a goroutine is about to ask for the channel that the next iteration receives from.
func channelOfEarlier(ctx context.Context, in string) ([]string, error) {
	if in == "" {
		go func() {
			time.Sleep(time.Hour)
			select {
			case <-workflow.Signal[int](ctx, "go"):
			case <-ctx.Done():
			}
		}()
		if err := workflow.Sleep(ctx, "s", time.Minute); err != nil {
			return nil, err
		}
		return nil, workflow.ContinueAsNew(ctx, "again")
	}
	if err := workflow.Sleep(ctx, "s", 2*time.Hour); err != nil {
		return nil, err
	}
	select {
	case v := <-workflow.Signal[int](ctx, "go"):
		return []string{fmt.Sprint("got ", v)}, nil
	case <-time.After(10 * time.Hour):
		return []string{"nothing came"}, nil
	}
}
