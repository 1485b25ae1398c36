package cron

import "time"

// A local time is what a clock on the wall shows, without a zone. It is kept as the instant at which a clock in UTC shows it.

// local returns what clocks in a zone show at an instant.
func local(t time.Time, loc *time.Location) time.Time {
	t = t.In(loc)
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// offset returns by how much clocks in a zone are ahead of UTC at an instant.
func offset(t time.Time, loc *time.Location) time.Duration {
	_, s := t.In(loc).Zone()
	return time.Duration(s) * time.Second
}

// resolve returns the first instant at which clocks in a zone show a local time. If they never do, it is the instant at which
// they are set forward past it. The result never falls as the local time rises.
func resolve(wall time.Time, loc *time.Location) time.Time {
	guess := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), loc)
	start, end := guess.ZoneBounds()
	for _, change := range []time.Time{start, end} {
		if change.IsZero() { // there is no earlier or later change
			continue
		}
		before := wall.Add(-offset(change.Add(-1), loc)) // as if clocks were never set at the change
		after := wall.Add(-offset(change, loc))          // as if they always had been
		if !before.Before(change) && after.Before(change) {
			return change // in the gap
		}
		if before.Before(change) && local(before, loc).Equal(wall) {
			return before // before the change, and so perhaps twice: this is the first time
		}
	}
	return guess
}
