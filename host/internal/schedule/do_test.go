package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// TestTriggerWithoutCaller triggers a schedule whose caller goes away while the run is started: the schedule records
// the run.
func TestTriggerWithoutCaller(t *testing.T) {
	h := newFake(t)
	h.k.Begin(h)
	_, err := h.k.Create(ctx, nightly, Definition{Workflow: "w", When: "@every 1h"}, "", false)
	h.ok(err)
	h.slow = make(chan struct{})
	gone, cancel := context.WithCancel(ctx)
	answered := make(chan error)
	go func() {
		_, err := h.k.Trigger(gone, nightly, "")
		answered <- err
	}()
	<-h.slow
	cancel()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-h.slow
	h.k.Close()
	if x, err := h.k.Get(ctx, nightly); err != nil || x.Started != 1 || len(x.Running) != 1 || len(x.Asked) != 0 {
		t.Errorf("%+v %v", x, err)
	}
	if _, err := h.k.Trigger(ctx, nightly, ""); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
}

// TestTriggerGoesOn loses the outcome of a triggered start: the schedule makes it, also while it is paused, exactly
// once.
func TestTriggerGoesOn(t *testing.T) {
	h := newFake(t)
	h.k.Begin(h)
	_, err := h.k.Create(ctx, nightly, Definition{Workflow: "w", When: "@every 1h"}, "", true)
	h.ok(err)
	h.now = hour / 2
	fail := errors.New("nobody knows")
	for _, policy := range []Overlap{Skip, TerminateOther} {
		h.took()
		h.refuse = fail
		if _, err := h.k.Trigger(ctx, nightly, policy); !errors.Is(err, fail) {
			t.Error(err)
		}
		h.want(fmt.Sprintf("[], wake %d, errors 1", hour/2))
		h.refuse = nil
		h.due(hour / 2)
		h.due(hour / 2)
		h.want("[0trigger], wake -1, errors 0")
	}
	x, err := h.k.Get(ctx, nightly)
	h.ok(err)
	if x.Started != 2 || len(x.Running) != 1 || x.Recent[0].AtMs+1 != x.Recent[1].AtMs || len(h.ends) != 1 {
		t.Errorf("%+v, ended %q", x, h.ends)
	}
}

// TestTriggersAreBounded refuses triggers while too many have not started a run yet.
func TestTriggersAreBounded(t *testing.T) {
	s := hourly(t, nil)
	for range maxAsked {
		if _, err := s.Trigger("s", AllowAll, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Trigger("s", AllowAll, 1); err == nil {
		t.Error("there is no limit")
	}
	if _, ok := s.Next("s", 1); !ok || s.Wake("s", 1) != 1 {
		t.Errorf("nothing is due: %+v", s)
	}
}

// TestEndsNothing ends no run, and skips no buffered instant, for a run that cannot be started.
func TestEndsNothing(t *testing.T) {
	for _, policy := range []Overlap{TerminateOther, CancelOther} {
		h := newFake(t)
		h.k.Begin(h)
		_, err := h.k.Create(ctx, nightly, Definition{Workflow: "w", When: "@every 1h", Overlap: policy}, "", false)
		h.ok(err)
		h.due(hour)
		_, err = h.k.Trigger(ctx, nightly, BufferOne)
		h.ok(err)
		h.never = fmt.Errorf("%w: no such version", ErrNever)
		_, err = h.k.Trigger(ctx, nightly, policy)
		if !errors.Is(err, ErrNever) {
			t.Error(err)
		}
		h.due(2 * hour)
		x, err := h.k.Get(ctx, nightly)
		h.ok(err)
		if len(h.ends) != 0 || len(x.Buffer) != 1 || x.Lost != 1 || x.Skipped != 0 || x.Error != h.never.Error() {
			t.Errorf("%s: ended %q, %+v", policy, h.ends, x)
		}
	}
}

// TestEndsNewestFirst ends the newest run first: otherwise it would get the slot of an older run that it waits for.
func TestEndsNewestFirst(t *testing.T) {
	for _, policy := range []Overlap{TerminateOther, CancelOther} {
		h := newFake(t)
		h.k.Begin(h)
		_, err := h.k.Create(ctx, nightly, Definition{Workflow: "w", When: "@every 1h"}, "", true)
		h.ok(err)
		older, err := h.k.Trigger(ctx, nightly, AllowAll)
		h.ok(err)
		h.now++
		newer, err := h.k.Trigger(ctx, nightly, AllowAll)
		h.ok(err)
		h.now++
		_, err = h.k.Trigger(ctx, nightly, policy)
		h.ok(err)
		if !slices.Equal(h.ends, []string{newer, older}) {
			t.Errorf("%s: ended %q, want %q, %q", policy, h.ends, newer, older)
		}
	}
}

// TestDamagedRun has a run that can be neither ended nor read: the schedule reports it, and continues with the next
// instant.
func TestDamagedRun(t *testing.T) {
	for _, policy := range []Overlap{TerminateOther, CancelOther} {
		h := newFake(t)
		h.k.Begin(h)
		_, err := h.k.Create(ctx, nightly, Definition{Workflow: "w", When: "@every 1h", Overlap: policy, CatchUpMs: hour / 2}, "", false)
		h.ok(err)
		h.due(hour)
		h.stuck = errors.New("an entry that nobody knows")
		h.due(2 * hour)
		x, err := h.k.Get(ctx, nightly)
		h.ok(err)
		if want := "refused for now: run " + x.Running[0]; x.Fault == nil || len(h.errs) != 0 || x.Error[:len(want)] != want {
			t.Errorf("%s: %+v, errors %v", policy, x, h.errs)
		}
		h.due(2*hour + hour/2 + 1)
		x, err = h.k.Get(ctx, nightly)
		if err != nil || x.Lost != 1 || x.Fault != nil || x.Wake("nightly", 3*hour-1) != 3*hour {
			t.Errorf("%s: %+v %v", policy, x, err)
		}
		h.stuck = fmt.Errorf("its partition is gone: %w", store.ErrFenced)
		h.due(3 * hour)
		if len(h.errs) != 1 {
			t.Errorf("errors %v", h.errs)
		}
		h.stuck, h.broken = nil, fmt.Errorf("%w: its state", store.ErrCorrupt)
		h.due(3 * hour)
		x, err = h.k.Get(ctx, nightly)
		if err != nil || x.Lost != 1 || x.Started != 2 {
			t.Errorf("%s: %+v %v", policy, x, err)
		}
	}
}

// TestFractions has a rule with instants between two milliseconds: no loop runs forever.
func TestFractions(t *testing.T) {
	s := hourly(t, func(d *Definition) { d.When = "R/1970-01-01T01:00:00.0005/P1D" })
	last := int64(0)
	for _, at := range s.Upcoming("s", 0, 5) {
		if at[0] <= last {
			t.Fatalf("%d comes after %d", at[0], last)
		}
		last = at[0]
	}
	if next, ok := s.after(last); !ok || next != last+24*hour {
		t.Errorf("%d after %d", next, last)
	}
}
