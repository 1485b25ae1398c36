package abi

import (
	"strconv"
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

// beyondMs stands for every number with a unit that is too long. MaxDurationBytes have room for some thirty of
// them, whose sum does not overflow.
const beyondMs = MaxUnixMs + 1

// ParseDuration reads duration text and gives whole milliseconds, 0 to MaxUnixMs. Two forms are understood:
//
//   - One or more pairs of a number and a unit without spaces, such as "1h30m", with the units ms, s, m, h, d
//     (24 hours) and w (7 days). Only the last number may have decimals ("1.5h"), with digits on both sides of
//     the point. As in Go, units may come in any order and more than once; the pairs are added up.
//   - An ISO 8601 duration of parts with a fixed length ("P1W", "P1DT12H", "PT5M"), in falling order, each at
//     most once, of which the last may have decimals after a point. M before the T would be a month.
//
// A fraction of a millisecond is rounded to the nearest one, half of one up. "0s" is valid. Refused are empty
// text, a number without a unit, spaces, signs, months and years, anything left over, text of more than
// MaxDurationBytes, and durations of more than MaxUnixMs. The error is an *Error of code InvalidDuration that
// quotes the text and says how it should look.
func ParseDuration(text string) (ms int64, err error) { return parseDuration(text, nearest) }

// rounding says what becomes of a fraction of a millisecond.
type rounding bool

const (
	nearest rounding = false // half of one up
	up      rounding = true  // of a sleep, which is never too short
)

func parseDuration(text string, round rounding) (ms int64, err error) {
	if len(text) > MaxDurationBytes {
		return 0, Errorf(InvalidDuration, "invalid duration %s: it has %d bytes, the limit is %d",
			quoted(text), len(text), MaxDurationBytes)
	}
	var ok bool
	if iso, found := strings.CutPrefix(text, "P"); found {
		ms, ok = parseISO(iso, round)
	} else {
		ms, ok = parsePairs(text, pairUnit, round)
	}
	if !ok {
		return 0, Errorf(InvalidDuration,
			"invalid duration %s: it should look like 1h30m, 1.5h, 7d or PT5M (units ms s m h d w, no spaces)",
			quoted(text))
	}
	if ms > MaxUnixMs {
		return 0, Errorf(InvalidDuration, "invalid duration %s: it leads beyond year 9999, the limit is %s",
			quoted(text), FormatDuration(MaxUnixMs))
	}
	return ms, nil
}

// ParseTimeout is ParseDuration for a time-out, of which 0 means none: a duration that rounds to nothing, and is not nothing, is
// 1 ms.
func ParseTimeout(text string) (ms int64, err error) {
	ms, err = ParseDuration(text)
	if err == nil && ms == 0 && strings.ContainsAny(text, "123456789") {
		ms = 1
	}
	return ms, err
}

// A unitFunc takes a unit from the front of the text: its length in milliseconds, and how many bytes its name
// has, 0 if there is none.
type unitFunc func(text string) (ms int64, n int)

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

// parsePairs adds up pairs of a number and a unit, of which there must be one. The sum may be over MaxUnixMs.
func parsePairs(text string, unit unitFunc, round rounding) (ms int64, ok bool) {
	if text == "" {
		return 0, false
	}
	for text != "" {
		whole, fraction, rest, found := cutNumber(text)
		if !found {
			return 0, false
		}
		length, n := unit(rest)
		if n == 0 {
			return 0, false
		}
		text = rest[n:]
		if fraction != "" && text != "" { // decimals belong to the last pair
			return 0, false
		}
		ms += scale(whole, fraction, length, round)
	}
	return ms, true
}

// cutNumber takes digits, or digits with a decimal point between them, from the front of the text.
func cutNumber(text string) (whole, fraction, rest string, ok bool) {
	n := countDigits(text)
	whole, rest = text[:n], text[n:]
	if n == 0 {
		return "", "", text, false
	}
	if strings.HasPrefix(rest, ".") {
		m := countDigits(rest[1:])
		return whole, rest[1 : 1+m], rest[1+m:], m > 0
	}
	return whole, "", rest, true
}

func countDigits(text string) int {
	n := 0
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	return n
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// scale gives whole.fraction × length, rounded; beyondMs if that is too long.
func scale(whole, fraction string, length int64, round rounding) int64 {
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > MaxUnixMs/length { // err: too many digits
		return beyondMs
	}
	// From the last digit to the first, floor(fraction × 2 × length). Each division drops its remainder, which
	// loses nothing: the floor of a floor divided by a whole number is the floor of the quotient.
	twice, exact := int64(0), true
	for i := len(fraction) - 1; i >= 0; i-- {
		more := twice + int64(fraction[i]-'0')*2*length
		twice, exact = more/10, exact && more%10 == 0
	}
	if round == up && !exact && twice%2 == 0 {
		twice++
	}
	return n*length + (twice+1)/2
}

// parseISO reads what follows the P of an ISO 8601 duration (ISO 8601-1:2019, 5.5.2), weeks mixed with the rest
// as the extensions of part 2 allow; each unit at most once, in falling order.
func parseISO(text string, round rounding) (ms int64, ok bool) {
	date, clock, hasClock := strings.Cut(text, "T")
	if date == "" && !hasClock {
		return 0, false
	}
	if hasClock && strings.Contains(date, ".") { // decimals belong to the last part
		return 0, false
	}
	if date != "" {
		ms, ok = parsePairs(date, falling("WD", msPerWeek, msPerDay), round)
		if !ok {
			return 0, false
		}
	}
	if hasClock {
		part, ok := parsePairs(clock, falling("HMS", msPerHour, msPerMinute, msPerSecond), round)
		if !ok {
			return 0, false
		}
		ms += part
	}
	return ms, true
}

// falling gives a unitFunc for units of one letter, each of which may follow only longer ones.
func falling(letters string, lengths ...int64) unitFunc {
	next := 0
	return func(text string) (int64, int) {
		if text == "" {
			return 0, 0
		}
		i := strings.IndexByte(letters, text[0])
		if i < next {
			return 0, 0
		}
		next = i + 1
		return lengths[i], 1
	}
}

// Milliseconds returns a duration in milliseconds, rounded up, so that a wait is never too short. A fraction of a
// millisecond at the end of the range of time.Duration is dropped.
func Milliseconds(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms = min(ms+1, MaxStepTimeoutMs)
	}
	return ms
}

// Duration returns milliseconds as a time.Duration, the longest or shortest one where that cannot hold them.
func Duration(ms int64) time.Duration {
	return time.Duration(min(max(ms, -MaxStepTimeoutMs), MaxStepTimeoutMs)) * time.Millisecond
}

// FormatDuration writes milliseconds as canonical duration text, in the units d h m s ms without zero parts:
// "1h30m", "7d", "0s". ParseDuration reads it back to the same number, for 0 to MaxUnixMs. A negative number,
// for which there is no text, counts as 0.
func FormatDuration(ms int64) string {
	if ms <= 0 {
		return "0s"
	}
	var b []byte
	for _, u := range [...]struct {
		ms   int64
		name string
	}{{msPerDay, "d"}, {msPerHour, "h"}, {msPerMinute, "m"}, {msPerSecond, "s"}, {1, "ms"}} {
		if n := ms / u.ms; n > 0 {
			b = append(strconv.AppendInt(b, n, 10), u.name...)
			ms %= u.ms
		}
	}
	return string(b)
}
