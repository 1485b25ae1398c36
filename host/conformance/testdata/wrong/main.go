// Command wrong holds stories that are told wrongly.
package main

import (
	"context"
	"runtime"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {}

func init() {
	workflow.Register("race", race)
	workflow.Register("failing", func(ctx context.Context, _ any) (any, error) {
		return nil, workflow.Sleep(ctx, "nap", time.Second)
	})
	workflow.Register("chance", func(ctx context.Context, _ any) ([]bool, error) {
		return []bool{true}, workflow.Sleep(ctx, "nap", time.Second)
	})
	workflow.Register("queries", func(ctx context.Context, _ any) (string, error) {
		workflow.Query(ctx, "status", func(string) (map[string]string, error) { return map[string]string{"at": "nowhere"}, nil })
		return "done", workflow.Sleep(ctx, "nap", 10*time.Second)
	})
}

// race does not withdraw the loser.
func race(ctx context.Context, _ any) ([]any, error) {
	stop := workflow.Async(ctx, func(ctx context.Context) (string, error) { return workflow.Receive[string](ctx, "stop") })
	runtime.Gosched()
	limit := workflow.Async(ctx, func(ctx context.Context) (any, error) {
		return nil, workflow.Sleep(ctx, "limit", 5*time.Second)
	})
	list := []any{"limit"}
	select {
	case <-stop.Done():
		v, err := stop.Get(ctx)
		if err != nil {
			return nil, err
		}
		list = []any{"stop", v}
	case <-limit.Done():
	}
	if err := workflow.Sleep(ctx, "after", time.Second); err != nil {
		return nil, err
	}
	v, err := workflow.ReceiveTimeout[string](ctx, "stop", 10*time.Second)
	if err != nil {
		return append(list, "TIMEOUT"), nil
	}
	return append(list, v), nil
}
