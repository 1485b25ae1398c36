package abi

import (
	"math/big"
	"strings"
	"time"
)

// Lengths of the units of duration text, in milliseconds. Days and weeks are fixed lengths here: 24 hours and
// 7 days. Months and years have no fixed length and are refused.
const (
	msPerSecond = 1000
	msPerMinute = 60 * msPerSecond
	msPerHour   = 60 * msPerMinute
	msPerDay    = 24 * msPerHour
	msPerWeek   = 7 * msPerDay
)

// maxDurationText bounds the text of a duration; the longest sensible one has a third of it.
const maxDurationText = 64

// ParseDuration reads duration text and gives whole milliseconds. The text is one or more pairs of a number and
// a unit (ms s m h d w) without spaces, such as "1h30m", where the last number may have decimals ("1.5h"); or an
// ISO 8601 duration of parts with a fixed length ("P1W", "P1DT12H", "PT5M"), the last of which may have decimals.
// The order of units is free, as in Go. Fractions of a millisecond are rounded up, so that a sleep is never short.
// "0s" is valid. The error is an *Error of code InvalidDuration that quotes the text.
func ParseDuration(text string) (ms int64, err error) {
	if len(text) > maxDurationText {
		return 0, Errorf(InvalidDuration, "duration text has %d bytes, the limit is %d: %q…",
			len(text), maxDurationText, text[:maxDurationText])
	}
	var ok bool
	if strings.HasPrefix(text, "P") {
		ms, ok = parseISO(text[1:])
	} else {
		ms, ok = parsePairs(text, pairUnit)
	}
	if !ok {
		return 0, Errorf(InvalidDuration,
			"invalid duration %q: it should look like 1h30m, 1.5h, 7d or PT5M (units ms s m h d w)", text)
	}
	if ms > MaxUnixMs {
		return 0, Errorf(InvalidDuration, "duration %q is longer than the time until the end of year 9999", text)
	}
	return ms, nil
}

// pairUnit takes a unit from the front of the text: its length in milliseconds, and how many bytes it has.
func pairUnit(text string) (ms int64, n int) {
	if strings.HasPrefix(text, "ms") {
		return 1, 2
	}
	if text == "" {
		return 0, 0
	}
	switch text[0] {
	case 's':
		return msPerSecond, 1
	case 'm':
		return msPerMinute, 1
	case 'h':
		return msPerHour, 1
	case 'd':
		return msPerDay, 1
	case 'w':
		return msPerWeek, 1
	}
	return 0, 0
}

func parsePairs(text string, unit func(string) (int64, int)) (ms int64, ok bool) {
	if text == "" {
		return 0, false
	}
	for text != "" {
		number, rest, whole := cutNumber(text)
		length, n := unit(rest)
		if number == "" || n == 0 {
			return 0, false
		}
		text = rest[n:]
		if !whole && text != "" { // decimals belong to the last pair
			return 0, false
		}
		part, fits := scale(number, length)
		if !fits {
			return MaxUnixMs + 1, true
		}
		if ms += part; ms > MaxUnixMs {
			ms = MaxUnixMs + 1
		}
	}
	return ms, true
}

// cutNumber takes digits with at most one decimal point between digits from the front of the text.
func cutNumber(text string) (number, rest string, whole bool) {
	digits := func(s string) int {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		return n
	}
	n := digits(text)
	if n == 0 {
		return "", text, true
	}
	if n < len(text) && text[n] == '.' {
		m := digits(text[n+1:])
		if m == 0 {
			return "", text, false
		}
		n += 1 + m
		return text[:n], text[n:], false
	}
	return text[:n], text[n:], true
}

// scale gives number × length, rounded up; false if it does not fit.
func scale(number string, length int64) (int64, bool) {
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, false
	}
	r.Mul(r, new(big.Rat).SetInt64(length))
	q, m := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	if !q.IsInt64() || q.Int64() > MaxUnixMs {
		return 0, false
	}
	return q.Int64(), true
}

