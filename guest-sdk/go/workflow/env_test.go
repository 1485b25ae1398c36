//go:build !wasip1

package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

type order struct{ Item string }

func ship(ctx context.Context, o order) (string, error) {
	id, err := workflow.Call[string](ctx, "charge", "host/charge", o, workflow.Attempts(3), workflow.Delay(time.Minute))
	if err != nil {
		return "", err
	}
	if err := workflow.Sleep(ctx, "cool down", 24*time.Hour); err != nil {
		return "", err
	}
	workflow.Log(ctx).Info("shipping", "item", o.Item)
	return workflow.Do(ctx, "ship", func(s workflow.Step) (string, error) {
		if err := workflow.Sleep(s, "inner", time.Second); !errors.Is(err, workflow.ErrNotHere) {
			return "", fmt.Errorf("a sleep in a body: %w", err)
		}
		if err := workflow.Sleep(ctx, "outer", time.Second); !errors.Is(err, workflow.ErrNotHere) { // as a host says
			return "", fmt.Errorf("a sleep in a body with the context of the workflow: %w", err)
		}
		if _, err := workflow.Emit(ctx, "topic", 1); !errors.Is(err, workflow.ErrNotHere) {
			return "", fmt.Errorf("output of a body: %w", err)
		}
		return id + " shipped at attempt " + strconv.Itoa(s.Attempt), nil
	})
}

func TestEnv(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := workflow.NewEnv()
		tries := 0
		workflow.Handle(env, "host/charge", func(s workflow.Step, o order) (string, error) {
			tries++
			if tries < 3 {
				return "", errors.New("busy")
			}
			return o.Item + " charged after " + s.LastError, nil
		})
		from := time.Now()
		got, err := workflow.Run(t.Context(), env, ship, order{"book"})
		if err != nil || got != "book charged after busy shipped at attempt 1" {
			t.Fatal(got, err)
		}
		if took := time.Since(from); took != 24*time.Hour+3*time.Minute { // delays of 1 and 2 minutes
			t.Fatal(took)
		}
		if steps := fmt.Sprint(env.Steps()); steps != "[charge cool down ship]" {
			t.Fatal(steps)
		}
		if logs := fmt.Sprint(env.Logs()); logs != "[shipping item=book]" {
			t.Fatal(logs)
		}
	})
}

func TestEnvErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := func(fn func(context.Context, int) (int, error)) error {
			_, err := workflow.Run(t.Context(), workflow.NewEnv(), fn, 1)
			return err
		}
		for name, c := range map[string]struct {
			fn   func(context.Context, int) (int, error)
			want error
		}{
			"twice": {func(ctx context.Context, _ int) (int, error) {
				return 0, errors.Join(workflow.Sleep(ctx, "a", 0), workflow.Sleep(ctx, "a", 0))
			}, workflow.ErrDuplicateName},
			"negative": {func(ctx context.Context, _ int) (int, error) { return 0, workflow.Sleep(ctx, "a", -time.Second) }, workflow.ErrInvalidDuration},
			"text":     {func(ctx context.Context, _ int) (int, error) { return 0, workflow.SleepText(ctx, "a", "5 days") }, workflow.ErrInvalidDuration},
			"handler": {func(ctx context.Context, _ int) (int, error) { return workflow.Call[int](ctx, "a", "host/none", 1) },
				workflow.ErrUnknownHandler},
			"fatal": {func(ctx context.Context, _ int) (int, error) {
				return workflow.Do(ctx, "a", func(workflow.Step) (int, error) { return 0, workflow.Fatal(errors.New("no")) })
			}, workflow.ErrStepFailed},
			"panic": {func(ctx context.Context, _ int) (int, error) {
				return workflow.Do(ctx, "a", func(workflow.Step) (int, error) { panic("no") }, workflow.Attempts(1))
			}, workflow.ErrStepFailed},
			"deadline": {func(ctx context.Context, _ int) (int, error) {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				return 0, workflow.Sleep(ctx, "a", time.Hour)
			}, context.DeadlineExceeded},
		} {
			if err := run(c.fn); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := workflow.Sleep(t.Context(), "a", 0); err == nil {
			t.Error("a sleep outside of a workflow")
		}
		if err := run(func(ctx context.Context, _ int) (int, error) {
			return int(workflow.Info(ctx).StartedAt.Unix()), errors.Join(workflow.SleepText(ctx, "d", "P1D"), workflow.SleepText(ctx, "i", "2000-01-01T00:00:00Z"),
				workflow.SleepUntil(ctx, "u", time.Now().Add(time.Hour)))
		}); err != nil {
			t.Error(err)
		}
		a, b := 0, 0
		_ = run(func(ctx context.Context, _ int) (int, error) { a = workflow.Rand(ctx).Int(); return 0, nil })
		_ = run(func(ctx context.Context, _ int) (int, error) { b = workflow.Rand(ctx).Int(); return 0, nil })
		if a != b {
			t.Error("random differs between two test environments")
		}
	})
}

func ExampleRun() {
	env := workflow.NewEnv()
	workflow.Handle(env, "host/double", func(_ workflow.Step, n int) (int, error) { return 2 * n, nil })
	out, err := workflow.Run(context.Background(), env, func(ctx context.Context, n int) (int, error) {
		return workflow.Call[int](ctx, "double it", "host/double", n)
	}, 21)
	fmt.Println(out, err)
	// Output: 42 <nil>
}
