//go:build !wasip1

package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

// delivery starts a child of another module, sends it the address, and waits for its answer.
func delivery(ctx context.Context, address string) (string, error) {
	c, err := workflow.StartChild[string](ctx, "courier", "courier-of-another-team", "parcel")
	if err != nil {
		return "", err
	}
	if err := workflow.Send(ctx, c.ID, "address", address); err != nil {
		return "", err
	}
	from, err := workflow.Receive[string](ctx, "on its way")
	if err != nil {
		return "", err
	}
	got, err := c.Wait(ctx)
	if err != nil {
		return "", err
	}
	if err := workflow.Send(ctx, c.ID, "address", "too late"); !errors.Is(err, workflow.ErrConflict) {
		return "", fmt.Errorf("a signal to a child that has ended: %w", err)
	}
	return from + " " + got, nil
}

// TestHandleChild registers a stand-in for a workflow that the test does not have. The stand-in gets signals from its
// parent and the test, and sends one back.
func TestHandleChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := workflow.NewEnv()
		workflow.HandleChild(env, "courier-of-another-team", func(ctx context.Context, what string) (string, error) {
			address, err := workflow.Receive[string](ctx, "address")
			if err != nil {
				return "", err
			}
			id := workflow.Info(ctx).RunID
			if err := workflow.Send(ctx, "test", "on its way", id); err != nil {
				return "", err
			}
			if err := workflow.Sleep(ctx, "ride", time.Hour); err != nil {
				return "", err
			}
			stamp, err := workflow.Receive[int](ctx, "stamp")
			return fmt.Sprint(what, " to ", address, " ", stamp), err
		})
		go func() {
			synctest.Wait()
			if err := env.Child("test.courier").SendSignal("stamp", 7); err != nil {
				t.Error(err)
			}
		}()
		got, err := workflow.Run(t.Context(), env, delivery, "Riga")
		if got != "test.courier parcel to Riga 7" || err != nil {
			t.Error(got, err)
		}
		if got := fmt.Sprint(env.Sent()); got != `[test.courier address "Riga" test.courier address "too late"]` {
			t.Error(got)
		}
		child := env.Child("test.courier")
		if got := fmt.Sprint(child.Steps(), child.Sent()); got != `[ride] [test on its way "test.courier"]` {
			t.Error(got)
		}
		if env.Child("test") != nil || env.Child("other") != nil {
			t.Error("runs that are no children")
		}
	})
}

// TestHandleChildFails runs a stand-in that fails, and a child without a stand-in.
func TestHandleChildFails(t *testing.T) {
	env := workflow.NewEnv()
	workflow.HandleChild(env, "courier-of-another-team", func(context.Context, string) (string, error) {
		return "", errors.New("the bicycle is broken")
	})
	for workflowName, want := range map[string]string{
		"courier-of-another-team": `child "courier-of-another-team" (run 23) failed: the bicycle is broken`,
		"nobody":                  `child "nobody" (run 6) failed: workflow "nobody": not found in this test: register it, or stand in for it by HandleChild`,
	} {
		_, err := workflow.Run(t.Context(), env, func(ctx context.Context, name string) (string, error) {
			return workflow.Child[string](ctx, name, name, "", workflow.ChildID(fmt.Sprint(len(name))))
		}, workflowName)
		step, _ := errors.AsType[*workflow.StepError](err)
		if !errors.Is(err, workflow.ErrChildFailed) || step == nil || step.Message != want {
			t.Errorf("%s: %v", workflowName, err)
		}
	}
}

// TestChildOfEachIteration starts a child with the same name in each iteration: each is a separate run.
func TestChildOfEachIteration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := workflow.NewEnv()
		workflow.HandleChild(e, "work", func(_ context.Context, n int) (int, error) { return 10 * n, nil })
		sum := 0
		_, err := workflow.Run(t.Context(), e, func(ctx context.Context, n int) (int, error) {
			c, err := workflow.StartChild[int](ctx, "kid", "work", n)
			if err != nil {
				return 0, err
			}
			got, err := c.Wait(ctx)
			sum += got
			if err != nil || n == 3 {
				return got, err
			}
			return 0, workflow.ContinueAsNew(ctx, n+1)
		}, 1)
		if err != nil || sum != 60 || e.Child("test.kid") == nil || e.Child("test.2.kid") == nil {
			t.Error(sum, err)
		}
	})
}

// TestWaitForAWithdrawnChild waits for a child again after a wait for it timed out: the child is withdrawn, as on a
// host.
func TestWaitForAWithdrawnChild(t *testing.T) {
	for _, end := range []workflow.EndPolicy{workflow.EndCancel, workflow.EndTerminate, workflow.EndAbandon} {
		synctest.Test(t, func(t *testing.T) {
			env := workflow.NewEnv()
			workflow.HandleChild(env, "slow", func(ctx context.Context, _ any) (string, error) {
				return "done", workflow.Sleep(ctx, "long", time.Minute)
			})
			_, err := workflow.Run(t.Context(), env, func(ctx context.Context, _ any) (any, error) {
				c, err := workflow.StartChild[string](ctx, "slow", "slow", nil, workflow.OnEnd(end))
				if err != nil {
					return nil, err
				}
				within, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				if _, err := c.Wait(within); !errors.Is(err, context.DeadlineExceeded) {
					return nil, fmt.Errorf("the first wait: %w", err)
				}
				_, err = c.Wait(ctx)
				return nil, err
			}, any(nil))
			if step, ok := errors.AsType[*workflow.StepError](err); !ok || step.Code != "CANCELLED" || step.Message != "this handle was withdrawn" {
				t.Errorf("%s: %v", end, err)
			}
		})
	}
}

// TestTokenOfAnotherRun: a child claims its parent's token, once while the parent holds it and again after the parent
// released it.
func TestTokenOfAnotherRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := workflow.NewEnv(workflow.EnvRunID("parent"))
		claim := func(ctx context.Context, _ any) (string, error) { return workflow.Hook(ctx, "h", "token-of-both") }
		workflow.HandleChild(env, "second", claim)
		_, err := workflow.Run(t.Context(), env, func(ctx context.Context, _ any) (string, error) {
			if token, err := workflow.Child[string](ctx, "first", "second", nil); token != "token-of-both" || err != nil {
				return "", fmt.Errorf("the first child: %q, %w", token, err)
			}
			if _, err := claim(ctx, nil); err != nil {
				return "", err
			}
			return workflow.Child[string](ctx, "again", "second", nil)
		}, any(nil))
		if !errors.Is(err, workflow.ErrChildFailed) || !strings.Contains(err.Error(), `token "token-of-both" is held by run "parent"`) {
			t.Error(err)
		}
	})
}
