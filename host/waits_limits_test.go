package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
)

const aDay = 24 * time.Hour

// wrongMoments change the clock during a wait: for a moment, for good, or not at all.
var wrongMoments = map[string]func(h *hosttest.Host){
	"right":             func(*hosttest.Host) {},
	"ahead":             func(h *hosttest.Host) { h.Clock.Step(aDay); h.Clock.Step(-aDay) },
	"behind":            func(h *hosttest.Host) { h.Clock.Step(-aDay); h.Clock.Step(aDay) },
	"set back for good": func(h *hosttest.Host) { h.Clock.Step(-aDay) },
}

// hung is a workflow that calls a handler once, with a timeout of a minute.
func hung(handler string) []byte {
	m := wasmgen.New(1).Text("s").Text(handler).I32(0).I32(0).Text(`{"attempts":1,"timeout":"1m"}`).Call(abi.FnStepStart).Set(0)
	m.I32(32).Get(0).Store64().I32(32).I32(1).Call(abi.FnAwait).Drop()
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

// TestAttemptsAndTheClock has attempts of handlers and workers hang while the clock is wrong: timeouts and leases
// expire after the right elapsed time.
func TestAttemptsAndTheClock(t *testing.T) {
	for name, wrong := range wrongMoments {
		t.Run(name, func(t *testing.T) {
			begun := make(chan struct{}, 1)
			h := hosttest.New(t, hosttest.WithHandlers(func(h *host.Host) {
				do(t, h.HandleRemote("far"))
				host.HandleStep(h, "hangs", func(ctx context.Context, _ string) (string, error) {
					begun <- struct{}{}
					<-ctx.Done()
					return "", ctx.Err()
				})
			}))
			for _, handler := range []string{"hangs", "far"} {
				_, err := h.Upload(ctx, handler, hung("host/"+handler), host.AllowStep("*"))
				do(t, err)
				_, err = h.Start(ctx, handler, nil, host.WithRunID(handler))
				do(t, err)
			}
			<-begun
			take := func() []host.Attempt {
				t.Helper()
				list, err := h.Attempts().Take(ctx, "far", host.TakeOptions{Lease: 10 * time.Second, Wait: time.Second})
				do(t, err)
				return list
			}
			want(t, len(take()), 1)
			wrong(h)
			h.Clock.Advance(10 * time.Second)
			again := take() // the worker was not heard of
			want(t, len(again), 1)
			h.Clock.Advance(50*time.Second - time.Millisecond)
			r, err := h.Get(ctx, "hangs")
			do(t, err)
			want(t, r.Status.Terminal(), false)
			h.Clock.Advance(time.Millisecond)
			until(t, h.Host, "hangs", func(r host.Run) bool { return r.Status.Terminal() })
			do(t, h.Terminate(ctx, "far"))
		})
	}
}

// TestDebounceAndTheClock starts a debounced run while the clock is behind: it begins at its instant, and another
// start does not see an old window.
func TestDebounceAndTheClock(t *testing.T) {
	h := newWindowed(t, host.StartWindow{Debounce: "10s", Longest: "15s"})
	h.Clock.Step(-aDay)
	first := h.raw("1")
	h.Clock.Step(aDay)
	h.Settle()
	a, err := h.Get(ctx, first.ID)
	do(t, err)
	want(t, a.Started.IsZero(), false)
	next := h.raw("2")
	if next.ID == first.ID {
		t.Error("the window of the past takes a start")
	}
	h.Advance(10 * time.Second)
	a, err = h.Get(ctx, next.ID)
	do(t, err)
	want(t, a.Started.Sub(hosttest.Epoch), 10*time.Second)
}

// TestWakesPerSecondAndTheClock has runs come due together under a quota of wakes, after the clock was wrong: they
// wake within the expected number of seconds.
func TestWakesPerSecondAndTheClock(t *testing.T) {
	for name, wrong := range wrongMoments {
		t.Run(name, func(t *testing.T) {
			h := newPrinted(t)
			do(t, h.SetQuota(ctx, "default", host.Quota{WakesPerSecond: 1}))
			for i := range 5 { // each sleeps for a minute
				h.raw("", host.WithRunID(fmt.Sprint("r", i)))
			}
			h.Settle()
			wrong(h.Host)
			h.Settle()
			h.Advance(time.Minute + 5*time.Second)
			all, err := collect(h.Runs(ctx, host.Query{Status: host.Completed}))
			do(t, err)
			want(t, len(all), 5)
		})
	}
}

// TestWaitsAfterARestart ends runs during their second wait, and restarts them much later: all waits of the new runs
// last their full time.
func TestWaitsAfterARestart(t *testing.T) {
	w := newWaits(t)
	w.times = 2
	w.begin("sleep")
	w.at(100)
	w.each("terminate", func(id string) error { return w.Terminate(ctx, id) })
	w.at(1000)
	for i, kind := range w.kinds {
		r, err := w.Restart(ctx, idOf(kind), idOf(kind)+"-again", "")
		do(t, err)
		w.kinds[i] = kind + " again"
		want(t, r.ID, idOf(w.kinds[i]))
	}
	w.Settle()
	w.last(1000+20+120, false)
}

// TestWaitsAfterARetry has runs fail by their timeout during a wait, and retries them much later: the old wait is
// over, and new waits last their full time.
func TestWaitsAfterARetry(t *testing.T) {
	w := newWaits(t, "sleep", "text", "signal", "time.Sleep", "time.After", "context", "select", "hook")
	w.times = 2
	w.begin("", host.WithTimeout(30*time.Second))
	w.at(40)
	w.each("retry", func(id string) error {
		if r, err := w.Get(ctx, id); err != nil || r.Status != host.Failed {
			return fmt.Errorf("it is %s: %w", r.Status, err)
		}
		return nil
	})
	w.at(1000)
	w.each("retry", func(id string) error { return w.Retry(ctx, id, 0) })
	w.Settle()
	w.last(1000+60, false)
}

// TestWaitsWhoseSleepsAreSkipped skips the sleeps of runs after a pause, and after the clock was wrong for a moment:
// the runs see waits of a minute, and the host's clock stands still.
func TestWaitsWhoseSleepsAreSkipped(t *testing.T) {
	for name, before := range map[string]func(w *waits){
		"paused": func(w *waits) {
			w.each("pause", func(id string) error { _, err := w.Pause(ctx, id); return err })
			w.at(1000)
			w.each("unpause", func(id string) error { _, err := w.Unpause(ctx, id); return err })
		},
		"killed": func(w *waits) { w.Crash() },
		"ahead":  func(w *waits) { w.Clock.Step(aDay); w.Clock.Step(-aDay) },
		"behind": func(w *waits) { w.Clock.Step(-aDay); w.Settle(); w.Clock.Step(aDay) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWaits(t)
			w.begin("signal")
			w.at(10)
			before(w)
			w.each("signal", func(id string) error { return w.Signal(ctx, id, "go", "x") })
			w.Settle()
			at := w.Clock.Now()
			w.each("skip", func(id string) error { return w.SkipSleeps(ctx, id) })
			want(t, w.Clock.Now(), at)
			for _, kind := range w.kinds {
				var out struct{ Began, Ended, Mono int64 }
				if b, err := w.ResultRaw(ctx, idOf(kind)); err != nil || json.Unmarshal(b, &out) != nil {
					t.Errorf("%s: %s %v", kind, b, err)
				}
				if out.Began != at.UnixMilli() || out.Ended != out.Began+waitsMs || out.Mono != waitsMs {
					t.Errorf("%s: from %d, %d ms, %d by the monotonic clock\n%s", kind, out.Began-at.UnixMilli(), out.Ended-out.Began, out.Mono,
						w.journal(idOf(kind)))
				}
			}
		})
	}
}

// TestMaxElapsedPassesInAPause pauses a run until the time limit of its step has passed: the attempt that is due is
// made, and is the last one.
func TestMaxElapsedPassesInAPause(t *testing.T) {
	for _, crash := range []bool{false, true} {
		w := newWaits(t, "elapsed")
		w.begin("")
		w.at(20)
		w.each("pause", func(id string) error { _, err := w.Pause(ctx, id); return err })
		if w.at(1000); crash {
			w.Crash()
		}
		w.each("unpause", func(id string) error { _, err := w.Unpause(ctx, id); return err })
		w.Settle()
		r, err := w.Get(ctx, "elapsed")
		do(t, err)
		want(t, r.Status, host.Failed) // it expects five attempts
		if n := w.entries(store.KindAttemptFailed); n != 2 || w.entries(store.KindStepFailure) != 1 {
			t.Errorf("%d attempts have failed before the last one\n%s", n, w.journal("elapsed"))
		}
		want(t, r.Ended, hosttest.Epoch.Add(1000*time.Second))
	}
}
