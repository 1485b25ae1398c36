// Command everyday holds a workflow that leaves something in each table of a store, and what it starts.
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {}

func init() {
	workflow.Register("everyday", everyday)
	workflow.Register("gathered", func(_ context.Context, in order) (string, error) { return in.Name, nil })
	workflow.Register("part", func(_ context.Context, in string) (string, error) { return in, nil })
}

// order has a name that no other one has.
type order struct {
	Name string `json:"name"`
	Last bool   `json:"last,omitempty"`
}

// everyday logs, sets attributes, shows output, performs steps, starts a child, opens a hook, waits for what comes by it
// and for a signal, and continues as new once.
func everyday(ctx context.Context, in order) (string, error) {
	if in.Last {
		return workflow.Receive[string](ctx, "go")
	}
	workflow.Log(ctx).Info("begins", "order", in.Name)
	for _, key := range []string{"order", "of-" + in.Name} {
		if err := workflow.SetAttribute(ctx, key, in.Name); err != nil {
			return "", err
		}
	}
	if _, err := workflow.Emit(ctx, "topic-"+in.Name, in.Name); err != nil {
		return "", err
	}
	if _, err := workflow.Call[string](ctx, "pay", "host/pay", in.Name); err != nil {
		return "", err
	}
	if _, err := workflow.Call[string](ctx, "fail", "host/fail", in.Name, workflow.Attempts(1)); err == nil {
		return "", errors.New("the step has not failed")
	}
	if _, err := workflow.Do(ctx, "body", func(workflow.Step) (string, error) { return in.Name, nil }); err != nil {
		return "", err
	}
	if _, err := workflow.Child[string](ctx, "child", "part", in.Name); err != nil {
		return "", fmt.Errorf("child: %w", err)
	}
	if _, err := workflow.Hook(ctx, "delivery", "token-of-"+in.Name); err != nil {
		return "", err
	}
	if _, err := workflow.Receive[string](ctx, "delivery"); err != nil {
		return "", err
	}
	return "", workflow.ContinueAsNew(ctx, order{Name: in.Name, Last: true})
}
