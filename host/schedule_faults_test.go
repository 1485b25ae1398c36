package host_test

import (
	"errors"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// newVersioned is a host with a schedule of a workflow from testdata/upgrade, in the given versions.
func newVersioned(t *testing.T, workflow string, versions ...string) *scheduled {
	t.Helper()
	h := &scheduled{hosttest.New(t), t}
	for _, name := range versions {
		_, err := h.Upload(ctx, workflow, code(t, name))
		do(t, err)
	}
	// A run that naps for an hour ends after the next instant, not exactly at it.
	_, err := h.Schedules().Create(ctx, "s", host.ScheduleSpec{Workflow: workflow, Version: 1, Input: []byte(`"x"`), When: "@every 59m"})
	do(t, err)
	return h
}

// filled uses up the quota of runs with another run, which naps.
func (h *scheduled) filled(nap string) {
	h.t.Helper()
	do(h.t, h.SetQuota(ctx, "", host.Quota{MaxRuns: 1}))
	_, err := h.StartRaw(ctx, "nap", []byte(nap), host.WithRunID("other"))
	do(h.t, err)
}

// counted checks how many runs the schedule has started, and how many instants it has skipped and missed.
func (h *scheduled) counted(started, skipped, missed int64) host.Schedule {
	h.t.Helper()
	s := h.schedule()
	if s.Started != started || s.Skipped != skipped || s.Missed != missed {
		h.t.Errorf("started %d, skipped %d, missed %d, want %d, %d, %d: %+v", s.Started, s.Skipped, s.Missed, started, skipped, missed,
			s.NotStarted)
	}
	return s
}

// TestScheduleFractions is due between two milliseconds: once.
func TestScheduleFractions(t *testing.T) {
	h := newScheduled(t)
	h.create("2026-01-05T09:00:00.0005", "10m", func(s *host.ScheduleSpec) { s.Overlap = host.OverlapAllow })
	h.Advance(70 * time.Minute)
	if s := h.counted(1, 0, 0); !s.Ended || s.Recent[0].Nominal.Nanosecond() != 1e6 {
		t.Errorf("%+v", s)
	}
}

// TestScheduleRestart restarts a run of a schedule: its workflow sees the same nominal instant, and the schedule does
// not count it.
func TestScheduleRestart(t *testing.T) {
	h := newVersioned(t, "told", "v1")
	h.Advance(125 * time.Minute)
	id := h.schedule().Recent[0].Run
	want, err := h.ResultRaw(ctx, id)
	do(t, err)
	_, err = h.Schedules().Pause(ctx, "s", "")
	do(t, err)
	for to, from := range map[string]string{"again": "", "from": "last"} {
		r, err := h.Restart(ctx, id, to, from)
		do(t, err)
		if r.Schedule != "" {
			t.Errorf("%+v", r)
		}
		if s := h.schedule(); len(s.Running) > 1 {
			t.Errorf("running: %q", s.Running)
		}
		h.Finish(to)
		if got, err := h.ResultRaw(ctx, to); err != nil || string(got) != string(want) {
			t.Errorf("%s: %s %v, want %s", to, got, err, want)
		}
		do(t, h.Replay(ctx, to))
	}
	h.counted(1, 1, 0)
}

// TestScheduleRetry retries a failed run of a schedule: the run is live again, so the next instant is skipped.
func TestScheduleRetry(t *testing.T) {
	h := newVersioned(t, "order", "fails", "v1")
	h.Advance(61 * time.Minute)
	s := h.counted(1, 0, 0)
	if len(s.Running) != 0 {
		t.Fatalf("%+v", s)
	}
	do(t, h.Retry(ctx, s.Recent[0].Run, 2))
	h.Crash()
	h.Advance(time.Hour)
	s = h.counted(1, 1, 0)
	if len(s.Running) != 1 {
		t.Errorf("running: %q", s.Running)
	}
	do(t, h.Terminate(ctx, s.Running[0]))
	h.Settle()
	s = h.schedule()
	if len(s.Running) != 0 {
		t.Errorf("running: %q", s.Running)
	}
}

// TestScheduleCrashBeyondWindow crashes between a start and the commit that records it, and stays down for longer
// than the catch-up window: the run counts, and the next instant is skipped.
func TestScheduleCrashBeyondWindow(t *testing.T) {
	found := false
	for n := range 4 {
		h := newScheduled(t)
		h.create("@every 1h", "90m", func(s *host.ScheduleSpec) { s.CatchUp = time.Minute })
		h.Advance(59 * time.Minute)
		h.CrashAt(n, false)
		h.Advance(2 * time.Minute)
		crashed := h.Crashed()
		if !crashed {
			h.CrashAt(1<<30, false)
		}
		h.Kill()
		h.Clock.Advance(5 * time.Minute)
		h.Reopen()
		h.Advance(time.Hour)
		s := h.schedule()
		switch runs := h.runs(func(r host.Run) string { return r.Nominal.Format("15:04") }); runs[0] {
		case "09:00":
			found = found || crashed
			h.counted(1, 1, 0)
		default:
			h.counted(1, 0, 1)
		}
		if len(s.Running) != 1 {
			t.Errorf("crash at %d: running %q", n, s.Running)
		}
		if !crashed {
			break
		}
	}
	if !found {
		t.Error("no crash comes between a start and its commit")
	}
}

// TestScheduleTriggerCrash crashes before and after each commit of a trigger: at most one run is started, and the
// schedule records it.
func TestScheduleTriggerCrash(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			h := newScheduled(t)
			h.create("@every 1h", "90m", nil)
			h.CrashAt(n, after)
			_, err := h.Schedules().Trigger(ctx, "s", "")
			if !h.Crashed() {
				do(t, err)
				break
			}
			h.Reopen()
			h.Settle()
			s := h.schedule()
			if runs := h.runs(func(r host.Run) string { return r.ID }); len(runs) != int(s.Started) || len(s.Running) != len(runs) {
				t.Errorf("crash at %d: runs %q, started %d, running %q", n, runs, s.Started, s.Running)
			}
			if n > 10 {
				t.Fatal("a trigger has no end")
			}
		}
	}
}

