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

func TestEnvCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := workflow.NewEnv()
		workflow.Handle(env, "host/charge", func(s workflow.Step, cents int) (string, error) {
			if s.Attempt == 1 {
				return "", errors.New("busy")
			}
			return fmt.Sprint(cents, " paid"), nil
		})
		_, err := workflow.Run(t.Context(), env, func(ctx context.Context, _ int) (string, error) {
			if _, err := workflow.ReceiveTimeout[int](ctx, "go", time.Second); !errors.Is(err, workflow.ErrTimeout) {
				return "", err
			}
			if err := workflow.Sleep(ctx, "", 0); !errors.Is(err, workflow.ErrInvalidArgument) {
				return "", err
			}
			return workflow.Call[string](ctx, "charge", "host/charge", 1200, workflow.Attempts(2))
		}, 0)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, c := range env.Calls() {
			lines = append(lines, fmt.Sprintf("%s %q %s %s %s %v-%v %d %s %s %v %s", c.Kind, c.Name, c.Target, c.Input, c.Options, c.At, c.Ended,
				c.Attempts, c.Code, c.Message, c.Refused, c.Result))
		}
		want := []string{`signal_wait "go"    0s-1s 0 TIMEOUT no signal came in time false `,
			`sleep ""    1s-1s 0 INVALID_ARGUMENT sleep name must have 1 to 256 bytes, got 0 true `,
			`step "charge" host/charge 1200 {"attempts":2} 1s-2s 2 OK  false "1200 paid"`}
		if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") {
			t.Errorf("%s", got)
		}
		if steps := fmt.Sprint(env.Steps()); steps != "[charge]" {
			t.Error(steps)
		}
	})
}

// TestEnvCancelEnds: after a cancel, no code of the run continues unless its policy is cooperative.
func TestEnvCancelEnds(t *testing.T) {
	for _, cooperative := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			env := workflow.NewEnv()
			workflow.Handle(env, "host/clean", func(workflow.Step, int) (int, error) { return 0, nil })
			deferred := false
			time.AfterFunc(time.Minute, env.Cancel)
			_, err := workflow.Run(t.Context(), env, func(ctx context.Context, _ int) (int, error) {
				if cooperative {
					if err := workflow.SetCancelPolicy(ctx, workflow.CooperativeCancel); err != nil {
						return 0, err
					}
				}
				defer func() {
					_, _ = workflow.Call[int](context.WithoutCancel(ctx), "clean", "host/clean", 1)
					deferred = true
				}()
				beside := workflow.Async(ctx, func(ctx context.Context) (int, error) { return 0, workflow.Sleep(ctx, "beside", time.Hour) })
				err := workflow.Sleep(context.WithoutCancel(ctx), "long", time.Hour)
				_, second := beside.Get(ctx)
				return 0, errors.Join(err, second)
			}, 0)
			if !errors.Is(err, workflow.ErrCancelled) || deferred != cooperative {
				t.Errorf("cooperative %v: %v, the deferred call was made: %v", cooperative, err, deferred)
			}
			if n := len(env.Calls()); n != map[bool]int{false: 2, true: 4}[cooperative] {
				t.Errorf("cooperative %v: %+v", cooperative, env.Calls())
			}
		})
	}
}

// TestEnvCancelIsToldOnce cancels a run twice, both times in later iterations. They inherit the policy of the first
// iteration, and the second cancel has no effect.
func TestEnvCancelIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := workflow.NewEnv()
		time.AfterFunc(time.Minute, env.Cancel)
		time.AfterFunc(3*time.Hour, env.Cancel)
		told, err := workflow.Run(t.Context(), env, func(ctx context.Context, n [2]int) (int, error) {
			if n[0] == 0 {
				if err := workflow.SetCancelPolicy(ctx, workflow.CooperativeCancel); err != nil {
					return 0, err
				}
			} else if errors.Is(workflow.Sleep(ctx, "nap", 2*time.Hour), workflow.ErrCancelled) {
				n[1]++
			}
			n[0]++
			if n[0] < 5 {
				return 0, workflow.ContinueAsNew(ctx, n)
			}
			return n[1], nil
		}, [2]int{})
		if told != 1 || err != nil {
			t.Errorf("told %d times, %v", told, err)
		}
	})
}

