package bench

import (
	"errors"
	"fmt"
	"time"
)

// Storm measures many runs that are due at the same instant.
type Storm struct {
	Hosted `embed:""`

	Step bool          `help:"A step before the sleep and after the wake: a run has resumed when that of the wake is durable."`
	Lead time.Duration `help:"How long before the wake the starts begin. Default: as long as they seem to take."`
}

// stormRuns is the default number of runs.
const stormRuns = 10_000

// Run runs the measurement.
func (b *Storm) Run(env *Env) error {
	if b.For != 0 {
		return usagef("bench storm measures a number of runs: give --n, got --for %v", b.For)
	}
	if err := errors.Join(b.check(0, stormRuns), between("n", b.N, 1, maxRuns), span("lead", b.Lead, 0, maxLead)); err != nil {
		return err
	}
	workflow := sleepOf(b.Step)
	s, err := b.session(env, "storm", workflow)
	if err != nil {
		return err
	}
	defer s.end()
	c, err := s.schedule("storm", workflow, b.Lead, 0, b.N, 0, b.N)
	if err != nil {
		return err
	}
	env.Say(fmt.Sprintf("%d runs are due", b.N))
	if err := s.sleep(c.first.Add(-time.Millisecond)); err != nil {
		return err
	}
	asleep, _ := memory()
	w := s.open()
	if err := s.until(c.served); err != nil {
		return err
	}
	u, err := w.close()
	if err != nil {
		return err
	}
	early, err := s.early("storm", b.N)
	if err != nil {
		return err
	}
	s.notef("%d runs are due in the same millisecond; each wakes, replays and ends. Warm-up: %d runs before that end at "+
		"once; --warm-up is not used.", b.N, trial)
	if b.Step {
		s.notef("Each run has a step before its sleep, and another one after the wake (--step): a run is resumed when that is " +
			"durable with the run's end.")
	}
	all := c.last.Sub(c.first)
	s.number("all", "until all are resumed and durable", millis, float64(all)/float64(time.Millisecond))
	l := s.latency("resume", "from the instant until a run is durable", c.late)
	s.number("early", "wakes before their instant", count, float64(c.early+early))
	s.stages()
	s.number("rssAsleep", "memory while all sleep, before the wake (RSS)", size, asleep)
	s.tell(u, "wake", b.N)
	s.compareLatency("resume", "resumption", l)
	s.compare("wakes", float64(b.N)/all.Seconds(), starters)
	return s.show()
}
