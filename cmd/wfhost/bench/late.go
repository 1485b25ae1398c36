package bench

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
)

// Late measures how late runs wake. The instants are evenly spread.
type Late struct {
	Hosted `embed:""`

	Step bool          `help:"A step before the sleeps and after each wake: lateness is until that of the wake is durable."`
	Rate int           `help:"Wakes in a second." default:"1000"`
	Lead time.Duration `help:"How long before the first wake the starts begin. Default: as long as they seem to take."`
}

// wakesPerRun is the number of wakes per run. With several wakes a run, fewer runs have to be started before the
// measurement. The sleeps are still long enough that a wake is over before the next one is due, unless the host is far
// behind.
const wakesPerRun = 8

// maxLead bounds the time for the starts. A machine that needs longer is not worth measuring.
const maxLead = time.Hour

// schedule has the instants of a measurement and its results.
type schedule struct {
	first time.Time // of the first wake, in whole milliseconds
	rate  int       // wakes per second; 0 = all at once
	runs  int
	warm  int // wakes of the warm-up, which do not count
	total int

	mu     sync.Mutex
	taken  []int // per run: number of wakes that are over
	left   int
	early  int
	late   []time.Duration
	last   time.Time
	served chan struct{}
}

func newSchedule(first time.Time, rate, runs, warm, total int) *schedule {
	return &schedule{first: first, rate: rate, runs: runs, warm: warm, total: total, taken: make([]int, runs), left: total,
		served: make(chan struct{})}
}

// due returns the instant of wake i, which belongs to run i%runs.
func (c *schedule) due(i int) time.Time {
	if c.rate == 0 {
		return c.first
	}
	return c.first.Add(offset(i, c.rate)).Truncate(time.Millisecond)
}

// input returns the instants of a run.
func (c *schedule) input(run int) []byte {
	var list []int64
	for i := run; i < c.total; i += c.runs {
		list = append(list, c.due(i).UnixMilli())
	}
	return input(list...)
}

// commit takes a commit of a run. All wakes before the sleep that the run is in are over.
func (c *schedule) commit(run int, r host.Run, now time.Time) {
	if r.Status != host.Sleeping && !r.Status.Terminal() { // it is running, or waits for its step
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		i := run + c.taken[run]*c.runs
		if i >= c.total {
			return
		}
		due := c.due(i)
		if !r.Status.Terminal() && !due.Before(r.Wake) {
			return
		}
		c.taken[run]++
		late := now.Sub(due)
		if late < 0 {
			c.early++
		}
		if i >= c.warm {
			c.late, c.last = append(c.late, late), now
		}
		c.left--
		if c.left == 0 {
			close(c.served)
		}
	}
}

// Run runs the measurement.
func (b *Late) Run(env *Env) error {
	if err := errors.Join(b.check(loopFor, 0), between("rate", b.Rate, 1, maxRate), span("lead", b.Lead, 0, maxLead)); err != nil {
		return err
	}
	warm, n, err := b.amount(b.Rate)
	if err != nil {
		return err
	}
	workflow := sleepOf(b.Step)
	s, err := b.session(env, "late", workflow)
	if err != nil {
		return err
	}
	defer s.end()
	total := warm + n
	runs := (total + wakesPerRun - 1) / wakesPerRun
	c, err := s.schedule("late", workflow, b.Lead, b.Rate, runs, warm, total)
	if err != nil {
		return err
	}
	env.Say(fmt.Sprintf("%d wakes", total))
	if err := s.sleep(c.due(warm)); err != nil {
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
	early, err := s.early("late", runs)
	if err != nil {
		return err
	}
	if b.Step {
		s.notef("Each run has a step before its sleeps, and another one after each wake (--step): what a wake did is durable with " +
			"the result of its step, and the next sleep.")
	}
	s.notef("%d wakes in a second, at instants that were fixed before: %d runs, each with up to %d of them. Lateness is from "+
		"the instant until what the run did is durable. Early counts wakes that any of commit and journal has before their "+
		"instant. Warm-up: the first %d wakes.", b.Rate, runs, wakesPerRun, warm)
	s.number("rate", "wakes in a second that were due", perSecond, float64(b.Rate))
	l := s.latency("late", "lateness, until durable", c.late)
	s.number("early", "wakes before their instant", count, float64(c.early+early))
	s.tell(u, "wake", len(c.late))
	s.rate = b.Rate
	s.compareLatency("late", "lateness", l)
	return s.show()
}

// leadSpare is the minimum time between the last start and the first wake.
const leadSpare = time.Second

// trial is the number of runs that are started first, to warm up the host and to measure how long a start takes.
const trial = 512

// sleepOf returns the name of the workflow that sleeps until instants, with or without steps.
func sleepOf(step bool) string {
	if step {
		return "sleepstep"
	}
	return "sleep"
}

// schedule starts runs of a workflow that sleep until the instants of a schedule. The first instant is after the last
// start.
func (s *session) schedule(what, workflow string, lead time.Duration, rate, runs, warm, total int) (*schedule, error) {
	begun := time.Now()
	if err := s.startAll("trial", workflow, 0, trial, func(int) []byte { return input(0) }); err != nil {
		return nil, err
	}
	for i := range trial {
		if err := s.completed(s.ctx, runID("trial", i)); err != nil {
			return nil, err
		}
	}
	if lead == 0 {
		// Twice the time that the trial predicts, and leadSpare to come to rest.
		lead = 2*time.Since(begun)/trial*time.Duration(runs) + leadSpare
	}
	s.env.Say(fmt.Sprintf("starting %d runs", runs))
	c := newSchedule(time.Now().Add(lead).Truncate(time.Millisecond), rate, runs, warm, total)
	s.onCommit(func(r host.Run, now time.Time) {
		if i, ok := numberOf(what, r.ID); ok {
			c.commit(i, r, now)
		}
	})
	if err := s.startAll(what, workflow, 0, runs, c.input); err != nil {
		return nil, err
	}
	if _, _, err := s.h.WaitIdle(s.ctx); err != nil {
		return nil, err
	}
	if behind := time.Since(c.first); behind > 0 {
		return nil, usagef("starting %d runs took %v longer than there was time before the first wake: give a longer --lead, got %v",
			runs, behind.Round(time.Millisecond), lead.Round(time.Millisecond))
	}
	return c, nil
}

// early counts the timers that fired before their instants, by the journals.
func (s *session) early(what string, runs int) (n int, err error) {
	for i := range runs {
		due := int64(0)
		for e, err := range s.h.Journal(s.ctx, runID(what, i), 0) {
			switch {
			case err != nil:
				return n, err
			case e.Kind == store.KindSleep:
				due = e.DueUnixMs
			case e.Kind == store.KindTimer && e.UnixMs < due:
				n++
			}
		}
	}
	return n, nil
}
