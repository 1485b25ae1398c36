package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
)

// waits has the workflow of testdata/clocks wait for 60 s, in every possible way.
type waits struct {
	*hosttest.Host
	t     *testing.T
	kinds []string
	times int // of each wait
	// host/first sends to entered, and returns when slow is closed.
	entered, slow chan struct{}

	mu    sync.Mutex
	tried map[string]int
}

// waitKinds are the ways to wait that begin when the wait begins.
var waitKinds = []string{"sleep", "text", "until", "signal", "time.Sleep", "time.After", "timer", "ticker", "context", "select",
	"sleep in a context", "retry", "hook", "elapsed", "child"}

// relativeKinds are waits for a duration. The others wait until an instant, computed while the clock was wrong.
var relativeKinds = slices.DeleteFunc(slices.Clone(waitKinds), func(kind string) bool { return kind == "until" || kind == "child" })

const waitsMs = 60_000

func newWaits(t *testing.T, kinds ...string) *waits {
	t.Helper()
	if len(kinds) == 0 {
		kinds = slices.Clone(waitKinds)
	}
	w := &waits{t: t, kinds: kinds, tried: map[string]int{}, entered: make(chan struct{}, len(waitKinds)), slow: make(chan struct{})}
	w.Host = hosttest.New(t, hosttest.WithHandlers(w.handlers))
	if _, err := w.Upload(ctx, "", hosttest.Build(t, "testdata/clocks"), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *waits) handlers(h *host.Host) {
	host.HandleStep(h, "first", func(ctx context.Context, _ string) (string, error) {
		w.entered <- struct{}{}
		select {
		case <-w.slow:
		case <-ctx.Done():
		}
		return "x", nil
	})
	host.HandleStep(h, "never", func(context.Context, string) (string, error) { return "", errors.New("not yet") })
	host.HandleStep(h, "again", func(ctx context.Context, _ string) (string, error) {
		id := host.StepInfo(ctx).RunID
		w.mu.Lock()
		defer w.mu.Unlock()
		w.tried[id]++
		if w.tried[id]%2 == 1 {
			return "", errors.New("not yet")
		}
		return "x", nil
	})
}

// begin starts a run per kind. Its wait begins after the given event.
func (w *waits) begin(first string, opts ...host.StartOption) {
	w.t.Helper()
	for _, kind := range w.kinds {
		in := map[string]any{"First": first, "Kind": kind, "Ms": waitsMs, "Times": w.times}
		if _, err := w.Start(ctx, "waits", in, append(opts, host.WithRunID(idOf(kind)))...); err != nil {
			w.t.Fatal(err)
		}
	}
	if first == "step" { // it does not come to rest
		for range w.kinds {
			<-w.entered
		}
		return
	}
	w.Settle()
}

func idOf(kind string) string { return strings.ReplaceAll(kind, " ", "-") }

func (w *waits) each(what string, do func(id string) error) {
	w.t.Helper()
	for _, kind := range w.kinds {
		if err := do(idOf(kind)); err != nil {
			w.t.Fatalf("%s %s: %v", what, kind, err)
		}
	}
}

// at sets the clock to a number of seconds after the beginning.
func (w *waits) at(seconds int) {
	w.t.Helper()
	w.Advance(hosttest.Epoch.Add(time.Duration(seconds) * time.Second).Sub(w.Clock.Now()))
}

// last checks that all waits end after the given number of seconds, and not a second earlier. If the workflow's clock
// can be believed, the workflow measures that duration.
func (w *waits) last(until int, believed bool) {
	w.t.Helper()
	w.at(until - 1)
	for _, kind := range w.kinds {
		if r, err := w.Get(ctx, idOf(kind)); err != nil || r.Status.Terminal() {
			w.t.Errorf("%s is %s a second before its end: %v\n%s", kind, r.Status, err, w.journal(idOf(kind)))
		}
	}
	w.at(until)
	for _, kind := range w.kinds {
		id := idOf(kind)
		var out struct{ Began, Ended, Mono int64 }
		if r, err := w.Get(ctx, id); err != nil || r.Status != host.Completed {
			w.t.Errorf("%s is %s until %v\n%s", kind, r.Status, r.Wake, w.journal(id))
			continue
		}
		if b, err := w.ResultRaw(ctx, id); err != nil || json.Unmarshal(b, &out) != nil {
			w.t.Fatal(kind, err)
		}
		began := hosttest.Epoch.Add(time.Duration(until-60) * time.Second).UnixMilli()
		if believed && (out.Began != began || out.Ended != began+waitsMs || out.Mono != waitsMs) {
			w.t.Errorf("%s: the workflow saw a wait from %d to %d, and %d ms, by its monotonic clock\n%s", kind,
				out.Began-hosttest.Epoch.UnixMilli(), out.Ended-hosttest.Epoch.UnixMilli(), out.Mono, w.journal(id))
		}
		if err := w.Replay(ctx, id); err != nil {
			w.t.Errorf("%s: %v\n%s", kind, err, w.journal(id))
		}
	}
}

func (w *waits) journal(id string) (text string) {
	for e, err := range w.Journal(ctx, id, 0) {
		if err != nil {
			return text + err.Error()
		}
		text += fmt.Sprintf("    %3d %-16s %-14q %9d due %9d code %d\n", e.Seq, e.Kind, e.Name, e.UnixMs-hosttest.Epoch.UnixMilli(),
			e.DueUnixMs-hosttest.Epoch.UnixMilli(), e.Code)
	}
	return text
}

// entries counts the entries of a kind in the journals of all runs.
func (w *waits) entries(kind store.Kind) (n int) {
	for _, k := range w.kinds {
		for e, err := range w.Journal(ctx, idOf(k), 0) {
			if err != nil {
				w.t.Fatal(err)
			}
			if e.Kind == kind {
				n++
			}
		}
	}
	return n
}

// TestWaitsBeginWithTheUnpause pauses runs at 10 s. Their event happens at 30 s, and they are unpaused at 1000 s:
// their next wait counts from then.
func TestWaitsBeginWithTheUnpause(t *testing.T) {
	for _, first := range []string{"signal", "sleep", "time.Sleep", "step", "child"} {
		t.Run(first, func(t *testing.T) {
			w := newWaits(t)
			w.begin(first)
			w.Clock.Set(hosttest.Epoch.Add(10 * time.Second))
			w.each("pause", func(id string) error { _, err := w.Pause(ctx, id); return err })
			w.Clock.Set(hosttest.Epoch.Add(30 * time.Second))
			if first == "signal" {
				w.each("signal", func(id string) error { return w.Signal(ctx, id, "go", "x") })
			}
			close(w.slow)
			w.at(1000)
			w.each("unpause", func(id string) error { _, err := w.Unpause(ctx, id); return err })
			w.Settle()
			w.last(1060, true)
		})
	}
}

// TestSignalAfterTheUnpauseIsInTime sends a signal ten seconds after a run was unpaused, which waits for it for 60 s.
func TestSignalAfterTheUnpauseIsInTime(t *testing.T) {
	w := newWaits(t)
	w.begin("signal")
	w.at(10)
	w.each("pause", func(id string) error { _, err := w.Pause(ctx, id); return err })
	w.at(30)
	w.each("signal", func(id string) error { return w.Signal(ctx, id, "go", "x") })
	w.at(1000)
	w.each("unpause", func(id string) error { _, err := w.Unpause(ctx, id); return err })
	w.at(1010)
	for _, kind := range []string{"signal", "select"} {
		if err := w.Signal(ctx, idOf(kind), "b", "in time"); err != nil {
			t.Fatal(err)
		}
		w.Settle()
		var out struct{ Got string }
		if b, err := w.ResultRaw(ctx, idOf(kind)); err != nil || json.Unmarshal(b, &out) != nil || out.Got != "in time" {
			t.Errorf("%s: %s %v", kind, b, err)
		}
	}
}

// TestWaitsBeginAfterACrash kills the host at 30 s, right after it committed the event that a run waits for, and
// opens it again at 1000 s.
func TestWaitsBeginAfterACrash(t *testing.T) {
	for _, kind := range waitKinds {
		t.Run(kind, func(t *testing.T) {
			w := newWaits(t, kind)
			w.begin("signal")
			w.Clock.Set(hosttest.Epoch.Add(30 * time.Second))
			w.CrashAt(0, true)
			_ = w.Signal(ctx, idOf(kind), "go", "x") // nobody knows whether it was accepted
			if !w.Crashed() {
				t.Fatal("it has not crashed")
			}
			w.Clock.Set(hosttest.Epoch.Add(1000 * time.Second))
			w.Reopen()
			w.Settle()
			w.last(1060, true)
		})
	}
}

// TestWaitsBeginWhenTheClockWasAhead sets the clock a day ahead while paused runs get their event. When it is right
// again, they make three waits of the full 60 s.
func TestWaitsBeginWhenTheClockWasAhead(t *testing.T) {
	for _, first := range []string{"signal", "sleep", "time.Sleep"} {
		t.Run(first, func(t *testing.T) {
			w := newWaits(t, relativeKinds...)
			w.times = 3
			w.begin(first)
			w.at(10)
			w.each("pause", func(id string) error { _, err := w.Pause(ctx, id); return err })
			w.Clock.Step(24 * time.Hour)
			w.each("signal", func(id string) error { return w.Signal(ctx, id, "go", "x") }) // and events that are due by the wrong clock
			w.Clock.Step(-24 * time.Hour)
			w.at(30)
			w.each("unpause", func(id string) error { _, err := w.Unpause(ctx, id); return err })
			w.Settle()
			w.last(30+180, false)
		})
	}
}

// TestWaitsThatBeganInAWrongMoment has a clock that is wrong by a day for a moment. A wait that begins in the moment
// lasts its full time, counted from when the clock is right again. An earlier wait ends on time. If the clock was
// ahead, deadlines that passed by it have fired.
func TestWaitsThatBeganInAWrongMoment(t *testing.T) {
	for name, restart := range map[string]func(w *waits){
		"in memory":     func(*waits) {},
		"kill":          func(w *waits) { w.Crash() },
		"paused":        func(w *waits) { w.each("pause", func(id string) error { _, err := w.Pause(ctx, id); return err }) },
		"a day, a week": func(w *waits) { w.Clock.Step(7 * 24 * time.Hour); w.Clock.Step(-7 * 24 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWaits(t, relativeKinds...)
			w.begin("signal")
			w.at(10)
			w.Clock.Step(24 * time.Hour)
			w.each("signal", func(id string) error { return w.Signal(ctx, id, "go", "x") })
			w.Settle()
			restart(w)
			w.Clock.Step(-24 * time.Hour)
			if w.Settle(); name == "paused" {
				w.each("unpause", func(id string) error { _, err := w.Unpause(ctx, id); return err })
			}
			w.last(10+60, false)
		})
	}
}

// TestWaitsOutlastAWrongMoment sets the clock a day back for a moment during a wait: the wait lasts as long as it
// should, also if it is longer than the moment.
func TestWaitsOutlastAWrongMoment(t *testing.T) {
	// An attempt that came due while the clock was behind is late, and so are later attempts.
	kinds := slices.DeleteFunc(slices.Clone(relativeKinds), func(kind string) bool { return kind == "elapsed" })
	for _, crash := range []bool{false, true} {
		w := newWaits(t, kinds...)
		w.begin("")
		w.at(10)
		w.Clock.Step(-24 * time.Hour)
		w.Settle()
		if w.at(20 - 86400); crash {
			w.Crash()
			w.Settle()
		}
		w.Clock.Step(24 * time.Hour)
		w.last(60, false)

		w = newWaits(t, kinds...)
		w.begin("")
		w.at(10)
		w.Clock.Step(-24 * time.Hour)
		w.Settle()
		w.last(10+60-86400, false)
	}
}

// TestOrdinaryWakesCostNoEntry has runs continue a while after their event, as on a busy host: this adds no entry to
// their journals, and later waits last their full time.
func TestOrdinaryWakesCostNoEntry(t *testing.T) {
	w := newWaits(t, "sleep", "text", "signal", "retry")
	w.begin("signal")
	w.at(10)
	w.each("pause", func(id string) error { _, err := w.Pause(ctx, id); return err })
	w.each("signal", func(id string) error { return w.Signal(ctx, id, "go", "x") })
	w.Clock.Step(abi.MaxLagMs * time.Millisecond)
	w.each("unpause", func(id string) error { _, err := w.Unpause(ctx, id); return err })
	w.Settle()
	w.last(10+abi.MaxLagMs/1000+60, false)
	if n := w.entries(store.KindNow); n != 0 {
		t.Errorf("%d entries move the clock", n)
	}
}

// newNaps has a run of the workflow naps of testdata/clocks, and uploads a version with another time.Sleep.
func newNaps(t *testing.T, how string) *waits {
	t.Helper()
	w := newWaits(t)
	if _, err := w.Start(ctx, "naps", how, host.WithRunID("r")); err != nil {
		t.Fatal(err)
	}
	w.Settle()
	if _, err := w.Upload(ctx, "naps", hosttest.Build(t, "testdata/clocks/longer"), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestPausedRunsAnswer queries a paused run in which a timer came due, after it was migrated, signalled or neither:
// it answers at its current wait.
func TestPausedRunsAnswer(t *testing.T) {
	for name, do := range map[string]func(w *waits) error{
		"nothing": func(*waits) error { return nil },
		"migrate": func(w *waits) error {
			_, err := w.Workflows().Migrate(ctx, "naps", host.MigrateOptions{To: 2})
			return err
		},
		"signal": func(w *waits) error { return w.Signal(ctx, "r", "x", 1) },
		"signal, migrate": func(w *waits) error {
			_, err := w.Workflows().Migrate(ctx, "naps", host.MigrateOptions{To: 2})
			return errors.Join(w.Signal(ctx, "r", "x", 1), err)
		},
	} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", crash), func(t *testing.T) {
				w := newNaps(t, "")
				w.at(10)
				_, err := w.Pause(ctx, "r")
				if err != nil {
					t.Fatal(err)
				}
				w.at(20) // behind the end of the first sleep
				if err := do(w); err != nil {
					t.Fatal(err)
				}
				if crash {
					w.Crash()
				}
				w.at(24)
				if b, err := w.Query(ctx, "r", "woken", 0); err != nil || string(b) != "0" {
					t.Errorf("query: %s %v\n%s", b, err, w.journal("r"))
				}
				if _, err := w.Update(ctx, "r", "echo", 5, host.UntilAccepted()); err != nil {
					t.Errorf("update: %v\n%s", err, w.journal("r"))
				}
				w.at(1000)
				if _, err := w.Unpause(ctx, "r"); err != nil {
					t.Fatal(err)
				}
				w.at(1000 + 1 + 60 - 1)
				if r, _ := w.Get(ctx, "r"); r.Status.Terminal() {
					t.Errorf("it has ended a second early\n%s", w.journal("r"))
				}
				w.at(1000 + 1 + 60)
				if r, _ := w.Get(ctx, "r"); r.Status != host.Completed {
					t.Errorf("it is %s\n%s", r.Status, w.journal("r"))
				}
			})
		}
	}
}

