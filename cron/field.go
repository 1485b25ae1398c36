package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// field describes one field of an expression.
type field struct {
	name   string
	lo, hi int
	names  []string // of the numbers from lo on
}

var (
	seconds = field{name: "second", hi: 59}
	minutes = field{name: "minute", hi: 59}
	hours   = field{name: "hour", hi: 23}
	days    = field{name: "day of the month", lo: 1, hi: 31}
	months  = field{name: "month", lo: 1, hi: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep",
		"oct", "nov", "dec"}}
	weekdays = field{name: "day of the week", hi: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}} // 7 is Sunday
)

// set is a set of numbers from 0 to 63.
type set uint64

func (s set) has(n int) bool { return s&(1<<n) != 0 }

// from returns the smallest number of the set that is at least n, false if there is none.
func (s set) from(n int) (int, bool) {
	rest := s >> n << n
	return bits.TrailingZeros64(uint64(rest)), n < 64 && rest != 0
}

// expression is a cron expression.
type expression struct {
	seconds, minutes, hours, days, months, weekdays set
	// either says that day-of-month and day-of-week are both restricted: a day matches if one of them does. Otherwise
	// both must match, as in Vixie's cron: a field that begins with * counts as unrestricted, whatever its step.
	either bool
	loc    *time.Location
}

// parseFields reads an expression of 5 fields, or of 6 with the seconds in front.
func parseFields(texts []string, loc *time.Location) (rule, error) {
	if len(texts) == 5 {
		texts = append([]string{"0"}, texts...)
	}
	if len(texts) != 6 {
		return nil, fmt.Errorf("it has %d fields; it should have 5 (minute, hour, day of the month, month, day of the week), "+
			"or 6 with the second in front", len(texts))
	}
	e := &expression{loc: loc}
	for i, to := range []struct {
		f   *field
		set *set
	}{{&seconds, &e.seconds}, {&minutes, &e.minutes}, {&hours, &e.hours}, {&days, &e.days}, {&months, &e.months},
		{&weekdays, &e.weekdays}} {
		s, err := to.f.parse(texts[i])
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", to.f.name, texts[i], err)
		}
		*to.set = s
	}
	if e.weekdays.has(7) {
		e.weekdays = e.weekdays&^(1<<7) | 1
	}
	e.either = !star(texts[3]) && !star(texts[5])
	if !e.possible() {
		return nil, fmt.Errorf("it is never due: there is no such day")
	}
	return e, nil
}

// star reports whether a field counts as unrestricted.
func star(text string) bool { return text[0] == '*' || text[0] == '?' }

// parse reads a field: a list of *, numbers or ranges, each with an optional step.
func (f *field) parse(text string) (s set, err error) {
	for item := range strings.SplitSeq(text, ",") {
		lo, hi, step, err := f.item(item)
		if err != nil {
			return 0, err
		}
		for n := lo; n <= hi; n += step {
			s |= 1 << n
		}
	}
	return s, nil
}

// item reads one item of a list: every step-th number from lo to hi.
func (f *field) item(text string) (lo, hi, step int, err error) {
	span, by, stepped := strings.Cut(text, "/")
	step = 1
	if stepped {
		step, err = number(by)
		if err != nil || step == 0 || step > f.hi {
			return 0, 0, 0, fmt.Errorf("the step must be a number from 1 to %d, got %q", f.hi, by)
		}
	}
	first, last, ranged := strings.Cut(span, "-")
	if first == "*" || first == "?" {
		if ranged {
			return 0, 0, 0, fmt.Errorf("%q is no range", span)
		}
		return f.lo, f.top(), step, nil
	}
	lo, err = f.number(first)
	if err != nil {
		return 0, 0, 0, err
	}
	switch {
	case ranged:
		hi, err = f.number(last)
		if err != nil {
			return 0, 0, 0, err
		}
		if hi == 0 && lo > 0 && f == &weekdays { // up to Sunday
			hi = 7
		}
	case stepped: // from a number on
		hi = max(lo, f.top())
	default:
		hi = lo
	}
	if lo > hi {
		return 0, 0, 0, fmt.Errorf("the range %q begins behind its end", span)
	}
	return lo, hi, step, nil
}

