//go:build !wasip1

package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

var everybody int

func changesPackage(workflow.Step) (int, error) { everybody++; return everybody, nil }

func init() {
	workflow.Register("env-lossy-child", func(ctx context.Context, _ int) (total int, err error) {
		_, err = workflow.Do(ctx, "add", func(workflow.Step) (int, error) { total++; return 0, nil })
		return total, err
	})
}

// TestLostChanges runs bodies that change variables outside of them, which a host would undo. The run fails, even if
// the workflow ignores the error.
func TestLostChanges(t *testing.T) {
	total, list, channel := 0, []int{0}, make(chan int, 1)
	state := struct{ deep struct{ n int } }{}
	for want, body := range map[string]func(workflow.Step) (int, error){
		"writes to total (":        func(workflow.Step) (int, error) { total += 5; return total, nil },
		"writes to list[…] (":      func(workflow.Step) (int, error) { list[0] = 1; return 1, nil },
		"writes to state.deep.n (": func(workflow.Step) (int, error) { func() { state.deep.n++ }(); return 1, nil },
		"sends on channel (":       func(workflow.Step) (int, error) { channel <- 1; return 1, nil },
		"decodes into list (":      func(workflow.Step) (int, error) { return 1, json.Unmarshal([]byte("[1]"), &list) },
		"writes to everybody (":    changesPackage,
	} {
		_, err := workflow.Run(t.Context(), workflow.NewEnv(), func(ctx context.Context, _ int) (int, error) {
			_, err := workflow.Do(ctx, "add", body)
			if !errors.Is(err, workflow.ErrLostChange) {
				t.Errorf("%s: the step: %v", want, err)
			}
			return 1, nil
		}, 0)
		if !errors.Is(err, workflow.ErrLostChange) || !strings.Contains(err.Error(), `the body of step "add" `+want+"env_body_test.go:") {
			t.Errorf("%s: %v", want, err)
		}
	}
	if total+list[0]+state.deep.n+len(channel)+everybody != 0 {
		t.Error("a body was executed")
	}
	_, err := workflow.Run(t.Context(), workflow.NewEnv(), func(ctx context.Context, _ int) (int, error) {
		_, _ = workflow.Child[int](ctx, "child", "env-lossy-child", 0)
		return 1, nil
	}, 0)
	if !errors.Is(err, workflow.ErrLostChange) {
		t.Errorf("of a child: %v", err)
	}
}

var charged, refunded int

func chargeOnce(_ workflow.Step, n int) (int, error) { charged += n; return charged, nil }

func init() {
	workflow.RegisterStep("env-lossy-named", chargeOnce)
	workflow.RegisterStep("env-lossy-literal", func(_ workflow.Step, n int) (int, error) { refunded += n; return refunded, nil })
	workflow.RegisterStep("env-lossless", func(_ workflow.Step, n int) (int, error) { n += 2; return n, nil })
}

// TestLostChangesOfStepFunctions calls step functions that increment a package variable. On a host each call has its
// own instance, where the counter starts at zero.
func TestLostChangesOfStepFunctions(t *testing.T) {
	call := func(env *workflow.Env, name string) (int, error) {
		return workflow.Run(t.Context(), env, func(ctx context.Context, _ int) (int, error) {
			_, _ = workflow.Call[int](ctx, "first", name, 1)
			return workflow.Call[int](ctx, "second", name, 1)
		}, 0)
	}
	for name, want := range map[string]string{"env-lossy-named": "charged", "env-lossy-literal": "refunded"} {
		_, err := call(workflow.NewEnv(), name)
		if !errors.Is(err, workflow.ErrLostChange) || !strings.Contains(err.Error(), "the step function \""+name+"\" writes to "+want+" (env_body_test.go:") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if charged+refunded != 0 {
		t.Error("a step function was executed")
	}
	if n, err := call(workflow.NewEnv(), "env-lossless"); n != 3 || err != nil {
		t.Error(n, err)
	}
	env := workflow.NewEnv()
	workflow.Handle(env, "env-lossy-named", func(_ workflow.Step, n int) (int, error) { return 7, nil })
	if n, err := call(env, "env-lossy-named"); n != 7 || err != nil {
		t.Error("with a handler of the test:", n, err)
	}
}

// TestBodiesThatLoseNothing runs bodies that change only their own variables, or are allowed to lose changes.
func TestBodiesThatLoseNothing(t *testing.T) {
	tries, total := 0, 3
	got, err := workflow.Run(t.Context(), workflow.NewEnv(), func(ctx context.Context, _ int) (int, error) {
		sum, err := workflow.Do(ctx, "add", func(workflow.Step) (int, error) {
			tries++ //workflow:lost counts attempts
			var read struct{ N int }
			if err := json.Unmarshal([]byte(`{"n":4}`), &read); err != nil {
				return 0, err
			}
			total := total
			total += read.N
			return total, nil
		})
		if err != nil {
			return 0, err
		}
		total = sum // the workflow itself may
		return total, nil
	}, 0)
	if got != 7 || err != nil || tries != 1 || total != 7 {
		t.Error(got, err, tries, total)
	}
}
