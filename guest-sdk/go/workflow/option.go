package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Option sets how a step is attempted.
type Option func(map[string]any)

func text(d time.Duration) string { return strconv.FormatInt(millis(d), 10) + "ms" }

// millis returns a duration in milliseconds, rounded up unless the result would exceed the longest time.Duration. Negative
// durations return at most -1, so that the host refuses them.
func millis(d time.Duration) int64 {
	if d < 0 {
		return min(d.Milliseconds(), -1)
	}
	if d > longest-time.Millisecond {
		return longest.Milliseconds()
	}
	return (d + time.Millisecond - 1).Milliseconds()
}

// fromMillis converts milliseconds to a duration of at most longest.
func fromMillis(ms int64) time.Duration {
	return time.Duration(min(ms, longest.Milliseconds())) * time.Millisecond
}

// longest is the longest time.Duration, some 292 years.
const longest = time.Duration(math.MaxInt64)

// Attempts sets the number of attempts of a step, including the first. 0 means no limit. The default is 3.
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

// MaxDelay limits the time between two attempts. The default is 5 min, or the value of Delay if that is longer.
func MaxDelay(d time.Duration) Option { return func(o map[string]any) { o["max_delay"] = text(d) } }

// MaxElapsed limits the time from the call to the beginning of the last attempt. By default there is no limit.
func MaxElapsed(d time.Duration) Option { return func(o map[string]any) { o["max_elapsed"] = text(d) } }

// Jitter sets the largest share of a delay, 0 to 1, that is subtracted at random. The default is 0.
func Jitter(f float64) Option { return func(o map[string]any) { o["jitter"] = f } }

// Timeout limits the duration of one attempt. The default is 10 min.
func Timeout(d time.Duration) Option { return func(o map[string]any) { o["timeout"] = text(d) } }

// AtMostOnce prevents another attempt when the outcome of an attempt is not known. After a crash the step fails with the
// kind "unknown", and after a timeout with the kind "timeout".
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

// SetCodec replaces JSON for inputs and results. Call it in an init function. Never change the codec while runs of the
// workflow are alive: their journals hold values that the old codec wrote.
func SetCodec(c Codec) { codec = c }

// Bytes is a payload that the SDK neither encodes nor decodes: text, or any other bytes. A workflow whose input is Bytes
// gets the input of the run unchanged, JSON or not. Bytes has no schema. Within another type Bytes is a []byte, which JSON
// writes in base64.
type Bytes []byte

// encode encodes a value with the codec. Bytes are returned unchanged.
func encode(v any) ([]byte, error) {
	if b, ok := v.(Bytes); ok {
		return b, nil
	}
	return codec.Marshal(v)
}

// encodeResult encodes the result of a body or handler. Its errors are fatal: another attempt would fail in the same way.
func encodeResult(what, name string, v any) ([]byte, error) {
	b, err := encode(v)
	if err != nil {
		return nil, Fatal(fmt.Errorf("result of %s %q: %w", what, name, err))
	}
	return b, nil
}

// decode decodes b into v. If b is empty, v is not changed. v does not alias b.
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
