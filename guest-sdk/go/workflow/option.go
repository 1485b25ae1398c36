package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Option is an option of a step: how it is attempted.
type Option func(map[string]any)

func text(d time.Duration) string { return strconv.FormatInt(millis(d), 10) + "ms" }

// millis returns a duration in milliseconds, rounded up unless that leads beyond the longest time.Duration. A negative one
// stays negative, so that the host refuses it.
func millis(d time.Duration) int64 {
	if d < 0 {
		return min(d.Milliseconds(), -1)
	}
	if d > longest-time.Millisecond {
		return longest.Milliseconds()
	}
	return (d + time.Millisecond - 1).Milliseconds()
}

// fromMillis returns milliseconds as a duration, the longest one if there is none that long.
func fromMillis(ms int64) time.Duration {
	return time.Duration(min(ms, longest.Milliseconds())) * time.Millisecond
}

// longest is the longest time.Duration, some 292 years.
const longest = time.Duration(math.MaxInt64)

// Attempts sets how many attempts a step has, the first included; 0 means no limit. The default is 3.
func Attempts(n int) Option { return func(o map[string]any) { o["attempts"] = n } }

// Delay sets the time before the second attempt. The default is 1 s.
func Delay(d time.Duration) Option { return func(o map[string]any) { o["delay"] = text(d) } }

// Growth is how the delay grows from attempt to attempt.
type Growth string

// The growths of a delay.
const (
	Fixed       Growth = "fixed"       // always the same
	Linear      Growth = "linear"      // delay × failures
	Exponential Growth = "exponential" // delay × factor^(failures-1), the default
)

// Backoff sets how the delay grows. The default is Exponential.
func Backoff(g Growth) Option { return func(o map[string]any) { o["backoff"] = string(g) } }

// Factor sets the factor of the exponential growth. The default is 2.
func Factor(f float64) Option { return func(o map[string]any) { o["factor"] = f } }

// MaxDelay bounds one delay. Default 5 min, or that of Delay if it is longer.
func MaxDelay(d time.Duration) Option { return func(o map[string]any) { o["max_delay"] = text(d) } }

// MaxElapsed bounds the time from the call to the beginning of the last attempt. By default there is no bound.
func MaxElapsed(d time.Duration) Option { return func(o map[string]any) { o["max_elapsed"] = text(d) } }

// Jitter sets the share of a delay, 0 to 1, that chance may take away. The default is 0.
func Jitter(f float64) Option { return func(o map[string]any) { o["jitter"] = f } }

// Timeout bounds one attempt. The default is 10 min.
func Timeout(d time.Duration) Option { return func(o map[string]any) { o["timeout"] = text(d) } }

// AtMostOnce makes sure that an attempt whose outcome nobody knows is not repeated. After a crash the step fails with the kind
// "unknown", and after a timeout with the kind "timeout".
func AtMostOnce() Option { return func(o map[string]any) { o["at_most_once"] = true } }

// options returns the JSON of options, empty for the defaults.
func options(ctx context.Context, list []Option) string {
	of := undoes(ctx)
	if len(list) == 0 && of == "" {
		return ""
	}
	o := map[string]any{}
	if of != "" {
		o["undoes"] = of
	}
	for _, f := range list {
		f(o)
	}
	b, err := json.Marshal(o)
	if err != nil {
		return "{\"error\":\"options cannot be encoded\"}" // refused by the host, which names the field
	}
	return string(b)
}

// Codec encodes inputs and results.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(b []byte, v any) error
}

var codec Codec = jsonCodec{}

// SetCodec replaces JSON for inputs and results. Call it in an init function, and never change it while runs of
// the workflow are alive: their journals hold what the old codec wrote.
func SetCodec(c Codec) { codec = c }

// Bytes is a payload that is handed over as it is, and neither encoded nor decoded: text, or any other bytes. As the
// input of a workflow, Bytes takes whatever the run was started with, JSON or not. It has no schema. Within another
// type Bytes is a []byte, which JSON writes in base64.
type Bytes []byte

// encode writes a value as its type says.
func encode(v any) ([]byte, error) {
	if b, ok := v.(Bytes); ok {
		return b, nil
	}
	return codec.Marshal(v)
}

// encodeResult is encode of what a body or handler returns. A value that cannot be encoded is one at the next attempt, too.
func encodeResult(what, name string, v any) ([]byte, error) {
	b, err := encode(v)
	if err != nil {
		return nil, Fatal(fmt.Errorf("result of %s %q: %w", what, name, err))
	}
	return b, nil
}

// decode reads a value; no bytes are the zero value. It keeps nothing of b.
func decode(b []byte, v any) error {
	if len(b) == 0 {
		return nil
	}
	if p, ok := v.(*Bytes); ok {
		*p = append(Bytes(nil), b...)
		return nil
	}
	return codec.Unmarshal(b, v)
}
