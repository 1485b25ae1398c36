package host_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/clock"
)

const (
	customers  = 7 // whose rentals have a limit each
	rateWindow = 72 * time.Hour
	slotsOnB   = 2 // of rentals
)

// TestUpgrades simulates a year of runs that sleep for months, and schedules in four zones, on two hosts that crash
// at commits. The code of the runs changes three times, once so that it does not fit all runs; limits change while
// runs wait for slots; runs are moved to the other host and back; both hosts are down for hours, and one is restored
// from a backup.
//
// In the end each run has done the same as on an undisturbed host, except for steps that its versions have added, at
// the instants that follow from its input. Each instant of a schedule had its run, no limit was exceeded, and the
// stores are valid.
func TestUpgrades(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	y := &longYear{t: t, rng: rand.New(rand.NewPCG(*upgradeSeed, 0)), clock: clock.NewFake(hosttest.Epoch),
		runs: map[string]*traveller{}, code: make([][]byte, len(versionNames))}
	for v, name := range versionNames[1:] {
		y.code[v+1] = hosttest.Build(t, "testdata/year/"+name)
	}
	y.a, y.b = y.open("a"), y.open("b")
	_, err := y.a.Upload(ctx, "nap", napModule())
	do(t, err)
	_, err = y.b.WorkflowLimits().Set(ctx, host.WorkflowLimit{Workflow: "rental", Concurrency: []string{fmt.Sprint(slotsOnB)}})
	do(t, err)
	bells := y.schedules()
	y.plans()
	y.pass()
	t.Logf("%d runs, %d and %d crashes, %d moves, %d reports of runs that do not fit", len(y.ids), y.a.crashes, y.b.crashes, y.moves,
		y.refused)
	y.atTheEnd()
	y.likeWithoutAll()
	y.limitsKept()
	for _, b := range bells {
		y.rang(b)
	}
	for _, h := range []*yearHost{y.a, y.b} {
		h.Stop()
		if r := sound(t, h.dir); r.Replayed != r.Runs {
			t.Errorf("host %s: %+v", h.name, r)
		}
	}
}

// plans says what happens on which day.
func (y *longYear) plans() {
	n := *upgradeRuns
	y.upgrade(vFirst)
	y.setLimits(n/8, max(n/40, 1), max(n/40, 1))
	for i := range 12 {
		y.on(1+6*float64(i)+y.rng.Float64(), func() { y.start("plan", (n*(i+1))/12-n*i/12, 4, 15, 60) })
	}
	for i := range 8 {
		m := n / 4
		y.on(2+9*float64(i)+y.rng.Float64(), func() { y.start("rental", (m*(i+1))/8-m*i/8, 3, 5, 25) })
	}
	y.on(20, func() { y.setLimits(max(n/20, 2), max(n/40, 1), max(n/40, 1)) }) // fewer than hold a slot
	y.on(70, func() { y.setLimits(n/10, max(n/60, 1), max(n/40, 1)) })
	y.on(110, func() { y.setLimits(n/6, max(n/20, 2), max(n/40, 1)) })
	for _, d := range []float64{30, 75, 90, 120, 160, 200, 240} {
		y.on(d+y.rng.Float64(), func() { y.move(max(n/10, 3)) })
	}
	y.on(45, func() { y.upgrade(vTuned) })
	y.on(82.6, func() { y.stopBoth(9 * time.Hour) }) // while clocks are set forward in Berlin
	y.on(100, func() { y.upgrade(vMarked) })
	y.on(130, func() { y.replace(y.a) })
	y.on(150, func() { y.upgrade(vAudited) })
	y.on(215, func() { y.upgrade(vAudited) }) // those that have begun another round since
}

// limitsSince has the limits of rentals on the first host from an instant on: overall, per customer, and starts
// within rateWindow.
type limitsSince struct {
	at                     time.Time
	all, customer, perRate int
}

