package cron

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
)

// interval is a start and what is added to it again and again. The n-th instant is the start, by local time, plus n times the
// months and days, plus n times the rest: nothing adds up, so that the last day of each month stays the last one.
type interval struct {
	start  time.Time // a local time if there are months or days, otherwise an instant
	months int
	days   int
	rest   time.Duration
	times  int // how many instants there are
	loc    *time.Location
}

// forever is the number of instants of an interval without an end.
const forever = math.MaxInt

// at returns the n-th instant.
func (v *interval) at(n int) time.Time {
	rest := time.Duration(n) * v.rest
	if v.months == 0 && v.days == 0 {
		return v.start.Add(rest)
	}
	first := time.Date(v.start.Year(), v.start.Month()+time.Month(n*v.months), 1, 0, 0, 0, 0, time.UTC)
	last := first.AddDate(0, 1, -1).Day()
	h, m, s := v.start.Clock()
	day := min(v.start.Day(), last) + n*v.days
	return resolve(time.Date(first.Year(), first.Month(), day, h, m, s, v.start.Nanosecond(), time.UTC), v.loc).Add(rest)
}

// shortest returns less than the time between two instants.
func (v *interval) shortest() time.Duration {
	const day = 24 * time.Hour
	calendar := time.Duration(v.months)*27*day + time.Duration(v.days)*day
	if calendar == 0 {
		return v.rest
	}
	return calendar/2 + v.rest // a zone may have left out a day
}

// next returns the first instant after another one.
func (v *interval) next(after time.Time) (time.Time, bool) {
	lo, hi := 0, 1
	if d := after.Sub(v.start); d > 0 { // at most 292 years
		hi = int(d/v.shortest()) + 3
	}
	if !v.at(min(hi, v.most())).After(after) { // more than 292 years after the start
		hi = v.most()
	}
	hi = min(hi, v.times)
	for lo < hi { // the first n whose instant is after
		if n := lo + (hi-lo)/2; v.at(n).After(after) {
			hi = n
		} else {
			lo = n + 1
		}
	}
	if lo >= v.times || lo >= v.most() {
		return time.Time{}, false
	}
	return v.at(lo), true
}

// most is a number of repetitions within the range of a time.Duration, and of years.
func (v *interval) most() int {
	return int(math.MaxInt64/int64(v.shortest())) - 1
}

// parseEvery reads what follows @every: a duration, and the offset from the beginning of 1970.
func parseEvery(texts []string) (rule, error) {
	if len(texts) != 1 && (len(texts) != 3 || texts[1] != "offset") {
		return nil, fmt.Errorf("it should look like %q or %q", "@every 90s", "@every 1h offset 10m")
	}
	ms, err := abi.ParseDuration(texts[0])
	if err != nil {
		return nil, err
	}
	v := &interval{start: time.Unix(0, 0), rest: abi.Duration(ms), times: forever}
	if err := v.check(); err != nil {
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

// maxInterval bounds intervals, so that they can be counted.
const maxInterval = 100 * 365 * 24 * time.Hour

func (v *interval) check() error {
	whole := time.Duration(v.months)*31*24*time.Hour + time.Duration(v.days)*24*time.Hour + v.rest
	if whole < MinInterval || whole > maxInterval {
		return fmt.Errorf("the interval must be from 1s to 100 years, got %v", whole)
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
			v.times = n
		}
		start, period = parts[1], parts[2]
	}
	if err := v.parsePeriod(period); err != nil {
		return nil, err
	}
	if err := v.check(); err != nil {
		return nil, err
	}
	calendar := v.months != 0 || v.days != 0
	v.start = time.Unix(0, 0).UTC() // also as a local time
	if start == "" {
		return v, nil
	}
	at, err := parseLocal(start, loc)
	if err != nil {
		return nil, err
	}
	if v.start = at; calendar {
		v.start = local(at, loc)
	}
	return v, nil
}

// parsePeriod reads a duration. Years, months, weeks and days are those of a calendar, and whole numbers.
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
		v.rest = abi.Duration(ms)
	}
	return nil
}
