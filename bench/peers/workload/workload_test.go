package workload

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/bench/peers/job"
)

// fake is an engine that takes fixed times. Its memory is 1,000 bytes, and 10 more for each workflow that sleeps.
type fake struct {
	b                 *Bench
	start, step, late time.Duration
	fail, hang        int // the workflow that cannot be started, and the one that does not wake; by slot, counted from 1
	asleep            atomic.Int64
	runs              atomic.Int64
}

func (f *fake) run(ctx context.Context, w job.Workflow) error {
	f.runs.Add(1)
	for n := range w.Before + w.After {
		if n == w.Before && w.SleepMs > 0 {
			if w.Slot+1 == f.hang {
				return nil
			}
			f.asleep.Add(1)
			err := pause(ctx, time.Duration(w.SleepMs)*time.Millisecond+f.late-f.step) // the sleep counts from the step's body
			f.asleep.Add(-1)
			if err != nil {
				return err
			}
		}
		f.b.Note(job.Step{Slot: w.Slot, Number: n})
		if err := pause(ctx, f.step); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) Start(ctx context.Context, w job.Workflow) error {
	if w.Slot+1 == f.fail && w.Before > 0 && w.ID != "job-1" {
		return errors.New("refused")
	}
	if err := pause(ctx, f.start); err != nil {
		return err
	}
	go func() { _ = f.run(context.WithoutCancel(ctx), w) }()
	return nil
}

func (f *fake) Run(ctx context.Context, w job.Workflow) error {
	if err := pause(ctx, f.start); err != nil {
		return err
	}
	return f.run(ctx, w)
}

func (f *fake) Memory() (int64, error) { return 1000 + 10*f.asleep.Load(), nil }

// CPU is 7 ms for each workflow.
func (f *fake) CPU() (time.Duration, error) {
	return time.Duration(f.runs.Load()) * 7 * time.Millisecond, nil
}

func newFake() (*fake, *Bench) {
	f := &fake{start: 2 * time.Millisecond, step: 5 * time.Millisecond}
	f.b = &Bench{Engine: f, Machine: f}
	return f, f.b
}

// check compares figures, within a tenth.
func check(t *testing.T, got, want Figures) {
	t.Helper()
	for name, v := range want {
		if g, ok := got[name]; !ok || math.Abs(g-v) > math.Abs(v)/10 {
			t.Errorf("%s is %v, want %v", name, g, v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b := newFake()
		got, err := Steps{Length: 10, AtATime: 4, WarmUp: time.Second, For: 10 * time.Second}.Run(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		perS := 4 * 10 / 0.052 // 4 at a time, each 10 steps in 52 ms
		check(t, got, Figures{"stepsPerS": perS, "stepP50Ms": 5, "stepP99Ms": 5, "cpuPerStepUs": 700})
	})
}

func TestStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b := newFake()
		got, err := Starts{For: time.Second}.Run(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		check(t, got, Figures{"resultP50Ms": 2, "resultP99Ms": 2})
	})
}

func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFake()
		f.late = 3 * time.Millisecond
		got, err := History{Steps: 100, Times: 3, Sleep: time.Second}.Run(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		check(t, got, Figures{"nextStepMs": 3, "builtS": 0.495})
	})
}

func TestSleepers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFake()
		f.late = 4 * time.Millisecond
		got, err := Sleepers{N: 1000, Rate: 100, Sleep: 20 * time.Second}.Run(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		// All 1,000 are asleep from 10 s to 20 s; at the first reading after the first wake, some 970 still are.
		check(t, got, Figures{"baseBytes": 1000, "asleepBytes": 11000, "peakBytes": 10700, "startsPerS": 100, "lateP50Ms": 4,
			"lateP99Ms": 4, "cpuPerWorkflowUs": 7000})
	})
}

// TestNeverAllAsleep: if the first wakes before the last sleeps, there is no memory of all that sleep.
func TestNeverAllAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b := newFake()
		got, err := Sleepers{N: 1000, Rate: 100, Sleep: 5 * time.Second}.Run(t.Context(), b)
		if _, there := got["asleepBytes"]; err != nil || there {
			t.Error(got, err)
		}
	})
}

func TestSleepersFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFake()
		f.hang = 7
		_, err := Sleepers{N: 10, Sleep: 5 * time.Second}.Run(t.Context(), b)
		if err == nil || !strings.Contains(err.Error(), "10 of 10 workflows slept and 9 woke") {
			t.Error(err)
		}
		f.fail = 8
		if _, err := (Sleepers{N: 10, Sleep: 5 * time.Second}).Run(t.Context(), b); err == nil || err.Error() != "refused" {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		f.fail, f.hang = 0, 0
		if _, err := (Sleepers{N: 10, Sleep: time.Hour}).Run(ctx, b); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		<-time.After(2 * time.Hour) // the sleepers that were left end
	})
}

// TestRepeatedStep: an engine may run a step again; the first time counts.
func TestRepeatedStep(t *testing.T) {
	n := newNight(1)
	at := time.Unix(100, 0)
	for i, s := range []job.Step{{Number: 0}, {Number: 0}, {Number: 1}, {Number: 1}} {
		n.note(s, at.Add(time.Duration(i)*time.Second))
	}
	if late := n.lateness(time.Second); n.asleep.Load() != 1 || n.awake.Load() != 1 || late[0] != time.Second {
		t.Error(n.asleep.Load(), n.awake.Load(), late)
	}
}
