package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/wfhost/wfhost/host"
)

// Wake measures the throughput of wakes of sleeping runs.
type Wake struct {
	Hosted `embed:""`

	Due    int           `help:"Runs that are due at a time; as many more sleep as that takes." default:"256"`
	Nap    time.Duration `help:"How long sleeps are on the average." default:"250ms"`
	Length int           `help:"Wakes of a run; then the next run begins." default:"16"`
	Step   bool          `help:"Each wake is followed by a step of a handler in Go."`
}

// beforeNaps is the number of entries before the first counted wake: started, activated, a sleep that is over at once
// and its end, the first sleep.
const beforeNaps = firstEntries + entriesPerCall + 1

// Run runs the measurement.
func (b *Wake) Run(env *Env) error {
	perWake, step, name := entriesPerCall, int64(0), "wake"
	if b.Step {
		perWake, step, name = 2*entriesPerCall, 1, "wakeStep"
	}
	if err := errors.Join(b.check(loopFor, 0), between("due", b.Due, 1, maxParallel),
		between("length", b.Length, 1, callRoom/perWake), span("nap", b.Nap, time.Millisecond, time.Hour)); err != nil {
		return err
	}
	s, err := b.session(env, name, "wake", b.Due)
	if err != nil {
		return err
	}
	defer s.end()
	c := newRecorder(func(r host.Run) int { return (int(r.Entries) - beforeNaps) / perWake },
		func(r host.Run, _ time.Time) time.Time { return r.Wake })
	begun := time.Now()
	f := filler{want: b.Due, settle: 3*b.Nap/2 + 4*lookEvery, since: begun}
	var runs, sum, looks int
	u, err := s.closedLoop(b.Due, c, func(ctx context.Context, number int) error {
		id := runID("wake", number)
		if _, err := s.h.StartRaw(ctx, "wake", input(0, int64(b.Length), b.nap(number), step), host.WithRunID(id)); err != nil {
			return err
		}
		return s.completed(ctx, id)
	}, func(w *crew) {
		now := time.Now()
		due := c.due(now)
		if f.look(w, due, now) || now.Sub(begun) > fillFor {
			w.ready()
		}
		runs = w.size
		if c.counting() {
			sum, looks = sum+due, looks+1
		}
	})
	if err != nil {
		return err
	}
	samples := c.taken()
	with := "no step"
	if b.Step {
		with = "one step of a handler in Go each"
	}
	s.notef("Runs sleep %v, half of it more or less, and wake, %d times each, with %s; then a next run begins, and what the "+
		"starts cost is in the rate, the CPU time and the commits. There are so many runs that about %d are due at a time: "+
		"latencies tell of their queue, see bench late. Warm-up %v.", b.Nap, b.Length, with, b.Due, b.WarmUp)
	s.number("runs", "runs at a time", count, float64(runs))
	s.number("due", "of which due on the average", count, float64(sum)/float64(max(looks, 1)))
	s.latency("wake", fmt.Sprintf("wake, from its instant until what it did is durable (%s)", with), samples)
	s.tell(u, "wake", len(samples))
	s.number("commitsPerWakeAfterStart", "commits per wake, without those of starts", ratio,
		float64(c.commits)/float64(len(samples)))
	s.number("skipped", "sleeps that were over before the run slept (not counted)", count, float64(c.free))
	s.compare("wakes", float64(len(samples))/u.elapsed.Seconds(), b.Due)
	return s.show()
}

const (
	// fillFor bounds the time before the warm-up in which the filler tries to reach the wanted number of due runs.
	fillFor = 30 * time.Second
	// lookEvery is the interval at which due runs are counted: several times per nap, and seldom for a processor.
	lookEvery = 25 * time.Millisecond
)

// filler starts more runs until enough are due on average. It averages over settle, so that runs it has started before
// have reached their naps.
type filler struct {
	want       int
	settle     time.Duration
	since      time.Time // of the sums
	sum, looks int
}

// look records the number of due runs and, once per settle interval, adds runs if too few are due. It reports whether
// enough were due on average during that interval.
func (f *filler) look(w *crew, due int, now time.Time) (enough bool) {
	f.sum, f.looks = f.sum+due, f.looks+1
	mean := float64(f.sum) / float64(f.looks)
	enough = mean >= float64(f.want)
	if now.Sub(f.since) < f.settle {
		return false
	}
	f.since, f.sum, f.looks = now, 0, 0
	if !enough {
		w.add(min(f.want-int(mean), maxParallel-w.size))
	}
	return enough
}

// nap returns how long a run sleeps, in milliseconds: evenly distributed between 0.5 and 1.5 times the flag, so that
// runs that began together drift apart.
func (b *Wake) nap(number int) int64 {
	const share = 0.6180339887 // the golden ratio's multiples, less their whole parts, are spread as evenly as can be
	_, part := math.Modf(float64(number) * share)
	return max(int64(b.Nap.Seconds()*1000*(0.5+part)), 1)
}