func (y *longYear) setLimits(all, customer, perRate int) {
	y.mayCrash(y.a, 2, 3)
	y.try(y.a, func() error {
		_, err := y.a.WorkflowLimits().Set(ctx, host.WorkflowLimit{Workflow: "rental", Rate: []string{fmt.Sprintf("%d/%v", perRate, rateWindow)},
			Concurrency: []string{fmt.Sprint(all), fmt.Sprintf("%d per input.customer", customer)}})
		return err
	})
	y.limits = append(y.limits, limitsSince{y.clock.Now(), all, customer, perRate})
}

// atTheEnd checks each run: it ended once, did its work, and made each step when it was due.
func (y *longYear) atTheEnd() {
	count := map[string]int{}
	for _, h := range []*yearHost{y.a, y.b} {
		for _, w := range []string{"plan", "rental"} {
			for r, err := range h.Runs(ctx, host.Query{Workflow: w}) {
				do(y.t, err)
				count[r.ID]++
			}
		}
	}
	if len(count) != len(y.ids) {
		y.t.Errorf("there are %d runs, want %d", len(count), len(y.ids))
	}
	for _, id := range y.ids {
		r := y.runs[id]
		got := get(y.t, r.at.Host, id)
		result, err := host.Result[string](ctx, r.at.Host, id)
		if err != nil || !r.ended() || result != r.done || got.Version != r.version || count[id] != 1 {
			y.t.Errorf("%d of %+v; %q under version %d, want %q under %d: %v", count[id], got, result, got.Version, r.done, r.version, err)
		}
		waited := r.workflow == "rental" && len(r.left) > 0 // for a slot on the other host, in the middle of its work
		at := y.begun(r)
		if r.workflow == "plan" && !at.Equal(got.Created) || len(r.plan.Rounds) == 1 && !at.Equal(got.Started) {
			y.t.Errorf("%+v, want a start at %v", got, at)
		}
		for round, legs := range r.plan.Rounds {
			for leg, hours := range legs {
				acts := r.acts[fmt.Sprintf("ship-%d.%d", round, leg)]
				due := y.late(at.Add(time.Duration(hours) * time.Hour))
				for _, act := range acts {
					if !act.Equal(due) && (!waited || act.Before(due)) {
						y.t.Errorf("%s has made step %d.%d at %v, it was due at %v", id, round, leg, acts, due)
					}
					at = act
				}
			}
		}
		if !got.Ended.Equal(at) {
			y.t.Errorf("%s has ended at %v, want %v", id, got.Ended, at)
		}
	}
}

// likeWithoutAll repeats the runs on an undisturbed host. They do the same, except for what versions have added.
func (y *longYear) likeWithoutAll() {
	h := hosttest.New(y.t, hosttest.WithHandlers(func(x *host.Host) {
		host.HandleStep(x, "ship", func(ctx context.Context, _ string) (string, error) {
			name := host.StepInfo(ctx).Name
			return name[len(name)-1:], nil
		})
	}))
	_, err := h.Upload(ctx, "", y.code[vFirst], host.AllowStep("ship"))
	do(y.t, err)
	began := time.Now()
	for _, id := range y.ids {
		_, err := h.Start(ctx, y.runs[id].workflow, y.runs[id].plan, host.WithRunID(id))
		do(y.t, err)
	}
	h.Advance(3 * 366 * day)
	for _, id := range y.ids {
		got, err := host.Result[string](ctx, h.Host, id)
		if want := strings.NewReplacer("S", "", "A", "").Replace(y.runs[id].done); err != nil || got != want {
			y.t.Errorf("%s: %q on a host where nothing happens, %q here, %v", id, got, want, err)
		}
	}
	y.t.Logf("the same runs took %v on a host where nothing happens", time.Since(began))
}

// slotEvent is the start or end of a rental on the first host, a change of limits, or the end of a rate window.
type slotEvent struct {
	at       time.Time
	by       int // at equal instants: ends before limits, limits before starts
	customer int
	limits   limitsSince
}

const (
	slotTick = iota
	slotEnd
	slotLimits
	slotBegin
)

