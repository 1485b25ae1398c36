//go:build !wasip1

package workflow_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

// TestTwoEnvironments receives from a signal channel in several environments in turn, and in a second iteration: each
// has its own channels.
func TestTwoEnvironments(t *testing.T) {
	wait := func(ctx context.Context, left int) (string, error) {
		select {
		case v := <-workflow.Signal[string](ctx, "s"):
			if left > 0 {
				return "", workflow.ContinueAsNew(ctx, left-1)
			}
			return v, nil
		case <-time.After(time.Hour):
			return "timeout", nil
		}
	}
	for i, want := range []string{"a", "b", "c"} {
		synctest.Test(t, func(t *testing.T) {
			e := workflow.NewEnv()
			go func() {
				for range i { // for the iterations before the last one
					if err := e.SendSignal("s", "not yet"); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Minute)
				}
				if err := e.SendSignal("s", want); err != nil {
					t.Error(err)
				}
			}()
			if got, err := workflow.Run(t.Context(), e, wait, i); got != want || err != nil {
				t.Errorf("%q, %v, want %q", got, err, want)
			}
		})
	}
}

// TestEnvIsAsTheHost makes steps and sleeps in an environment, with the results that a host gives.
func TestEnvIsAsTheHost(t *testing.T) {
	call := func(handler string, opts ...workflow.Option) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := workflow.Call[string](ctx, "a", handler, 1, opts...)
			return err
		}
	}
	for name, c := range map[string]struct {
		do   func(ctx context.Context) error
		took time.Duration
		want error
		kind string
	}{
		"linear":       {call("host/fail", workflow.Attempts(4), workflow.Delay(2*time.Second), workflow.Backoff(workflow.Linear)), 12 * time.Second, workflow.ErrStepFailed, "error"},
		"max delay":    {call("host/fail", workflow.Attempts(12)), 511*time.Second + 2*300*time.Second, workflow.ErrStepFailed, "error"},
		"own bound":    {call("host/fail", workflow.Attempts(5), workflow.MaxDelay(3*time.Second)), 9 * time.Second, workflow.ErrStepFailed, "error"},
		"max elapsed":  {call("host/fail", workflow.Attempts(0), workflow.Delay(10*time.Second), workflow.Backoff(workflow.Fixed), workflow.MaxElapsed(time.Minute)), time.Minute, workflow.ErrStepFailed, "error"},
		"retry after":  {call("host/later", workflow.Attempts(2)), time.Hour, workflow.ErrStepFailed, "error"},
		"timeout":      {call("host/slow", workflow.Attempts(2), workflow.Timeout(time.Second)), 3 * time.Second, workflow.ErrTimeout, "timeout"},
		"late success": {call("host/late", workflow.Attempts(1), workflow.Timeout(time.Second)), 2 * time.Second, workflow.ErrTimeout, "timeout"},
		"at most once": {call("host/slow", workflow.AtMostOnce(), workflow.Timeout(time.Second)), time.Second, workflow.ErrTimeout, "timeout"},
		"panic":        {call("host/panics", workflow.Attempts(1)), 0, workflow.ErrStepFailed, "trap"},
		"bad options":  {call("host/fail", workflow.Jitter(2)), 0, workflow.ErrInvalidArgument, ""},
		"bad timeout":  {call("host/fail", workflow.Timeout(-1)), 0, workflow.ErrInvalidArgument, ""},
		"deadline": {func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return call("host/slow", workflow.Attempts(1))(ctx)
		}, time.Minute, context.DeadlineExceeded, "error"},
		"bad date":    {func(ctx context.Context) error { return workflow.SleepText(ctx, "a", "2026-13-01T00:00:00Z") }, 0, workflow.ErrInvalidDate, ""},
		"name":        {func(ctx context.Context) error { return workflow.Sleep(ctx, "a\nb", time.Second) }, 0, workflow.ErrInvalidArgument, ""},
		"less than 0": {func(ctx context.Context) error { return workflow.Sleep(ctx, "a", -1) }, 0, workflow.ErrInvalidDuration, ""},
		"year 10000": {func(ctx context.Context) error {
			return workflow.SleepUntil(ctx, "a", time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC))
		}, 0, workflow.ErrInvalidDate, ""},
		"child options": {func(ctx context.Context) error {
			_, err := workflow.Child[string](ctx, "a", "env-child", 0, workflow.ChildID("a b"))
			return err
		}, 0, workflow.ErrInvalidArgument, ""},
		"signal": {func(ctx context.Context) error {
			_, err := workflow.Receive[int](ctx, "host/x")
			return err
		}, 0, workflow.ErrInvalidArgument, ""},
		"sent":   {func(ctx context.Context) error { return workflow.Send(ctx, "r", "host/update/x", 1) }, 0, workflow.ErrInvalidArgument, ""},
		"run id": {func(ctx context.Context) error { return workflow.Send(ctx, "a run", "x", 1) }, 0, workflow.ErrInvalidArgument, ""},
		"token": {func(ctx context.Context) error {
			_, err := workflow.Hook(ctx, "a", "short")
			return err
		}, 0, workflow.ErrInvalidArgument, ""},
		"hook status": {func(ctx context.Context) error {
			_, err := workflow.Hook(ctx, "a", "", workflow.HookReply(500, "", ""))
			return err
		}, 0, workflow.ErrInvalidArgument, ""},
		"topic": {func(ctx context.Context) error {
			_, err := workflow.Emit(ctx, "", 1)
			return err
		}, 0, workflow.ErrInvalidArgument, ""},
		"attribute": {func(ctx context.Context) error { return workflow.SetAttribute(ctx, "a", "b\nc") }, 0, workflow.ErrInvalidArgument, ""},
		"child id": {func(ctx context.Context) error {
			if _, err := workflow.Child[string](ctx, "a", "env-child", 0, workflow.ChildID("kid")); err != nil {
				return err
			}
			_, err := workflow.Child[string](ctx, "b", "env-child", 0, workflow.ChildID("kid"))
			return err
		}, 0, workflow.ErrConflict, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := workflow.NewEnv()
				workflow.Handle(e, "host/fail", func(s workflow.Step, _ int) (string, error) {
					if s.Attempt > 100 { // a bound that is ignored
						return "", workflow.Fatal(errors.New("too many attempts"))
					}
					return "", errors.New("no")
				})
				workflow.Handle(e, "host/later", func(workflow.Step, int) (string, error) {
					return "", workflow.RetryAfter(errors.New("no"), time.Hour)
				})
				workflow.Handle(e, "host/slow", func(s workflow.Step, _ int) (string, error) { <-s.Done(); return "", s.Err() })
				workflow.Handle(e, "host/late", func(workflow.Step, int) (string, error) { <-time.After(2 * time.Second); return "late", nil })
				workflow.Handle(e, "host/panics", func(workflow.Step, int) (string, error) { panic("no") })
				begun := time.Now()
				_, err := workflow.Run(t.Context(), e, func(ctx context.Context, _ int) (int, error) { return 0, c.do(ctx) }, 0)
				step, _ := errors.AsType[*workflow.StepError](err)
				if took := time.Since(begun); took != c.took || !errors.Is(err, c.want) || step == nil || step.Kind != c.kind {
					t.Errorf("%v after %v, want %v %q after %v", err, took, c.want, c.kind, c.took)
				}
			})
		})
	}
}

