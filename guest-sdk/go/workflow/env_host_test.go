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

// TestContinueAsNewDoesNotReturn calls ContinueAsNew and ignores the error, replaces it, or calls it in another
// goroutine.
func TestContinueAsNewDoesNotReturn(t *testing.T) {
	for name, continues := range map[string]func(ctx context.Context, n int) (string, error){
		"ignored": func(ctx context.Context, n int) (string, error) {
			_ = workflow.ContinueAsNew(ctx, n)
			return "returned", nil
		},
		"replaced": func(ctx context.Context, n int) (v string, err error) {
			defer func() {
				if err != nil {
					v, err = "replaced", nil
				}
			}()
			return "", workflow.ContinueAsNew(ctx, n)
		},
		"recovered": func(ctx context.Context, n int) (v string, err error) {
			defer func() {
				if recover() != nil {
					v = "recovered"
				}
			}()
			return "", workflow.ContinueAsNew(ctx, n)
		},
		"elsewhere": func(ctx context.Context, n int) (string, error) {
			go func() { _ = workflow.ContinueAsNew(ctx, n) }()
			err := workflow.Sleep(ctx, "sleep", time.Hour)
			return "slept", err
		},
		"with a saga": func(ctx context.Context, n int) (v string, err error) {
			var s workflow.Saga
			defer s.Compensate(ctx, &err)
			s.Add(func(ctx context.Context) error { return workflow.Sleep(ctx, "undone", time.Hour) })
			return "", workflow.ContinueAsNew(ctx, n)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			env := workflow.NewEnv()
			began := time.Now()
			got, err := workflow.Run(t.Context(), env, func(ctx context.Context, n int) (string, error) {
				if n == 3 {
					return "third", workflow.Sleep(ctx, "third", time.Minute)
				}
				return continues(ctx, n+1)
			}, 0)
			if calls := env.Calls(); err != nil || got != "third" || time.Since(began) != time.Minute || calls[len(calls)-1].Iteration != 3 {
				t.Errorf("%s: %q %v after %v, %+v", name, got, err, time.Since(began), calls)
			}
		})
	}
}

// TestCancelWhileItContinues cancels a run after ContinueAsNew and before the iteration returns: the next iteration
// gets the cancel.
func TestCancelWhileItContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := workflow.NewEnv()
		_, err := workflow.Run(t.Context(), env, func(ctx context.Context, n int) (int, error) {
			if n == 0 {
				defer env.Cancel()
				return 0, workflow.ContinueAsNew(ctx, 1)
			}
			return n, workflow.Sleep(ctx, "next", time.Hour)
		}, 0)
		if !errors.Is(err, workflow.ErrCancelled) {
			t.Error(err)
		}
	})
}

// told returns information about the run after it has continued as new once.
func told(ctx context.Context, n int) ([]any, error) {
	if err := workflow.Sleep(ctx, "sleep", time.Minute); err != nil || n == 0 {
		return nil, errors.Join(err, workflow.ContinueAsNew(ctx, 1))
	}
	i := workflow.Info(ctx)
	return []any{i.Workflow, time.Since(i.StartedAt).String(), i.Attributes == nil}, nil
}

func init() { workflow.Register("told", told) }

// TestInfoOfEnv reads the workflow's name and the start time of the iteration.
func TestInfoOfEnv(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := workflow.NewEnv()
		time.Sleep(time.Hour) // start the run later than the environment
		got, err := workflow.Run(t.Context(), env, told, 0)
		if err != nil || len(got) != 3 || got[0] != "told" || got[1] != "1m0s" || got[2] != true {
			t.Error(got, err)
		}
	})
}

// TestTypesOfFailures: a body panics, times out, or fails without a message or with one that is not UTF-8.
func TestTypesOfFailures(t *testing.T) {
	for _, x := range []struct {
		kind, typ, message string
		body               func(s workflow.Step) (int, error)
	}{
		{"trap", "panic", "panic: no", func(workflow.Step) (int, error) { panic("no") }},
		{"timeout", "", "the attempt ran over the step's timeout of 1s", func(s workflow.Step) (int, error) {
			<-s.Done()
			return 0, s.Err()
		}},
		{"error", "errors.errorString", "the step failed without a message", func(workflow.Step) (int, error) { return 0, errors.New("") }},
		{"error", "errors.errorString", "a\uFFFD\uFFFDb", func(workflow.Step) (int, error) { return 0, errors.New("a\xff\xfeb") }},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, err := workflow.Run(t.Context(), workflow.NewEnv(), func(ctx context.Context, _ int) (int, error) {
				return workflow.Do(ctx, "step", x.body, workflow.Timeout(time.Second))
			}, 0)
			step, ok := errors.AsType[*workflow.StepError](err)
			if !ok || step.Kind != x.kind || step.Type != x.typ || step.Message != x.message {
				t.Errorf("%+v", step)
			}
		})
	}
}

type outOfStock struct{ item string }

func (e *outOfStock) Error() string { return e.item + " is out of stock" }

