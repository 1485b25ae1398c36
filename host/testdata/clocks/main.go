// Command clocks holds a workflow that begins a wait of a kind after something else has happened to it.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {}

func init() {
	workflow.Register("waits", waits)
	workflow.Register("naps", naps)
	workflow.Register("idle", func(ctx context.Context, _ string) (string, error) {
		return "", workflow.Sleep(ctx, "idle", 1000*time.Hour)
	})
	workflow.Register("quick", func(ctx context.Context, _ string) (string, error) {
		return "done", workflow.Sleep(ctx, "quick", 20*time.Second)
	})
}

// naps sleeps beside a goroutine that sleeps for shorter, and takes updates and queries meanwhile.
func naps(ctx context.Context, how string) (int, error) {
	woken := 0
	workflow.Query(ctx, "woken", func(int) (int, error) { return woken, nil })
	workflow.OnUpdate(ctx, "echo", func(_ context.Context, n int) (int, error) { return n, nil })
	if how == "time.Sleep" {
		time.Sleep(time.Hour)
		return 1, nil
	}
	if err := workflow.Sleep(ctx, "first", 15*time.Second); err != nil {
		return 0, err
	}
	woken++
	time.Sleep(time.Second)
	return woken, workflow.Sleep(ctx, "second", time.Minute)
}

// Waits is the input: what the workflow waits for first, and the wait that begins then, which lasts Ms.
type Waits struct {
	First, Kind string
	Ms          int64
	Times       int // of the wait, one after the other; 0 = 1
}

// Waited is the result: what the workflow's clocks showed when the wait began and ended, in Unix milliseconds, and how long it
// took by the monotonic one.
type Waited struct {
	Began, Ended, Mono int64
	Got                string
}

func waits(ctx context.Context, in Waits) (out Waited, err error) {
	workflow.Query(ctx, "now", func(int) (int64, error) { return time.Now().UnixMilli(), nil })
	workflow.OnUpdate(ctx, "echo", func(_ context.Context, n int) (int, error) { return n, nil })
	switch in.First {
	case "signal":
		_, err = workflow.Receive[string](ctx, "go")
	case "step":
		_, err = workflow.Call[string](ctx, "first", "host/first", "x")
	case "child":
		_, err = workflow.Child[string](ctx, "first child", "quick", "x")
	case "sleep":
		err = workflow.Sleep(ctx, "first sleep", 20*time.Second)
	case "time.Sleep":
		time.Sleep(20 * time.Second)
	}
	if err != nil {
		return out, err
	}
	began := time.Now()
	for i := range max(in.Times, 1) {
		out.Got, err = wait(ctx, fmt.Sprint(i), in.Kind, time.Duration(in.Ms)*time.Millisecond)
		if err != nil {
			return out, err
		}
	}
	out.Began, out.Ended, out.Mono = began.UnixMilli(), time.Now().UnixMilli(), time.Since(began).Milliseconds()
	return out, nil
}

func wait(ctx context.Context, n, kind string, d time.Duration) (string, error) {
	switch kind {
	case "sleep":
		return "", workflow.Sleep(ctx, "wait "+n, d)
	case "text":
		return "", workflow.SleepText(ctx, "wait "+n, d.String())
	case "until":
		return "", workflow.SleepUntil(ctx, "wait "+n, time.Now().Add(d))
	case "signal":
		got, err := workflow.ReceiveTimeout[string](ctx, "b", d)
		if errors.Is(err, workflow.ErrTimeout) {
			return "timeout", nil
		}
		return got, err
	case "time.Sleep":
		time.Sleep(d)
	case "time.After":
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	case "timer":
		<-time.NewTimer(d).C
	case "ticker":
		t := time.NewTicker(d)
		defer t.Stop()
		<-t.C
	case "context":
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		<-ctx.Done()
	case "select":
		select {
		case <-time.After(d):
			return "timeout", nil
		case got := <-workflow.Signal[string](ctx, "b"):
			return got, nil
		}
	case "sleep in a context":
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		if err := workflow.Sleep(ctx, "long "+n, 1000*time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			return "", fmt.Errorf("the long sleep: %w", err)
		}
	case "retry":
		_, err := workflow.Call[string](ctx, "again "+n, "host/again", n, workflow.Delay(d), workflow.Backoff(workflow.Fixed),
			workflow.Attempts(2))
		return "", err
	case "hook":
		if _, err := workflow.Hook(ctx, "hook "+n, ""); err != nil {
			return "", err
		}
		if _, err := workflow.ReceiveTimeout[string](ctx, "hook "+n, d); !errors.Is(err, workflow.ErrTimeout) {
			return "", fmt.Errorf("the hook: %w", err)
		}
	case "elapsed":
		_, err := workflow.Call[string](ctx, "never "+n, "host/never", n, workflow.Delay(d/4), workflow.Backoff(workflow.Fixed),
			workflow.Attempts(0), workflow.MaxElapsed(d))
		var failed *workflow.StepError
		if !errors.As(err, &failed) || failed.Attempts != 5 {
			return "", fmt.Errorf("the step, of which there were five attempts: %w", err)
		}
	case "child":
		_, err := workflow.Child[string](ctx, "child "+n, "idle", "x", workflow.ChildTimeout(d))
		if err == nil || !strings.Contains(err.Error(), "within the time") {
			return "", fmt.Errorf("the child: %w", err)
		}
	}
	return "", nil
}