// TestChannelOutsideOfAWorkflow requests a signal channel outside of a workflow: it never receives.
func TestChannelOutsideOfAWorkflow(t *testing.T) {
	select {
	case v := <-workflow.Signal[string](t.Context(), "s"):
		t.Error(v)
	default:
	}
}

// TestEnvNextIteration opens a hook and registers a query in the first of two iterations: both end with that
// iteration, as on a host.
func TestEnvNextIteration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := workflow.NewEnv()
		go func() {
			_, err := workflow.Run(t.Context(), e, func(ctx context.Context, first bool) (int, error) {
				if first {
					workflow.Query(ctx, "first", func(int) (int, error) { return 1, nil })
				}
				if _, err := workflow.Hook(ctx, "paid", "order-1-paid"); err != nil {
					return 0, err
				}
				made, err := workflow.Hook(ctx, "made", "")
				if err != nil {
					return 0, err
				}
				if want := map[bool]string{true: "token-1.test", false: "token-2.test"}[first]; made != want {
					t.Errorf("token %q, want %q", made, want)
				}
				_, err = workflow.Receive[int](ctx, "paid")
				if err != nil || !first {
					return 0, err
				}
				return 0, workflow.ContinueAsNew(ctx, false)
			}, true)
			if err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if err := e.Ask("first", 0, nil); err != nil {
			t.Error(err)
		}
		if err := e.Deliver("order-1-paid", 1); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if err := e.Ask("first", 0, nil); err == nil {
			t.Error("the second iteration answers a query of the first one")
		}
		if err := e.Deliver("token-1.test", 1); err == nil {
			t.Error("a token of the first iteration is one of the second")
		}
		if err := e.Deliver("order-1-paid", 1); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

// TestLargeInput runs a workflow with inputs of the maximum size and above.
func TestLargeInput(t *testing.T) {
	for n, want := range map[int]error{abi.MaxPayloadBytes: nil, abi.MaxPayloadBytes + 1: workflow.ErrTooLarge} {
		length := func(_ context.Context, in workflow.Bytes) (int, error) { return len(in), nil }
		got, err := workflow.Run(t.Context(), workflow.NewEnv(), length, make(workflow.Bytes, n))
		if !errors.Is(err, want) || err == nil && got != n {
			t.Errorf("%d bytes: %d %v", n, got, err)
		}
	}
}
