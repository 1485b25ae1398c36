package doctor

import (
	"fmt"
	"time"
)

const (
	// earliestYear is that of this release: a clock that shows an earlier one was not set.
	earliestYear = 2026
	// latestYear is one beyond which nobody wants to sleep yet.
	latestYear = 2100
	// clockStep is by how much the wall clock may differ from the monotonic one within some seconds. A time server that slews it
	// changes it by a millisecond in two seconds at most.
	clockStep = 20 * time.Millisecond
	// clockJump is more than any correction of a clock that is kept right.
	clockJump = time.Second
)

// clockWatch is when a measurement began: by the wall clock, and by the monotonic one.
type clockWatch struct{ begun time.Time }

func startClock() clockWatch { return clockWatch{time.Now()} }

func (w clockWatch) check() Check {
	now := time.Now()
	return judgeClock(now, now.Round(0).Sub(w.begun.Round(0)), now.Sub(w.begun), synchronized())
}

// judgeClock returns the verdict on a clock that has advanced by wall, while by the monotonic clock elapsed has passed. synced is
// what the system says of it, empty if it says nothing or is content.
func judgeClock(now time.Time, wall, elapsed time.Duration, unsynced string) Check {
	drift := wall - elapsed
	c := Check{Name: "clock", Status: OK, Found: fmt.Sprintf("%s; %s off the monotonic clock in %s",
		now.UTC().Format(time.RFC3339), short(drift.Abs()), short(elapsed)),
		Values: map[string]any{"time": now.UTC(), "drift_ms": ms(drift), "measured_ms": ms(elapsed)}}
	const keep = "have a time server keep it (chrony, systemd-timesyncd): runs wake by it"
	switch {
	case now.Year() < earliestYear || now.Year() > latestYear:
		c.Status, c.Advice = Fail, "set the clock before a server runs: what it writes carries these instants for good"
	case drift.Abs() > clockJump:
		c.Status, c.Advice = Fail, keep+", and it was set while it was watched"
	case drift.Abs() > clockStep:
		c.Status, c.Advice = Warn, keep+", and it was set while it was watched"
	case unsynced != "":
		c.Status, c.Advice = Warn, keep
		c.Found += "; " + unsynced
	}
	return c
}
