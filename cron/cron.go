// Package cron computes the instants of a schedule: by a cron expression, at intervals, or a single one.
//
//	t, err := cron.Parse("30 9 * * MON-FRI", "Europe/Berlin")
//	next, ok := t.Next(time.Now())
//
// The package is pure: it reads no clock, and a Times never changes. Time zones come from package time. Guests and hosts use
// the same code, so that a workflow that computes an instant computes the same one on each replay.
//
// # Daylight saving time
//
// A cron expression matches local times. When the clock is set forward, some local times do not exist: they are due together,
// once, at the instant of the change. When the clock is set back, some local times exist twice: they are due the first time
// only. So "30 2 * * *" is due once on each day of the year, and "0 * * * *" once for each hour of the local clock: 24 times
// on a day of 25 hours. Intervals such as "@every 1h" do not depend on local time.
package cron

import (
	"fmt"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
)

const (
	// MaxBytes bounds the text of an expression: all seconds, minutes, hours, days and months written out need fewer.
	MaxBytes = 1000
	// MinInterval is the shortest interval. Anything more frequent belongs in one run that sleeps.
	MinInterval = time.Second
	// maxYear is the last year with instants: RFC 3339 cannot write a later one.
	maxYear = 9999
)

// A Times has the instants of a schedule. It is safe for concurrent use.
type Times struct {
	text string
	zone *time.Location
	rule rule
}

// rule is one of the forms.
type rule interface {
	// next returns the first instant after the given one, false if there is none.
	next(after time.Time) (time.Time, bool)
}

// Parse parses the text of a schedule, which is one of
//
//	minute hour day-of-month month day-of-week          "30 9 * * MON-FRI"
//	second minute hour day-of-month month day-of-week   "15 30 9 1,15 * *"
//	@yearly @annually @monthly @weekly @daily @midnight @hourly
//	@every D [offset D]                                 "@every 90s", "@every 1h offset 10m"
//	an instant of RFC 3339, or a local time             "2026-12-24T18:00:00Z", "2026-12-24T18:00"
//	an ISO 8601 duration                                "PT15M", "P1M"
//	an ISO 8601 repeating interval                      "R/2026-01-31T09:00/P1M", "R5/2026-01-01T00:00:00Z/PT6H"
//
// zone is the name of a time zone, such as "Europe/Berlin"; empty means UTC. "Local" is refused, since it depends on the machine.
//
// The error says which part is wrong, what is allowed, and what was found. An expression that never matches, such as
// "0 0 30 2 *", is an error.
func Parse(text, zone string) (*Times, error) {
	loc, err := location(zone)
	if err != nil {
		return nil, err
	}
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("the expression has %d bytes, the limit is %d", len(text), MaxBytes)
	}
	t := &Times{text: strings.Join(strings.Fields(text), " "), zone: loc}
	t.rule, err = parse(t.text, loc)
	if err != nil {
		return nil, fmt.Errorf("expression %q: %w", text, err)
	}
	return t, nil
}

// location returns a zone by its name.
func location(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, fmt.Errorf("time zone %q depends on the machine: give a name such as Europe/Berlin", name)
	}
	loc, err := time.LoadLocation(name) // "" is UTC
	if err != nil {
		return nil, fmt.Errorf("time zone %q is unknown: give a name of the IANA database, such as Europe/Berlin", name)
	}
	return loc, nil
}

func parse(text string, loc *time.Location) (rule, error) {
	switch {
	case text == "":
		return nil, fmt.Errorf("it is empty; it should look like %q, %q or %q", "0 9 * * MON-FRI", "@every 90s",
			"2026-12-24T18:00:00Z")
	case strings.HasPrefix(text, "@every "):
		return parseEvery(strings.Fields(text)[1:])
	case text[0] == '@':
		fields, ok := names[strings.ToLower(text)]
		if !ok {
			return nil, fmt.Errorf("there are @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly and @every")
		}
		return parseFields(strings.Fields(fields), loc)
	case text[0] == 'P' || text[0] == 'R':
		return parseISO(text, loc)
	case !strings.Contains(text, " "):
		at, _, err := parseLocal(text, loc)
		return single{at}, err
	}
	return parseFields(strings.Fields(text), loc)
}

// names are expressions that have a name.
var names = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// Next returns the first instant of the schedule after t, in its time zone. It reports false if there is none.
func (t *Times) Next(after time.Time) (time.Time, bool) {
	next, ok := t.rule.next(after)
	if !ok || next.Year() > maxYear {
		return time.Time{}, false
	}
	return next.In(t.zone), true
}

// String returns the text that was parsed, with single spaces.
func (t *Times) String() string { return t.text }

// single is one instant.
type single struct{ at time.Time }

func (s single) next(after time.Time) (time.Time, bool) { return s.at, s.at.After(after) }

// parseLocal reads an instant, or a local time, which it resolves. wall is the local time in the zone, as written if
// the text is a local time. A fraction of a millisecond is rounded up, as abi.ParseInstant does: hosts keep
// milliseconds.
func parseLocal(text string, loc *time.Location) (at, wall time.Time, err error) {
	if ms, err := abi.ParseInstant(text); err == nil {
		at = time.UnixMilli(ms)
		return at, local(at, loc), nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			wall = t.Add(time.Millisecond - 1).Truncate(time.Millisecond)
			return resolve(wall, loc), wall, nil
		}
	}
	return at, wall, fmt.Errorf("%q is neither an instant such as 2026-12-24T18:00:00Z nor a local time such as "+
		"2026-12-24T18:00; a cron expression has 5 or 6 fields", text)
}