// TestMigrationTellsMovedTimers migrates a run to code with a longer time.Sleep: the report shows the new wake time.
func TestMigrationTellsMovedTimers(t *testing.T) {
	w := newNaps(t, "time.Sleep")
	w.at(1800)
	var notes []string
	each := func(c host.RunCheck) error { notes = c.Notes; return nil }
	sum, err := w.Workflows().Migrate(ctx, "naps", host.MigrateOptions{To: 2, Each: each})
	if err != nil || sum.Migrated != 1 {
		t.Fatal(sum, err)
	}
	w.Settle()
	r, err := w.Get(ctx, "r")
	if want := hosttest.Epoch.Add(10 * time.Hour); err != nil || !r.Wake.Equal(want) {
		t.Errorf("it wakes at %v, want %v: %v\n%s", r.Wake, want, err, w.journal("r"))
	}
	if len(notes) != 1 || !strings.Contains(notes[0], r.Wake.UTC().Format(time.RFC3339)) {
		t.Errorf("notes: %q", notes)
	}
}

// TestMovedRunsWaitOn moves sleeping runs to another host, which takes 1000 s: earlier waits end at their original
// time, and new waits count from the move.
func TestMovedRunsWaitOn(t *testing.T) {
	w := newNaps(t, "time.Sleep")
	in := map[string]any{"First": "sleep", "Kind": "time.Sleep", "Ms": waitsMs}
	if _, err := w.Start(ctx, "waits", in, host.WithRunID("s")); err != nil {
		t.Fatal(err)
	}
	w.at(10)
	to := newWaits(t)
	for _, id := range []string{"r", "s"} {
		var b bytes.Buffer
		if err := w.Export(ctx, id, &b, host.ExportOptions{Move: true}); err != nil {
			t.Fatal(err)
		}
		to.at(1000)
		if _, err := to.Import(ctx, &b, host.ImportOptions{Adopt: true}); err != nil {
			t.Fatal(err)
		}
	}
	to.Settle()
	for id, want := range map[string]time.Duration{"r": time.Hour, "s": 1060 * time.Second} {
		if r, err := to.Get(ctx, id); err != nil || !r.Wake.Equal(hosttest.Epoch.Add(want)) {
			t.Errorf("%s wakes at %v, want %v: %v\n%s", id, r.Wake, hosttest.Epoch.Add(want), err, to.journal(id))
		}
	}
}
