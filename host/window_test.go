package host_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

func newWindowed(t *testing.T, w host.StartWindow) *printed {
	h := newPrinted(t)
	w.Workflow = "print"
	_, err := h.StartWindows().Set(ctx, w)
	do(t, err)
	return h
}

func (h *printed) raw(input string, opts ...host.StartOption) host.Run {
	h.t.Helper()
	r, err := h.StartRaw(ctx, "print", []byte(input), opts...)
	do(h.t, err)
	return r
}

// input returns the input with which a run was started.
func (h *printed) input(id string) string {
	h.t.Helper()
	for e, err := range h.Journal(ctx, id, 0) {
		do(h.t, err)
		return string(e.Input)
	}
	return ""
}

// TestDebounce merges the starts of each key into one run, which begins with the newest input when no start has come
// for a while.
func TestDebounce(t *testing.T) {
	h := newWindowed(t, host.StartWindow{Debounce: "10s per input.customer", Longest: "25s"})
	first := h.raw(`{"customer":"a","n":1}`)
	other := h.raw(`{"customer":"b","n":1}`)
	if first.Existed || first.ID == other.ID {
		t.Errorf("%+v, %+v", first, other)
	}
	for n := range 2 {
		h.Advance(9 * time.Second)
		r := h.raw(fmt.Sprintf(`{"customer":"a","n":%d}`, n+2))
		want(t, r.ID, first.ID)
		want(t, r.Existed, true)
		h.Crash()
	}
	h.Settle()
	want(t, h.input(first.ID), `{"customer":"a","n":3}`)
	b, err := h.Get(ctx, other.ID)
	do(t, err)
	want(t, b.Started.Sub(hosttest.Epoch), 10*time.Second)
	h.Advance(6 * time.Second) // 24 s after the first start
	a, err := h.Get(ctx, first.ID)
	do(t, err)
	if !a.Started.IsZero() {
		t.Errorf("began at %v", a.Started)
	}
	h.Advance(time.Second) // the longest wait
	a, err = h.Get(ctx, first.ID)
	do(t, err)
	want(t, a.Started.Sub(hosttest.Epoch), 25*time.Second)
	next := h.raw(`{"customer":"a","n":4}`)
	if next.ID == first.ID || next.Existed {
		t.Errorf("%+v", next)
	}
	h.Advance(2 * time.Minute)
	all, err := collect(h.Runs(ctx, host.Query{Status: host.Completed}))
	do(t, err)
	want(t, len(all), 3)
}

// TestDebounceCrashes crashes at each commit of two starts: the acknowledged run begins, with its input or a later
// one.
func TestDebounceCrashes(t *testing.T) {
	for n := range 5 {
		for _, after := range []bool{false, true} {
			h := newWindowed(t, host.StartWindow{Debounce: "10s"})
			h.CrashAt(n, after)
			acknowledged := map[string]int{}
			for i := range 3 {
				r, err := h.StartRaw(ctx, "print", fmt.Append(nil, i))
				if h.Crashed() {
					h.Reopen()
				}
				if err == nil {
					acknowledged[r.ID] = i
				}
			}
			h.CrashAt(1000, false)
			h.Settle()
			for id, i := range acknowledged {
				if got := h.input(id); got < fmt.Sprint(i) {
					t.Errorf("crash at %d: input %s, want %d or later", n, got, i)
				}
			}
			h.Advance(2 * time.Minute)
			all, err := collect(h.Runs(ctx, host.Query{Status: host.Completed}))
			do(t, err)
			if want(t, len(all), 1); len(acknowledged) != 1 {
				t.Errorf("crash at %d: %v", n, acknowledged)
			}
		}
	}
}

// A run that has got a signal is not debounced any more.
func TestDebounceAfterASignal(t *testing.T) {
	h := newWindowed(t, host.StartWindow{Debounce: "10s"})
	first := h.raw("1")
	do(t, h.Signal(ctx, first.ID, "hello", nil))
	if next := h.raw("2"); next.ID == first.ID {
		t.Error("a signal was lost")
	}
}

// TestThrottle starts one run per key and window, and returns that run for the other starts.
func TestThrottle(t *testing.T) {
	h := newWindowed(t, host.StartWindow{Throttle: "1h per input.customer"})
	first := h.raw(`{"customer":"a"}`, host.WithRunID("one"))
	other := h.raw(`{"customer":"b"}`)
	h.Advance(59 * time.Minute)
	h.Crash()
	again := h.raw(`{"customer":"a"}`, host.WithRunID("two"))
	want(t, again.ID, first.ID)
	want(t, again.Existed, true)
	want(t, again.Throttled.Sub(hosttest.Epoch), time.Hour)
	repeated := h.raw(`{"customer":"a"}`, host.WithRunID("one"))
	want(t, repeated.ID, "one")
	want(t, repeated.Throttled.IsZero(), true)
	h.Advance(time.Minute)
	next := h.raw(`{"customer":"a"}`)
	if next.ID == first.ID || next.ID == other.ID || next.Existed || !next.Throttled.IsZero() {
		t.Errorf("%+v", next)
	}
	do(t, h.StartWindows().Delete(ctx, "print"))
	if r := h.raw(`{"customer":"a"}`); r.ID == next.ID {
		t.Error("there is no throttle any more")
	}
}

