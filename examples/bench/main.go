// Command bench has the workflows that `wfhost bench --guest go` measures. Their input is an array of whole numbers.
package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

// handler does nothing, in Go code of the benchmark.
const handler = "host/bench"

func init() {
	workflow.Register("empty", func(context.Context, []int64) (any, error) { return nil, nil })
	workflow.Register("steps", Steps)
	workflow.Register("bodies", Bodies)
	workflow.Register("sleep", Sleep)
	workflow.Register("sleepstep", SleepStep)
	workflow.Register("wake", Wake)
	workflow.Register("calls", Calls)
	workflow.Register("mixed", Mixed, workflow.Queries("done"))
	workflow.Register("signal", func(ctx context.Context, _ []int64) (any, error) { return workflow.Receive[any](ctx, "go") })
}

func main() {}

// names gives names that no call of the run had.
func names() func() string {
	n := 0
	return func() string {
		n++
		return fmt.Sprintf("%08d", n-1)
	}
}

// at gives the number at a place of the input, 0 if there is none.
func at(in []int64, i int) int64 {
	if i < len(in) {
		return in[i]
	}
	return 0
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// Steps makes n calls of the handler, one after the other.
func Steps(ctx context.Context, in []int64) (any, error) {
	name := names()
	for range at(in, 0) {
		if _, err := workflow.Call[any](ctx, name(), handler, nil); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Bodies runs n steps with a body in this module.
func Bodies(ctx context.Context, in []int64) (any, error) {
	name := names()
	for range at(in, 0) {
		if _, err := workflow.Do(ctx, name(), func(workflow.Step) (any, error) { return nil, nil }); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Sleep sleeps until each of the instants, which are Unix milliseconds.
func Sleep(ctx context.Context, in []int64) (any, error) {
	name := names()
	for _, instant := range in {
		if instant == 0 {
			break
		}
		if err := workflow.SleepUntil(ctx, name(), time.UnixMilli(instant)); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// SleepStep has a step of the handler, and then sleeps until each of the instants, with another step after it.
func SleepStep(ctx context.Context, in []int64) (any, error) {
	name := names()
	if _, err := workflow.Call[any](ctx, name(), handler, nil); err != nil {
		return nil, err
	}
	for _, instant := range in {
		if instant == 0 {
			break
		}
		if err := workflow.SleepUntil(ctx, name(), time.UnixMilli(instant)); err != nil {
			return nil, err
		}
		if _, err := workflow.Call[any](ctx, name(), handler, nil); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Wake sleeps until an instant, and then again and again: instant, how often, for how many milliseconds, and 1 if a step
// of the handler follows each sleep.
func Wake(ctx context.Context, in []int64) (any, error) {
	name := names()
	if err := workflow.SleepUntil(ctx, name(), time.UnixMilli(at(in, 0))); err != nil {
		return nil, err
	}
	for range at(in, 1) {
		if err := workflow.Sleep(ctx, name(), ms(at(in, 2))); err != nil {
			return nil, err
		}
		if at(in, 3) == 0 {
			continue
		}
		if _, err := workflow.Call[any](ctx, name(), handler, nil); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Calls makes calls that are over at once, and sleeps then: calls, how often it sleeps, for how many milliseconds.
func Calls(ctx context.Context, in []int64) (any, error) {
	name := names()
	for i := range at(in, 0) + at(in, 1) {
		d := ms(at(in, 2))
		if i < at(in, 0) {
			d = 0
		}
		if err := workflow.Sleep(ctx, name(), d); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Mixed does some of everything: it records a payload, makes steps of the handler, waits for a signal, has a child, sleeps,
// and makes one more step, which gets the instant of its wake. Input: milliseconds of the sleep, bytes of the payload, steps,
// 1 if it waits for a signal, 1 if it has a child. The query "done" answers how many steps it has made before the sleep.
func Mixed(ctx context.Context, in []int64) (any, error) {
	name, done := names(), 0
	workflow.Query(ctx, "done", func(any) (int, error) { return done, nil })
	random := workflow.Rand(ctx)
	_, err := workflow.Do(ctx, name(), func(workflow.Step) (string, error) { return payload(random, int(at(in, 1))), nil })
	if err != nil {
		return nil, err
	}
	for range at(in, 2) {
		if _, err := workflow.Call[any](ctx, name(), handler, nil); err != nil {
			return nil, err
		}
		done++
	}
	if at(in, 3) == 1 {
		if _, err := workflow.Receive[any](ctx, "go"); err != nil {
			return nil, err
		}
	}
	if at(in, 4) == 1 {
		if _, err := workflow.Child[any](ctx, name(), "mixed", []int64{10, 0, 1}); err != nil {
			return nil, err
		}
	}
	due := time.UnixMilli(time.Now().Add(ms(at(in, 0))).UnixMilli())
	if err := workflow.SleepUntil(ctx, name(), due); err != nil {
		return nil, err
	}
	return workflow.Call[any](ctx, name(), handler, due.UnixMilli())
}

// payload returns a text of the given number of bytes that does not compress well.
func payload(random *rand.Rand, n int) string {
	const wordBytes = 8
	b := make([]byte, base64.StdEncoding.DecodedLen(n)+wordBytes)
	for i := 0; i+wordBytes <= len(b); i += wordBytes {
		binary.LittleEndian.PutUint64(b[i:], random.Uint64())
	}
	return base64.StdEncoding.EncodeToString(b)[:n]
}
