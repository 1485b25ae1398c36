package abi

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var defaultStep = StepOptions{Attempts: 3, DelayMs: 1000, Backoff: "exponential", Factor: 2, MaxDelayMs: 300_000,
	TimeoutMs: 600_000}

func TestParseStepOptions(t *testing.T) {
	with := func(change func(o *StepOptions)) StepOptions {
		o := defaultStep
		change(&o)
		return o
	}
	for text, want := range map[string]StepOptions{
		"": defaultStep, "{}": defaultStep, " {\n}\t": defaultStep,
		`{"attempts":3,"delay":"1s","backoff":"exponential","factor":2,"max_delay":"5m","max_elapsed":"","jitter":0,` +
			`"timeout":"10m","at_most_once":false}`: defaultStep, // the documented defaults
		`{"attempts":0}`:                  with(func(o *StepOptions) { o.Attempts = 0 }),
		`{"attempts":2147483647}`:         with(func(o *StepOptions) { o.Attempts = math.MaxInt32 }),
		`{"delay":"0s"}`:                  with(func(o *StepOptions) { o.DelayMs = 0 }),
		`{"delay":"1w"}`:                  with(func(o *StepOptions) { o.DelayMs, o.MaxDelayMs = 604_800_000, 604_800_000 }),
		`{"delay":"1w","max_delay":"5m"}`: with(func(o *StepOptions) { o.DelayMs = 604_800_000 }),
		`{"backoff":"linear"}`:            with(func(o *StepOptions) { o.Backoff = "linear" }),
		`{"factor":1.5}`:                  with(func(o *StepOptions) { o.Factor = 1.5 }),
		`{"max_delay":"PT1H"}`:            with(func(o *StepOptions) { o.MaxDelayMs = 3_600_000 }),
		`{"max_elapsed":"1d"}`:            with(func(o *StepOptions) { o.MaxElapsedMs = 86_400_000 }),
		`{"max_elapsed":"0s"}`:            defaultStep,
		`{"jitter":1}`:                    with(func(o *StepOptions) { o.Jitter = 1 }),
		`{"timeout":"9000000000s"}`:       with(func(o *StepOptions) { o.TimeoutMs = 9_000_000_000_000 }),
		`{"at_most_once":true,"attempts":1}`: with(func(o *StepOptions) {
			o.AtMostOnce, o.Attempts = true, 1
		}),
	} {
		if got, err := ParseStepOptions([]byte(text)); err != nil || got != want {
			t.Errorf("ParseStepOptions(%s) = %+v, %v; want %+v", text, got, err, want)
		}
	}
}

// Every call of a step without options comes here, on each replay.
func TestDefaultOptionsDoNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		if _, err := ParseStepOptions(nil); err != nil {
			t.Error(err)
		}
		if err := CheckName("step name", "charge card 17"); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// refusedObjects are refused whatever the fields are.
var refusedObjects = map[string]string{
	" ": "JSON object", "null": "JSON object", "[]": "JSON object", "7": "JSON object", `"{}"`: "JSON object",
	"{": "unexpected EOF", "}": "JSON object", "{,}": "JSON object", "{a:1}": "JSON object", `{"a"}`: "JSON object",
	`{"a":}`: "JSON object", `{"a":'x'}`: "JSON object", "\ufeff{}": "JSON object", "\x00": "JSON object",
	"{\"a\":\"\x01\"}": "JSON object", "{\"line\nbreak\":1}": "JSON object",
	"{}{}": "something follows", "{} x": "something follows", "{},": "something follows", "{}}": "something follows",
	"{\"\xff\":1}": "UTF-8",
	`{"bogus":1}`:  `"bogus" is not known`, `{"":1}`: `"" is not known`, `{"\u0000":1}`: `"\x00" is not known`,
	`{"` + strings.Repeat("x", 500) + `":1}`:            strings.Repeat("x", 64) + `"… is not known`,
	"{}" + strings.Repeat(" ", MaxOptionBytes):          "options have 16386 bytes, the limit is 16384",
	strings.Repeat(" ", MaxOptionBytes):                 "JSON object",
	strings.Repeat("[", 9000):                           "JSON object",
	`{"a":` + strings.Repeat("[", 9000):                 "JSON object",
	`{"a":` + strings.Repeat(`{"a":`, 3000) + "1" + "}": "JSON object",
}

