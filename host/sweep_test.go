package host_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestSweptByTime has a host delete runs beyond their retention by its own clock: a minute after its start, and then
// at intervals of SweepEvery, however far the clock jumps. The host's statistics show the next sweep.
func TestSweptByTime(t *testing.T) {
	h := &heard{}
	l := newLab(t, hosttest.WithConfig(func(c *host.Config) { c.SweepEvery = 6 * time.Hour }), hosttest.WithConfig(h.events))
	swept := func(by time.Duration) {
		t.Helper()
		want := l.Clock.Now().Add(by)
		for begun := time.Now(); !l.Stats().NextSweep.Equal(want); runtime.Gosched() {
			if time.Since(begun) > 10*time.Second {
				t.Fatalf("the next sweep is at %v, want %v", l.Stats().NextSweep, want)
			}
		}
	}
	swept(time.Minute)
	l.begin("until", 0, host.WithRunID("old"))
	l.Settle()
	do(t, l.Retentions().Set(ctx, host.Retention{Workflow: "until", Completed: day}))
	l.Advance(time.Minute)
	swept(6 * time.Hour)
	if _, err := l.Get(ctx, "old"); err != nil {
		t.Fatal("it was deleted at its first minute:", err)
	}
	l.Advance(12 * time.Hour)
	swept(6 * time.Hour)
	l.begin("until", 0, host.WithRunID("young"))
	l.Advance(12 * time.Hour)
	swept(6 * time.Hour)
	if _, err := l.Get(ctx, "old"); !errors.Is(err, host.ErrNotFound) {
		t.Error(err)
	}
	if _, err := l.Get(ctx, "young"); err != nil {
		t.Error(err)
	}
	l.Advance(40 * day) // until the id of a deleted run is free again: the rest of the run is removed silently
	swept(6 * time.Hour)
	l.Advance(40 * day)
	swept(6 * time.Hour)
	deleted := 0
	for _, line := range h.said() {
		switch line {
		case "deleted old completed", "deleted young completed":
			deleted++
		}
	}
	if deleted != 2 {
		t.Errorf("%q", h.said())
	}
}

// TestNotSwept: if SweepEvery is negative, only Sweep deletes.
func TestNotSwept(t *testing.T) {
	l := newLab(t)
	l.begin("until", 0, host.WithRunID("old"))
	do(t, l.Retentions().Set(ctx, host.Retention{Completed: day}))
	l.Advance(40 * day)
	if _, err := l.Get(ctx, "old"); err != nil {
		t.Error(err)
	}
	if next := l.Stats().NextSweep; !next.IsZero() {
		t.Error(next)
	}
}