// parseISO reads what follows the P of an ISO 8601 duration (ISO 8601-1:2019, 5.5.2), weeks mixed with the rest
// as the second edition's extension allows; each unit at most once, in falling order.
func parseISO(text string) (ms int64, ok bool) {
	date, clock, hasClock := strings.Cut(text, "T")
	if date == "" && clock == "" || hasClock && clock == "" {
		return 0, false
	}
	last := int64(0)
	units := func(table string, lengths ...int64) func(string) (int64, int) {
		return func(s string) (int64, int) {
			if s == "" {
				return 0, 0
			}
			i := strings.IndexByte(table, s[0])
			if i < 0 || last != 0 && lengths[i] >= last {
				return 0, 0
			}
			last = lengths[i]
			return lengths[i], 1
		}
	}
	if date != "" {
		if hasClock && strings.Contains(date, ".") { // decimals belong to the last part
			return 0, false
		}
		if ms, ok = parsePairs(date, units("WD", msPerWeek, msPerDay)); !ok {
			return 0, false
		}
	}
	if clock != "" {
		part, ok := parsePairs(clock, units("HMS", msPerHour, msPerMinute, msPerSecond))
		if !ok {
			return 0, false
		}
		ms += part
	}
	return ms, true
}

// FormatDuration writes milliseconds (0 or more) as duration text that ParseDuration reads back to the same
// number, in the units d h m s ms: "1h30m", "7d", "0s".
func FormatDuration(ms int64) string {
	if ms == 0 {
		return "0s"
	}
	var b strings.Builder
	for _, u := range []struct {
		ms   int64
		name string
	}{{msPerDay, "d"}, {msPerHour, "h"}, {msPerMinute, "m"}, {msPerSecond, "s"}, {1, "ms"}} {
		if n := ms / u.ms; n > 0 {
			b.WriteString(big.NewInt(n).String() + u.name)
			ms %= u.ms
		}
	}
	return b.String()
}

// ParseInstant reads an RFC 3339 instant and gives Unix milliseconds. Fractions of a millisecond are rounded
// up, so that a wake is never early. The error is an *Error of code InvalidDate.
func ParseInstant(text string) (unixMs int64, err error) {
	t, perr := time.Parse(time.RFC3339Nano, text)
	if perr != nil {
		if len(text) > maxDurationText {
			text = text[:maxDurationText] + "…"
		}
		return 0, Errorf(InvalidDate, "invalid instant %q: it should look like 2030-01-31T09:00:00Z (RFC 3339)", text)
	}
	unixMs = t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		unixMs++
	}
	return unixMs, CheckUnixMs(unixMs)
}

// CheckUnixMs says whether an instant is one that the host can keep: up to the end of year 9999. Zero and
// negative instants are in the past and legal.
func CheckUnixMs(unixMs int64) error {
	if unixMs > MaxUnixMs {
		return Errorf(InvalidDate, "instant %d ms is beyond the end of year 9999 (%d)", unixMs, int64(MaxUnixMs))
	}
	return nil
}

// AddMs gives the instant that lies a duration after another one. A negative duration, and one that leads
// beyond year 9999, are errors of code InvalidDuration.
func AddMs(nowUnixMs, ms int64) (int64, error) {
	if ms < 0 {
		return 0, Errorf(InvalidDuration, "duration must not be negative, got %d ms", ms)
	}
	if nowUnixMs > MaxUnixMs || ms > MaxUnixMs-max(nowUnixMs, 0) {
		return 0, Errorf(InvalidDuration, "a sleep of %d ms would end beyond year 9999", ms)
	}
	return nowUnixMs + ms, nil
}

// ParseSleepText reads what sleep_text takes: duration text, counted from now, or an RFC 3339 instant.
func ParseSleepText(text string, nowUnixMs int64) (dueUnixMs int64, err error) {
	if len(text) >= 5 && text[4] == '-' && strings.Trim(text[:4], "0123456789") == "" {
		return ParseInstant(text)
	}
	ms, err := ParseDuration(text)
	if err != nil {
		return 0, err
	}
	return AddMs(nowUnixMs, ms)
}