func refused(t *testing.T, text string, err error, want string) {
	t.Helper()
	if codeOf(err) != InvalidArgument || !strings.Contains(err.Error(), want) {
		t.Errorf("%.80s: got %v, want INVALID_ARGUMENT with %q", text, err, want)
	} else if len(err.Error()) > 600 {
		t.Errorf("%.80s: the message has %d bytes", text, len(err.Error()))
	}
}

func TestRefusedObjects(t *testing.T) {
	for text, want := range refusedObjects {
		_, err := ParseStepOptions([]byte(text))
		refused(t, text, err, want)
		_, err = ParseChildOptions([]byte(text))
		refused(t, text, err, want)
		_, err = ParseContinueOptions([]byte(text))
		refused(t, text, err, want)
	}
}

func TestRefusedStepOptions(t *testing.T) {
	for text, want := range map[string]string{
		`{"attempts":-1}`:         `step option "attempts" must be a whole number from 0 (no limit) to 2147483647, got -1`,
		`{"attempts":2147483648}`: "got 2147483648",
		`{"attempts":3.5}`:        "got 3.5", `{"attempts":3.0}`: "got 3.0", `{"attempts":1e1}`: "got 1e1",
		`{"attempts":"3"}`: `got "3"`, `{"attempts":null}`: "got null", `{"attempts":true}`: "got true",
		`{"attempts":` + strings.Repeat("9", 9000) + `}`: strings.Repeat("9", 64) + "…",
		`{"attempts":3,"attempts":4}`:                    `step option "attempts" is given twice`,
		`{"Attempts":3}`:                                 `step option "Attempts" is not known`,
		`{"AT_MOST_ONCE":true}`:                          `"AT_MOST_ONCE" is not known`,
		`{"delay":5}`:                                    `step option "delay" must be duration text such as "30s", got 5`,
		`{"delay":"5"}`:                                  `step option "delay" is an invalid duration "5": it should`,
		`{"delay":""}`:                                   `step option "delay" is an invalid duration ""`,
		`{"delay":"-1s"}`:                                `"delay"`, `{"delay":null}`: `"delay" must be`,
		`{"delay":{"s":1}}`:  "got an object",
		`{"backoff":"none"}`: `step option "backoff" must be fixed, linear or exponential, got "none"`,
		`{"backoff":1}`:      `"backoff" must be fixed`, `{"backoff":"Fixed"}`: `got "Fixed"`,
		`{"backoff":"\u001b[31m"}`: `got "\x1b[31m"`,
		`{"factor":0.99}`:          `step option "factor" must be a number from 1 to 2147483647, got 0.99`,
		`{"factor":-2}`:            "got -2", `{"factor":1e300}`: "got 1e300", `{"factor":1e999}`: "got 1e999",
		`{"factor":"2"}`:   `got "2"`,
		`{"max_delay":""}`: `"max_delay" is an invalid duration`, `{"max_delay":"1y"}`: `"1y"`,
		`{"max_elapsed":"x"}`: `step option "max_elapsed" is an invalid duration "x"`, `{"max_elapsed":0}`: "got 0",
		`{"jitter":1.01}`: `step option "jitter" must be a number from 0 to 1, got 1.01`, `{"jitter":-0.1}`: "got -0.1",
		`{"jitter":[0]}`:            "got an array",
		`{"timeout":"0s"}`:          `step option "timeout" must be between 1ms and 106751d23h47m16s854ms, got "0s"`,
		`{"timeout":"0.4ms"}`:       `got "0.4ms"`,
		`{"timeout":"9300000000s"}`: `got "9300000000s"`, `{"timeout":"9999w9999999999w"}`: "beyond year 9999",
		`{"undoes":7}`:            `step option "undoes" must be the name of a step or child, got 7`,
		`{"undoes":"host/x"}`:     `step option "undoes" is refused`,
		`{"at_most_once":1}`:      `step option "at_most_once" must be true or false, got 1`,
		`{"at_most_once":"true"}`: `got "true"`, `{"at_most_once":null}`: "got null",
		`{"delay":"1s","nope":1}`:    `step option "nope" is not known`,
		`{"at_most_once":truefalse}`: "JSON object", `{"attempts":01}`: "JSON object", `{"attempts":1,,}`: "JSON object",
		`{"delay":"1s"`: "unexpected EOF", `{"delay":"1s",}`: "JSON object", `{"delay":"1s" "factor":2}`: "JSON object",
	} {
		o, err := ParseStepOptions([]byte(text))
		refused(t, text, err, want)
		if o != (StepOptions{}) {
			t.Errorf("%s: a refusal comes with options %+v", text, o)
		}
	}
}

