// Command updates holds workflows that take updates, in as many ways as there are.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	workflow.Register("cart", cart, workflow.UpdateOf[item]("add"),
		workflow.Updates("say", "fail", "loud", "slow", "keep", "large", "missing"))
	workflow.Register("late", late)
	workflow.Register("again", again)
	workflow.Register("scoped", scoped)
	workflow.Register("fails", fails)
	workflow.Register("panics", func(ctx context.Context, _ any) (int, error) {
		workflow.Query(ctx, "said", func(any) (string, error) { return "before", nil })
		workflow.Do(ctx, "step", func(workflow.Step) (int, error) { return 1, nil })
		panic("over")
	})
}

func main() {}

type item struct {
	Name  string `json:"name" jsonschema:"required"`
	Count int    `json:"count" jsonschema:"minimum=1"`
}

// cart holds at most ten things, and ends when it is told to.
func cart(ctx context.Context, _ any) (string, error) {
	var names []string
	n := 0
	workflow.Query(ctx, "names", func(any) (string, error) { return strings.Join(names, ","), nil })
	workflow.OnUpdate(ctx, "add", func(ctx context.Context, in item) (int, error) {
		n += in.Count
		_, err := workflow.Call[string](ctx, fmt.Sprint("mail ", in.Name), "host/mail", in.Name)
		names = append(names, in.Name)
		return n, err
	}, workflow.Validate(func(in item) error {
		if n+in.Count > 10 {
			return fmt.Errorf("%d things are too many", n+in.Count)
		}
		return nil
	}))
	workflow.OnUpdate(ctx, "say", func(_ context.Context, v string) (string, error) { return v, nil })
	workflow.OnUpdate(ctx, "fail", func(context.Context, string) (int, error) { return 0, errors.New("cannot do it") })
	workflow.OnUpdate(ctx, "loud", func(context.Context, string) (int, error) { return 0, errors.New(strings.Repeat("x", 1<<20)) })
	workflow.OnUpdate(ctx, "slow", func(ctx context.Context, name string) (string, error) {
		err := workflow.Sleep(ctx, "slow "+name, 24*time.Hour)
		names = append(names, name)
		return "slept", err
	})
	workflow.OnUpdate(ctx, "keep", func(ctx context.Context, in string) (string, error) {
		return in, nil
	}, workflow.Validate(func(string) error { return workflow.Sleep(ctx, "in a validator", time.Hour) }))
	workflow.OnUpdate(ctx, "large", func(context.Context, int) (string, error) { return strings.Repeat("x", 1<<20), nil })
	done, err := workflow.Receive[string](ctx, "done")
	if err == nil && done == "patiently" {
		err = workflow.UpdatesDone(ctx)
	}
	names = append(names, "done")
	return strings.Join(names, ","), err
}

// late takes an update after a day only.
func late(ctx context.Context, _ any) (string, error) {
	if err := workflow.Sleep(ctx, "first", 24*time.Hour); err != nil {
		return "", err
	}
	got := make(chan string)
	workflow.OnUpdate(ctx, "set", func(_ context.Context, v string) (string, error) {
		got <- v
		return "set " + v, nil
	})
	return <-got, workflow.UpdatesDone(ctx)
}

// scoped takes updates, then none, then updates again by another handler. A signal leads from one to the next.
func scoped(ctx context.Context, _ any) (string, error) {
	next := func() error {
		_, err := workflow.Receive[string](ctx, "next")
		return err
	}
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	workflow.OnUpdate(own, "set", func(_ context.Context, v string) (string, error) { return "set " + v, nil })
	err := next()
	cancel()
	err = errors.Join(err, next())
	workflow.OnUpdate(ctx, "set", func(_ context.Context, v string) (string, error) { return "again " + v, nil })
	return "done", errors.Join(err, next())
}

// again continues as new at each signal, and counts its iterations.
func again(ctx context.Context, iteration int) (int, error) {
	paused := iteration == 1 // the second iteration takes no updates before it is told to
	if paused {
		if _, err := workflow.Receive[string](ctx, "begin"); err != nil {
			return 0, err
		}
	}
	workflow.OnUpdate(ctx, "which", func(ctx context.Context, slow bool) (int, error) {
		if slow {
			return iteration, workflow.Sleep(ctx, "slow", 24*time.Hour)
		}
		return iteration, nil
	})
	if next, err := workflow.Receive[string](ctx, "next"); err != nil || next == "end" {
		return iteration, err
	}
	return 0, workflow.ContinueAsNew(ctx, iteration+1)
}

// fails fails by a step, beside which it takes updates; a stubborn one does so until it is told to give up.
func fails(ctx context.Context, stubborn bool) (string, error) {
	workflow.Query(ctx, "said", func(any) (string, error) { return "that", nil })
	workflow.OnUpdate(ctx, "say", func(ctx context.Context, v string) (string, error) {
		return v, workflow.Sleep(ctx, "say "+v, time.Minute)
	})
	if _, err := workflow.Receive[string](ctx, "go"); err != nil {
		return "", err
	}
	v, err := workflow.Call[string](ctx, "flaky", "host/flaky", "x", workflow.Attempts(1))
	if err != nil && stubborn {
		_, e := workflow.Receive[string](ctx, "give up")
		return "", errors.Join(err, e)
	}
	if err != nil {
		return "", err
	}
	return v, workflow.UpdatesDone(ctx)
}