// top is the last number that * covers.
func (f *field) top() int {
	if f == &weekdays {
		return 6
	}
	return f.hi
}

// number reads a number of the field or a name.
func (f *field) number(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(name, text) {
			return f.lo + i, nil
		}
	}
	n, err := number(text)
	if err != nil || n < f.lo || n > f.hi {
		or := ""
		if f.names != nil {
			or = fmt.Sprintf(" or a name from %s to %s", strings.ToUpper(f.names[0]), strings.ToUpper(f.names[len(f.names)-1]))
		}
		return 0, fmt.Errorf("there must be a number from %d to %d%s, got %q", f.lo, f.hi, or, text)
	}
	return n, nil
}

// number reads digits.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err
}

// possible reports whether any day matches. In some year, each day of a month falls on each day of the week, so only
// the month and the day of the month matter.
func (e *expression) possible() bool {
	if e.either {
		return true // every month has each day of the week
	}
	for m := 1; m <= 12; m++ {
		longest := time.Date(2024, time.Month(m)+1, 0, 0, 0, 0, 0, time.UTC).Day() // of a leap year
		if first, ok := e.days.from(1); e.months.has(m) && ok && first <= longest {
			return true
		}
	}
	return false
}

// searchYears is the number of years to search: February 29 falls on a given day of the week within 40 years.
const searchYears = 45

// next returns the first instant after the given one that matches.
func (e *expression) next(after time.Time) (time.Time, bool) {
	// Earlier local times resolve to after or earlier, because resolve is monotonic.
	wall := local(after, e.loc).Truncate(time.Second)
	for {
		found, ok := e.nextLocal(wall)
		if !ok {
			return time.Time{}, false
		}
		if at := resolve(found, e.loc); at.After(after) {
			return at, true
		}
		wall = found.Add(time.Second)
	}
}

// nextLocal returns the first local time at or after from that matches.
func (e *expression) nextLocal(from time.Time) (time.Time, bool) {
	h, m, s := from.Clock()
	if day := from.Truncate(24 * time.Hour); e.matches(day) {
		if at, ok := e.clock(h, m, s); ok {
			return day.Add(at), true
		}
	}
	first, _ := e.clock(0, 0, 0)
	day := time.Date(from.Year(), from.Month(), from.Day()+1, 0, 0, 0, 0, time.UTC)
	for last := from.Year() + searchYears; day.Year() <= last; {
		switch {
		case !e.months.has(int(day.Month())):
			day = time.Date(day.Year(), day.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		case e.matches(day):
			return day.Add(first), true
		default:
			day = day.AddDate(0, 0, 1)
		}
	}
	return time.Time{}, false
}

// matches reports whether a day is meant.
func (e *expression) matches(day time.Time) bool {
	if !e.months.has(int(day.Month())) {
		return false
	}
	d, w := e.days.has(day.Day()), e.weekdays.has(int(day.Weekday()))
	if e.either {
		return d || w
	}
	return d && w
}

// clock returns the first matching time of day at or after h:m:s, as the time since midnight.
func (e *expression) clock(h, m, s int) (time.Duration, bool) {
	hour, ok := e.hours.from(h)
	if !ok {
		return 0, false
	}
	if hour > h {
		m, s = 0, 0
	}
	minute, ok := e.minutes.from(m)
	if ok && minute > m {
		s = 0
	}
	var second int
	if ok {
		second, ok = e.seconds.from(s)
		if !ok {
			minute, ok = e.minutes.from(minute + 1)
			if ok {
				second, _ = e.seconds.from(0)
			}
		}
	}
	if !ok {
		return e.clock(hour+1, 0, 0)
	}
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second, true
}
