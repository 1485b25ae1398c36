package host_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store/memstore"
)

// A fastClock runs factor times as fast as the machine's clock.
type fastClock struct {
	factor  time.Duration
	start   time.Time // what it showed when it was made
	started time.Time // when that was
}

func (c fastClock) Now() time.Time { return c.start.Add(time.Since(c.started) * c.factor) }

// NewTimer rounds up, so that Now has reached the deadline when the timer fires.
func (c fastClock) NewTimer(d time.Duration) host.ClockTimer {
	return fastTimer{time.NewTimer((d + c.factor - 1) / c.factor)}
}

// Steps returns a channel that never receives: this clock is never set.
func (fastClock) Steps() (c <-chan struct{}, stop func()) { return make(chan struct{}), func() {} }

type fastTimer struct{ timer *time.Timer }

func (t fastTimer) C() <-chan time.Time { return t.timer.C }
func (t fastTimer) Stop() bool          { return t.timer.Stop() }

var (
	_ host.Clock   = fastClock{}
	_ host.Stepper = fastClock{}
)

// A custom clock on which a minute passes in 100 milliseconds.
func ExampleClock() {
	ctx := context.Background()
	start := time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)
	clock := fastClock{factor: 600, start: start, started: time.Now()}
	h, err := host.Open(ctx, host.Config{Store: memstore.New().Open(), Clock: clock})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	go func() { _ = h.Run(ctx) }()
	if _, err := h.Upload(ctx, "nap", napModule()); err != nil {
		log.Fatal(err)
	}
	run, err := h.StartRaw(ctx, "nap", []byte("1m"))
	if err != nil {
		log.Fatal(err)
	}
	_, err = host.Result[any](ctx, h, run.ID)
	fmt.Println(clock.Now().Sub(start) >= time.Minute, time.Since(clock.started) < time.Minute, err)
	// Output: true true <nil>
}
