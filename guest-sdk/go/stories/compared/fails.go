package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

// hugeError is an error with a message that is larger than a payload may be.
type hugeError struct{}

func (hugeError) Error() string { return "a" + strings.Repeat("é", 1<<20) }

func init() {
	workflow.RegisterStep("fails-hugely", func(workflow.Step, int) (int, error) { return 0, hugeError{} })
	workflow.Register("child-fails-hugely", func(context.Context, int) (int, error) { return 0, hugeError{} })
	add("huge-errors", hugeErrors)
	add("failures-of-handlers", handlersFail)
	add("details-of-failures", detailed)
	add("errors-that-panic", errorsPanic)
	workflow.RegisterStep("fails-with-nil", func(workflow.Step, int) (int, error) { return 0, (*nilError)(nil) })
	workflow.Register("child-fails-with-nil", func(context.Context, int) (int, error) { return 0, (*nilError)(nil) })
	workflow.Register("child-fails", childFails)
}

// hugeErrors runs bodies, a step function and a child that fail with messages that do not fit into a report. The other fields
// of the report must be kept.
func hugeErrors(ctx context.Context, _ string) (told []string, _ error) {
	for i, body := range []func(workflow.Step) (int, error){
		func(workflow.Step) (int, error) { return 0, hugeError{} },
		func(workflow.Step) (int, error) { return 0, workflow.Fatal(hugeError{}) },
		func(workflow.Step) (int, error) { panic(hugeError{}.Error()) },
		func(workflow.Step) (int, error) { return 0, errors.New(strings.Repeat("\x01", 1<<20)) },
		func(workflow.Step) (int, error) { return 0, errors.New(strings.Repeat("\xff", 1<<20)) },
	} {
		_, err := workflow.Do(ctx, fmt.Sprint("body ", i), body, workflow.Attempts(2))
		told = append(told, outcome(nil, err))
	}
	_, err := workflow.Call[int](ctx, "step function", "fails-hugely", 1)
	told = append(told, outcome(nil, err))
	_, err = workflow.Child[int](ctx, "child", "child-fails-hugely", 1)
	return append(told, outcome(nil, err)), nil
}

// nilError is an error whose nil pointer panics when it is asked for its message.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// errorsPanic runs a body, a step function, a query and a child that return such an error, and has a query and a validator panic.
func errorsPanic(ctx context.Context, _ string) (told []string, _ error) {
	workflow.Query(ctx, "nil", func(int) (int, error) { return 0, (*nilError)(nil) })
	workflow.Query(ctx, "panics", func(int) (int, error) { panic("no") })
	workflow.OnUpdate(ctx, "panics", func(_ context.Context, n int) (int, error) { return n, nil },
		workflow.Validate(func(int) error { panic("no") }))
	_, err := workflow.Do(ctx, "body", func(workflow.Step) (int, error) { return 0, (*nilError)(nil) }, workflow.Attempts(2))
	told = append(told, outcome(nil, err))
	_, err = workflow.Call[int](ctx, "step function", "fails-with-nil", 1, workflow.Attempts(2))
	told = append(told, outcome(nil, err))
	_, err = workflow.Child[int](ctx, "child", "child-fails-with-nil", 1)
	return append(told, outcome(nil, err)), workflow.Sleep(ctx, "while it is asked", time.Hour)
}

// handlersFail calls handlers that panic, cannot decode their input, return a value without JSON, or fail without a message.
func handlersFail(ctx context.Context, _ string) (told []string, _ error) {
	for _, how := range []string{"panic", "error", "empty", "wrapped", "fatal", "result"} {
		_, err := workflow.Call[any](ctx, how, "host/fails", how, workflow.Attempts(2))
		told = append(told, outcome(nil, err))
	}
	_, err := workflow.Call[any](ctx, "input", "host/fails", []int{1})
	return append(told, outcome(nil, err)), nil
}

// fails is the function of the handler host/fails, on a host and in an Env. fatal marks an error that must not be retried.
func fails(how string, fatal func(error) error) (any, error) {
	switch how {
	case "panic":
		panic("no")
	case "empty":
		return nil, errors.New("")
	case "wrapped":
		return nil, fmt.Errorf("no: %w", hugeError{})
	case "fatal":
		return nil, fatal(&notThere{})
	case "result":
		return make(chan int), nil
	}
	return nil, errors.New("no")
}

type notThere struct{}

func (*notThere) Error() string { return "not there" }

// childFails fails in the way that its input names.
func childFails(ctx context.Context, how string) (any, error) {
	switch how {
	case "panic":
		panic("no")
	case "step":
		return workflow.Do(ctx, "step", func(workflow.Step) (int, error) { return 0, &notThere{} }, workflow.Attempts(1))
	case "time-out":
		_, err := workflow.ReceiveTimeout[int](ctx, "signal", time.Second)
		return nil, fmt.Errorf("no signal: %w", err)
	case "fatal":
		return nil, workflow.Fatal(&notThere{})
	case "result":
		return strings.Repeat("x", 2<<20), nil
	case "hook":
		_, err := workflow.Hook(ctx, "hook", "token-of-parent")
		return nil, err
	case "child":
		return workflow.Child[any](ctx, "child", "child-fails", "step")
	case "told":
		if err := workflow.SetCancelPolicy(ctx, workflow.CooperativeCancel); err != nil {
			return nil, err
		}
	}
	return nil, workflow.Sleep(ctx, "sleep", time.Hour)
}

// detailed returns the details of errors: the attempts of steps, the reports of children, the holder of a token.
func detailed(ctx context.Context, _ string) (told []string, _ error) {
	for i, body := range []func(s workflow.Step) (any, error){
		func(workflow.Step) (any, error) { return nil, &notThere{} },
		func(s workflow.Step) (any, error) { panic(s.Attempt) },
		func(s workflow.Step) (any, error) {
			if s.Attempt < 3 {
				return nil, workflow.RetryAfter(errors.New("later"), time.Minute)
			}
			return strings.Repeat("x", 2<<20), nil
		},
		func(s workflow.Step) (any, error) { return nil, hugeError{} },
	} {
		_, err := workflow.Do(ctx, fmt.Sprint("body ", i), body, workflow.Attempts(20), workflow.MaxElapsed(time.Hour))
		told = append(told, outcome(nil, err))
	}
	if _, err := workflow.Hook(ctx, "hook", "token-of-parent"); err != nil {
		return nil, err
	}
	for _, how := range []string{"panic", "step", "time-out", "fatal", "result", "hook", "child", "sleep", "told"} {
		_, err := workflow.Child[any](ctx, how, "child-fails", how, workflow.ChildTimeout(time.Minute))
		told = append(told, outcome(nil, err))
	}
	return told, nil
}