func TestStepOptionsJSON(t *testing.T) {
	const want = `{"attempts":3,"delay":"1s","backoff":"exponential","factor":2,"max_delay":"5m",` +
		`"max_elapsed":"","jitter":0,"timeout":"10m","at_most_once":false}`
	if got := string(defaultStep.JSON()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := (StepOptions{Factor: math.NaN()}).JSON(); got != nil {
		t.Errorf("options with a factor that is no number give %s", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		o := drawStepOptions(t)
		if again, err := ParseStepOptions(o.JSON()); err != nil || again != o {
			t.Fatalf("%+v is written %s, which is read as %+v, %v", o, o.JSON(), again, err)
		}
	})
}

func drawStepOptions(t *rapid.T) StepOptions {
	ms := func(name string, low, high int64) int64 { return rapid.Int64Range(low, high).Draw(t, name) }
	return StepOptions{
		Attempts: rapid.IntRange(0, math.MaxInt32).Draw(t, "attempts"), DelayMs: ms("delay", 0, MaxUnixMs),
		Backoff:    rapid.SampledFrom([]string{BackoffFixed, BackoffLinear, BackoffExponential}).Draw(t, "backoff"),
		Factor:     rapid.Float64Range(1, math.MaxInt32).Draw(t, "factor"),
		MaxDelayMs: ms("max_delay", 0, MaxUnixMs), MaxElapsedMs: ms("max_elapsed", 0, MaxUnixMs),
		Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter"), TimeoutMs: ms("timeout", 1, MaxStepTimeoutMs),
		AtMostOnce: rapid.Bool().Draw(t, "at_most_once"),
	}
}

func TestRetryDelays(t *testing.T) {
	for _, c := range []struct {
		options string
		unit    float64
		want    []int64 // after the first, second … failure
	}{
		{``, 0, []int64{1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000}},
		{`{"backoff":"fixed"}`, 0, []int64{1000, 1000, 1000}},
		{`{"backoff":"fixed","factor":7}`, 0.9, []int64{1000, 1000, 1000}}, // no jitter: unit is not used
		{`{"backoff":"linear","delay":"250ms","max_delay":"1s"}`, 0, []int64{250, 500, 750, 1000, 1000}},
		{`{"factor":1}`, 0, []int64{1000, 1000, 1000}},
		{`{"factor":1.1}`, 0, []int64{1000, 1100, 1210, 1331, 1464}},
		{`{"factor":1.4}`, 0, []int64{1000, 1400, 1960, 2744}}, // 1.4² is a little less in binary
		{`{"delay":"10ms","factor":3,"max_delay":"5ms"}`, 0, []int64{5, 5}},
		{`{"max_delay":"0s"}`, 0, []int64{0, 0, 0}},
		{`{"delay":"1h"}`, 0, []int64{3_600_000, 3_600_000}},
		{`{"max_delay":"5m","delay":"1h"}`, 0, []int64{300_000, 300_000}},
		{`{"delay":"4m"}`, 0, []int64{240_000, 300_000, 300_000}},
		{`{"jitter":0.5}`, 0, []int64{1000, 2000}},
		{`{"jitter":0.5}`, 0.5, []int64{750, 1500, 3000}},
		{`{"jitter":1}`, 0.75, []int64{250, 500}},
		{`{"jitter":0.2,"max_delay":"1s"}`, 0.5, []int64{900, 900, 900}}, // the bound is shortened, too
	} {
		o, err := ParseStepOptions([]byte(c.options))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			if got := o.RetryDelayMs(i+1, c.unit); got != want {
				t.Errorf("%s, unit %v, failure %d: %d ms, want %d", c.options, c.unit, i+1, got, want)
			}
		}
	}
}

