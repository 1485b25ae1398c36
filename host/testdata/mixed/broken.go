package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	workflow.Register("outofmemory", func(context.Context, int) (int, error) { return tooMuch(), nil })
	workflow.Register("bodyoutofmemory", func(ctx context.Context, _ int) (string, error) {
		_, err := workflow.Do(ctx, "b", func(workflow.Step) (int, error) { return tooMuch(), nil }, workflow.Attempts(1))
		var e *workflow.StepError
		errors.As(err, &e)
		return fmt.Sprintf("%s: %s", e.Kind, e.Message), nil
	})
	workflow.Register("crash", func(context.Context, int) (string, error) {
		crashed := make(chan bool)
		go func() { panic("nobody recovers this") }()
		<-crashed
		return "", nil
	})
}

// tooMuch asks for more memory than an instance may have.
func tooMuch() int { return len(make([]byte, 1<<30)) }