// limitsKept walks through the starts and ends of all rentals on the first host: no limit was exceeded, and no rental
// waited that could have started.
func (y *longYear) limitsKept() {
	var events []slotEvent
	var waited [][3]int64 // from when to when, and whose
	for _, l := range y.limits {
		events = append(events, slotEvent{at: l.at, by: slotLimits, limits: l})
	}
	for _, id := range y.ids {
		r := y.runs[id]
		if r.workflow != "rental" {
			continue
		}
		got := get(y.t, r.at.Host, id)
		end := got.Ended
		if !r.freed.IsZero() {
			end = r.freed
		}
		c, began := r.plan.Customer, y.begun(r)
		events = append(events, slotEvent{at: began, by: slotBegin, customer: c}, slotEvent{at: end, by: slotEnd, customer: c},
			slotEvent{at: began.Add(rateWindow)})
		waited = append(waited, [3]int64{got.Created.UnixMilli(), began.UnixMilli(), int64(c)})
	}
	slices.SortFunc(events, func(a, b slotEvent) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.by - b.by
	})
	s := slots{of: map[int]int{}}
	full, longest := 0, int64(0)
	for i, e := range events {
		if s.take(e); s.exceeded(e) {
			y.t.Errorf("at %v, %d rentals hold a slot, %d of customer %d, and %d have begun within %v: the limits are %+v", e.at, s.all,
				s.of[e.customer], e.customer, s.begunAt(e.at), rateWindow, s.limits)
		}
		if i+1 < len(events) && events[i+1].at.Equal(e.at) || !y.late(e.at).Equal(e.at) {
			continue
		}
		for _, w := range waited {
			longest = max(longest, w[1]-w[0])
			if ms := e.at.UnixMilli(); w[0] > ms || ms >= w[1] {
				continue
			}
			full++
			if s.admits(e.at, int(w[2])) {
				y.t.Errorf("at %v, a rental of customer %d waits, and %d hold a slot, %d of that customer, %d have begun within %v: the "+
					"limits are %+v", e.at, w[2], s.all, s.of[int(w[2])], s.begunAt(e.at), rateWindow, s.limits)
			}
		}
	}
	if s.all != 0 || full == 0 {
		y.t.Errorf("%d rentals hold a slot at the end; %d waits were looked at", s.all, full)
	}
	y.t.Logf("rentals waited for a slot for %v at most", time.Duration(longest)*time.Millisecond)
}

// slots counts the rentals that hold one.
type slots struct {
	limits limitsSince
	all    int
	of     map[int]int // by customer
	begun  []time.Time
}

func (s *slots) take(e slotEvent) {
	switch e.by {
	case slotLimits:
		s.limits = e.limits
	case slotEnd:
		s.all--
		s.of[e.customer]--
	case slotBegin:
		s.all++
		s.of[e.customer]++
		s.begun = append(s.begun, e.at)
	}
}

// begunAt counts the starts within the window that ends at an instant.
func (s *slots) begunAt(at time.Time) (n int) {
	for _, b := range s.begun {
		if at.Sub(b) < rateWindow {
			n++
		}
	}
	return n
}

// exceeded reports whether a start was one too many. Lowering a limit does not end runs.
func (s *slots) exceeded(e slotEvent) bool {
	return e.by == slotBegin && (s.all > s.limits.all || s.of[e.customer] > s.limits.customer || s.begunAt(e.at) > s.limits.perRate)
}

// admits reports whether a rental of a customer may start.
func (s *slots) admits(at time.Time, customer int) bool {
	return s.all < s.limits.all && s.of[customer] < s.limits.customer && s.begunAt(at) < s.limits.perRate
}

// bell is a schedule, and the local times at which it is due on each day, at most once each.
type bell struct {
	id, zone, when string
	walls          []string
	months         []time.Month // months with clock changes; with many runs it is due in all months
}