// TestTypesOfHandlersErrors: handlers fail; a host written in Go reports a pointer type with its star.
func TestTypesOfHandlersErrors(t *testing.T) {
	for _, x := range []struct {
		err  error
		want string
	}{
		{errors.New("no"), "*errors.errorString"},
		{&outOfStock{"tea"}, "*workflow_test.outOfStock"},
		{workflow.Fatal(&outOfStock{"tea"}), "*workflow_test.outOfStock"},
		{workflow.RetryAfter(&outOfStock{"tea"}, time.Minute), "*workflow_test.outOfStock"},
	} {
		synctest.Test(t, func(t *testing.T) {
			env := workflow.NewEnv()
			workflow.Handle(env, "host/ship", func(workflow.Step, int) (int, error) { return 0, x.err })
			_, err := workflow.Run(t.Context(), env, func(ctx context.Context, _ int) (int, error) {
				return workflow.Call[int](ctx, "ship", "host/ship", 0, workflow.Attempts(2))
			}, 0)
			if step, ok := errors.AsType[*workflow.StepError](err); !ok || step.Type != x.want {
				t.Errorf("%v: got %+v, want type %q", x.err, step, x.want)
			}
		})
	}
}

// TestSignalsAfterTheEnd sends a signal and a hook delivery to an ended run, which refuses both.
func TestSignalsAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := workflow.NewEnv()
		hook := func(ctx context.Context, _ int) (string, error) {
			return workflow.Hook(ctx, "answer", "")
		}
		token, err := workflow.Run(t.Context(), env, hook, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := env.SendSignal("answer", 1); err == nil || !strings.Contains(err.Error(), "it has ended") {
			t.Error(err)
		}
		if err := env.Deliver(token, 1); err == nil {
			t.Error("a hook of a run that has ended takes a delivery")
		}
	})
}

// TestTimeOfChild starts children that time out: a child with the cooperative policy gets a cancel and has a minute
// to end.
func TestTimeOfChild(t *testing.T) {
	for cleanup, want := range map[time.Duration]string{30 * time.Second: "cleaned", 2 * time.Minute: "failed"} {
		synctest.Test(t, func(t *testing.T) {
			env := workflow.NewEnv()
			workflow.HandleChild(env, "child", func(ctx context.Context, _ int) (string, error) {
				_ = workflow.SetCancelPolicy(ctx, workflow.CooperativeCancel)
				if err := workflow.Sleep(ctx, "work", time.Hour); !errors.Is(err, workflow.ErrCancelled) {
					return "", err
				}
				return "cleaned", workflow.Sleep(context.WithoutCancel(ctx), "clean", cleanup)
			})
			began := time.Now()
			got, err := workflow.Run(t.Context(), env, func(ctx context.Context, _ int) (string, error) {
				v, err := workflow.Child[string](ctx, "child", "child", 0, workflow.ChildTimeout(time.Second))
				if step, ok := errors.AsType[*workflow.StepError](err); ok {
					return step.Kind, nil
				}
				return v, err
			}, 0)
			if took := time.Since(began); err != nil || got != want || took != time.Second+min(cleanup, time.Minute) {
				t.Error(got, err, took)
			}
		})
	}
}

// TestAbandonedChildCleansUp ends a test whose child never finishes its cleanup.
func TestAbandonedChildCleansUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := workflow.NewEnv()
		workflow.HandleChild(env, "child", func(ctx context.Context, _ int) (int, error) {
			_ = workflow.Sleep(ctx, "work", time.Hour)
			return 1, workflow.Sleep(context.WithoutCancel(ctx), "clean", time.Hour)
		})
		_, err := workflow.Run(t.Context(), env, func(ctx context.Context, _ int) (int, error) {
			_, err := workflow.StartChild[int](ctx, "child", "child", 0, workflow.OnEnd(workflow.EndAbandon))
			return 0, err
		}, 0)
		if err != nil {
			t.Error(err)
		}
	})
}

// TestNextRun runs workflows in an environment that has run another workflow before: no state is left.
func TestNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := workflow.NewEnv()
		workflow.HandleChild(env, "child", func(context.Context, int) (int, error) { return 1, nil })
		run := func(ctx context.Context, n int) ([]any, error) {
			marker := workflow.Version(ctx, "marker", n)
			i := workflow.Info(ctx)
			if err := workflow.SetAttribute(ctx, "n", n); err != nil {
				return nil, err
			}
			if err := workflow.Sleep(ctx, "sleep", time.Second); err != nil {
				return nil, err
			}
			if _, err := workflow.Child[int](ctx, "child", "child", n); err != nil {
				return nil, err
			}
			if n == 1 && i.Iteration == 0 {
				return nil, workflow.ContinueAsNew(ctx, n)
			}
			select {
			case v := <-workflow.Signal[int](ctx, "signal"):
				time.Sleep(time.Second)
				return []any{v, marker, i.Iteration, len(i.Attributes)}, nil
			case <-time.After(time.Hour):
				return []any{"no signal"}, nil
			}
		}
		for n := range 3 {
			go func() {
				time.Sleep(time.Minute)
				for range 2 { // one is not received
					if err := env.SendSignal("signal", 10*n); err != nil {
						t.Error(err)
					}
				}
			}()
			want := fmt.Sprint([]any{10 * n, n, 0, 0})
			if n == 1 {
				want = fmt.Sprint([]any{10 * n, n, 1, 1})
			}
			if got, err := workflow.Run(t.Context(), env, run, n); err != nil || fmt.Sprint(got) != want {
				t.Errorf("run %d: %v %v, want %s", n, got, err, want)
			}
			if n == 0 {
				env.Cancel() // that run has ended
			}
			time.Sleep(time.Hour)
		}
	})
}
