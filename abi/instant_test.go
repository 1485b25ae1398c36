package abi

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func codeOf(err error) Code {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.Code
	}
	return OK
}

func TestParseInstant(t *testing.T) {
	for text, want := range map[string]int64{
		"1970-01-01T00:00:00Z": 0, "1970-01-01T00:00:00.001Z": 1, "1969-12-31T23:59:59Z": -1000,
		"2030-01-31T09:00:00Z": 1896080400000, "2030-01-31T10:00:00+01:00": 1896080400000,
		"2030-01-31T09:00:00.5Z": 1896080400500, "2030-01-31T00:00:00-09:00": 1896080400000,
		"2030-01-31T09:00:00.123456789Z":            1896080400124, // never early
		"2030-01-31T09:00:00.1230000Z":              1896080400123,
		"2030-01-31T09:00:00.12300000000000000001Z": 1896080400124, // finer than time.Time keeps
		"2030-01-31T09:00:00.0001+01:00":            1896076800001,
		"1969-12-31T23:59:59.9995Z":                 0,
		"0000-01-01T00:00:00Z":                      -62167219200000,
		"9999-12-31T23:59:59.999Z":                  MaxUnixMs, "9999-12-31T23:59:59.9990Z": MaxUnixMs,
	} {
		if got, err := ParseInstant(text); err != nil || got != want {
			t.Errorf("ParseInstant(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "2030", "2030-01-31", "2030-01-31T09:00:00", "2030-01-31 09:00:00Z",
		"2030-02-30T09:00:00Z",
		"2030-01-31T9:00:00Z", "2030-01-31T09:00:00,5Z", "2030-01-31T09:00:60Z", "2030-01-31T24:00:00Z",
		"2030-01-31t09:00:00z",
		"2030-01-31T09:00Z", "2030-01-31T09:00:00Zx", "+2030-01-31T09:00:00Z", "2030-01-31T09:00:00+2500",
		"2030-01-31T09:00:00+25:00", "2030-1-31T09:00:00Z", "12030-01-31T09:00:00Z", "1h", "2030-01-31T09:00:00.Z",
		"9999-12-31T23:59:59.9991Z", "9999-12-31T23:59:59-00:01", "2030-01-31T09:00:00." + strings.Repeat("0", 60) + "Z"} {
		got, err := ParseInstant(text)
		if codeOf(err) != InvalidDate || got != 0 || !strings.Contains(err.Error(), quoted(text)) {
			t.Errorf("ParseInstant(%q) = %d, %v; want INVALID_DATE that quotes the text", text, got, err)
		}
	}
}

func TestParseInstantIsNeverEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(-62167219200, 253402300798).Draw(t, "s"), rapid.Int64Range(0,
			999999999).Draw(t, "ns"))
		got, err := ParseInstant(at.UTC().Format(time.RFC3339Nano))
		if err != nil {
			t.Fatal(err)
		}
		if late := time.UnixMilli(got).Sub(at); late < 0 || late >= time.Millisecond {
			t.Fatalf("%v is %d, which is %v late", at, got, late)
		}
	})
}

