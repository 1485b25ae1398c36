// Package workflow has the shapes of the SDK that the analyzer's tests need.
package workflow

import (
	"context"
	"time"
)

type Step struct {
	context.Context
	Attempt int
}

type ChildRun[T any] struct{ ID string }

func (c *ChildRun[T]) Wait(ctx context.Context) (v T, err error) { return v, nil }

func Do[T any](ctx context.Context, name string, fn func(s Step) (T, error)) (v T, err error) {
	return v, nil
}

func RegisterStep[In, Out any](name string, fn func(s Step, in In) (Out, error)) {}

func Call[T any](ctx context.Context, name, handler string, in any) (v T, err error) { return v, nil }

func Sleep(ctx context.Context, name string, d time.Duration) error { return nil }

func Version(ctx context.Context, id string, newest int) int { return 0 }

func Receive[T any](ctx context.Context, name string) (v T, err error) { return v, nil }

func Log(ctx context.Context) func(string) { return nil }

func Run(ctx context.Context, fn func(ctx context.Context, in int) (int, error)) {}

func Async(ctx context.Context, fn func(ctx context.Context) (int, error)) {}