// TestScheduleTriggers starts a run for each of two triggers in one millisecond.
func TestScheduleTriggers(t *testing.T) {
	h := newScheduled(t)
	h.create("0 0 1 1 *", "30m", func(s *host.ScheduleSpec) { s.Overlap = host.OverlapAllow })
	a, err := h.Schedules().Trigger(ctx, "s", "")
	do(t, err)
	b, err := h.Schedules().Trigger(ctx, "s", "")
	do(t, err)
	if a.ID == b.ID || len(h.schedule().Running) != 2 {
		t.Errorf("%s and %s, running %q", a.ID, b.ID, h.schedule().Running)
	}
	h.Advance(time.Minute)
	if c, err := h.Schedules().Trigger(ctx, "s", ""); err != nil || !c.Nominal.Equal(h.Clock.Now()) {
		t.Errorf("%+v %v", c, err)
	}
}

// TestScheduleRefusedWindow has starts refused by a quota: each instant has its own catch-up window, counted from
// when it was due.
func TestScheduleRefusedWindow(t *testing.T) {
	hour := func(s *host.ScheduleSpec) { s.CatchUp = time.Hour }
	t.Run("down", func(t *testing.T) { // refused at 9:10; the host is down for longer than the window
		h := newScheduled(t)
		h.filled("90m")
		h.create("0 9 5 * *", "1s", hour)
		h.Advance(70 * time.Minute)
		do(t, h.SetQuota(ctx, "", host.Quota{}))
		h.Kill()
		h.Clock.Advance(10 * 24 * time.Hour)
		h.Reopen()
		h.Settle()
		h.counted(0, 0, 1)
	})
	t.Run("paused", func(t *testing.T) { // 9:00 was refused, and 12:00 is refused until 12:10
		h := newScheduled(t)
		h.filled("250m")
		h.create("@every 1h", "1s", hour)
		h.Advance(61 * time.Minute)
		_, err := h.Schedules().Pause(ctx, "s", "")
		do(t, err)
		h.Advance(170 * time.Minute)
		_, err = h.Schedules().Resume(ctx, "s", "")
		do(t, err)
		h.Advance(30 * time.Minute)
		h.counted(1, 0, 0)
	})
	t.Run("backfill", func(t *testing.T) { // the starts of a backfill are refused from 8:00 on, the start of 12:00 until 12:10
		h := newScheduled(t)
		h.filled("250m")
		h.create("0 12 * * *", "1s", func(s *host.ScheduleSpec) { s.CatchUp = 4 * time.Hour })
		_, err := h.Schedules().Backfill(ctx, "s", hosttest.Epoch.Add(-24*time.Hour), hosttest.Epoch, false)
		do(t, err)
		h.Advance(6 * time.Hour)
		h.counted(2, 0, 0)
	})
	t.Run("late", func(t *testing.T) { // the first try is 50 minutes late; it is not retried for another hour
		h := newScheduled(t)
		h.create("0 9 5 * *", "1s", hour)
		h.filled("3h")
		h.Kill()
		h.Clock.Advance(110 * time.Minute)
		h.Reopen()
		h.Advance(12 * time.Minute)
		h.counted(0, 0, 1)
	})
}