// TestEnvSignalsGoToTheOldestWait, as on a host, even if Go's scheduler would run a later wait first.
func TestEnvSignalsGoToTheOldestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := workflow.NewEnv()
		time.AfterFunc(time.Hour, func() {
			for n := range 10 {
				if err := env.SendSignal("go", n); err != nil {
					t.Error(err)
				}
			}
		})
		got, err := workflow.Run(t.Context(), env, func(ctx context.Context, _ int) (list []int, err error) {
			var waits []*workflow.Future[int]
			for range 10 {
				waits = append(waits, workflow.Async(ctx, func(ctx context.Context) (int, error) { return workflow.Receive[int](ctx, "go") }))
				time.Sleep(time.Second)
			}
			for _, w := range waits {
				n, err := w.Get(ctx)
				if err != nil {
					return nil, err
				}
				list = append(list, n)
			}
			return list, nil
		}, 0)
		if err != nil || fmt.Sprint(got) != "[0 1 2 3 4 5 6 7 8 9]" {
			t.Error(got, err)
		}
	})
}

// TestEnvChildrenEnd: a child's options decide what happens to it when its parent ends or no longer waits.
func TestEnvChildrenEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := workflow.NewEnv()
		workflow.HandleChild(env, "kid", func(ctx context.Context, cooperative bool) (string, error) {
			if cooperative {
				if err := workflow.SetCancelPolicy(ctx, workflow.CooperativeCancel); err != nil {
					return "", err
				}
			}
			if err := workflow.Sleep(ctx, "nap", time.Hour); err != nil {
				_, err2 := workflow.Emit(ctx, "told", "yes")
				return "", errors.Join(err, err2)
			}
			return "slept", nil
		})
		_, err := workflow.Run(t.Context(), env, func(ctx context.Context, _ int) (int, error) {
			for name, c := range map[string]struct {
				end         workflow.EndPolicy
				cooperative bool
			}{"final": {workflow.EndCancel, false}, "told": {workflow.EndCancel, true}, "terminated": {workflow.EndTerminate, true},
				"abandoned": {workflow.EndAbandon, true}} {
				k, err := workflow.StartChild[string](ctx, name, "kid", c.cooperative, workflow.OnEnd(c.end))
				if err != nil {
					return 0, err
				}
				short, cancel := context.WithTimeout(ctx, time.Minute)
				_, err = k.Wait(short)
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) {
					return 0, err
				}
			}
			return 0, workflow.Sleep(ctx, "rest", 2*time.Hour)
		}, 0)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"final": "", "told": "WITHDRAWN told", "terminated": "", "abandoned": "OK"} {
			c := env.Child("test." + name)
			if got := strings.TrimSpace(c.Calls()[len(c.Calls())-1-len(c.Output())].Code + " " + strings.Join(c.Output(), "")); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	})
}

// TestEnvAbsentRun sends a signal to a run that does not exist.
func TestEnvAbsentRun(t *testing.T) {
	env := workflow.NewEnv(workflow.EnvRunID("order-1"))
	env.Absent("order-2")
	_, err := workflow.Run(t.Context(), env, func(ctx context.Context, _ int) (int, error) {
		if id := workflow.Info(ctx).RunID; id != "order-1" {
			return 0, errors.New(id)
		}
		if err := workflow.Send(ctx, "order-3", "go", 1); err != nil {
			return 0, err
		}
		return 0, workflow.Send(ctx, "order-2", "go", 1)
	}, 0)
	if !errors.Is(err, workflow.ErrConflict) || err.Error() != `there is no run "order-2"` {
		t.Error(err)
	}
}

// TestEnvContinueAsNewThatIsRefused: a refused ContinueAsNew ends the run, as on a host; the call does not return.
func TestEnvContinueAsNewThatIsRefused(t *testing.T) {
	env := workflow.NewEnv()
	_, err := workflow.Run(t.Context(), env, func(ctx context.Context, _ string) (int, error) {
		_ = workflow.ContinueAsNew(ctx, strings.Repeat("x", 2<<20))
		return 1, workflow.Sleep(ctx, "after", 0)
	}, "")
	if !errors.Is(err, workflow.ErrTooLarge) || len(env.Calls()) != 1 {
		t.Errorf("%v %+v", err, env.Calls())
	}
}
