// Command numbers hands its input on in every way there is.
package main

import (
	"context"
	"encoding/json"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

type raw = json.RawMessage

func init() {
	workflow.Register("pass", pass)
	workflow.Register("echo", func(_ context.Context, in raw) (raw, error) { return in, nil })
	workflow.Register("fails", func(ctx context.Context, in raw) (raw, error) {
		return workflow.Call[raw](ctx, "fail", "host/fail", in, workflow.Attempts(1))
	})
}

func pass(ctx context.Context, in raw) (raw, error) {
	workflow.Query(ctx, "asked", func(a raw) (raw, error) { return a, nil })
	workflow.OnUpdate(ctx, "changed", func(_ context.Context, a raw) (raw, error) { return a, nil })
	if _, err := workflow.Emit(ctx, "topic", in); err != nil {
		return nil, err
	}
	workflow.Log(ctx).Info("it is " + string(in))
	v, err := workflow.Do(ctx, "body", func(workflow.Step) (raw, error) { return in, nil })
	if err == nil {
		v, err = workflow.Child[raw](ctx, "child", "echo", v)
	}
	if err == nil {
		v, err = workflow.Call[raw](ctx, "handler", "host/echo", v)
	}
	if err == nil {
		v, err = workflow.Receive[raw](ctx, "told")
	}
	if err != nil {
		return nil, err
	}
	_, err = workflow.Receive[raw](ctx, "end")
	return v, err
}

func main() {}