// schedules creates schedules that are due around both clock changes of their zones.
func (y *longYear) schedules() []bell {
	bells := []bell{
		{"berlin", "Europe/Berlin", "30 2", []string{"02:30"}, []time.Month{3, 10}},                 // is left out; comes twice
		{"new-york", "America/New_York", "30 1,2", []string{"01:30", "02:30"}, []time.Month{3, 11}}, // likewise, an hour apart
		{"lord-howe", "Australia/Lord_Howe", "45 1", []string{"01:45"}, []time.Month{4, 10}},        // twice within half an hour
		{"lord-howe-2", "Australia/Lord_Howe", "15 2", []string{"02:15"}, []time.Month{4, 10}},      // is left out
		{"santiago", "America/Santiago", "15 0,23", []string{"00:15", "23:15"}, []time.Month{4, 9}}, // a day without a midnight
	}
	for i := range bells {
		b := &bells[i]
		if *upgradeRuns >= 1000 {
			b.when, b.months = b.when+" * * *", nil
		} else {
			b.when = fmt.Sprintf("%s * %d,%d *", b.when, b.months[0], b.months[1])
		}
		_, err := y.a.Schedules().Create(ctx, b.id, host.ScheduleSpec{Workflow: "nap", Input: []byte("1s"), When: b.when, Zone: b.zone,
			Overlap: host.OverlapAllow, Until: hosttest.Epoch.AddDate(1, 0, 0)})
		do(y.t, err)
	}
	return bells
}

// rang compares the runs of a schedule with the instants at which it was due.
func (y *longYear) rang(b bell) {
	var got []time.Time
	for r, err := range y.a.Runs(ctx, host.Query{Workflow: "nap"}) {
		do(y.t, err)
		if r.Schedule != b.id {
			continue
		}
		got = append(got, r.Nominal)
		if r.Status != host.Completed || !r.Started.Equal(y.late(r.Nominal)) {
			y.t.Errorf("%+v, want a start at %v", r, y.late(r.Nominal))
		}
	}
	slices.SortFunc(got, time.Time.Compare)
	want := b.due(y.t, hosttest.Epoch, hosttest.Epoch.AddDate(1, 0, 0))
	for i := range max(len(got), len(want)) {
		if i >= min(len(got), len(want)) || !got[i].Equal(want[i]) {
			y.t.Errorf("%s rang %d times, want %d; the first difference: %v, want %v", b.id, len(got), len(want),
				got[min(i, len(got)):min(i+3, len(got))], want[min(i, len(want)):min(i+3, len(want))])
			break
		}
	}
	s, err := y.a.Schedules().Get(ctx, b.id)
	if err != nil || !s.Ended || int(s.Started) != len(want) || s.Missed+s.Skipped != 0 {
		y.t.Errorf("%+v, %v", s, err)
	}
}

// due computes when a schedule is due, as docs/runs/schedules.md says, from the local time at each minute. A local
// time that occurs twice counts the first time. A skipped one is due at the next local time that exists.
func (b bell) due(t *testing.T, from, until time.Time) (list []time.Time) {
	const text = "2006-01-02 15:04"
	zone, err := time.LoadLocation(b.zone)
	if err != nil {
		t.Fatal(err)
	}
	first := map[string]time.Time{}
	for at := from.AddDate(0, 0, -2); at.Before(until.AddDate(0, 0, 2)); at = at.Add(time.Minute) {
		if shown := at.In(zone).Format(text); first[shown].IsZero() {
			first[shown] = at
		}
	}
	for d := from.AddDate(0, 0, -1); d.Before(until.AddDate(0, 0, 1)); d = d.AddDate(0, 0, 1) {
		for _, wall := range b.walls {
			if b.months != nil && !slices.Contains(b.months, d.Month()) {
				continue
			}
			at, err := time.Parse(text, d.Format("2006-01-02 ")+wall)
			do(t, err)
			for first[at.Format(text)].IsZero() {
				at = at.Add(time.Minute)
			}
			at = first[at.Format(text)]
			if at.After(from) && !at.After(until) {
				list = append(list, at)
			}
		}
	}
	slices.SortFunc(list, time.Time.Compare)
	return slices.CompactFunc(list, time.Time.Equal)
}