func TestParseSleepText(t *testing.T) {
	const now = 1_000_000
	for text, want := range map[string]int64{
		"0.4ms": now + 1, "1.0004s": now + 1001, "1.5ms": now + 2, "PT0.0001S": now + 1, "0.0000ms": now, "1.001s": now + 1001,
		"1h": now + 3_600_000, "0s": now, "P1D": now + 86_400_000, "1970-01-01T00:00:00Z": 0,
		"1960-01-01T00:00:00Z": -315619200000,
		"2030-01-31T09:00:00Z": 1896080400000,
	} {
		if got, err := ParseSleepText(text, now); err != nil || got != want {
			t.Errorf("ParseSleepText(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]Code{
		"": InvalidDuration, "5": InvalidDuration, "2030": InvalidDuration, "tomorrow": InvalidDuration,
		"-1s":     InvalidDuration,
		"-1000ms": InvalidDuration, "1h-1000s": InvalidDuration, "5y": InvalidDuration, "P1M": InvalidDuration,
		"-":                 InvalidDuration,
		"253402300799999ms": InvalidDuration, // valid, but not counted from now
		"2030-01-31":        InvalidDate, "2030-13-01T00:00:00Z": InvalidDate, "2030-01-31T09:00": InvalidDate,
		" 2030-01-31": InvalidDate,
		"31-01-2030":  InvalidDate, "12030-01-31T09:00:00Z": InvalidDate, "-2030-01-31T09:00:00Z": InvalidDate,
		"2030-":                     InvalidDate,
		"9999-12-31T23:59:59-01:00": InvalidDate,
	} {
		got, err := ParseSleepText(text, now)
		if codeOf(err) != want || got != 0 {
			t.Errorf("ParseSleepText(%q) = %d, %v; want %v", text, got, err, want)
		} else if !strings.Contains(err.Error(), quoted(text)) {
			t.Errorf("ParseSleepText(%q): the message does not quote the text: %v", text, err)
		}
	}
}

func TestCheckUnixMs(t *testing.T) {
	for _, ms := range []int64{math.MinInt64, -1, 0, 1, MaxUnixMs} {
		if err := CheckUnixMs(ms); err != nil {
			t.Errorf("%d: %v", ms, err)
		}
	}
	for _, ms := range []int64{MaxUnixMs + 1, math.MaxInt64} {
		if err := CheckUnixMs(ms); codeOf(err) != InvalidDate {
			t.Errorf("%d: %v", ms, err)
		}
	}
	if got := time.UnixMilli(MaxUnixMs + 1).UTC().Format("2006-01-02T15:04:05.000"); got != "10000-01-01T00:00:00.000" {
		t.Errorf("the millisecond after MaxUnixMs is %s", got)
	}
}

func TestAddMs(t *testing.T) {
	for _, c := range []struct {
		now, ms, want int64
		code          Code
	}{
		{0, 0, 0, OK}, {5, 7, 12, OK}, {-10, 3, -7, OK}, {MaxUnixMs, 0, MaxUnixMs, OK}, {0, MaxUnixMs, MaxUnixMs, OK},
		{MaxUnixMs - 1, 1, MaxUnixMs, OK}, {math.MinInt64, 1, math.MinInt64 + 1, OK}, {-1, MaxUnixMs, MaxUnixMs - 1, OK},
		{0, -1, 0, InvalidDuration}, {0, math.MinInt64, 0, InvalidDuration}, {0, MaxUnixMs + 1, 0, InvalidDuration},
		{1, MaxUnixMs, 0, InvalidDuration}, {MaxUnixMs, 1, 0, InvalidDuration}, {1, math.MaxInt64, 0, InvalidDuration},
		{math.MaxInt64, math.MaxInt64, 0, InvalidDuration}, {MaxUnixMs + 1, 0, 0, InvalidDuration},
		{math.MinInt64, math.MaxInt64, 0, InvalidDuration},
	} {
		if got, err := AddMs(c.now, c.ms); got != c.want || codeOf(err) != c.code {
			t.Errorf("AddMs(%d, %d) = %d, %v; want %d, %v", c.now, c.ms, got, err, c.want, c.code)
		}
	}
}

// TestTimeOf writes every instant as RFC 3339 text that can be read again.
func TestTimeOf(t *testing.T) {
	for ms, want := range map[int64]string{math.MinInt64: "0000-01-01T00:00:00Z", MinUnixMs - 1: "0000-01-01T00:00:00Z",
		MinUnixMs: "0000-01-01T00:00:00Z", 0: "1970-01-01T00:00:00Z", MaxUnixMs: "9999-12-31T23:59:59.999Z",
		math.MaxInt64: "9999-12-31T23:59:59.999Z"} {
		b, err := json.Marshal(TimeOf(ms))
		if err != nil || string(b) != `"`+want+`"` {
			t.Errorf("%d is %s: %v, want %s", ms, b, err, want)
		}
		if at, err := ParseInstant(want); err != nil || at != min(max(ms, MinUnixMs), MaxUnixMs) {
			t.Errorf("%s is %d: %v", want, at, err)
		}
	}
}
