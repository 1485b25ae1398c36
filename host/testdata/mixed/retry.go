package main

import (
	"context"
	"errors"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	workflow.Register("bothfail", bothFail)
	workflow.Register("openchild", openChild)
	workflow.Register("openkid", openKid)
	workflow.Register("kidfails", kidFails)
	workflow.Register("latekid", lateKid)
	workflow.Register("once", once)
	workflow.Register("flaky", flaky)
	workflow.Register("hooks", hooks)
	workflow.Register("undoes", undoes)
	workflow.Register("apologises", apologises)
}

func flaky(ctx context.Context, _ int) (string, error) {
	return workflow.Call[string](ctx, "a", "host/flaky", "a", workflow.Attempts(1))
}

// bothFail makes two steps at a time, and then waits for a signal. The first one fails at once, the other one after an
// hour.
func bothFail(ctx context.Context, _ int) (string, error) {
	a := workflow.Async(ctx, func(ctx context.Context) (string, error) { return flaky(ctx, 0) })
	b := workflow.Async(ctx, func(ctx context.Context) (string, error) {
		return workflow.Call[string](ctx, "b", "host/flaky", "b", workflow.Attempts(2), workflow.Delay(time.Hour),
			workflow.MaxDelay(time.Hour))
	})
	x, errA := a.Get(ctx)
	y, errB := b.Get(ctx)
	if err := errors.Join(errA, errB); err != nil {
		return "", err
	}
	z, err := workflow.Receive[string](ctx, "approved")
	return x + y + z, err
}

// openChild starts a child that sleeps for an hour, makes a step, and waits for the child.
func openChild(ctx context.Context, end string) (string, error) {
	c, err := workflow.StartChild[string](ctx, "kid", "nap", 3_600_000, workflow.OnEnd(workflow.EndPolicy(end)))
	if err != nil {
		return "", err
	}
	if _, err := flaky(ctx, 0); err != nil {
		return "", err
	}
	v, err := c.Wait(ctx)
	if err != nil {
		return "", err
	}
	return "child " + v, nil
}

// openKid starts a child, makes a step, and waits for the child.
func openKid(ctx context.Context, kid string) (string, error) {
	c, err := workflow.StartChild[string](ctx, "kid", kid, 0)
	if err != nil {
		return "", err
	}
	if _, err := flaky(ctx, 0); err != nil {
		return "", err
	}
	return c.Wait(ctx)
}

// kidFails has a child that fails.
func kidFails(ctx context.Context, kid string) (string, error) {
	return workflow.Child[string](ctx, "kid", kid, 0)
}

// lateKid makes a step, and sleeps for an hour.
func lateKid(ctx context.Context, _ int) (string, error) {
	v, err := flaky(ctx, 0)
	if err != nil {
		return "", err
	}
	return v, workflow.Sleep(ctx, "nap", time.Hour)
}

// hooks has a hook of a chosen token, and one of a token that is made.
func hooks(ctx context.Context, token string) (string, error) {
	if _, err := workflow.Hook(ctx, "decision", token); err != nil {
		return "", err
	}
	made, err := workflow.Hook(ctx, "decision", "")
	if err != nil {
		return "", err
	}
	if err := workflow.SetAttribute(ctx, "token", made); err != nil {
		return "", err
	}
	if _, err := flaky(ctx, 0); err != nil {
		return "", err
	}
	x, err := workflow.Receive[string](ctx, "decision")
	if err != nil {
		return "", err
	}
	y, err := workflow.Receive[string](ctx, "decision")
	return x + y, err
}

// undoes makes a step, and undoes it when the next one fails.
func undoes(ctx context.Context, _ int) (v string, err error) {
	var undo workflow.Saga
	defer undo.Compensate(ctx, &err)
	if _, err := workflow.Call[string](ctx, "book", "host/note", "book"); err != nil {
		return "", err
	}
	undo.Add(func(ctx context.Context) error {
		_, err := workflow.Call[string](ctx, "unbook", "host/note", "unbook")
		return err
	})
	return workflow.Call[string](ctx, "charge", "host/flaky", "charge", workflow.Attempts(1))
}

// apologises sleeps and shows something after a step has failed, neither of which reaches others.
func apologises(ctx context.Context, _ int) (string, error) {
	v, err := flaky(ctx, 0)
	if err == nil {
		return v, nil
	}
	if _, err := workflow.Emit(ctx, "status", "something went wrong"); err != nil {
		return "", err
	}
	_ = workflow.Sleep(ctx, "a moment", time.Second)
	return "", err
}

// once makes two steps at a time, one of them once at most. It fails if the other one does.
func once(ctx context.Context, _ int) (string, error) {
	a := workflow.Async(ctx, func(ctx context.Context) (string, error) {
		return workflow.Call[string](ctx, "slow", "host/stubborn", "x", workflow.AtMostOnce())
	})
	v, err := workflow.Call[string](ctx, "b", "host/after", "b", workflow.Attempts(1))
	if err != nil {
		return "", err
	}
	w, err := a.Get(ctx)
	if err != nil {
		w = err.Error()
	}
	return v + ", " + w, nil
}
