package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/host"
)

// Wake measures wakes of sleeping runs, as many as there can be.
type Wake struct {
	Hosted `embed:""`

	Due    int           `help:"Runs that are due at a time; as many more sleep as that takes." default:"256"`
	Nap    time.Duration `help:"How long each sleep is." default:"250ms"`
	Length int           `help:"Wakes of a run; then the next run begins." default:"16"`
	Step   bool          `help:"Each wake is followed by a step of a handler in Go."`
}

// beforeNaps is how many entries stand before the first wake that counts: started, activated, a sleep that is over at
// once and its end, the first sleep.
const beforeNaps = firstEntries + entriesPerCall + 1

// Run measures.
func (b *Wake) Run(env *Env) error {
	perWake, step, name := entriesPerCall, int64(0), "wake"
	if b.Step {
		perWake, step, name = 2*entriesPerCall, 1, "wakeStep"
	}
	if err := errors.Join(b.check(loopFor, 0), between("due", b.Due, 1, maxParallel),
		between("length", b.Length, 1, callRoom/perWake), span("nap", b.Nap, time.Millisecond, time.Hour)); err != nil {
		return err
	}
	s, err := b.session(env, name, b.Due)
	if err != nil {
		return err
	}
	defer s.end()
	if err := s.upload("wake"); err != nil {
		return err
	}
	c := newRecorder(func(r host.Run) int { return (int(r.Entries) - beforeNaps) / perWake },
		func(r host.Run, _ time.Time) time.Time { return r.Wake })
	var due, runs int
	u, err := s.closedLoop(b.Due, c, func(ctx context.Context, number int) error {
		id := runID("wake", number)
		if _, err := s.h.StartRaw(ctx, "wake", input(0, int64(b.Length), b.Nap.Milliseconds(), step), host.WithRunID(id)); err != nil {
			return err
		}
		return s.completed(ctx, id)
	}, func(w *crew) { due, runs = b.fill(w, c) })
	if err != nil {
		return err
	}
	samples := c.taken()
	with := "no step"
	if b.Step {
		with = "one step of a handler in Go each"
	}
	s.notef("So many runs sleep %v and wake, again and again, that about %d are due at a time; they wake %d times each, with "+
		"%s, then a next run begins. What the starts cost is in the rate, the CPU time and the commits. More is due than can "+
		"be done, so latencies tell of the queue: see bench late. Warm-up %v.", b.Nap, b.Due, b.Length, with, b.WarmUp)
	s.number("runs", "runs at a time", count, float64(runs))
	s.number("due", "of which due, as the warm-up began", count, float64(due))
	s.latency("wake", fmt.Sprintf("wake, from its instant until what it did is durable (%s)", with), samples)
	s.tell(u, "wake", len(samples))
	s.number("commitsPerWakeAfterStart", "commits per wake, without those of starts", ratio,
		float64(c.commits)/float64(len(samples)))
	s.number("skipped", "sleeps that were over before the run slept (not counted)", count, float64(c.free))
	s.compare("wakes", float64(len(samples))/u.elapsed.Seconds(), b.Due)
	return env.Show(s.Report)
}

const (
	// fillSteps bounds how long it is tried to have as many runs due as were asked for.
	fillSteps = 100
	// fillEvery is how long each trial takes: longer than a wake waits in its queue.
	fillEvery = 100 * time.Millisecond
)

// fill lets more runs begin until as many as were asked for are due at a time. It gives how many are, and how many runs
// that took.
func (b *Wake) fill(w *crew, c *recorder) (due, runs int) {
	w.rest(b.Nap+fillEvery, nil)
	for range fillSteps {
		if due = c.due(time.Now()); due >= b.Due || w.size >= maxParallel || w.ctx.Err() != nil {
			break
		}
		w.add(min(b.Due-due, maxParallel-w.size))
		w.rest(b.Nap+fillEvery, nil)
	}
	return due, w.size
}