// TestScheduleEndsNothing: no run is ended to make room for a run that cannot be started.
func TestScheduleEndsNothing(t *testing.T) {
	for _, policy := range []host.Overlap{host.OverlapTerminateOther, host.OverlapCancelOther} {
		h := newScheduled(t)
		spec := h.create("@every 1h", "1000h", func(s *host.ScheduleSpec) { s.Overlap = policy }).Spec
		h.Advance(61 * time.Minute)
		spec.Version = 7
		_, err := h.Schedules().Update(ctx, "s", spec)
		do(t, err)
		_, err = h.Schedules().Trigger(ctx, "s", "")
		if !errors.Is(err, host.ErrNotFound) {
			t.Error(err)
		}
		h.Advance(time.Hour)
		h.stand("09:00 sleeping")
		if s := h.counted(1, 0, 1); len(s.Waiting) != 0 {
			t.Errorf("%s: waiting %v", policy, s.Waiting)
		}
	}
}

// TestSchedulePausedWaits makes triggers and backfills of a paused schedule while one of its instants is buffered.
func TestSchedulePausedWaits(t *testing.T) {
	h := newScheduled(t)
	h.create("@every 1h", "90m", func(s *host.ScheduleSpec) { s.Overlap = host.OverlapBufferOne })
	h.Advance(125 * time.Minute) // 9:00 runs, 10:00 waits
	_, err := h.Schedules().Pause(ctx, "s", "")
	do(t, err)
	if r, err := h.Schedules().Trigger(ctx, "s", ""); err != nil || r.ID != "" { // waits for that of 9:00
		t.Errorf("%+v %v", r, err)
	}
	h.Advance(26 * time.Minute)
	if s := h.counted(2, 0, 0); len(s.Running) != 1 || s.Recent[1].Kind != "trigger" || len(s.Waiting) != 1 {
		t.Errorf("%+v", s)
	}
	_, err = h.Schedules().Backfill(ctx, "s", hosttest.Epoch.Add(-time.Hour), hosttest.Epoch, false)
	do(t, err)
	h.Advance(5 * time.Hour)
	h.counted(4, 0, 0)
	_, err = h.Schedules().Resume(ctx, "s", "")
	do(t, err)
	h.Settle()
	if s := h.counted(5, 0, 0); s.Recent[4].Nominal.Format("15:04") != "10:00" {
		t.Errorf("%+v", s.Recent)
	}
}

