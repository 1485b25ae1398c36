package abi

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDurationText(t *testing.T) {
	for text, want := range map[string]int64{
		"500ms": 500, "30s": 30_000, "5m": 300_000, "1h": 3_600_000, "24h": 86_400_000, "7d": 604_800_000,
		"1w": 604_800_000, "1.5h": 5_400_000, "1h30m": 5_400_000, "PT5M": 300_000, "P1DT12H": 129_600_000,
		// more of the same kind
		"0s": 0, "0ms": 0, "0w": 0, "00012s": 12_000, "1m1ms": 60_001, "1ms1m": 60_001, "1m30s": 90_000,
		"2w3d": 1_468_800_000,
		"1h1h": 7_200_000, "30m1h": 5_400_000, "1h0.5m": 3_630_000, "1s500ms": 1_500, "0.5d": 43_200_000,
		"0.25w": 151_200_000, "366d": 31_622_400_000, "10000000000000ms": 10_000_000_000_000,
		"P1W": 604_800_000, "P1D": 86_400_000, "P1W2D": 777_600_000, "PT1H": 3_600_000, "PT1H1S": 3_601_000, "PT0S": 0,
		"P1.5D": 129_600_000, "PT1.5S": 1_500, "P1WT0.5M": 604_830_000, "PT36H": 129_600_000,
		// less than a millisecond: the nearest, half up
		"0.4ms": 0, "0.5ms": 1, "1.4999ms": 1, "1.5ms": 2, "0.0004s": 0, "0.0005s": 1, "0.00049999999999999999999999s": 0,
		"0.33333333333333333333h": 1_200_000, "0.1h": 360_000, "0.001s": 1, "0.9999999w": 604_799_940,
		"0.999999999999999999999999999999999999999999999w": 604_800_000,
		// the end
		"253402300799999ms": MaxUnixMs, "253402300799.999s": MaxUnixMs, "253402300799998.5ms": MaxUnixMs,
		"253402300799s999ms": MaxUnixMs, "PT253402300799.999S": MaxUnixMs, "2932896d23h59m59.999s": MaxUnixMs,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestInvalidDurationText(t *testing.T) {
	for _, text := range []string{
		"", "5", "5x", "abc", "-1s", "ms", "s5", "1mo", "5y", "5 seconds",
		// more of the same kind
		" ", " 5s", "5s ", "5 s", "1h 30m", "5\n", "5s\x00", "1.h", ".5h", "1..5h", "1.5.5h", "1.5h30m", "1.0h1s",
		"1e3s", "0x5s",
		"1_000s", "+1s", "1h-30m", "1,5h", "5sec", "5min", "5hours", "5S", "5M", "5H", "1d12", "∞s", "٣s", "1µs",
		"1us", "1ns",
		"NaN", "1s1", "never",
		"P", "PT", "P1DT", "P5", "PT5", "P1M", "P1Y", "P1Y2M3D", "P1S", "PT1D", "PT1W", "PTT1S", "P1DT1HT1M", "P-1D", "-P1D",
		"P 1D", "P1D1D", "PT1M1H", "P1D1W", "P1.5DT1H", "PT1.5H1M", "PT1,5S", "p1d", "P1d", "pt5m", "PT5m", "P1H",
		"5PT", "PTM",
		"P1DT1H ", "1hPT1M",
		// beyond year 9999
		"253402300800000ms", "253402300799999.5ms", "8000y", "2932897d", "9999999999999w", "99999999999999999999999999ms",
		"9223372036854775807w", "253402300799999ms1ms", "253402300799999ms253402300799999ms", "P9999999999W",
		"P2932896DT24H", strings.Repeat("9", 60) + "s", strings.Repeat("1w", 33), strings.Repeat("0", 64) + "s",
	} {
		got, err := ParseDuration(text)
		var refused *Error
		if !errors.As(err, &refused) || refused.Code != InvalidDuration || got != 0 {
			t.Errorf("ParseDuration(%q) = %d, %v; want INVALID_DURATION", text, got, err)
			continue
		}
		if !strings.Contains(refused.Message, quoted(text)) {
			t.Errorf("ParseDuration(%q): the message does not quote the text: %s", text, refused.Message)
		}
	}
}

func TestInvalidDurationMessage(t *testing.T) {
	for text, want := range map[string]string{
		"5": `INVALID_DURATION: invalid duration "5": it should look like 1h30m, 1.5h, 7d or PT5M ` +
			`(units ms s m h d w, no spaces)`,
		"1s\n\x1b[31m": `INVALID_DURATION: invalid duration "1s\n\x1b[31m": it should look like 1h30m, 1.5h, 7d or PT5M ` +
			`(units ms s m h d w, no spaces)`,
		"9999999d": `INVALID_DURATION: invalid duration "9999999d": it leads beyond year 9999, ` +
			`the limit is 2932896d23h59m59s999ms`,
		strings.Repeat("é", 1000): `INVALID_DURATION: invalid duration "` + strings.Repeat("é", 32) +
			`"…: it has 2000 bytes, the limit is 64`,
	} {
		if _, err := ParseDuration(text); err == nil || err.Error() != want {
			t.Errorf("ParseDuration(%q)\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for ms, want := range map[int64]string{
		0: "0s", 1: "1ms", 999: "999ms", 1000: "1s", 1500: "1s500ms", 60_000: "1m", 5_400_000: "1h30m", 86_400_000: "1d",
		604_800_000: "7d", 604_800_001: "7d1ms", 694_861_001: "8d1h1m1s1ms", -5: "0s", MaxUnixMs: "2932896d23h59m59s999ms",
	} {
		if got := FormatDuration(ms); got != want {
			t.Errorf("FormatDuration(%d) = %q, want %q", ms, got, want)
		}
	}
}

func TestFormatDurationIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, MaxUnixMs).Draw(t, "ms")
		text := FormatDuration(ms)
		if got, err := ParseDuration(text); err != nil || got != ms {
			t.Fatalf("%d is written %q, which is read as %d, %v", ms, text, got, err)
		}
	})
}

