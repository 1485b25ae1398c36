package bench

import (
	"context"
	"errors"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

// Steps measures sequential steps in concurrent runs.
type Steps struct {
	Hosted `embed:""`

	Runs   int  `help:"Runs at a time." default:"64"`
	Length int  `help:"Steps of a run; then the next run begins." default:"100"`
	Bodies bool `help:"Step bodies in the guest, each on a copy of its instance, in place of a handler in Go."`
}

const (
	// loopFor is the default duration of throughput: several flushes of Pebble at common rates.
	loopFor = 10 * time.Second
	// callRoom is how many entries of its journal a run may use for calls and their results. The rest is for what the
	// benchmark adds.
	callRoom = abi.MaxEntries - abi.MaxEntries/abi.DeliveryReserveShare - 1000
	// entriesPerCall: a call and its result.
	entriesPerCall = 2
	// maxCalls is the maximum number of calls of a measured run.
	maxCalls = callRoom / entriesPerCall
	// firstEntries come before the calls: started, activated.
	firstEntries = 2
)

// Run runs the measurement.
func (b *Steps) Run(env *Env) error {
	if err := errors.Join(b.check(loopFor, 0), between("runs", b.Runs, 1, maxParallel),
		between("length", b.Length, 1, maxCalls)); err != nil {
		return err
	}
	name, workflow := "steps", "steps"
	if b.Bodies {
		name, workflow = "bodies", "bodies"
	}
	s, err := b.session(env, name, workflow, b.Runs)
	if err != nil {
		return err
	}
	defer s.end()
	c := newRecorder(func(r host.Run) int { return (int(r.Entries) - firstEntries) / entriesPerCall },
		func(_ host.Run, now time.Time) time.Time { return now })
	u, err := s.closedLoop(b.Runs, c, func(ctx context.Context, number int) error {
		id := runID("steps", number)
		if _, err := s.h.StartRaw(ctx, workflow, input(int64(b.Length)), host.WithRunID(id)); err != nil {
			return err
		}
		return s.completed(ctx, id)
	}, nil)
	if err != nil {
		return err
	}
	samples := c.taken()
	s.notef("%d runs at a time, each with %d steps one after the other, then a next one begins; what the starts cost is in "+
		"the rate, the CPU time and the commits. A step's latency is from the commit before to its own. Warm-up %v.",
		b.Runs, b.Length, b.WarmUp)
	s.number("runs", "runs at a time", count, float64(b.Runs))
	s.latency("step", "step, until its result is durable", samples)
	s.tell(u, "step", len(samples))
	s.compare("steps", float64(len(samples))/u.elapsed.Seconds(), b.Runs)
	return s.show()
}
