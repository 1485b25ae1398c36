package cron

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
)

// interval is a start and a period. The n-th instant is the local time of the start plus n times the months and days,
// plus n times the rest. Instants are not computed from the previous one, so the last day of each month stays the
// last one. Numbers are milliseconds, because a time.Duration ends after 292 years.
type interval struct {
	start  time.Time // the first instant
	wall   time.Time // local time of the start, for months and days
	months int
	days   int
	restMs int64
	times  int64 // how many instants there are
	loc    *time.Location
}

const (
	// forever is the count of an interval without an end.
	forever = math.MaxInt64
	dayMs   = 24 * 60 * 60 * 1000
	// maxMonths and maxDays are 100 years, each with a February 29. They bound intervals, so that their instants can be
	// counted.
	maxMonths = 100 * 12
	maxDays   = 100 * 366
	// monthMs is a twelfth of a year of 366 days.
	monthMs = maxDays * dayMs / maxMonths
)

// lastMs is the beginning of the year after maxYear.
var lastMs = time.Date(maxYear+1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

// calendar reports whether the period has months or days, which are counted in local time.
func (v *interval) calendar() bool { return v.months != 0 || v.days != 0 }

// at returns the n-th instant. n is at most the count for the year 10000, so that nothing overflows.
func (v *interval) at(n int64) time.Time {
	if n == 0 {
		return v.start // even if its local time does not exist or is the second of two
	}
	if !v.calendar() {
		return time.UnixMilli(v.start.UnixMilli() + n*v.restMs)
	}
	first := time.Date(v.wall.Year(), v.wall.Month()+time.Month(n*int64(v.months)), 1, 0, 0, 0, 0, time.UTC)
	last := first.AddDate(0, 1, -1).Day()
	h, m, s := v.wall.Clock()
	day := min(v.wall.Day(), last) + int(n)*v.days
	at := resolve(time.Date(first.Year(), first.Month(), day, h, m, s, v.wall.Nanosecond(), time.UTC), v.loc)
	return time.UnixMilli(at.UnixMilli() + n*v.restMs)
}

// shortest returns a lower bound of the time between two instants, in milliseconds.
func (v *interval) shortest() int64 {
	if !v.calendar() {
		return v.restMs
	}
	return (int64(v.months)*27+int64(v.days))*dayMs/2 + v.restMs // a zone may have skipped a day
}

// count returns an upper bound of the number of instants up to the given one.
func (v *interval) count(ms int64) int64 {
	const zones = 2 * dayMs // more than any zone's offset from UTC
	return max(ms-v.start.UnixMilli()+zones, 0)/v.shortest() + 2
}

// next returns the first instant after the given one.
func (v *interval) next(after time.Time) (time.Time, bool) {
	if after.UnixMilli() >= lastMs {
		return time.Time{}, false
	}
	lo, hi := int64(0), min(v.count(after.UnixMilli()), v.times)
	for lo < hi { // the first n whose instant is after
		if n := lo + (hi-lo)/2; v.at(n).After(after) {
			hi = n
		} else {
			lo = n + 1
		}
	}
	if lo >= v.times {
		return time.Time{}, false
	}
	return v.at(lo), true
}

// parseEvery reads the text after @every: a duration and an optional offset from the beginning of 1970.
func parseEvery(texts []string) (rule, error) {
	if len(texts) != 1 && (len(texts) != 3 || texts[1] != "offset") {
		return nil, fmt.Errorf("it should look like %q or %q", "@every 90s", "@every 1h offset 10m")
	}
	ms, err := abi.ParseDuration(texts[0])
	if err != nil {
		return nil, err
	}
	v := &interval{start: time.Unix(0, 0), restMs: ms, times: forever}
	if err := v.check(texts[0]); err != nil {
		return nil, err
	}
	if len(texts) == 3 {
		offset, err := abi.ParseDuration(texts[2])
		if err != nil {
			return nil, err
		}
		if offset >= ms {
			return nil, fmt.Errorf("the offset must be less than the interval %s, got %s", texts[0], texts[2])
		}
		v.start = time.UnixMilli(offset)
	}
	return v, nil
}

// check returns what is wrong with the length of the interval, in the units of the text.
func (v *interval) check(text string) error {
	ok := v.months <= maxMonths && v.days <= maxDays && v.restMs <= maxDays*dayMs // and so the sum does not overflow
	if ok {
		whole := int64(v.months)*monthMs + int64(v.days)*dayMs + v.restMs
		ok = whole >= MinInterval.Milliseconds() && whole <= maxDays*dayMs
	}
	if !ok {
		return fmt.Errorf("the interval must be from 1s to 100 years, got %s", text)
	}
	return nil
}

// parseISO reads an ISO 8601 duration or repeating interval.
func parseISO(text string, loc *time.Location) (rule, error) {
	v := &interval{times: forever, loc: loc}
	period, start := text, ""
	if text[0] == 'R' {
		parts := strings.Split(text, "/")
		if len(parts) != 3 || parts[1] == "" || !strings.HasPrefix(parts[2], "P") || strings.HasPrefix(parts[1], "P") {
			return nil, fmt.Errorf("a repeating interval should look like R/2026-01-31T09:00/P1M, with a start and a duration")
		}
		if parts[0] != "R" {
			n, err := number(parts[0][1:])
			if err != nil || n == 0 {
				return nil, fmt.Errorf("behind R there must be a number from 1 to 65535, or nothing, got %q", parts[0][1:])
			}
			v.times = int64(n)
		}
		start, period = parts[1], parts[2]
	}
	if err := v.parsePeriod(period); err != nil {
		return nil, err
	}
	if err := v.check(period); err != nil {
		return nil, err
	}
	if start != "" {
		var err error
		v.start, v.wall, err = parseLocal(start, loc)
		return v, err
	}
	v.start, v.wall = time.Unix(0, 0), time.Unix(0, 0).UTC()
	if v.calendar() {
		v.start = resolve(v.wall, loc)
	}
	return v, nil
}

// parsePeriod reads a duration. Years, months, weeks and days are calendar units and must be whole numbers.
func (v *interval) parsePeriod(text string) error {
	date, clock, timed := strings.Cut(text[1:], "T")
	if date == "" && (!timed || clock == "") || timed && clock == "" {
		return fmt.Errorf("%q is no ISO 8601 duration: it should look like P1M, P1DT12H or PT15M", text)
	}
	for units := "YMWD"; date != ""; {
		end := strings.IndexAny(date, "YMWD")
		if end < 1 {
			return fmt.Errorf("%q is no ISO 8601 duration: before the T it has whole years Y, months M, weeks W and days D", text)
		}
		n, err := number(date[:end])
		at := strings.IndexByte(units, date[end])
		if err != nil || at < 0 {
			return fmt.Errorf("%q is no ISO 8601 duration: before the T it has whole years Y, months M, weeks W and days D, in this order",
				text)
		}
		switch date[end] {
		case 'Y':
			v.months += 12 * n
		case 'M':
			v.months += n
		case 'W':
			v.days += 7 * n
		case 'D':
			v.days += n
		}
		date, units = date[end+1:], units[at+1:]
	}
	if timed {
		ms, err := abi.ParseDuration("PT" + clock)
		if err != nil {
			return err
		}
		v.restMs = ms
	}
	return nil
}
