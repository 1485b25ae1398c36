//go:build !wasip1

package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	workflow.Register("env-child", func(ctx context.Context, n int) (string, error) {
		if n < 0 {
			return "", errors.New("negative")
		}
		return strconv.Itoa(n), workflow.Sleep(ctx, "nap", time.Duration(n)*time.Hour)
	})
}

// everything uses the primitives other than steps and sleeps.
func everything(ctx context.Context, left int) (string, error) {
	if left > 0 {
		return "", workflow.ContinueAsNew(ctx, left-1)
	}
	if err := errors.Join(workflow.SetCancelPolicy(ctx, workflow.CooperativeCancel), workflow.SetAttribute(ctx, "stage", "begun")); err != nil {
		return "", err
	}
	token, err := workflow.Hook(ctx, "decision", "")
	if err != nil {
		return "", err
	}
	if _, err := workflow.Hook(ctx, "decision", token); !errors.Is(err, workflow.ErrConflict) {
		return "", fmt.Errorf("a token twice: %w", err)
	}
	workflow.Query(ctx, "token", func(struct{}) (string, error) { return token, nil })
	if _, err := workflow.ReceiveTimeout[string](ctx, "nothing", time.Minute); !errors.Is(err, workflow.ErrTimeout) {
		return "", fmt.Errorf("no time-out: %w", err)
	}
	d, err := workflow.Receive[string](ctx, "decision")
	if err != nil {
		return "", err
	}
	if _, err := workflow.Emit(ctx, "progress", d); err != nil {
		return "", err
	}
	if err := workflow.Send(ctx, "other", "hello", 1); err != nil {
		return "", err
	}
	if _, err := workflow.Child[string](ctx, "bad child", "env-child", -1); !errors.Is(err, workflow.ErrChildFailed) {
		return "", fmt.Errorf("a child that fails: %w", err)
	}
	c, err := workflow.StartChild[string](ctx, "child", "env-child", 2, workflow.ChildID("kid"))
	if err != nil || c.ID != "kid" {
		return "", fmt.Errorf("child %+v: %w", c, err)
	}
	a := workflow.Async(ctx, func(ctx context.Context) (string, error) { return c.Wait(ctx) })
	select {
	case text := <-workflow.Signal[string](ctx, "extra"):
		d += text
	case <-a.Done():
	}
	v, err := a.Get(ctx)
	return fmt.Sprint(d, v, workflow.Version(ctx, "old", 7), workflow.Version(ctx, "new", 7), workflow.Info(ctx).Iteration), err
}

func TestEnvPrimitives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := workflow.NewEnv()
		env.SetVersion("old", 0)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(time.Hour)
			var token string
			if err := env.Ask("token", nil, &token); err != nil {
				t.Error(err)
			}
			if err := env.Deliver("wrong", "x"); err == nil {
				t.Error("a wrong token delivers")
			}
			if err := errors.Join(env.Deliver(token, "yes"), env.SendSignal("extra", "!")); err != nil {
				t.Error(err)
			}
		}()
		got, err := workflow.Run(ctx, env, everything, 3)
		if err != nil || got != "yes!2073" && got != "yes!20 7 3" && got != "yes!2 0 7 3" {
			t.Fatalf("%q %v", got, err)
		}
		if !slices.Equal(env.Output(), []string{`progress "yes"`}) || !slices.Equal(env.Sent(), []string{"other hello 1"}) ||
			env.Attributes()["stage"] != "begun" {
			t.Fatal(env.Output(), env.Sent(), env.Attributes())
		}
		if err := env.Ask("nobody", nil, nil); err == nil {
			t.Fatal("a query that is not offered")
		}
		cancel()
		synctest.Wait()
	})
}

// TestEnvMarkers checks that markers behave as on a host; see TestMarkers of package host.
func TestEnvMarkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := workflow.NewEnv()
		env.SetVersion("older", 0)
		got, err := workflow.Run(t.Context(), env, func(ctx context.Context, left int) (string, error) {
			got := []int{workflow.Version(ctx, "a", 3+left), workflow.Version(ctx, "a", 4)}
			if err := workflow.Sleep(ctx, "a", time.Hour); err != nil {
				return "", err
			}
			for _, id := range []string{"a", "b", "b", "", "host/c", "older"} {
				got = append(got, workflow.Version(ctx, id, 9))
			}
			got = append(got, workflow.Version(ctx, "d", -1), workflow.Version(ctx, "d", 2))
			_, err := workflow.Emit(ctx, "a", got)
			if err == nil && left > 0 {
				err = workflow.ContinueAsNew(ctx, left-1)
			}
			return "", err
		}, 1)
		want := []string{"a [4,4,4,9,9,0,0,0,0,2]", "a [3,3,3,9,9,0,0,0,0,2]"}
		if err != nil || !slices.Equal(env.Output(), want) {
			t.Errorf("%s %q %v", got, env.Output(), err)
		}
		if logs := env.Logs(); len(logs) != 6 || !strings.HasPrefix(logs[2], "version marker refused id=d cause=") {
			t.Errorf("%q", logs)
		}
	})
}

func TestSaga(t *testing.T) {
	var done []string
	run := func(ctx context.Context, _ int) (out int, err error) {
		var s workflow.Saga
		defer s.Compensate(ctx, &err)
		for _, name := range []string{"a", "b"} {
			s.Add(func(context.Context) error { done = append(done, "no "+name); return errors.New(name + " stays") })
		}
		return 0, errors.New("failed")
	}
	_, err := workflow.Run(t.Context(), workflow.NewEnv(), run, 0)
	if err == nil || !slices.Equal(done, []string{"no b", "no a"}) || err.Error() != "failed\nb stays\na stays" {
		t.Fatal(done, err)
	}
}
