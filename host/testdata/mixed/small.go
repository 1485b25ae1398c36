package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	oldrand "math/rand"
	"math/rand/v2"
	"os"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	workflow.Register("reminded", reminded)
	workflow.Register("expires", expires)
	workflow.Register("numbers", numbers)
	workflow.Register("files", files)
	workflow.Register("zone", zone)
	workflow.Register("durations", durations)
	workflow.Register("forever", forever)
	workflow.Register("topics", topics)
	workflow.Register("taken", taken)
	workflow.RegisterStep("draw", func(workflow.Step, int) (string, error) { return draw(), nil })
}

// reminded waits for three hours, and sleeps for two of them beside that.
func reminded(ctx context.Context, _ int) (string, error) {
	deadline, cancel := context.WithTimeout(ctx, 3*time.Hour)
	defer cancel()
	begun := time.Now()
	woke := make(chan struct{})
	go func() {
		_ = workflow.Sleep(ctx, "reminder", 2*time.Hour)
		close(woke)
	}()
	<-woke
	first := time.Since(begun)
	_, err := workflow.Receive[string](deadline, "approved")
	return fmt.Sprintf("reminded after %v, %v after %v", first, err, time.Since(begun)), nil
}

// expires makes a step under a deadline that passes while the attempt is under way.
func expires(ctx context.Context, _ int) (string, error) {
	deadline, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err := workflow.Call[string](deadline, "slow", "host/obeys", "x", workflow.Attempts(1))
	return fmt.Sprintln(errors.Is(err, workflow.ErrStepFailed), errors.Is(err, context.DeadlineExceeded), err), nil
}

func draw() string { return fmt.Sprint(rand.Uint64(), rand.Int64(), oldrand.Int63()) }

// numbers takes random numbers from the global generators: of the workflow, of a body and its second attempt, of a step
// function, and of the workflow again.
func numbers(ctx context.Context, _ int) ([]string, error) {
	got := []string{draw()}
	body, err := workflow.Do(ctx, "body", func(s workflow.Step) ([]string, error) {
		if s.Attempt == 1 {
			return nil, errors.New(draw())
		}
		return []string{s.LastError, draw()}, nil
	}, workflow.Delay(0))
	if err != nil {
		return nil, err
	}
	step, err := workflow.Call[string](ctx, "step", "draw", 0)
	return append(append(got, body...), step, draw()), err
}

// files looks for a file, and for an environment.
func files(context.Context, int) (string, error) {
	_, stat := os.Stat("/etc/zoneinfo")
	_, open := os.Open("settings.json")
	write := os.WriteFile("/tmp/x", nil, 0o600)
	none := fmt.Sprint(os.IsNotExist(stat), errors.Is(open, fs.ErrNotExist), os.IsNotExist(write))
	return fmt.Sprintf("%s %d %d", none, len(os.Environ()), len(os.Args)), nil
}

// zone tells what time it is elsewhere.
func zone(context.Context, int) (string, error) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		return "", err
	}
	return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC).In(berlin).Format("15:04 MST"), nil
}

// durations sleeps for less than nothing.
func durations(ctx context.Context, _ int) (string, error) {
	for i, d := range []time.Duration{-1, -time.Microsecond, -time.Second, math.MinInt64} {
		if err := workflow.Sleep(ctx, fmt.Sprint("nap ", i), d); !errors.Is(err, workflow.ErrInvalidDuration) {
			return "", fmt.Errorf("a sleep of %v: %w", d, err)
		}
		_, err := workflow.Child[string](ctx, fmt.Sprint("child ", i), "nap", 0, workflow.ChildTimeout(d))
		if !errors.Is(err, workflow.ErrInvalidArgument) {
			return "", fmt.Errorf("a child with a timeout of %v: %w", d, err)
		}
	}
	_, err := workflow.Child[string](ctx, "soon over", "nap", 60_000, workflow.ChildTimeout(time.Nanosecond))
	return fmt.Sprint(errors.Is(err, workflow.ErrChildFailed)), nil
}

// forever waits for 292 years, in one way or another.
func forever(ctx context.Context, how string) (string, error) {
	const longest = time.Duration(math.MaxInt64)
	switch how {
	case "receive":
		_, err := workflow.ReceiveTimeout[string](ctx, "s", longest)
		return "", err
	case "sleep":
		return "", workflow.Sleep(ctx, "nap", longest)
	case "step":
		_, err := workflow.Call[string](ctx, "slow", "host/stubborn", "x", workflow.Timeout(longest), workflow.MaxElapsed(longest))
		return "", err
	case "child":
		return workflow.Child[string](ctx, "child", "nap", 60_000, workflow.ChildTimeout(longest))
	}
	timeout, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	return workflow.Receive[string](timeout, "s")
}

// topics puts out 600 chunks, of which few are of one topic.
func topics(ctx context.Context, _ int) (string, error) {
	for i := range 600 {
		topic := "often"
		if i%200 == 0 {
			topic = "rare"
		}
		if _, err := workflow.Emit(ctx, topic, i); err != nil {
			return "", err
		}
	}
	return "done", nil
}

// taken starts a child with the id of this run.
func taken(ctx context.Context, _ int) (string, error) {
	_, err := workflow.Child[string](ctx, "twin", "nap", 0, workflow.ChildID("r"))
	return fmt.Sprintln(errors.Is(err, workflow.ErrConflict), errors.Is(err, workflow.ErrChildFailed), err), nil
}
