package main

import (
	"context"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	add("context-ends-in-an-attempt", func(ctx context.Context, _ string) ([]string, error) { return slowWithin(ctx, 10) })
	add("context-ends-between-attempts", func(ctx context.Context, _ string) ([]string, error) { return slowWithin(ctx, 4) })
	add("cancel-in-an-attempt", slowCancelled)
	add("what-steps-know", stepsKnow)
	workflow.RegisterStep("knows", func(s workflow.Step, _ int) ([]string, error) { return known(s), nil })
}

// known returns the facts that a body or step function can read about its run and its call.
func known(s workflow.Step) []string {
	i := workflow.Info(s)
	at, dated := s.Deadline()
	return []string{i.Workflow, outcome(i.Attributes, nil), outcome(i.Memo, nil), outcome(i.Iteration, nil), s.Name,
		outcome([]int{s.Attempt, s.Attempts}, nil), outcome(dated, nil), at.UTC().String()}
}

// stepsKnow returns the results of known in several kinds of steps, without and with a deadline.
func stepsKnow(ctx context.Context, _ string) (told []string, _ error) {
	if err := workflow.SetAttribute(ctx, "key", "value"); err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	for i, of := range []context.Context{ctx, within} {
		name := fmt.Sprint(i)
		list, err := workflow.Do(of, "body "+name, func(s workflow.Step) ([]string, error) { return known(s), nil })
		told = append(told, outcome(list, err))
		list, err = workflow.Call[[]string](of, "step "+name, "knows", 1)
		told = append(told, outcome(list, err))
	}
	return told, nil
}

// slowWithin calls a handler that takes the given number of seconds, with a context that ends after 5 s.
func slowWithin(ctx context.Context, seconds int) ([]string, error) {
	within, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := workflow.Call[int](within, "step", "host/slow", seconds, workflow.Attempts(3), workflow.Delay(2*time.Second))
	return []string{outcome(nil, err)}, nil
}

// slowCancelled calls a slow handler. The run is cancelled meanwhile.
func slowCancelled(ctx context.Context, _ string) ([]string, error) {
	if err := workflow.SetCancelPolicy(ctx, workflow.CooperativeCancel); err != nil {
		return nil, err
	}
	_, err := workflow.Call[int](ctx, "step", "host/slow", 10, workflow.Attempts(3), workflow.Delay(time.Second))
	return []string{outcome(nil, err)}, nil
}