// FuzzParseDuration: never panics, answers a refusal or a number in range, and what is accepted can be written
// and read back.
func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"1h30m", "1.5h", "P1DT12H", "PT0.5S", "0s", "5y", "-1s", "9999999999999w"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ms, err := ParseDuration(text)
		if err != nil {
			var refused *Error
			if !errors.As(err, &refused) || refused.Code != InvalidDuration || ms != 0 {
				t.Fatalf("%q: %d, %v", text, ms, err)
			}
			if len(err.Error()) > 512 {
				t.Fatalf("%q: the message has %d bytes", text, len(err.Error()))
			}
			return
		}
		if ms < 0 || ms > MaxUnixMs {
			t.Fatalf("%q is %d ms", text, ms)
		}
		canonical := FormatDuration(ms)
		if again, err := ParseDuration(canonical); err != nil || again != ms {
			t.Fatalf("%q is %d ms, written %q, read as %d, %v", text, ms, canonical, again, err)
		}
		if looksLikeDate(text) {
			t.Fatalf("%q is a duration, and looks like a date to sleep_text", text)
		}
	})
}

func TestDurationsDoNotOverflow(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, -1: 0,
		-time.Hour: -3_600_000, math.MaxInt64: MaxStepTimeoutMs, math.MinInt64: -MaxStepTimeoutMs} {
		if got := Milliseconds(d); got != want {
			t.Errorf("%d ns are %d ms, want %d", d, got, want)
		}
	}
	for ms, want := range map[int64]time.Duration{0: 0, 7: 7 * time.Millisecond, -7: -7 * time.Millisecond,
		MaxUnixMs: time.Duration(MaxStepTimeoutMs) * time.Millisecond, math.MinInt64: -time.Duration(MaxStepTimeoutMs) * time.Millisecond} {
		if got := Duration(ms); got != want {
			t.Errorf("%d ms are %v, want %v", ms, got, want)
		}
	}
}

// TestParseTimeout reads time-outs: what is not nothing is no time-out of nothing, which would be none.
func TestParseTimeout(t *testing.T) {
	for text, want := range map[string]int64{"0s": 0, "0.0s": 0, "PT0S": 0, "0.1ms": 1, "0.4999ms": 1, "PT0.0001S": 1, "0.00001h": 36, "1ms": 1,
		"1.4ms": 1, "2s": 2000} {
		if got, err := ParseTimeout(text); got != want || err != nil {
			t.Errorf("%s is %d ms, %v, want %d", text, got, err, want)
		}
	}
	if _, err := ParseTimeout("1"); err == nil {
		t.Error("a number without a unit is a time-out")
	}
	if o, err := ParseStepOptions([]byte(`{"max_elapsed":"0.1ms"}`)); err != nil || o.MaxElapsedMs != 1 {
		t.Error(o, err)
	}
	if _, err := ParseStepOptions([]byte(`{"timeout":"0s"}`)); err == nil {
		t.Error("a step has no time-out")
	}
	if o, err := ParseChildOptions([]byte(`{"timeout":"0.1ms"}`)); err != nil || o.TimeoutMs != 1 {
		t.Error(o, err)
	}
}
