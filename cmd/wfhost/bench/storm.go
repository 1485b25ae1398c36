package bench

import (
	"errors"
	"fmt"
	"time"
)

// Storm measures many runs that are due at the same instant.
type Storm struct {
	Hosted `embed:""`

	Lead time.Duration `help:"How long before the wake the starts begin. Default: as long as they seem to take."`
}

// stormRuns is how many runs are due if nothing is said.
const stormRuns = 10_000

// Run measures.
func (b *Storm) Run(env *Env) error {
	if b.For != 0 {
		return usagef("bench storm measures a number of runs: give --n, got --for %v", b.For)
	}
	if err := errors.Join(b.check(0, stormRuns), between("n", b.N, 1, maxRuns), span("lead", b.Lead, 0, maxLead)); err != nil {
		return err
	}
	s, err := b.session(env, "storm", "sleep")
	if err != nil {
		return err
	}
	defer s.end()
	c, err := s.schedule("storm", b.Lead, 0, b.N, 0, b.N)
	if err != nil {
		return err
	}
	settle()
	env.Say(fmt.Sprintf("%d runs are due", b.N))
	before, _ := memory()
	if err := s.sleep(c.first.Add(-time.Millisecond)); err != nil {
		return err
	}
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
	all := c.last.Sub(c.first)
	s.number("all", "until all are resumed and durable", millis, float64(all)/float64(time.Millisecond))
	l := s.latency("resume", "from the instant until a run is durable", c.late)
	s.number("early", "wakes before their instant", count, float64(c.early+early))
	s.number("rssBefore", "memory before (RSS)", size, before)
	s.tell(u, "wake", b.N)
	s.compareLatency("resume", "resumption", l)
	s.compare("wakes", float64(b.N)/all.Seconds(), starters)
	return s.show()
}
