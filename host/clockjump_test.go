package host_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
)

const year = 365 * 24 * time.Hour

// appointments starts runs that wait for an hour in every possible way, and returns their ids: a sleep, a retry of a
// step, a delayed start, and a timeout.
func appointments(l *lab) []string {
	l.t.Helper()
	var ids []string
	begin := func(id, workflow string, input any, opts ...host.StartOption) {
		ids = append(ids, l.begin(workflow, input, append(opts, host.WithRunID(id))...))
	}
	begin("sleeps", "until", 3_600_000)
	begin("tries", "call", map[string]any{"Handler": "host/later"})
	begin("begins", "until", 0, host.WithStartIn(time.Hour))
	begin("expires", "until", 7_200_000, host.WithTimeout(time.Hour))
	l.Settle()
	return ids
}

// kept checks that the runs have ended as they should, and that no entry was recorded before the deadline that caused
// it.
func kept(l *lab, ids []string, due time.Time) {
	l.t.Helper()
	for _, id := range ids {
		r, err := l.Get(ctx, id)
		if err != nil {
			l.t.Fatal(err)
		}
		if end := host.Completed; id != "expires" && r.Status != end || id == "expires" && r.Status != host.Failed {
			l.t.Errorf("run %s is %s (%s)", id, r.Status, r.Reason)
		}
		var last time.Time
		for e, err := range l.Journal(ctx, id, 0) {
			if err != nil {
				l.t.Fatal(err)
			}
			last = time.UnixMilli(e.UnixMs).UTC()
		}
		if last.Before(due) {
			l.t.Errorf("run %s ended at %v, which is before %v", id, last, due)
		}
	}
}

// TestClockJumpsOverAppointments sets the clock by a year, forward or back, with and without a restart, while runs
// wait for an hour. No deadline fires early by the clock, and none is lost. If the clock is set back, waits still
// last an hour.
func TestClockJumpsOverAppointments(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	for _, restart := range []bool{false, true} {
		for _, by := range []time.Duration{year, -year} {
			t.Run(fmt.Sprint(by, restart), func(t *testing.T) {
				l := newLab(t)
				due := l.Clock.Now().Add(time.Hour)
				ids := appointments(l)
				l.Clock.Step(by)
				if restart {
					l.Reopen()
				}
				l.Settle()
				if by < 0 { // the clock reaches the deadline in a year and an hour
					ids = slices.DeleteFunc(ids, func(id string) bool { return id == "tries" })
					status := func() host.Status { r, _ := l.Get(ctx, "tries"); return r.Status }
					l.Advance(time.Hour - time.Millisecond)
					want(t, status(), host.Waiting)
					l.Advance(time.Millisecond)
					want(t, status(), host.Completed)
					for _, left := range []time.Duration{time.Minute, time.Second, 0} {
						l.Advance(due.Add(-left - time.Millisecond).Sub(l.Clock.Now()))
						for _, id := range ids {
							if r, err := l.Get(ctx, id); err != nil || r.Status.Terminal() {
								t.Fatalf("run %s is %s %v before its time: %v", id, r.Status, left, err)
							}
						}
					}
					l.Advance(time.Millisecond)
				}
				kept(l, ids, due)
			})
		}
	}
}

// TestClockGlitch moves the clock to the next year for a moment in which only a restart happens, and to the previous
// year for another one: longer waits end at their original time.
func TestClockGlitch(t *testing.T) {
	l := newLab(t)
	due := l.Clock.Now().Add(2 * year)
	id := l.begin("until", (2 * year).Milliseconds())
	later := l.begin("until", 0, host.WithStartIn(2*year))
	l.Settle()
	for _, by := range []time.Duration{year, -year, -year, year} {
		l.Clock.Step(by)
		l.Settle()
		l.Reopen()
		for _, id := range []string{id, later} {
			if r, err := l.Get(ctx, id); err != nil || r.Status.Terminal() || !r.Wake.Equal(due) {
				t.Fatalf("%s waits until %v, want %v; it is %s: %v", id, r.Wake, due, r.Status, err)
			}
		}
	}
	l.Advance(2 * year)
	kept(l, []string{id, later}, due)
}

// TestClockJumpsAndKeeping sets the clock by a year, back or forward, between the end of a run and the end of its
// retention. It does the same with a token. Both expire by the current clock, neither early nor never.
func TestClockJumpsAndKeeping(t *testing.T) {
	l := newLab(t)
	if err := l.Retentions().Set(ctx, host.Retention{Workflow: "until", Completed: 24 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	sweep := func(what string, want int) {
		t.Helper()
		s, err := l.Retentions().Sweep(ctx, false)
		if err != nil || s.Deleted != want || s.Failed != 0 {
			t.Fatalf("%s: %+v, want %d deleted: %v", what, s, want, err)
		}
	}
	n := 0
	end := func() { // completes a run in partition 0: each partition is swept separately
		t.Helper()
		for n++; (store.RunKey{ID: fmt.Sprint("r", n)}).Partition() != 0; n++ {
		}
		l.Finish(l.begin("until", 0, host.WithRunID(fmt.Sprint("r", n))))
	}
	text, _, err := l.Tokens().Create(ctx, host.TokenSpec{Scopes: []host.Scope{host.ScopeRead}, TTL: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	token := func(what string, want error) {
		t.Helper()
		if _, err := l.Tokens().Authenticate(ctx, text); !errors.Is(err, want) {
			t.Fatalf("%s, the token: %v, want %v", what, err, want)
		}
	}
	end()
	l.Clock.Step(-year)
	l.Reopen()
	sweep("a year back", 0)
	token("a year back", nil)
	l.Advance(year + 23*time.Hour)
	sweep("before its time", 0)
	token("before its time", nil)
	l.Advance(time.Hour + time.Millisecond)
	sweep("at its time", 1)
	token("at its time", host.ErrUnauthorized)

	l.Clock.Step(year)
	end()
	l.Advance(25 * time.Hour)
	sweep("a year ahead", 1)
	l.Clock.Step(-year - 25*time.Hour)
	end() // its end is earlier than that of the last swept run
	l.Advance(24*time.Hour + time.Millisecond)
	sweep("a day later", 1)
	l.Clock.Step(-year)
	token("a year back", nil) // by the current clock, it has not expired
	if l.Clock.Now().After(hosttest.Epoch) {
		t.Fatal("the clock was not set back")
	}
}
