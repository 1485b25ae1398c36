package host_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/cron"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// scheduled is a host with the workflow "nap", which sleeps for the duration in its input.
type scheduled struct {
	*hosttest.Host
	t *testing.T
}

func newScheduled(t *testing.T, opts ...hosttest.Option) *scheduled {
	h := &scheduled{hosttest.New(t, opts...), t}
	_, err := h.Upload(ctx, "nap", napModule())
	do(t, err)
	return h
}

// create makes the schedule "s" of naps.
func (h *scheduled) create(when, nap string, change func(*host.ScheduleSpec)) host.Schedule {
	h.t.Helper()
	spec := host.ScheduleSpec{Workflow: "nap", Input: []byte(nap), When: when}
	if change != nil {
		change(&spec)
	}
	s, err := h.Schedules().Create(ctx, "s", spec)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

func (h *scheduled) schedule() host.Schedule {
	h.t.Helper()
	s, err := h.Schedules().Get(ctx, "s")
	do(h.t, err)
	return s
}

// runs returns the nominal instants of the schedule's runs in order, each formatted by of.
func (h *scheduled) runs(show func(host.Run) string) []string {
	h.t.Helper()
	all, err := collect(h.Runs(ctx, host.Query{}))
	do(h.t, err)
	slices.SortFunc(all, func(a, b host.Run) int { return a.Nominal.Compare(b.Nominal) })
	var list []string
	for _, r := range all {
		if r.Schedule != "s" {
			h.t.Errorf("run %s is of schedule %q", r.ID, r.Schedule)
		}
		list = append(list, show(r))
	}
	return list
}

// fired checks the nominal instants of all runs, as times of day.
func (h *scheduled) fired(want ...string) {
	h.t.Helper()
	h.same(h.runs(func(r host.Run) string { return r.Nominal.Format("15:04") }), want...)
}

// stand checks the nominal instants and statuses of all runs.
func (h *scheduled) stand(want ...string) {
	h.t.Helper()
	h.same(h.runs(func(r host.Run) string { return r.Nominal.Format("15:04 ") + r.Status.String() }), want...)
}

func (h *scheduled) same(got []string, want ...string) {
	h.t.Helper()
	if !slices.Equal(got, want) {
		h.t.Errorf("runs %q, want %q", got, want)
	}
}

// TestSchedule has a schedule start runs, which know their nominal instant, across restarts and crashes.
func TestSchedule(t *testing.T) {
	h := newScheduled(t)
	s := h.create("0 9 * * MON-FRI", "1m", func(s *host.ScheduleSpec) {
		s.Zone, s.Attributes = "Europe/Berlin", map[string]string{"report": "nightly"}
	})
	next := time.Date(2026, 1, 6, 8, 0, 0, 0, time.UTC) // the epoch is the same time on the day before
	if !s.Next.Equal(next) || !s.Wake.Equal(next) || s.Ended {
		t.Errorf("%+v", s)
	}
	h.Advance(24 * time.Hour)
	runs, err := collect(h.Runs(ctx, host.Query{Attributes: map[string]string{"report": "nightly"}}))
	do(t, err)
	if len(runs) != 1 || runs[0].Schedule != "s" || !runs[0].Nominal.Equal(next) || !runs[0].Started.Equal(next) ||
		!strings.HasPrefix(runs[0].ID, "s~2026-01-06T08:00:00Z~") {
		t.Fatalf("%+v", runs)
	}
	want := []string{"Tue 08:00"}
	for _, day := range []string{"Wed", "Thu", "Fri", "Mon", "Tue"} {
		if day == "Thu" || day == "Mon" {
			h.Crash()
		}
		h.Advance(24 * time.Hour)
		if day == "Fri" {
			h.Advance(36 * time.Hour)
			h.Reopen()
			h.Advance(12 * time.Hour)
		}
		want = append(want, day+" 08:00")
	}
	h.same(h.runs(func(r host.Run) string { return r.Nominal.Format("Mon 15:04") }), want...)
	s = h.schedule()
	if s.Started != 6 || s.Skipped+s.Missed != 0 || len(s.Recent) != 6 || s.Recent[5].Kind != "" || len(s.Running) != 1 {
		t.Errorf("%+v", s)
	}
	h.Advance(time.Hour)
	s = h.schedule()
	if len(s.Running) != 0 {
		t.Errorf("runs that have ended: %+v", s.Running)
	}
}

// TestScheduleDST starts one run a day across both clock changes of four zones, with crashes.
func TestScheduleDST(t *testing.T) {
	for _, c := range []struct {
		zone, when string
		days       []string // around changes
	}{
		{"Europe/Berlin", "30 2 * * *", []string{"2026-03-29", "2026-10-25"}},
		{"America/New_York", "30 1,2 * * *", []string{"2026-03-08", "2026-11-01"}},
		{"Australia/Lord_Howe", "45 1 * * *", []string{"2026-04-05", "2026-10-04"}},
		{"Australia/Lord_Howe", "15 2 * * *", []string{"2026-04-05", "2026-10-04"}},
		{"Africa/Casablanca", "30 2 * * *", []string{"2026-02-15", "2026-03-22"}},
		{"America/Sao_Paulo", "0 0 * * *", []string{"2018-02-18", "2018-11-04"}},
	} {
		for _, day := range c.days {
			noon, err := time.Parse(time.RFC3339, day+"T12:00:00Z")
			do(t, err)
			from := noon.AddDate(0, 0, -3)
			h := newScheduled(t, hosttest.WithStart(from))
			h.create(c.when, "1s", func(s *host.ScheduleSpec) { s.Zone = c.zone })
			times, err := cron.Parse(c.when, c.zone)
			do(t, err)
			end := from.Add(5 * 24 * time.Hour)
			var want []string
			for at, ok := times.Next(from); ok && !at.After(end); at, ok = times.Next(at) {
				want = append(want, at.UTC().Format(time.RFC3339))
			}
			for range 20 {
				h.Advance(6 * time.Hour)
				h.Crash()
			}
			h.Settle()
			h.same(h.runs(func(r host.Run) string {
				if !r.Started.Equal(r.Nominal) {
					t.Errorf("%s: %s started at %v", c.zone, r.ID, r.Started)
				}
				return r.Nominal.Format(time.RFC3339)
			}), want...)
			if n := strings.Count(c.when, ",")*5 + 5; len(want) < n-1 || len(want) > n {
				t.Errorf("%s: %d instants in five days: %v", c.zone, len(want), want)
			}
			h.Stop()
		}
	}
}

// TestScheduleCrash crashes at each commit around the firings, before and after it: each instant has one run.
func TestScheduleCrash(t *testing.T) {
	for _, policy := range []host.Overlap{host.OverlapSkip, host.OverlapBufferAll, host.OverlapAllow, host.OverlapCancelOther,
		host.OverlapTerminateOther} {
		crashes := 0
		for n := 0; ; n++ {
			for _, after := range []bool{false, true} {
				h := newScheduled(t)
				nap := "10m"
				if policy == host.OverlapTerminateOther || policy == host.OverlapCancelOther {
					nap = "90m"
				}
				h.create("@every 1h", nap, func(s *host.ScheduleSpec) { s.Overlap = policy })
				h.CrashAt(n, after)
				h.Advance(3*time.Hour + 30*time.Minute)
				crashed := h.Crashed()
				if crashed {
					crashes++
					h.Clock.Set(hosttest.Epoch.Add(3*time.Hour + 30*time.Minute))
					h.Reopen()
					h.Settle()
					h.Advance(2 * time.Hour)
					h.Crash()
					h.Settle()
				}
				s := h.schedule()
				var got []string
				for _, x := range h.runs(func(r host.Run) string { return r.Nominal.Format("15:04") }) {
					got = append(got, x)
				}
				for _, x := range s.NotStarted { // instants that came while another instant's run was in progress
					for at := x.From; !at.After(x.To); at = at.Add(time.Hour) {
						if policy == host.OverlapSkip || policy == host.OverlapCancelOther {
							got = append(got, at.Format("15:04"))
						}
					}
				}
				slices.Sort(got)
				want := []string{"09:00", "10:00", "11:00"}
				if crashed {
					want = append(want, "12:00", "13:00")
				}
				if !slices.Equal(got, want) || s.Missed != 0 {
					t.Errorf("%s, crash at %d (after %v): instants %q, want %q; %+v", policy, n, after, got, want, s)
				}
				h.Stop()
				if !crashed && after {
					if crashes < 10 {
						t.Errorf("%s: %d crashes", policy, crashes)
					}
					t.Log(policy, crashes)
				}
				if !crashed {
					n = 1 << 30
				}
			}
			if n >= 1<<30 {
				break
			}
		}
	}
}

// TestScheduleOverlap has instants every hour, and runs of 150 minutes.
func TestScheduleOverlap(t *testing.T) {
	for _, c := range []struct {
		policy  host.Overlap
		skipped int64
		waiting int
		want    []string
	}{
		{"", 2, 0, []string{"09:00 completed", "12:00 sleeping"}},
		{host.OverlapSkip, 2, 0, []string{"09:00 completed", "12:00 sleeping"}},
		{host.OverlapBufferOne, 1, 1, []string{"09:00 completed", "10:00 sleeping"}},
		{host.OverlapBufferAll, 0, 2, []string{"09:00 completed", "10:00 sleeping"}},
		{host.OverlapAllow, 0, 0, []string{"09:00 completed", "10:00 sleeping", "11:00 sleeping", "12:00 sleeping"}},
		{host.OverlapCancelOther, 0, 0, []string{"09:00 cancelled", "10:00 cancelled", "11:00 cancelled", "12:00 sleeping"}},
		{host.OverlapTerminateOther, 0, 0, []string{"09:00 terminated", "10:00 terminated", "11:00 terminated", "12:00 sleeping"}},
	} {
		t.Run(string(c.policy), func(t *testing.T) {
			h := newScheduled(t)
			h.create("@every 1h", "150m", func(s *host.ScheduleSpec) { s.Overlap = c.policy })
			h.Advance(2 * time.Hour)
			h.Crash()
			h.Advance(2*time.Hour + 10*time.Minute) // 12:10
			h.stand(c.want...)
			s := h.schedule()
			if s.Skipped != c.skipped || s.Missed != 0 || len(s.Waiting) != c.waiting {
				t.Errorf("%+v", s)
			}
			if c.policy == host.OverlapBufferAll { // the second one began when the first one ended
				r, err := h.Get(ctx, s.Running[0])
				do(t, err)
				if r.Started.Format("15:04") != "11:30" || s.Waiting[0].Format("15:04") != "11:00" {
					t.Errorf("%+v, waiting %v", r, s.Waiting)
				}
			}
		})
	}
}

// TestScheduleCatchUp takes a host down: instants within the window are started, and the rest is listed.
func TestScheduleCatchUp(t *testing.T) {
	h := newScheduled(t)
	h.create("@every 1h", "1s", func(s *host.ScheduleSpec) { s.Overlap, s.CatchUp = host.OverlapAllow, 150*time.Minute })
	h.Advance(90 * time.Minute) // 09:30
	h.Kill()
	h.Clock.Advance(6 * time.Hour) // 15:30
	h.Reopen()
	h.Settle()
	h.fired("09:00", "13:00", "14:00", "15:00")
	s := h.schedule()
	if s.Missed != 3 || len(s.NotStarted) != 1 || s.NotStarted[0].Count != 3 || s.NotStarted[0].From.Hour() != 10 ||
		s.NotStarted[0].To.Hour() != 12 || s.NotStarted[0].Policy {
		t.Errorf("%+v", s)
	}
	// A window of instants that nobody counts.
	spec := s.Spec
	spec.When, spec.CatchUp = "@every 1s", 10*time.Second
	_, err := h.Schedules().Update(ctx, "s", spec)
	do(t, err)
	h.Settle()
	h.Kill()
	h.Clock.Advance(24 * time.Hour)
	h.Reopen()
	h.Settle()
	s = h.schedule()
	if s.Missed < 10_000 || !s.NotStarted[len(s.NotStarted)-1].More || s.Started != 4+11 {
		t.Errorf("%+v", s)
	}
}

// TestSchedulePause pauses and resumes: instants in between are skipped.
func TestSchedulePause(t *testing.T) {
	h := newScheduled(t)
	h.create("@every 1h", "1s", nil)
	h.Advance(time.Hour)
	s, err := h.Schedules().Pause(ctx, "s", "the printer is broken")
	do(t, err)
	if !s.Paused || s.Note != "the printer is broken" || !s.Next.IsZero() || !s.Wake.IsZero() {
		t.Errorf("%+v", s)
	}
	h.Advance(2*time.Hour + 30*time.Minute)
	h.Crash()
	if next, ok := h.Settle(); ok {
		t.Errorf("a paused schedule wakes at %v", next)
	}
	s, err = h.Schedules().Resume(ctx, "s", "")
	do(t, err)
	if s.Paused || s.Note != "" || s.Next.Hour() != 12 {
		t.Errorf("%+v", s)
	}
	h.Advance(time.Hour)
	h.fired("09:00", "12:00")
	s = h.schedule()
	if s.Missed != 0 {
		t.Errorf("%+v", s)
	}
	_, err = h.Schedules().Pause(ctx, "s", strings.Repeat("x", 1025))
	is(t, err, host.ErrInvalid)
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
}

// TestScheduleTrigger starts runs by hand, under the schedule's policy and another one.
func TestScheduleTrigger(t *testing.T) {
	h := newScheduled(t)
	h.create("0 0 1 1 *", "30m", nil)
	_, err := h.Schedules().Pause(ctx, "s", "")
	do(t, err)
	h.Advance(5 * time.Minute)
	r, err := h.Schedules().Trigger(ctx, "s", "")
	do(t, err)
	if r.Schedule != "s" || !r.Nominal.Equal(h.Clock.Now()) || !strings.HasPrefix(r.ID, "s~t2026-01-05T08:05:00Z~") {
		t.Errorf("%+v", r)
	}
	h.Advance(time.Minute)
	_, err = h.Schedules().Trigger(ctx, "s", "")
	is(t, err, host.ErrConflict)
	_, err = h.Schedules().Trigger(ctx, "s", "sometimes")
	is(t, err, host.ErrInvalid)
	r, err = h.Schedules().Trigger(ctx, "s", host.OverlapAllow)
	do(t, err)
	h.Advance(time.Minute)
	_, err = h.Schedules().Resume(ctx, "s", "")
	do(t, err)
	r, err = h.Schedules().Trigger(ctx, "s", host.OverlapBufferOne)
	if err != nil || r.ID != "" {
		t.Errorf("%+v %v", r, err)
	}
	h.stand("08:05 sleeping", "08:06 sleeping")
	h.Advance(time.Hour)
	h.stand("08:05 completed", "08:06 completed", "08:07 completed")
	r, err = h.Schedules().Trigger(ctx, "s", "")
	do(t, err)
	h.Advance(time.Minute)
	_, err = h.Schedules().Trigger(ctx, "s", host.OverlapTerminateOther)
	if err != nil {
		t.Error(err)
	}
	r, err = h.Get(ctx, r.ID)
	if err != nil || r.Status != host.Terminated {
		t.Errorf("%+v %v", r, err)
	}
	s := h.schedule()
	if s.Started != 5 || s.Recent[4].Kind != "trigger" {
		t.Errorf("%+v", s)
	}
}

// TestScheduleBackfill backfills past ranges in sequence and concurrently, across a crash.
func TestScheduleBackfill(t *testing.T) {
	h := newScheduled(t)
	h.create("@every 1h", "20m", nil)
	h.Advance(5 * time.Minute)
	at := func(hour int) time.Time { return time.Date(2026, 1, 5, hour, 0, 0, 0, time.UTC) }
	s, err := h.Schedules().Backfill(ctx, "s", at(2), at(5), false)
	do(t, err)
	if len(s.Running) != 1 || len(s.Backfills) != 1 {
		t.Errorf("%+v", s)
	}
	h.Settle()
	h.stand("02:00 sleeping")
	h.Advance(25 * time.Minute)
	h.stand("02:00 completed", "03:00 sleeping")
	h.Crash()
	h.Advance(50 * time.Minute)
	h.stand("02:00 completed", "03:00 completed", "04:00 completed", "05:00 sleeping") // 09:00 was skipped
	h.Advance(2 * time.Hour)
	s = h.schedule()
	if len(s.Backfills) != 0 || s.Recent[0].Kind != "backfill" || s.Skipped != 1 {
		t.Errorf("%+v", s)
	}
	_, err = h.Schedules().Backfill(ctx, "s", at(0), at(3), true)
	do(t, err)
	h.Advance(time.Hour)
	h.fired("00:00", "01:00", "02:00", "03:00", "04:00", "05:00", "10:00", "11:00", "12:00")
	for _, x := range [][2]int{{3, 2}, {3, 23}} {
		_, err = h.Schedules().Backfill(ctx, "s", at(x[0]), at(x[1]), true)
		is(t, err, host.ErrInvalid)
	}
}

// TestScheduleEnds ends schedules by a number of runs, at an instant, and after a single instant.
func TestScheduleEnds(t *testing.T) {
	for _, c := range []struct {
		when   string
		change func(*host.ScheduleSpec)
		want   []string
	}{
		{"@every 1h", func(s *host.ScheduleSpec) { s.Runs = 2 }, []string{"09:00", "10:00"}},
		{"@every 1h", func(s *host.ScheduleSpec) { s.Until = hosttest.Epoch.Add(2 * time.Hour) }, []string{"09:00", "10:00"}},
		{"@every 1h", func(s *host.ScheduleSpec) {
			s.From, s.Runs = hosttest.Epoch.Add(3*time.Hour), 1
		}, []string{"11:00"}},
		{"2026-01-05T10:15:00+01:00", nil, []string{"09:15"}},
		{"R3/2026-01-05T08:30/PT30M", nil, []string{"08:30", "09:00", "09:30"}},
	} {
		h := newScheduled(t)
		h.create(c.when, "1s", c.change)
		h.Advance(5 * time.Hour)
		h.fired(c.want...)
		if s := h.schedule(); !s.Ended || !s.Next.IsZero() || !s.Wake.IsZero() {
			t.Errorf("%s: %+v", c.when, s)
		}
		h.Stop()
	}
}

// TestScheduleJitter delays starts, by the same amount each time.
func TestScheduleJitter(t *testing.T) {
	var before []string
	for range 2 {
		h := newScheduled(t)
		h.create("@every 1h", "1s", func(s *host.ScheduleSpec) { s.Jitter = 2 * time.Hour })
		next, err := h.Schedules().Next(ctx, "s", 5)
		do(t, err)
		h.Advance(5*time.Hour + 59*time.Minute + 59*time.Second)
		late := map[time.Duration]bool{}
		i := 0
		got := h.runs(func(r host.Run) string {
			if !next[i].Nominal.Equal(r.Nominal) || !next[i].Start.Equal(r.Started) {
				t.Errorf("run of %v started at %v, want %v", r.Nominal, r.Started, next[i])
			}
			i++
			late[r.Started.Sub(r.Nominal)] = true
			return r.Started.Format("15:04:05.000")
		})
		if len(got) != 5 || len(late) < 4 {
			t.Errorf("%v", got)
		}
		if before != nil {
			h.same(got, before...)
		}
		before = got
		h.Stop()
	}
}

// TestScheduleRefused has starts refused, temporarily and permanently: the schedule says so, and continues.
func TestScheduleRefused(t *testing.T) {
	h := newScheduled(t)
	do(t, h.SetQuota(ctx, "", host.Quota{MaxRuns: 1}))
	other, err := h.StartRaw(ctx, "nap", []byte("90m"), host.WithRunID("other"))
	do(t, err)
	h.create("@every 1h", "1s", func(s *host.ScheduleSpec) { s.CatchUp = 45 * time.Minute })
	h.Advance(70 * time.Minute) // 09:10
	s := h.schedule()
	if s.Started != 0 || s.Missed != 0 || !strings.Contains(s.Error, "1 runs of the namespace") || s.Wake.IsZero() {
		t.Errorf("%+v", s)
	}
	h.Crash()
	h.Advance(21 * time.Minute)
	s = h.schedule()
	if s.Started != 1 || s.Error != "" {
		t.Errorf("%+v", s)
	}
	do(t, h.Delete(ctx, other.ID))
	_, err = h.StartRaw(ctx, "nap", []byte("10d"), host.WithRunID("long"))
	do(t, err)
	h.Advance(2 * time.Hour) // 11:31
	s = h.schedule()
	if s.Missed != 1 || !strings.Contains(s.NotStarted[0].Reason, "1 runs of the namespace") || s.NotStarted[0].From.Hour() != 10 {
		t.Errorf("%+v", s)
	}
	// For good: the workflow is gone.
	do(t, h.SetQuota(ctx, "", host.Quota{}))
	h.Advance(time.Minute)
	spec := s.Spec
	spec.Workflow = "later"
	_, err = h.Schedules().Update(ctx, "s", spec)
	do(t, err)
	h.Advance(time.Hour)
	s = h.schedule()
	if last := s.NotStarted[len(s.NotStarted)-1]; !strings.Contains(last.Reason, `"later": not found`) || !strings.Contains(s.Error, "later") {
		t.Errorf("%+v", s)
	}
	_, err = h.Upload(ctx, "later", napModule())
	do(t, err)
	started := s.Started
	h.Advance(time.Hour)
	s = h.schedule()
	if s.Started != started+1 || s.Error != "" {
		t.Errorf("%+v", s)
	}
	// Another run has taken the id of a scheduled run.
	next := s.Next
	run := s.Recent[len(s.Recent)-1].Run
	id := strings.Replace(run, s.Recent[len(s.Recent)-1].Nominal.Format(time.RFC3339), next.Format(time.RFC3339), 1)
	for i := range 36 * 36 {
		_, err = h.StartRaw(ctx, "nap", []byte("1s"), host.WithRunID(fmt.Sprintf("%s~%s", id[:strings.LastIndex(id, "~")], base36(i))))
		do(t, err)
	}
	h.Advance(time.Hour)
	s = h.schedule()
	if last := s.NotStarted[len(s.NotStarted)-1]; !strings.Contains(last.Reason, "taken by another run") {
		t.Errorf("%+v", s)
	}
}

func base36(n int) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyz"
	if n < 36 {
		return digits[n : n+1]
	}
	return base36(n/36) + digits[n%36:n%36+1]
}
