//go:build !wasip1

package main

import (
	"context"
	"encoding/json"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

// inMemory has functions, by name, that run stories in a workflow.Env.
var inMemory = map[string]func(ctx context.Context, e *workflow.Env, input []byte) ([]byte, error){}

func told[In, Out any](name string, fn func(context.Context, In) (Out, error)) {
	inMemory[name] = func(ctx context.Context, e *workflow.Env, input []byte) ([]byte, error) {
		var in In
		if b, ok := any(&in).(*workflow.Bytes); ok {
			*b = input
		} else if len(input) > 0 {
			if err := json.Unmarshal(input, &in); err != nil {
				return nil, err
			}
		}
		out, err := workflow.Run(ctx, e, fn, in)
		if b, ok := any(out).(workflow.Bytes); ok || err != nil {
			return b, err
		}
		return json.Marshal(out)
	}
}
