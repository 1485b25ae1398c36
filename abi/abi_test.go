package abi

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestDocument checks that ABI.md has every function with its type, every code and every export.
func TestDocument(t *testing.T) {
	b, err := os.ReadFile("ABI.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	for _, name := range slices.Sorted(maps.Keys(Functions)) {
		i := strings.Index(doc, fmt.Sprintf("| `%s` | `%s", name, Functions[name]))
		if i < 0 {
			t.Errorf("ABI.md lacks %s %s", name, Functions[name])
			continue
		}
		row, _, _ := strings.Cut(doc[i:], "\n")
		if strings.Contains(row, "| not yet |") == Offered(name) {
			t.Errorf("ABI.md says otherwise than Offered: %s", row)
		}
	}
	for c := InvalidArgument; int(c) < len(codeNames); c++ {
		if !strings.Contains(doc, c.String()) {
			t.Errorf("ABI.md lacks the code %s", c)
		}
	}
	for _, e := range []string{ExportMemory, ExportRun, ExportRunShort, ExportStart, ExportInitialize, ExportStep, ExportDescribe} {
		if !strings.Contains(doc, "`"+e) {
			t.Errorf("ABI.md lacks the export %s", e)
		}
	}
}

func TestS03_DurationText(t *testing.T) {
	for text, want := range map[string]int64{"500ms": 500, "30s": 30_000, "5m": 300_000, "1h": 3_600_000, "24h": 86_400_000,
		"7d": 604_800_000, "1w": 604_800_000, "1.5h": 5_400_000, "1h30m": 5_400_000, "PT5M": 300_000, "P1DT12H": 129_600_000,
		"0s": 0, "P1W": 604_800_000, "PT1.5S": 1500, "0.0001s": 0, "1m1s1ms": 61_001, "P1W1D": 691_200_000, "1.5ms": 2} {
		if got, err := ParseDuration(text); got != want || err != nil {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestS04_InvalidDurationText(t *testing.T) {
	for _, text := range []string{"", "5", "5x", "abc", "-1s", "ms", "s5", "1mo", "5y", "5 seconds", "1.5h30m", ".5s", "1.s", "1h ", " 1h",
		"P", "PT", "P1M", "P1Y", "PT1H1D", "P1D1W", "PT1M1M", "P1.5DT1H", "1e3s", "+1s", "9999999w", "1h\x00", strings.Repeat("1", 100) + "s",
		"99999999999999999999999999h", "P99999999999999W"} {
		_, err := ParseDuration(text)
		var e *Error
		if !errors.As(err, &e) || e.Code != InvalidDuration || !strings.Contains(e.Message, "\"") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestInstants(t *testing.T) {
	for text, want := range map[string]int64{"1970-01-01T00:00:00Z": 0, "1970-01-01T00:00:00.0001Z": 1, "1969-12-31T23:59:59Z": -1000,
		"9999-12-31T23:59:59.999Z": MaxUnixMs, "1970-01-01T01:00:00+01:00": 0} {
		if got, err := ParseInstant(text); got != want || err != nil {
			t.Errorf("%q: %d %v", text, got, err)
		}
		if got, err := ParseSleepText(text, 77); got != want || err != nil {
			t.Errorf("sleep until %q: %d %v", text, got, err)
		}
	}
	for _, text := range []string{"2030-13-01T00:00:00Z", "2030-01-01", "2030-" + strings.Repeat("x", 200), "9999-12-31T23:59:59.9999Z"} {
		var e *Error
		if _, err := ParseSleepText(text, 0); !errors.As(err, &e) || e.Code != InvalidDate {
			t.Errorf("%q: %v", text, err)
		}
	}
	if got, err := ParseSleepText("1h", 5); got != 3_600_005 || err != nil {
		t.Error(got, err)
	}
	if _, err := ParseSleepText("5", 5); err == nil {
		t.Error("a bare number")
	}
	for _, c := range [][2]int64{{0, -1}, {MaxUnixMs, 1}, {0, MaxUnixMs + 1}, {MaxUnixMs + 1, 0}, {-5, MaxUnixMs + 1}} {
		if _, err := AddMs(c[0], c[1]); err == nil {
			t.Errorf("%v was added", c)
		}
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "process-item-3", "Ünï/cødé", strings.Repeat("x", 256)} {
		if err := CheckName("name", name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", strings.Repeat("x", 257), "a\x00", "a\nb", "\xff", "wasi/x", "host/x", "\u0085"} {
		if err := CheckName("sleep name", name); err == nil || !strings.Contains(err.Error(), "sleep name") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if CheckHandler("host/mail") != nil || CheckHandler("") == nil {
		t.Error("handlers")
	}
	for id, ok := range map[string]bool{"order-42": true, "a:b~c.d_e": true, "": false, "a b": false, "ä": false, strings.Repeat("x", 129): false} {
		if (CheckRunID(id) == nil) != ok {
			t.Errorf("run id %q", id)
		}
	}
	for name, ok := range map[string]bool{"orders": true, "a.b-c_d": true, "": false, ".x": false, "a/b": false, strings.Repeat("x", 129): false} {
		if (CheckWorkflow(name) == nil) != ok {
			t.Errorf("workflow %q", name)
		}
	}
}

func TestStepOptions(t *testing.T) {
	o, err := ParseStepOptions(nil)
	if err != nil || o.Attempts != 3 || o.DelayMs != 1000 || o.Backoff != "exponential" || o.Factor != 2 || o.MaxDelayMs != 300_000 || o.TimeoutMs != 600_000 {
		t.Fatal(o, err)
	}
	o, err = ParseStepOptions([]byte(`{"attempts":0,"delay":"5s","backoff":"linear","factor":3,"max_delay":"1h","max_elapsed":"","jitter":0.5,"timeout":"1s","at_most_once":true}`))
	if err != nil || o.Attempts != 0 || !o.AtMostOnce || o.MaxElapsedMs != 0 || o.RetryDelayMs(3, 0) != 15_000 || o.RetryDelayMs(2, 0.5) != 7500 {
		t.Fatal(o, err)
	}
	for _, bad := range []string{"[]", "{", "{} {}", `{"x":1}`, `{"attempts":-1}`, `{"attempts":"3"}`, `{"delay":"5"}`, `{"backoff":"x"}`, `{"factor":0.5}`,
		`{"jitter":2}`, `{"timeout":"0s"}`, `{"delay":5}`, strings.Repeat(" ", MaxOptionBytes+1)} {
		var e *Error
		if _, err := ParseStepOptions([]byte(bad)); !errors.As(err, &e) || e.Code != InvalidArgument {
			t.Errorf("%.40s: %v", bad, err)
		}
	}
	if d := (StepOptions{DelayMs: 1000, Backoff: BackoffExponential, Factor: 10, MaxDelayMs: 1 << 40}).RetryDelayMs(5000, 0); d != 1<<40 {
		t.Error("a delay overflows:", d)
	}
}

func TestCodesAndSignatures(t *testing.T) {
	for c := OK; int(c) < len(codeNames); c++ {
		text, _ := c.MarshalText()
		var back Code
		if err := back.UnmarshalText(text); err != nil || back != c || c.Neg() > 0 {
			t.Errorf("%s", text)
		}
	}
	if Code(99).String() != "CODE_99" || new(Code).UnmarshalText([]byte("X")) == nil {
		t.Error("unknown codes")
	}
	if s, ok := Import(ImportModule, FnSleep); !ok || s.String() != "(i32 i32 i64) -> i64" || s.Equal(Signature{}) {
		t.Error(s)
	}
	if _, ok := Import("x", "y"); ok {
		t.Error("unknown import")
	}
	if PackEvent(EventRunBody, 5) != 41 || Type(0x7d).String() != "f32" || Type(0x7c).String() != "f64" || Type(0).String() != "other" {
		t.Error("numbers")
	}
	if Errorf(Denied, "no %d", 1).Error() != "DENIED: no 1" {
		t.Error("text of an error")
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"1h30m", "P1DT12H", "1.5h", "", "5 s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ms, err := ParseDuration(text)
		if err != nil {
			return
		}
		if again, err := ParseDuration(FormatDuration(ms)); err != nil || again != ms || ms < 0 || ms > MaxUnixMs {
			t.Fatalf("%q: %d, then %d %v", text, ms, again, err)
		}
	})
}

func FuzzParseStepOptions(f *testing.F) {
	f.Add([]byte(`{"attempts":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if o, err := ParseStepOptions(b); err == nil && (o.RetryDelayMs(3, 0.5) < 0) {
			t.Fatalf("%s: %+v", b, o)
		}
	})
}
