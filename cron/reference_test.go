package cron_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	robfig "github.com/robfig/cron/v3"
)

// nearChange reports whether the clock changes within a day of an instant. On such days the definitions differ, and
// the reference, which advances hour by hour, gets half-hour shifts wrong.
func nearChange(t time.Time) bool {
	const near = 24 * time.Hour
	start, end := t.ZoneBounds()
	return !start.IsZero() && t.Sub(start) < near || !end.IsZero() && end.Sub(t) < near
}

// changesAtMidnight reports whether a clock change in a period crosses midnight. Such a day has no beginning, or two,
// and from then until the month ends the reference uses the wrong hour.
func changesAtMidnight(from, to time.Time) bool {
	for _, end := from.ZoneBounds(); !end.IsZero() && !end.After(to); _, end = end.ZoneBounds() {
		before, after := wallClock(end.Add(-1), end.Location()), wallClock(end, end.Location())
		if before.Day() != after.Day() {
			return true
		}
	}
	return false
}

// differs reports whether day-of-month and day-of-week are both restricted, one of them by * with a step. For
// robfig's cron a day matches if either field matches; in this package, as in Vixie's cron, both must match.
func differs(text string) bool {
	f := strings.Fields(text)
	dom, dow := f[len(f)-3], f[len(f)-1]
	return dom != "*" && dow != "*" && (dom[0] == '*' || dow[0] == '*')
}

// TestReference compares 10,000 random expressions in random zones at random instants with robfig's cron.
func TestReference(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	reference := robfig.NewParser(robfig.SecondOptional | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow)
	compared, skipped, ends := 0, 0, 0
	for compared < 10_000 {
		text, zone := randomExpression(r), zones[r.IntN(len(zones))]
		if differs(text) {
			skipped++
			continue
		}
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := reference.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		after := time.Unix(1_200_000_000+r.Int64N(800_000_000), r.Int64N(1e9)).In(loc)
		want := theirs.Next(after)
		if want.IsZero() { // the reference searches five years: next February 29 is further away, or never
			ends++
			continue
		}
		x := parse(t, text, zone)
		got, ok := x.Next(after)
		if nearChange(want) || ok && nearChange(got) || changesAtMidnight(after.AddDate(0, 0, -31), want) {
			skipped++
			continue
		}
		if !ok || !got.Equal(want) {
			t.Errorf("%q in %s after %v: %v %v, the reference says %v", text, zone, after, got, ok, want)
		}
		compared++
	}
	t.Logf("%d compared, %d skipped, %d beyond five years", compared, skipped, ends)
}

// TestReferenceDiffers shows the differences that docs/runs/schedules.md lists.
func TestReferenceDiffers(t *testing.T) {
	reference := robfig.NewParser(robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow)
	for _, c := range []struct{ text, after, ours, theirs string }{
		{"30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}, // they leave it out
		{"0 2 * * *", "2026-10-25T00:30:00Z", "2026-10-26T02:00:00+01:00", "2026-10-25T02:00:00+01:00"},  // it is due twice with them
		{"0 0 */2 * FRI", "2026-11-13T00:00:00Z", "2026-11-27T00:00:00+01:00", "2026-11-15T00:00:00+01:00"},
		{"0 0 * * 7", "2026-11-13T00:00:00Z", "2026-11-15T00:00:00+01:00", ""}, // they know no 7
		{"0 0 * * SAT-SUN", "2026-11-13T00:00:00Z", "2026-11-14T00:00:00+01:00", ""},
		{"0 0 29 2 *", "2097-01-01T00:00:00Z", "2104-02-29T00:00:00+01:00", "0001-01-01T00:00:00Z"}, // they look five years ahead
	} {
		loc, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		after := at(t, c.after).In(loc)
		got, _ := parse(t, c.text, "Europe/Berlin").Next(after)
		if s := got.Format(time.RFC3339); s != c.ours {
			t.Errorf("%s: %s, want %s", c.text, s, c.ours)
		}
		theirs := ""
		if x, err := reference.Parse(c.text); err == nil {
			theirs = x.Next(after).Format(time.RFC3339)
		}
		if theirs != c.theirs {
			t.Errorf("%s: the reference says %s, want %s", c.text, theirs, c.theirs)
		}
	}
}
