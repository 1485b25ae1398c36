package cron_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/cron"
)

func parse(t testing.TB, text, zone string) *cron.Times {
	t.Helper()
	x, err := cron.Parse(text, zone)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func at(t testing.TB, text string) time.Time {
	t.Helper()
	x, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// list formats the next instants, at most n of them.
func list(x *cron.Times, after time.Time, n int) string {
	var out []string
	for range n {
		next, ok := x.Next(after)
		if !ok {
			out = append(out, "end")
			break
		}
		out = append(out, next.Format("2006-01-02T15:04:05.999Z07:00"))
		after = next
	}
	return strings.Join(out, " ")
}

func TestNext(t *testing.T) {
	for _, c := range []struct{ text, zone, after, want string }{
		{"0 9 * * MON-FRI", "Europe/Berlin", "2026-11-27T08:00:00Z", "2026-11-30T09:00:00+01:00 2026-12-01T09:00:00+01:00"},
		{"0 9 * * mon-fri", "", "2026-11-27T08:59:59.9Z", "2026-11-27T09:00:00Z 2026-11-30T09:00:00Z"},
		{"30 15 9 1,15 * *", "", "2026-01-01T00:00:00Z", "2026-01-01T09:15:30Z 2026-01-15T09:15:30Z"},
		{"5/20 1-2 * * *", "", "2026-01-01T00:00:00Z", "2026-01-01T01:05:00Z 2026-01-01T01:25:00Z"},
		{"5-30/20 1 * * *", "", "2026-01-01T00:00:00Z", "2026-01-01T01:05:00Z 2026-01-01T01:25:00Z"},
		{"58/7 22,23 * * *", "", "2026-01-01T22:58:00Z", "2026-01-01T23:58:00Z 2026-01-02T22:58:00Z"},
		// A Friday, or the 13th.
		{"0 0 13 * FRI", "", "2026-11-12T00:00:00Z", "2026-11-13T00:00:00Z 2026-11-20T00:00:00Z"},
		{"0 0 13 * FRI", "", "2026-12-12T00:00:00Z", "2026-12-13T00:00:00Z 2026-12-18T00:00:00Z"},
		// A field that begins with * is not restricted: odd days that are Fridays.
		{"0 0 */2 * FRI", "", "2026-11-12T00:00:00Z", "2026-11-13T00:00:00Z 2026-11-27T00:00:00Z"},
		{"0 0 13 * */5", "", "2026-11-13T00:00:00Z", "2026-12-13T00:00:00Z 2027-06-13T00:00:00Z"},
		{"0 0 ? * 7", "", "2026-11-12T00:00:00Z", "2026-11-15T00:00:00Z 2026-11-22T00:00:00Z"},
		{"0 0 * * SAT-SUN", "", "2026-11-12T00:00:00Z", "2026-11-14T00:00:00Z 2026-11-15T00:00:00Z"},
		{"0 0 29 2 *", "", "2097-01-01T00:00:00Z", "2104-02-29T00:00:00Z 2108-02-29T00:00:00Z"},
		{"0 0 29 feb */6", "", "2065-01-01T00:00:00Z", "2076-02-29T00:00:00Z 2088-02-29T00:00:00Z"},
		{"0 0 29 feb ?/3", "", "2080-03-01T00:00:00Z", "2088-02-29T00:00:00Z 2096-02-29T00:00:00Z"},
		{"@yearly", "", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z 2028-01-01T00:00:00Z"},
		{"@annually", "", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z 2028-01-01T00:00:00Z"},
		{"@monthly", "", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z 2026-03-01T00:00:00Z"},
		{"@Weekly", "", "2026-11-12T00:00:00Z", "2026-11-15T00:00:00Z 2026-11-22T00:00:00Z"},
		{"@daily", "Asia/Kathmandu", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00+05:45 2026-01-03T00:00:00+05:45"},
		{"@midnight", "", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z 2026-01-03T00:00:00Z"},
		{"@hourly", "", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z 2026-01-01T02:00:00Z"},
		{"@every 90s", "", "2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z 2026-01-01T00:03:00Z"},
		{"@every 1h  offset 10m", "", "2026-01-01T00:10:00Z", "2026-01-01T01:10:00Z 2026-01-01T02:10:00Z"},
		{"@every 1d", "", "1969-12-30T00:00:00Z", "1970-01-01T00:00:00Z 1970-01-02T00:00:00Z"},
		{"2026-12-24T18:00:00Z", "", "2026-01-01T00:00:00Z", "2026-12-24T18:00:00Z end"},
		{"2026-12-24T18:00", "Europe/Berlin", "2026-01-01T00:00:00Z", "2026-12-24T18:00:00+01:00 end"},
		{"2026-12-24", "Europe/Berlin", "2026-12-23T23:00:00Z", "end"},
		{"PT15M", "", "2026-01-01T00:00:01Z", "2026-01-01T00:15:00Z 2026-01-01T00:30:00Z"},
		{"P1D", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T00:00:00+01:00 2026-03-30T00:00:00+02:00"},
		{"P1M", "America/New_York", "2026-03-28T12:00:00Z", "2026-04-01T00:00:00-04:00 2026-05-01T00:00:00-04:00"},
		{"P1W", "", "2026-11-12T00:00:00Z", "2026-11-19T00:00:00Z 2026-11-26T00:00:00Z"}, // Thursdays, as the first of 1970
		{"R/2026-01-31T09:00/P1M", "Europe/Berlin", "2026-01-01T00:00:00Z",
			"2026-01-31T09:00:00+01:00 2026-02-28T09:00:00+01:00 2026-03-31T09:00:00+02:00 2026-04-30T09:00:00+02:00"},
		{"R2/2026-01-01T00:00:00Z/PT6H", "", "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z 2026-01-01T06:00:00Z end"},
		{"R3/2026-01-01T00:00:00Z/P1DT12H", "", "2026-01-01T00:00:00Z", "2026-01-02T12:00:00Z 2026-01-04T00:00:00Z end"},
		{"R/2024-02-29/P1Y", "", "2026-01-01T00:00:00Z", "2026-02-28T00:00:00Z 2027-02-28T00:00:00Z 2028-02-29T00:00:00Z"},
		{"R/1600-01-01T00:00:00Z/P1D", "", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z 2026-01-03T00:00:00Z"},
		{"2026-01-05T09:00:00.0005", "", "2026-01-05T09:00:00Z", "2026-01-05T09:00:00.001Z end"},
		{"R/2026-01-05T09:00:00.0005/P1D", "", "2026-01-05T09:00:00.001Z", "2026-01-06T09:00:00.001Z 2026-01-07T09:00:00.001Z"},
		// Longer than a time.Duration: from the start to now, or from one instant to a later one.
		{"R/1740-01-01T00:00:00Z/PT1H", "", "2033-01-01T00:00:00Z", "2033-01-01T01:00:00Z 2033-01-01T02:00:00Z"},
		{"R/1000-01-01T00:30:00Z/P1D", "", "2026-01-01T01:00:00Z", "2026-01-02T00:30:00Z 2026-01-03T00:30:00Z"},
		{"PT876000H", "", "2026-01-01T00:00:00Z", "2069-12-07T00:00:00Z 2169-11-13T00:00:00Z 2269-10-20T00:00:00Z"},
		{"R/2026-01-01T00:00:00Z/PT876000H", "", "2026-02-01T00:00:00Z", "2125-12-08T00:00:00Z 2225-11-14T00:00:00Z"},
		{"P100Y", "", "2026-01-01T00:00:00Z", "2070-01-01T00:00:00Z 2170-01-01T00:00:00Z"},
		{"P100Y", "", "9869-01-01T00:00:00Z", "9870-01-01T00:00:00Z 9970-01-01T00:00:00Z end"},
		{"R/9999-12-31T23:59:58Z/PT1S", "", "9999-12-31T00:00:00Z", "9999-12-31T23:59:58Z 9999-12-31T23:59:59Z end"},
		{"0 0 1 1 *", "", "9998-06-01T00:00:00Z", "9999-01-01T00:00:00Z end"},
	} {
		x := parse(t, c.text, c.zone)
		if got := list(x, at(t, c.after), strings.Count(c.want, " ")+1); got != c.want {
			t.Errorf("%s in %q after %s:\n got %s\nwant %s", c.text, c.zone, c.after, got, c.want)
		}
		if want := strings.Join(strings.Fields(c.text), " "); x.String() != want {
			t.Errorf("text %q, want %q", x, want)
		}
	}
}

// TestDST covers both clock changes in four zones: a local time that does not exist is due when the clock skips it,
// and one that exists twice is due once.
func TestDST(t *testing.T) {
	for _, c := range []struct{ text, zone, after, want string }{
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"},
		{"*/15 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z",
			"2026-03-29T03:00:00+02:00 2026-03-29T03:15:00+02:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T01:15:00Z", "2026-10-26T02:30:00+01:00"}, // 02:15 for the second time
		{"0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z",
			"2026-10-25T02:00:00+02:00 2026-10-25T03:00:00+01:00"},
		{"@every 1h", "Europe/Berlin", "2026-10-24T23:30:00Z",
			"2026-10-25T02:00:00+02:00 2026-10-25T02:00:00+01:00 2026-10-25T03:00:00+01:00"},
		{"15 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", "2026-03-08T03:00:00-04:00 2026-03-09T02:15:00-04:00"},
		{"15 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", "2026-11-01T01:15:00-04:00 2026-11-02T01:15:00-05:00"},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "2026-10-04T02:30:00+11:00 2026-10-05T02:15:00+11:00"},
		{"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", "2026-04-05T01:45:00+11:00 2026-04-06T01:45:00+10:30"},
		{"30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00:00Z", "2026-02-15T02:30:00+01:00"},
		{"30 2 * * *", "Africa/Casablanca", "2026-03-21T12:00:00Z", "2026-03-22T03:00:00+01:00 2026-03-23T02:30:00+01:00"},
		{"30 2 * * *", "Africa/Casablanca", "2027-02-06T12:00:00Z", "2027-02-07T02:30:00+01:00 2027-02-08T02:30:00Z"},
		{"0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", "2018-11-04T01:00:00-02:00 2018-11-05T00:00:00-02:00"},
		{"30 23 * * *", "America/Sao_Paulo", "2018-02-17T12:00:00Z", "2018-02-17T23:30:00-02:00 2018-02-18T23:30:00-03:00"},
		{"0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00 2011-12-31T12:00:00+14:00"}, // no 30th
		// A start that does not exist, a start at the second of two equal local times, and a later day with two equal local
		// times.
		{"R/2026-03-29T02:30/P1D", "Europe/Berlin", "2026-03-28T00:00:00Z",
			"2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00 2026-03-31T02:30:00+02:00"},
		{"R/2026-10-25T02:30:00+01:00/P1D", "Europe/Berlin", "2026-10-24T00:00:00Z",
			"2026-10-25T02:30:00+01:00 2026-10-26T02:30:00+01:00"},
		{"R/2026-10-24T02:30/P1D", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"},
	} {
		if got := list(parse(t, c.text, c.zone), at(t, c.after), strings.Count(c.want, " ")+1); got != c.want {
			t.Errorf("%s in %s after %s:\n got %s\nwant %s", c.text, c.zone, c.after, got, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ text, zone, want string }{
		{"", "", `it is empty`},
		{"* * * *", "", "it has 4 fields"},
		{"* * * * * * *", "", "it has 7 fields"},
		{"60 * * * *", "", `minute "60": there must be a number from 0 to 59, got "60"`},
		{"* 24 * * *", "", "hour"},
		{"* * 0 * *", "", "day of the month"},
		{"* * * 13 *", "", "a name from JAN to DEC"},
		{"* * * FOO *", "", `got "FOO"`},
		{"* * * * 8", "", "day of the week"},
		{"* * * * FRI-MON", "", "begins behind its end"},
		{"*/0 * * * *", "", `the step must be a number from 1 to 59, got "0"`},
		{"*/x * * * *", "", `got "x"`},
		{"*-5 * * * *", "", "is no range"},
		{"1,,2 * * * *", "", `got ""`},
		{"-1 * * * *", "", `got ""`},
		{"1- * * * *", "", `got ""`},
		{"* * L * *", "", `got "L"`},
		{"0 0 30 2 *", "", "it is never due"},
		{"0 0 31 4,6,9,11 *", "", "it is never due"},
		{"@reboot", "", "there are @yearly"},
		{"@every", "", "there are @yearly"},
		{"@every 500ms", "", "from 1s to 100 years, got 500ms"},
		{"@every 40000d", "", "from 1s to 100 years"},
		{"@every x", "", "invalid duration"},
		{"@every 1h offset", "", "should look like"},
		{"@every 1h offset x", "", "invalid duration"},
		{"@every 1h offset 1h", "", "less than the interval"},
		{"tomorrow", "", "neither an instant"},
		{"P", "", "no ISO 8601 duration"},
		{"PT", "", "no ISO 8601 duration"},
		{"P1DT", "", "no ISO 8601 duration"},
		{"P1D1M", "", "in this order"},
		{"PD", "", "whole years"},
		{"P1.5D", "", "in this order"},
		{"PT1X", "", "invalid duration"},
		{"P0D", "", "from 1s"},
		{"P101Y", "", "to 100 years"},
		{"P1000Y", "", "to 100 years, got P1000Y"},
		{"P574Y", "", "to 100 years, got P574Y"}, // whose nanoseconds would overflow to 9 years
		{"P41324M", "", "to 100 years, got P41324M"},
		{"P65535W", "", "to 100 years, got P65535W"},
		{"P65535Y65535M65535W65535D", "", "to 100 years"},
		{"P100Y1D", "", "to 100 years"},
		{"PT878401H", "", "to 100 years"},
		{"R/P1D", "", "a repeating interval should look like"},
		{"R/P1D/2026-01-01", "", "a repeating interval should look like"},
		{"R//P1D", "", "a repeating interval should look like"},
		{"R0/2026-01-01/P1D", "", "from 1 to 65535"},
		{"Rx/2026-01-01/P1D", "", "from 1 to 65535"},
		{"R/x/P1D", "", "neither an instant"},
		{"* * * * *", "Mars/Olympus", `time zone "Mars/Olympus" is unknown`},
		{"* * * * *", "Local", "depends on the machine"},
		{strings.Repeat("1,", 600) + "1 * * * *", "", "the limit is 1000"},
	} {
		_, err := cron.Parse(c.text, c.zone)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q in %q: %v, want %q", c.text, c.zone, err, c.want)
		}
	}
}

var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "America/Sao_Paulo",
	"Pacific/Apia", "Asia/Kathmandu", "Europe/Dublin", "Asia/Tehran", "Antarctica/Troll"}

// randomField returns the text of a random field. Fields such as */5 are as frequent as lists.
func randomField(r *rand.Rand, lo, hi int) string {
	one := func() string {
		a, b := lo+r.IntN(hi-lo+1), lo+r.IntN(hi-lo+1)
		switch step := 2 + r.IntN((hi-lo)/2); r.IntN(6) {
		case 0:
			return fmt.Sprintf("%d-%d", min(a, b), max(a, b))
		case 1:
			return fmt.Sprintf("%d-%d/%d", min(a, b), max(a, b), step)
		case 2:
			return fmt.Sprintf("%d/%d", a, step)
		default:
			return fmt.Sprint(a)
		}
	}
	switch r.IntN(8) {
	case 0, 1, 2:
		return "*"
	case 3:
		return fmt.Sprintf("*/%d", 2+r.IntN((hi-lo)/2))
	case 4:
		return one() + "," + one()
	default:
		return one()
	}
}

func randomExpression(r *rand.Rand) string {
	var f []string
	if r.IntN(4) == 0 {
		f = append(f, randomField(r, 0, 59))
	}
	for _, x := range [][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}} {
		f = append(f, randomField(r, x[0], x[1]))
	}
	return strings.Join(f, " ")
}

// wallClock returns the local time in a zone, as the instant with the same time in UTC.
func wallClock(t time.Time, loc *time.Location) time.Time {
	_, offset := t.In(loc).Zone()
	return t.Add(time.Duration(offset) * time.Second).UTC()
}

// TestOracle compares with a simpler definition: a local time is due at the first instant at which the local clock
// shows it or has passed it. It tests the days around the changes of each zone.
func TestOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	compared := 0
	for _, zone := range zones {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for change := at(t, "2009-06-01T00:00:00Z").In(loc); change.Year() < 2028; {
			_, end := change.ZoneBounds()
			if end.IsZero() {
				break
			}
			change = end
			from, to := change.Add(-30*time.Hour).Truncate(time.Minute), change.Add(30*time.Hour)
			for range 3 {
				text := fmt.Sprintf("%s %s * * *", randomField(r, 0, 59), randomField(r, 0, 23))
				x := parse(t, text, zone)
				// Walk minute by minute. utc says which local times match, since UTC has no clock changes.
				utc := parse(t, text, "UTC")
				passed := wallClock(from, loc) // clocks have shown this, or passed it
				var want []string
				for now := from.Add(time.Minute); now.Before(to); now = now.Add(time.Minute) {
					shown := wallClock(now, loc)
					if next, ok := utc.Next(passed); ok && !next.After(shown) {
						want = append(want, now.In(loc).Format(time.RFC3339))
					}
					if shown.After(passed) {
						passed = shown
					}
				}
				want = want[:min(len(want), 200)]
				if got := list(x, from, len(want)); got != strings.Join(want, " ") {
					t.Fatalf("%s in %s after %v:\n got %s\nwant %s", text, zone, from, got, strings.Join(want, " "))
				}
				compared += len(want)
			}
		}
	}
	t.Log("instants:", compared)
	if compared < 10_000 {
		t.Errorf("%d instants compared, want 10,000", compared)
	}
}