// TestScheduleJitterPause pauses, resumes and changes a schedule between an instant and its delayed start.
func TestScheduleJitterPause(t *testing.T) {
	h := newScheduled(t)
	spec := h.create("@every 1h", "1s", func(s *host.ScheduleSpec) { s.Jitter = 59 * time.Minute }).Spec
	delayed := func() {
		t.Helper()
		next, err := h.Schedules().Next(ctx, "s", 1)
		do(t, err)
		h.Advance(next[0].Nominal.Sub(h.Clock.Now()) + time.Second)
		if at := next[0].Start; !at.After(h.Clock.Now()) {
			t.Fatalf("it is %v, and the start at %v", h.Clock.Now(), at)
		}
	}
	delayed()
	_, err := h.Schedules().Pause(ctx, "s", "")
	do(t, err)
	_, err = h.Schedules().Resume(ctx, "s", "")
	do(t, err)
	h.Advance(58 * time.Minute)
	h.counted(1, 0, 0)
	delayed()
	spec.When = "@every 2h"
	_, err = h.Schedules().Update(ctx, "s", spec)
	do(t, err)
	h.counted(1, 0, 1)
}

// TestScheduleClock has a clock that was a year ahead: a refused start is retried when the clock is right, and
// resuming continues with what is due by then.
func TestScheduleClock(t *testing.T) {
	h := newScheduled(t)
	h.filled("100000h")
	h.create("@every 1h", "1s", nil)
	h.Kill()
	h.Clock.Advance(365 * 24 * time.Hour)
	h.Reopen()
	h.Settle()
	h.Kill()
	h.Clock.Set(hosttest.Epoch.Add(90 * time.Minute))
	h.Reopen()
	do(t, h.Terminate(ctx, "other"))
	_, err := h.Schedules().Backfill(ctx, "s", hosttest.Epoch, hosttest.Epoch.Add(time.Minute), false)
	do(t, err)
	h.Settle()
	if s := h.schedule(); s.Started != 1 || s.Recent[0].Kind != "backfill" {
		t.Errorf("%+v", s)
	}
	_, err = h.Schedules().Pause(ctx, "s", "")
	do(t, err)
	s, err := h.Schedules().Resume(ctx, "s", "")
	if want := hosttest.Epoch.Add(2 * time.Hour); err != nil || !s.Next.Equal(want) {
		t.Errorf("next %v, want %v, %v", s.Next, want, err)
	}
	h.Advance(time.Hour)
	if s := h.schedule(); s.Started != 2 {
		t.Errorf("%+v", s)
	}
}

// TestScheduleBackfillBounds backfills a range that already has runs, and begins before the schedule.
func TestScheduleBackfillBounds(t *testing.T) {
	h := newScheduled(t)
	h.create("@every 1h", "1s", func(s *host.ScheduleSpec) {
		s.From, s.Until = hosttest.Epoch.Add(90*time.Minute), hosttest.Epoch.Add(270*time.Minute)
	})
	h.Advance(2*time.Hour + time.Minute) // 10:00
	_, err := h.Schedules().Pause(ctx, "s", "")
	do(t, err)
	h.Advance(time.Hour)
	_, err = h.Schedules().Resume(ctx, "s", "")
	do(t, err)
	h.Advance(3 * time.Hour) // 12:00
	h.counted(2, 0, 0)
	for range 2 {
		_, err = h.Schedules().Backfill(ctx, "s", hosttest.Epoch.Add(-24*time.Hour), h.Clock.Now(), true)
		do(t, err)
		h.Settle()
		h.counted(3, 0, 0)
	}
	h.fired("10:00", "11:00", "12:00")
	for _, from := range []time.Time{{}, h.Clock.Now()} {
		if _, err := h.Schedules().Backfill(ctx, "s", from, time.Time{}, false); !errors.Is(err, host.ErrInvalid) {
			t.Error(err)
		}
	}
}

// TestScheduleNextPaused lists the instants that would follow if a paused schedule were resumed.
func TestScheduleNextPaused(t *testing.T) {
	h := newScheduled(t)
	h.create("@every 1h", "1s", nil)
	_, err := h.Schedules().Pause(ctx, "s", "")
	do(t, err)
	h.Advance(5*time.Hour + time.Minute)
	next, err := h.Schedules().Next(ctx, "s", 2)
	if want := hosttest.Epoch.Add(6 * time.Hour); err != nil || len(next) != 2 || !next[0].Nominal.Equal(want) {
		t.Errorf("%+v %v", next, err)
	}
}
