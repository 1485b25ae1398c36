package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	workflow.Register("napper", napper)
	add("napping-children", nappingChildren)
}

// napper waits without a workflow call.
func napper(ctx context.Context, how string) (string, error) {
	switch how {
	case "select":
		select {
		case <-workflow.Signal[int](ctx, "never"):
		case <-time.After(2 * time.Hour):
		}
	case "hook":
		if _, err := workflow.Hook(ctx, "hook", "token-of-napper"); err != nil {
			return "", err
		}
		time.Sleep(2 * time.Hour)
	case "parent":
		if _, err := workflow.StartChild[string](ctx, "child", "napper", "hook", workflow.OnEnd(workflow.EndTerminate)); err != nil {
			return "", err
		}
		time.Sleep(2 * time.Hour)
	default:
		time.Sleep(2 * time.Hour)
	}
	return "done", nil
}

// nappingChildren ends children that wait without a workflow call. They must end at once, and what they hold and started without
// more time passing.
func nappingChildren(ctx context.Context, _ string) (told []string, _ error) {
	for _, how := range []string{"sleep", "select", "hook", "parent"} {
		began := time.Now()
		_, err := workflow.Child[string](ctx, how, "napper", how, workflow.ChildTimeout(time.Hour))
		told = append(told, outcome(time.Since(began).String(), nil), outcome(nil, err))
	}
	if err := workflow.Sleep(ctx, "until children of children have ended", time.Second); err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err := workflow.Child[string](within, "terminated", "napper", "hook", workflow.OnEnd(workflow.EndTerminate))
	told = append(told, outcome(nil, err))
	if err := workflow.Sleep(ctx, "a little", time.Second); err != nil {
		return nil, err
	}
	token, err := workflow.Hook(ctx, "hook", "token-of-napper")
	return append(told, outcome(token, err)), nil
}
