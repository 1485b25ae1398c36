package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

// hugeError is an error whose message is larger than a payload may be.
type hugeError struct{}

func (hugeError) Error() string { return "a" + strings.Repeat("é", 1<<20) }

func init() {
	workflow.RegisterStep("fails-hugely", func(workflow.Step, int) (int, error) { return 0, hugeError{} })
	workflow.Register("child-fails-hugely", func(context.Context, int) (int, error) { return 0, hugeError{} })
	add("huge-errors", hugeErrors)
	add("failures-of-handlers", handlersFail)
}

// hugeErrors has bodies, a step function and a child fail with messages that no report has room for: what else they say stays.
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

// handlersFail calls handlers that panic, get another input than they read, return what is no JSON, or fail without a message.
func handlersFail(ctx context.Context, _ string) (told []string, _ error) {
	for _, how := range []string{"panic", "error", "empty", "wrapped", "fatal", "result"} {
		_, err := workflow.Call[any](ctx, how, "host/fails", how, workflow.Attempts(2))
		told = append(told, outcome(nil, err))
	}
	_, err := workflow.Call[any](ctx, "input", "host/fails", []int{1})
	return append(told, outcome(nil, err)), nil
}

// fails is what host/fails does on a host and in the environment. fatal is how either marks an error that is not retried.
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
