package handler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/handler"
)

// TestCall compares the outcomes for everything that a handler may return or do.
func TestCall(t *testing.T) {
	cause := errors.New("no such customer")
	for _, c := range []struct {
		name      string
		err       error
		retryable bool
		afterMs   int64 // -1 = by the step's options
	}{
		{"error", cause, true, -1},
		{"fatal", &handler.FatalError{Err: cause}, false, -1},
		{"after", &handler.RetryAfterError{Err: cause, After: time.Minute}, true, 60_000},
		{"before", &handler.RetryAfterError{Err: cause, After: -time.Minute}, true, 0},
		{"wrapped", fmt.Errorf("charge: %w", &handler.FatalError{Err: cause}), false, -1},
		{"both", &handler.FatalError{Err: &handler.RetryAfterError{Err: cause, After: time.Second}}, false, 1000},
	} {
		f := handler.Func(func(context.Context, handler.Attempt, []byte) ([]byte, error) { return nil, c.err })
		out := f.Call(t.Context(), handler.Attempt{}, nil)
		if out.Err == nil || out.Err.Message != c.err.Error() || out.Err.Retryable != c.retryable || out.RetryAfterMs != c.afterMs {
			t.Errorf("%s: the outcome is %+v, its error %+v", c.name, out, out.Err)
		}
		if out.Err != nil && out.Err.Type != fmt.Sprintf("%T", cause) {
			t.Errorf("%s: the type is %q, want that of the cause", c.name, out.Err.Type)
		}
	}
	f := handler.Func(func(_ context.Context, a handler.Attempt, input []byte) ([]byte, error) {
		if a.Number > 1 {
			panic("again")
		}
		return input, nil
	})
	if out := f.Call(t.Context(), handler.Attempt{Number: 1}, []byte("x")); out.Err != nil || string(out.Data) != "x" {
		t.Errorf("the outcome is %+v", out)
	}
	out := f.Call(t.Context(), handler.Attempt{Number: 2}, nil)
	if out.Err == nil || out.Err.Kind != abi.KindTrap || !out.Err.Retryable || out.Err.Details == nil {
		t.Errorf("the outcome of a panic is %+v, its error %+v", out, out.Err)
	}
}

func TestRegistry(t *testing.T) {
	r := handler.NewRegistry(handler.Config{})
	if r.Handled("charge") {
		t.Error("a handler is there that nobody has registered")
	}
	for _, want := range []string{"first", "second"} {
		r.Handle("charge", func(context.Context, handler.Attempt, []byte) ([]byte, error) { return []byte(want), nil })
		if got, err := r.Handler("charge")(t.Context(), handler.Attempt{}, nil); err != nil || string(got) != want {
			t.Errorf("the handler returned %q, %v, want %q", got, err, want)
		}
	}
}
