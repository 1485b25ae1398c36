package doctor

import (
	"fmt"
	"time"
)

const (
	// earliestYear is the year of this release: a clock that shows an earlier year was not set.
	earliestYear = 2026
	// latestYear is later than any plausible wake.
	latestYear = 2100
	// clockStep is the maximum difference between the wall clock and the monotonic one within a few seconds. A time
	// server that slews the clock changes it by at most a millisecond in two seconds.
	clockStep = 20 * time.Millisecond
	// clockJump is more than any correction of a synchronized clock.
	clockJump = time.Second
)

// clockWatch has the start of a measurement by both the wall clock and the monotonic clock.
type clockWatch struct{ begun time.Time }

func startClock() clockWatch { return clockWatch{time.Now()} }

func (w clockWatch) check() Check {
	now := time.Now()
	return judgeClock(now, now.Round(0).Sub(w.begun.Round(0)), now.Sub(w.begun), synchronized())
}

// judgeClock returns the verdict on a clock that has advanced by wall while the monotonic clock advanced by elapsed.
// unsynced is the system's complaint about the clock, empty if there is none.
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
