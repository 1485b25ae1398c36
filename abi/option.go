package abi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
)

// Values of StepOptions.Backoff.
const (
	BackoffFixed       = "fixed"       // always the delay
	BackoffLinear      = "linear"      // delay × number of failures
	BackoffExponential = "exponential" // delay × factor^(failures-1)
)

// Defaults of step options.
const (
	DefaultAttempts   = 3
	DefaultDelayMs    = 1 * msPerSecond
	DefaultFactor     = 2
	DefaultMaxDelayMs = 5 * msPerMinute
	DefaultTimeoutMs  = 10 * msPerMinute
)

// StepOptions says how a step is attempted.
type StepOptions struct {
	Attempts     int     // all tries, the first included; 0 = no limit
	DelayMs      int64   // before the second attempt
	Backoff      string  // how the delay grows
	Factor       float64 // of the exponential back-off, at least 1
	MaxDelayMs   int64   // upper bound of one delay
	MaxElapsedMs int64   // no attempt begins later than this after the call; 0 = no bound
	Jitter       float64 // 0 to 1: the share of a delay that chance may take away
	TimeoutMs    int64   // of one attempt
	AtMostOnce   bool    // an attempt whose outcome is unknown is never repeated
}

// stepOptionsJSON is the wire form: durations are text, and what is absent keeps its default.
type stepOptionsJSON struct {
	Attempts   *int     `json:"attempts,omitempty"`
	Delay      *string  `json:"delay,omitempty"`
	Backoff    *string  `json:"backoff,omitempty"`
	Factor     *float64 `json:"factor,omitempty"`
	MaxDelay   *string  `json:"max_delay,omitempty"`
	MaxElapsed *string  `json:"max_elapsed,omitempty"`
	Jitter     *float64 `json:"jitter,omitempty"`
	Timeout    *string  `json:"timeout,omitempty"`
	AtMostOnce *bool    `json:"at_most_once,omitempty"`
}

// ParseStepOptions reads the options object of step_do, step_start and step_begin. Zero length gives the
// defaults. An unknown field, a wrong type or a value out of range is an *Error of code InvalidArgument that
// names the field.
func ParseStepOptions(text []byte) (StepOptions, error) {
	o := StepOptions{Attempts: DefaultAttempts, DelayMs: DefaultDelayMs, Backoff: BackoffExponential,
		Factor: DefaultFactor, MaxDelayMs: DefaultMaxDelayMs, TimeoutMs: DefaultTimeoutMs}
	var w stepOptionsJSON
	if err := parseObject("step options", text, &w); err != nil {
		return o, err
	}
	set(&o.Attempts, w.Attempts)
	set(&o.Backoff, w.Backoff)
	set(&o.Factor, w.Factor)
	set(&o.Jitter, w.Jitter)
	set(&o.AtMostOnce, w.AtMostOnce)
	for _, d := range []struct {
		field string
		to    *int64
		text  *string
	}{{"delay", &o.DelayMs, w.Delay}, {"max_delay", &o.MaxDelayMs, w.MaxDelay},
		{"max_elapsed", &o.MaxElapsedMs, w.MaxElapsed}, {"timeout", &o.TimeoutMs, w.Timeout}} {
		if d.text == nil || *d.text == "" && d.field == "max_elapsed" {
			continue
		}
		ms, err := ParseDuration(*d.text)
		if err != nil {
			return o, Errorf(InvalidArgument, "step option %q: %v", d.field, err)
		}
		*d.to = ms
	}
	return o, o.check()
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func (o StepOptions) check() error {
	switch {
	case o.Attempts < 0:
		return Errorf(InvalidArgument, "step option \"attempts\" must be 0 (no limit) or more, got %d", o.Attempts)
	case o.Backoff != BackoffFixed && o.Backoff != BackoffLinear && o.Backoff != BackoffExponential:
		return Errorf(InvalidArgument, "step option \"backoff\" must be fixed, linear or exponential, got %q", o.Backoff)
	case !(o.Factor >= 1 && o.Factor <= math.MaxInt32):
		return Errorf(InvalidArgument, "step option \"factor\" must be 1 or more, got %v", o.Factor)
	case !(o.Jitter >= 0 && o.Jitter <= 1):
		return Errorf(InvalidArgument, "step option \"jitter\" must be between 0 and 1, got %v", o.Jitter)
	case o.TimeoutMs == 0:
		return Errorf(InvalidArgument, "step option \"timeout\" must be longer than 0s")
	}
	return nil
}

// RetryDelayMs gives the delay after the failed-th failure (from 1). unit is a random number in [0, 1) of which
// the jitter takes its share: the delay is shortened by up to Jitter × itself, never prolonged.
func (o StepOptions) RetryDelayMs(failed int, unit float64) int64 {
	d := float64(o.DelayMs)
	switch o.Backoff {
	case BackoffLinear:
		d *= float64(failed)
	case BackoffExponential:
		d *= math.Pow(o.Factor, float64(failed-1))
	}
	d = math.Min(d, float64(o.MaxDelayMs))
	return int64(d * (1 - o.Jitter*unit))
}

// parseObject decodes one JSON object strictly; zero length is the empty object.
func parseObject(what string, text []byte, into any) error {
	if len(text) == 0 {
		return nil
	}
	if len(text) > MaxOptionBytes {
		return Errorf(InvalidArgument, "%s have %d bytes, the limit is %d", what, len(text), MaxOptionBytes)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return Errorf(InvalidArgument, "%s: %v", what, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Errorf(InvalidArgument, "%s: something follows the JSON object", what)
	}
	return nil
}
