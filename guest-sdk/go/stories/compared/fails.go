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
