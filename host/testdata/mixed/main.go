// Command mixed has the workflows of tests of whole hosts: see host/harness_test.go.
package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {}

func init() {
	workflow.Register("nap", nap, workflow.InputSchema("true"))
	workflow.Register("gentle", gentle)
	workflow.Register("patient", patient)
	workflow.Register("told", told)
	workflow.Register("toldfail", toldFail)
	workflow.Register("waits", waits)
	workflow.Register("beside", beside)
	workflow.Register("crowd", crowd)
	workflow.Register("row", row)
	workflow.Register("mob", mob)
	workflow.Register("lines", lines)
	workflow.Register("steps", steps)
	workflow.Register("parent", parent)
	workflow.Register("iterate", iterate)
	workflow.Register("leaves", leaves)
	workflow.Register("rebinds", rebinds)
}

// nap sleeps.
func nap(ctx context.Context, ms int) (string, error) {
	return "slept", workflow.Sleep(ctx, "nap", time.Duration(ms)*time.Millisecond)
}

// gentle takes a cancel: it sleeps, and cleans up if it is told to end.
func gentle(ctx context.Context, ms int) (string, error) {
	if err := workflow.SetCancelPolicy(ctx, workflow.CooperativeCancel); err != nil {
		return "", err
	}
	if err := workflow.Sleep(ctx, "nap", time.Duration(ms)*time.Millisecond); err == nil {
		return "slept", nil
	}
	_, err := workflow.Call[string](context.WithoutCancel(ctx), "clean up", "host/flaky", "", workflow.Attempts(1))
	if err == nil {
		err = context.Cause(ctx)
	}
	return "", err
}

// patient tries a step five times, 100 seconds apart.
func patient(ctx context.Context, _ int) (string, error) {
	return workflow.Call[string](ctx, "a", "host/flaky", "a", workflow.Attempts(5), workflow.Delay(100*time.Second),
		workflow.Backoff(workflow.Fixed))
}

// told cancels a step whose handler is at it, and sleeps.
func told(ctx context.Context, _ int) (string, error) {
	own, cancel := context.WithCancel(ctx)
	go func() { _, _ = workflow.Call[string](own, "slow", "host/stubborn", "x") }()
	if _, err := workflow.Receive[string](ctx, "begun"); err != nil {
		return "", err
	}
	cancel()
	return "slept", workflow.Sleep(ctx, "long", time.Hour)
}

// toldFail cancels a step and fails, while the handler of the step is at it. A step has failed before.
func toldFail(ctx context.Context, _ int) (string, error) {
	if v, err := workflow.Call[string](ctx, "a", "host/flaky", "a", workflow.Attempts(1)); err == nil {
		return v, nil
	}
	own, cancel := context.WithCancel(ctx)
	go func() { _, _ = workflow.Call[string](own, "slow", "host/stubborn", "x") }()
	v, err := workflow.Call[string](ctx, "b", "host/after", "b", workflow.Attempts(1))
	cancel()
	runtime.Gosched()
	return v, err
}

// waits has a body that waits for an hour.
func waits(ctx context.Context, _ int) (string, error) {
	return workflow.Do(ctx, "body", func(workflow.Step) (string, error) {
		time.Sleep(time.Hour)
		return "waited", nil
	}, workflow.Timeout(2*time.Hour))
}

// crowd has so many bodies at a time that each wait for so many milliseconds.
func crowd(ctx context.Context, in struct{ Bodies, Ms int }) (int, error) {
	var all []*workflow.Future[string]
	for i := range in.Bodies {
		all = append(all, workflow.Async(ctx, func(ctx context.Context) (string, error) {
			return workflow.Do(ctx, fmt.Sprint("body", i), func(workflow.Step) (string, error) {
				time.Sleep(time.Duration(in.Ms) * time.Millisecond)
				return "waited", nil
			}, workflow.Timeout(2*time.Hour))
		}))
	}
	for _, f := range all {
		if _, err := f.Get(ctx); err != nil {
			return 0, err
		}
	}
	return len(all), nil
}

// row has so many bodies, one after the other.
func row(ctx context.Context, bodies int) (int, error) {
	for i := range bodies {
		if _, err := workflow.Do(ctx, fmt.Sprint("body", i), func(workflow.Step) (int, error) { return i, nil }); err != nil {
			return 0, err
		}
	}
	return bodies, nil
}

// beside has a body that waits for an hour, and a step beside it that fails at first.
func beside(ctx context.Context, _ int) (string, error) {
	a := workflow.Async(ctx, func(ctx context.Context) (string, error) {
		v, err := workflow.Call[string](ctx, "a", "host/flaky", "a", workflow.Attempts(3), workflow.Delay(time.Minute))
		if err == nil {
			_, err = workflow.Emit(ctx, "a", v)
		}
		return v, err
	})
	if err := workflow.Sleep(ctx, "until a has failed", time.Second); err != nil {
		return "", err
	}
	v, err := waits(ctx, 0)
	if err != nil {
		return "", err
	}
	w, err := a.Get(ctx)
	return v + w, err
}

