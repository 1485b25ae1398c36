package cron

import "time"

// A local time is what a wall clock shows, without a zone. It is stored as the instant with the same time in UTC.

// local returns the local time in a zone at an instant.
func local(t time.Time, loc *time.Location) time.Time {
	t = t.In(loc)
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// offset returns the offset of a zone from UTC at an instant.
func offset(t time.Time, loc *time.Location) time.Duration {
	_, s := t.In(loc).Zone()
	return time.Duration(s) * time.Second
}

// resolve returns the first instant with the given local time in a zone. If the clock skips that time, it returns the
// instant of the skip. resolve is monotonic.
func resolve(wall time.Time, loc *time.Location) time.Time {
	guess := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), loc)
	start, end := guess.ZoneBounds()
	for _, change := range []time.Time{start, end} {
		if change.IsZero() { // there is no earlier or later change
			continue
		}
		before := wall.Add(-offset(change.Add(-1), loc)) // as if the clock had not changed
		after := wall.Add(-offset(change, loc))          // as if they always had been
		if !before.Before(change) && after.Before(change) {
			return change // in the gap
		}
		if before.Before(change) && local(before, loc).Equal(wall) {
			return before // before the change; if the local time comes twice, this is the first one
		}
	}
	return guess
}