// However many failures there were, a delay is between the shortest that the jitter allows and the bound.
func TestRetryDelayStaysInBounds(t *testing.T) {
	for _, failed := range []int{1, 2, 1023, 1024, 1025, 1026, 5000, math.MaxInt32, math.MaxInt, 0, -1, math.MinInt} {
		for _, backoff := range []string{BackoffFixed, BackoffLinear, BackoffExponential} {
			o := defaultStep
			o.Backoff = backoff
			o.DelayMs = 0
			if got := o.RetryDelayMs(failed, 0); got != 0 {
				t.Errorf("%s without a delay, failure %d: %d ms", backoff, failed, got)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		o := drawStepOptions(t)
		failed := rapid.Int().Draw(t, "failed")
		got := o.RetryDelayMs(failed, rapid.Float64Range(0, 0.999999).Draw(t, "unit"))
		full := o.RetryDelayMs(failed, 0)
		shortest := math.Floor(float64(full) * (1 - o.Jitter))
		if got < 0 || got > full || float64(got) < shortest || full > o.MaxDelayMs {
			t.Fatalf("%+v, failure %d: %d ms, without jitter %d, at least %v", o, failed, got, full, shortest)
		}
		if next := o.RetryDelayMs(min(failed, math.MaxInt-1)+1, 0); next < full {
			t.Fatalf("%+v: %d ms after failure %d, %d after the next", o, full, failed, next)
		}
	})
}

func TestChildOptions(t *testing.T) {
	for text, want := range map[string]ChildOptions{
		"": {OnEnd: "cancel"}, "{}": {OnEnd: "cancel"},
		`{"id":"order-42:pay","version":7,"on_end":"abandon","timeout":"1d","attributes":{"region":"eu","":""}}`: {},
		`{"id":"order-42:pay","version":7,"on_end":"abandon","timeout":"1d","attributes":{"region":"eu","empty":""}}`: {
			ID: "order-42:pay", Version: 7, OnEnd: "abandon", TimeoutMs: 86_400_000,
			Attributes: map[string]string{"region": "eu", "empty": ""}},
		`{"timeout":"","attributes":{}}`: {OnEnd: "cancel", Attributes: map[string]string{}},
		`{"on_end":"terminate"}`:         {OnEnd: "terminate"},
		`{"undoes":"book"}`:              {OnEnd: "cancel", Undoes: "book"},
		`{"version":"latest"}`:           {OnEnd: "cancel", Latest: true},
		`{"version":0}`:                  {OnEnd: "cancel", Latest: true},
	} {
		got, err := ParseChildOptions([]byte(text))
		if want.OnEnd == "" {
			refused(t, text, err, `attribute name must have 1 to 256 bytes, got 0`)
			continue
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("ParseChildOptions(%s) = %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"id":""}`:    `child option "id" is refused: run id must have 1 to 128 bytes, got 0`,
		`{"id":"a/b"}`: `child option "id" is refused: run id may hold`,
		`{"id":7}`:     `child option "id" must be a run id, got 7`,
		`{"version":"newest"}`: `child option "version" must be "latest", or a whole number from 0 (the latest) to ` +
			`4294967295, got "newest"`,
		`{"version":null}`:       "got null",
		`{"version":-1}`:         "got -1",
		`{"version":4294967296}`: "got 4294967296",
		`{"on_end":"kill"}`:      `child option "on_end" must be cancel, terminate or abandon, got "kill"`,
		`{"timeout":"1y"}`:       `child option "timeout" is an invalid duration "1y"`, `{"timeout":60}`: "got 60",
		`{"memo":"` + strings.Repeat("x", MaxMemoBytes) + `"}`: `child option "memo" is refused: the memo has 2050 bytes`,
		`{"memo":null}`:                    `child option "memo" must be JSON that says something, got null`,
		`{"attributes":[]}`:                `child option "attributes" must be an object of strings, got an array`,
		`{"attributes":null}`:              "got null",
		`{"attributes":{"k":1}}`:           `child option "attributes" is refused: attribute "k" must be a string, got 1`,
		`{"attributes":{"k":null}}`:        "got null",
		`{"attributes":{"k":"a","k":"b"}}`: `attribute "k" is given twice`,
		`{"attributes":{"host/k":"a"}}`:    `must not begin with "host/"`,
		`{"attempts":3}`:                   `child option "attempts" is not known`,
	} {
		o, err := ParseChildOptions([]byte(text))
		refused(t, text, err, want)
		if !reflect.DeepEqual(o, ChildOptions{}) {
			t.Errorf("%s: a refusal comes with options %+v", text, o)
		}
	}
}

func TestContinueOptions(t *testing.T) {
	for text, want := range map[string]string{"": "pinned", "{}": "pinned", `{"version":"pinned"}`: "pinned",
		`{"version":"latest"}`: "latest"} {
		if got, err := ParseContinueOptions([]byte(text)); err != nil || got.Version != want {
			t.Errorf("ParseContinueOptions(%s) = %+v, %v; want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"version":"newest"}`: `continue option "version" must be pinned or latest, got "newest"`,
		`{"version":2}`:        "got 2", `{"version":null}`: "got null", `{"Version":"latest"}`: `"Version" is not known`,
		`{"version":"latest"}]`: "something follows",
	} {
		o, err := ParseContinueOptions([]byte(text))
		refused(t, text, err, want)
		if o != (ContinueOptions{}) {
			t.Errorf("%s: a refusal comes with options %+v", text, o)
		}
	}
}

// FuzzParseStepOptions: never panics; what is accepted is in range, a JSON object for encoding/json too, and can
// be written and read back; its delays stay in bounds.
func FuzzParseStepOptions(f *testing.F) {
	f.Add([]byte(""))
	f.Add(defaultStep.JSON())
	f.Add([]byte(`{"attempts":0,"delay":"0s","jitter":1,"factor":2147483647}`))
	f.Add([]byte(`{"delay":"1s","delay":"2s"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		o, err := ParseStepOptions(text)
		if !bytes.Equal(before, text) {
			t.Fatalf("%q was changed", before)
		}
		_, childErr := ParseChildOptions(text)
		_, continueErr := ParseContinueOptions(text)
		for _, err := range []error{err, childErr, continueErr} {
			if err != nil && codeOf(err) != InvalidArgument {
				t.Fatalf("%q: %v", text, err)
			}
		}
		if err != nil {
			return
		}
		if len(text) > 0 && json.Unmarshal(text, &map[string]any{}) != nil {
			t.Fatalf("%q is accepted and is no JSON object", text)
		}
		if again, err := ParseStepOptions(o.JSON()); err != nil || again != o {
			t.Fatalf("%q is %+v, written %s, read as %+v, %v", text, o, o.JSON(), again, err)
		}
		if o.Attempts < 0 || o.Factor < 1 || o.Jitter < 0 || o.Jitter > 1 || o.TimeoutMs < 1 {
			t.Fatalf("%q gives %+v", text, o)
		}
		for _, failed := range []int{1, 2, 5000} {
			if d := o.RetryDelayMs(failed, 0.5); d < 0 || d > o.MaxDelayMs {
				t.Fatalf("%q: %d ms after failure %d", text, d, failed)
			}
		}
	})
}

// TestChildMemo reads memos: as people are to see them.
func TestChildMemo(t *testing.T) {
	for text, want := range map[string]string{`{}`: "", `{"memo": {"a" : "\u003cb> & c"}}`: `{"a":"<b> & c"}`, `{"memo":7}`: "7"} {
		o, err := ParseChildOptions([]byte(text))
		if err != nil || string(o.Memo) != want {
			t.Errorf("%s: %s, %v", text, o.Memo, err)
		}
	}
}