// lines logs a line of 1 KiB in each of its activations.
func lines(ctx context.Context, n int) (string, error) {
	for i := range n {
		workflow.Log(ctx).Info(fmt.Sprint("line ", i, strings.Repeat(" x", 500)))
		if err := workflow.Sleep(ctx, fmt.Sprint("s", i), time.Minute); err != nil {
			return "", err
		}
	}
	return "done", nil
}

// steps calls handlers, one after the other.
func steps(ctx context.Context, handlers []string) (string, error) {
	var all []string
	for _, h := range handlers {
		v, err := workflow.Call[string](ctx, h, "host/"+h, h, workflow.Attempts(1))
		if err != nil {
			return "", err
		}
		all = append(all, v)
	}
	return strings.Join(all, " "), nil
}

// child says which child a parent starts, after a sleep.
type child struct {
	Workflow string
	Version  string // "" = default, "latest" or "1"
	SleepMs  int
	Input    int
}

func parent(ctx context.Context, c child) (string, error) {
	if err := workflow.Sleep(ctx, "before", time.Duration(c.SleepMs)*time.Millisecond); err != nil {
		return "", err
	}
	var opts []workflow.ChildOption
	switch c.Version {
	case "latest":
		opts = append(opts, workflow.ChildLatest())
	case "1":
		opts = append(opts, workflow.ChildVersion(1))
	}
	return workflow.Child[string](ctx, "kid", c.Workflow, c.Input, opts...)
}

// iterate continues as new n times. Then it sleeps under a random name, and makes a step.
func iterate(ctx context.Context, n int) (string, error) {
	if n > 0 {
		return "", workflow.ContinueAsNew(ctx, n-1)
	}
	name := fmt.Sprint("nap ", workflow.Rand(ctx).IntN(1_000_000))
	if err := workflow.Sleep(ctx, name, time.Second); err != nil {
		return "", err
	}
	v, err := workflow.Call[string](ctx, "a", "host/flaky", name, workflow.Attempts(1))
	return v, err
}

// leaves starts a child after a minute, and leaves it alone as it continues as new under the latest version.
func leaves(ctx context.Context, _ int) (string, error) {
	if err := workflow.Sleep(ctx, "before", time.Minute); err != nil {
		return "", err
	}
	_, err := workflow.StartChild[string](ctx, "kid", "nap", 1000, workflow.OnEnd(workflow.EndAbandon), workflow.ChildID("kid"))
	if err != nil {
		return "", err
	}
	return "", workflow.ContinueAsNew(ctx, 0, workflow.ContinueLatest())
}

// rebinds makes a step and gives a wait for a signal up behind it, whose signal the next wait gets.
func rebinds(ctx context.Context, _ int) (string, error) {
	own, cancel := context.WithCancel(ctx)
	go func() { _, _ = workflow.Receive[string](own, "a") }()
	runtime.Gosched()
	second := workflow.Async(ctx, func(ctx context.Context) (string, error) { return workflow.Receive[string](ctx, "a") })
	if err := workflow.Sleep(ctx, "nap", time.Minute); err != nil {
		return "", err
	}
	x := workflow.Async(ctx, func(ctx context.Context) (string, error) {
		return workflow.Call[string](ctx, "x", "host/flaky", "x", workflow.Attempts(1))
	})
	runtime.Gosched()
	cancel()
	v, err := second.Get(ctx)
	if err != nil {
		return "", err
	}
	w, err := x.Get(ctx)
	return v + w, err
}

// mob is crowd with options, and returns which attempts they were.
func mob(ctx context.Context, in struct {
	Bodies, Ms, Timeout, Elapsed int
	Once, Coop                   bool
}) ([]int, error) {
	if in.Coop {
		if err := workflow.SetCancelPolicy(ctx, workflow.CooperativeCancel); err != nil {
			return nil, err
		}
	}
	opts := []workflow.Option{workflow.Timeout(2 * time.Hour)}
	if in.Timeout > 0 {
		opts = []workflow.Option{workflow.Timeout(time.Duration(in.Timeout) * time.Millisecond)}
	}
	if in.Elapsed > 0 {
		opts = append(opts, workflow.MaxElapsed(time.Duration(in.Elapsed)*time.Millisecond))
	}
	if in.Once {
		opts = append(opts, workflow.AtMostOnce())
	}
	var all []*workflow.Future[int]
	for i := range in.Bodies {
		all = append(all, workflow.Async(ctx, func(ctx context.Context) (int, error) {
			return workflow.Do(ctx, fmt.Sprint("body", i), func(s workflow.Step) (int, error) {
				time.Sleep(time.Duration(in.Ms) * time.Millisecond)
				return s.Attempt, nil
			}, opts...)
		}))
	}
	var got []int
	for _, f := range all {
		n, err := f.Get(ctx)
		if err != nil {
			return nil, err
		}
		got = append(got, n)
	}
	return got, nil
}