// A start that failed, or was lost in a crash, does not use up the window.
func TestThrottleCrash(t *testing.T) {
	h := newWindowed(t, host.StartWindow{Throttle: "1h"})
	h.CrashAt(1, false) // the window is durable, but the run is not
	if _, err := h.StartRaw(ctx, "print", nil); err == nil {
		t.Error("no crash")
	}
	h.Reopen()
	if r := h.raw("{}"); r.Existed || !r.Throttled.IsZero() {
		t.Errorf("%+v", r)
	}
}

func TestWrongStartWindows(t *testing.T) {
	h := newPrinted(t)
	for _, w := range []host.StartWindow{{}, {Debounce: "1s", Throttle: "1s"}, {Debounce: "soon"}, {Debounce: "10s per customer"},
		{Debounce: "10s", Longest: "5s"}, {Throttle: "10s", Longest: "50s"}, {Throttle: "0s"}} {
		w.Workflow = "print"
		if _, err := h.StartWindows().Set(ctx, w); !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%+v: %v", w, err)
		}
	}
	if err := h.StartWindows().Delete(ctx, "print"); !errors.Is(err, host.ErrNotFound) {
		t.Error(err)
	}
	_, err := h.StartWindows().Set(ctx, host.StartWindow{Workflow: "print", Debounce: "10s"})
	do(t, err)
	for _, o := range []host.StartOption{host.WithStartIn(time.Hour), host.OnConflict(host.ConflictFail), host.WithSignal("s", nil)} {
		if _, err := h.StartRaw(ctx, "print", nil, o); !errors.Is(err, host.ErrInvalid) {
			t.Error(err)
		}
	}
}

// TestThrottleAtOnce makes many concurrent starts with one key: one of them starts a run.
func TestThrottleAtOnce(t *testing.T) {
	h := newWindowed(t, host.StartWindow{Throttle: "1h per input.customer"})
	for k := range 20 {
		runs := make(chan host.Run, 8)
		for range cap(runs) {
			go func() {
				r, err := h.StartRaw(ctx, "print", fmt.Appendf(nil, `{"customer":%d}`, k))
				do(t, err)
				runs <- r
			}()
		}
		ids, began := map[string]bool{}, 0
		for range cap(runs) {
			r := <-runs
			ids[r.ID] = true
			if r.Throttled.IsZero() {
				began++
			}
		}
		if len(ids) != 1 || began != 1 {
			t.Errorf("%d runs, %d starts have begun one", len(ids), began)
		}
	}
}

// If a run was refused when it was first started, its window begins when it is started successfully.
func TestThrottleRefusedAndRepeated(t *testing.T) {
	h := newWindowed(t, host.StartWindow{Throttle: "1h"})
	h.CrashAt(1, false) // the window is durable, but the run is not
	if _, err := h.StartRaw(ctx, "print", nil, host.WithRunID("one")); err == nil {
		t.Error("no crash")
	}
	h.Reopen()
	h.CrashAt(1000, false)
	h.Advance(59 * time.Minute)
	want(t, h.raw("", host.WithRunID("one")).Existed, false)
	h.Advance(2 * time.Minute)
	want(t, h.raw("").ID, "one")
}

// TestWindowsAndTheClock sets the clock back by a day: a window lasts no longer than if it began then.
func TestWindowsAndTheClock(t *testing.T) {
	h := newWindowed(t, host.StartWindow{Throttle: "1h"})
	first := h.raw("")
	h.Clock.Step(-24 * time.Hour)
	r := h.raw("")
	want(t, r.ID, first.ID)
	want(t, r.Throttled.Sub(h.Clock.Now()), time.Hour)
	h.Advance(time.Hour)
	if next := h.raw(""); next.ID == first.ID {
		t.Error("the window goes on")
	}
	_, err := h.StartWindows().Set(ctx, host.StartWindow{Workflow: "print", Debounce: "10s", Longest: "15s"})
	do(t, err)
	h.Advance(2 * time.Hour)
	first = h.raw("1")
	h.Clock.Step(-24 * time.Hour)
	began := h.Clock.Now()
	want(t, h.raw("2").ID, first.ID)
	for range 2 {
		h.Advance(6 * time.Second)
		want(t, h.raw("3").ID, first.ID)
	}
	h.Advance(3 * time.Second)
	a, err := h.Get(ctx, first.ID)
	do(t, err)
	want(t, a.Started.Sub(began), 15*time.Second)
}

// TestDebounceAfter changes the run of a window by other means: the next start begins another run, and no id is used
// twice.
func TestDebounceAfter(t *testing.T) {
	for name, happen := range map[string]func(h *printed, id string) error{
		"delete": func(h *printed, id string) error {
			do(t, h.Terminate(ctx, id))
			return h.Delete(ctx, id)
		},
		"terminate": func(h *printed, id string) error { return h.Terminate(ctx, id) },
		"cancel":    func(h *printed, id string) error { return errorOf(h.Cancel(ctx, id)) },
		"pause":     func(h *printed, id string) error { return errorOf(h.Pause(ctx, id)) },
	} {
		for _, crash := range []bool{false, true} {
			h := newWindowed(t, host.StartWindow{Debounce: "10s"})
			first := h.raw("1", host.WithRunID("one"))
			do(t, happen(h, first.ID))
			if crash {
				h.Crash()
			}
			next := h.raw("2")
			if next.ID == first.ID || next.Existed {
				t.Errorf("%s: %+v", name, next)
			}
			want(t, h.raw("3").ID, next.ID)
			h.Advance(10 * time.Second)
			want(t, h.input(next.ID), "3")
		}
	}
}

func errorOf(_ bool, err error) error { return err }
