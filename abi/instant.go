package abi

import (
	"strings"
	"time"
)

// ParseInstant reads an RFC 3339 instant, such as "2030-01-31T09:00:00Z" or "2030-01-31T10:00:00.5+01:00", and
// gives Unix milliseconds. A fraction of a millisecond is rounded up, so that who sleeps until the instant never
// wakes before it. Letters are capital, a leap second (:60) is refused. The error is an *Error of code
// InvalidDate: malformed, longer than MaxDurationBytes, or beyond year 9999 in UTC.
func ParseInstant(text string) (unixMs int64, err error) {
	if len(text) > MaxDurationBytes {
		return 0, Errorf(InvalidDate, "invalid instant %s: it has %d bytes, the limit is %d",
			quoted(text), len(text), MaxDurationBytes)
	}
	t, parseErr := time.Parse(time.RFC3339, text)
	// time.Parse also takes an hour of one digit and a decimal comma, which are not RFC 3339.
	if parseErr != nil || text[len("2006-01-02T15")] != ':' || strings.Contains(text, ",") {
		return 0, Errorf(InvalidDate, "invalid instant %s: it should look like 2030-01-31T09:00:00Z (RFC 3339)",
			quoted(text))
	}
	unixMs = t.UnixMilli() // the millisecond before, also of negative ones
	if hasSubMillisecond(text) {
		unixMs++
	}
	if unixMs > MaxUnixMs {
		return 0, Errorf(InvalidDate, "invalid instant %s: it is beyond the end of year 9999 (UTC)", quoted(text))
	}
	return unixMs, nil
}

// hasSubMillisecond tells whether a valid RFC 3339 instant has a fraction finer than milliseconds. The text is
// asked, since time.Time forgets what is finer than nanoseconds.
func hasSubMillisecond(text string) bool {
	_, fraction, _ := strings.Cut(text, ".")
	const msDigits = 3
	fraction = fraction[:countDigits(fraction)]
	return len(fraction) > msDigits && strings.Trim(fraction[msDigits:], "0") != ""
}

// CheckUnixMs says whether an instant is one that the host can keep: up to MaxUnixMs, the end of year 9999.
// Zero and negative instants lie in the past and are legal. The error is an *Error of code InvalidDate.
func CheckUnixMs(unixMs int64) error {
	if unixMs > MaxUnixMs {
		return Errorf(InvalidDate, "instant %d ms is beyond the end of year 9999, the limit is %d ms",
			unixMs, int64(MaxUnixMs))
	}
	return nil
}

// TimeOf returns the instant in UTC, moved into what RFC 3339 can write: MinUnixMs to MaxUnixMs. A deadline in the
// past may lie before that, since any negative number is one.
func TimeOf(unixMs int64) time.Time {
	return time.UnixMilli(min(max(unixMs, MinUnixMs), MaxUnixMs)).UTC()
}

// AddMs gives the instant that lies ms milliseconds after nowUnixMs. It never overflows: a negative duration,
// and one that is longer than MaxUnixMs or leads beyond it, are errors of code InvalidDuration.
func AddMs(nowUnixMs, ms int64) (unixMs int64, err error) {
	if ms < 0 {
		return 0, Errorf(InvalidDuration, "a duration must not be negative, got %d ms", ms)
	}
	if ms > MaxUnixMs-max(nowUnixMs, 0) {
		return 0, Errorf(InvalidDuration, "a duration of %d ms from %d leads beyond the end of year 9999 (%d)",
			ms, nowUnixMs, int64(MaxUnixMs))
	}
	return nowUnixMs + ms, nil
}

// ParseSleepText reads what sleep_text takes and gives the instant at which the sleep ends, in Unix
// milliseconds: duration text counts from nowUnixMs, and a fraction of a millisecond counts as one; else it is an RFC 3339
// instant. The error is an *Error: of code InvalidDate if the text looks like a date, which is to say that it holds a year of
// four digits beside a hyphen, else of code InvalidDuration.
func ParseSleepText(text string, nowUnixMs int64) (dueUnixMs int64, err error) {
	if looksLikeDate(text) {
		return ParseInstant(text)
	}
	ms, err := parseDuration(text, up)
	if err != nil {
		return 0, err
	}
	dueUnixMs, err = AddMs(nowUnixMs, ms)
	if err != nil {
		return 0, Errorf(InvalidDuration, "invalid duration %s: counted from now it leads beyond the end of year 9999",
			quoted(text))
	}
	return dueUnixMs, nil
}

// IsInstant reports whether ParseSleepText reads a text as an instant, rather than as a duration.
func IsInstant(text string) bool { return looksLikeDate(text) }

// looksLikeDate tells whether a hyphen stands after four digits, or before four digits and after one. A hyphen
// at the beginning is a sign: "-1000ms" is no date.
func looksLikeDate(text string) bool {
	const year = 4
	for i := 1; i < len(text); i++ {
		if text[i] == '-' && isDigit(text[i-1]) &&
			(i >= year && countDigits(text[i-year:i]) == year || countDigits(text[i+1:]) >= year) {
			return true
		}
	}
	return false
}
