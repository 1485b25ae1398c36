package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host"
)

// Signal measures signals to waiting runs.
type Signal struct {
	Hosted `embed:""`

	Rate    int `help:"Signals in a second, while latencies are measured." default:"200"`
	Callers int `help:"Callers at a time, each with one signal after the other, while the rate is measured." default:"64"`
}

// manySignals is the minimum number of signals for the throughput unless --n is given: fewer are over too soon.
const manySignals = 10_000

// resumptions collects when the ends of signalled runs became durable.
type resumptions struct {
	mu    sync.Mutex
	at    []time.Time // when each run ended
	left  int
	ended chan struct{}
}

func (e *resumptions) commit(i int, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at[i] = now
	e.left--
	if e.left == 0 {
		close(e.ended)
	}
}

// waiting starts n runs that wait for a signal.
func (s *session) waiting(what string, n int) (*resumptions, error) {
	s.env.Say(fmt.Sprintf("starting %d runs", n))
	e := &resumptions{at: make([]time.Time, n), left: n, ended: make(chan struct{})}
	s.onCommit(func(r host.Run, now time.Time) {
		if i, ok := numberOf(what, r.ID); ok && r.Status.Terminal() {
			e.commit(i, now)
		}
	})
	err := s.startAll(what, "signal", 0, n, func(int) []byte { return input() })
	if err != nil {
		return nil, err
	}
	_, _, err = s.h.WaitIdle(s.ctx)
	return e, err
}

// Run runs the measurement.
func (b *Signal) Run(env *Env) error {
	if err := errors.Join(b.check(loopFor, 0), between("rate", b.Rate, 1, maxRate),
		between("callers", b.Callers, 1, maxParallel)); err != nil {
		return err
	}
	warm, n, err := b.amount(b.Rate)
	if err != nil {
		return err
	}
	many := n
	if b.For > 0 {
		many = max(n, manySignals)
	}
	s, err := b.session(env, "signal", "signal", b.Callers)
	if err != nil {
		return err
	}
	defer s.end()
	s.notef("First %d signals in a second, each to a run that waits for it and ends then, at instants that were fixed before and "+
		"from which latencies count; lag is how late the benchmark itself was. Warm-up: the first %d. Then %d callers give one "+
		"signal after the other to %d other runs; the rate counts until all have ended.", b.Rate, warm, b.Callers, many)
	if err := b.latencies(s, warm, n); err != nil {
		return err
	}
	if err := b.throughput(s, many); err != nil {
		return err
	}
	return s.show()
}

// latencies sends signals at fixed instants.
func (b *Signal) latencies(s *session, warm, n int) error {
	e, err := s.waiting("signal", warm+n)
	if err != nil {
		return err
	}
	s.env.Say("signals at a rate")
	var accepted samples
	meants := make([]time.Time, warm+n)
	lags, err := s.pace(b.Rate, warm+n, func(ctx context.Context, i int, meant time.Time) error {
		meants[i] = meant
		if err := s.h.SignalRaw(ctx, runID("signal", i), signalName, nil); err != nil {
			return err
		}
		if i >= warm {
			accepted.add(time.Since(meant))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.until(e.ended); err != nil {
		return err
	}
	resumed := make([]time.Duration, n)
	for i := range resumed {
		resumed[i] = e.at[warm+i].Sub(meants[warm+i])
	}
	s.number("rate", "signals in a second that were due", perSecond, float64(b.Rate))
	s.latency("accept", "signal, until it is durable", accepted.list)
	l := s.latency("resume", "signal, until what the run did is durable", resumed)
	s.latency("lag", "lag of the benchmark", lags[warm:])
	s.rate = b.Rate
	s.compareLatency("resume", "signal to resumption", l)
	return nil
}

// throughput sends signals as fast as it can.
func (b *Signal) throughput(s *session, n int) error {
	e, err := s.waiting("callers", n)
	if err != nil {
		return err
	}
	s.env.Say("measurement")
	u := s.open()
	err = each(s.ctx, b.Callers, 0, n, func(ctx context.Context, i int) error {
		return s.h.SignalRaw(ctx, runID("callers", i), signalName, nil)
	})
	if err != nil {
		return err
	}
	if err := s.until(e.ended); err != nil {
		return err
	}
	used, err := u.close()
	if err != nil {
		return err
	}
	s.number("callers", "callers at a time", count, float64(b.Callers))
	s.tell(used, "signal", n)
	s.compare("signals", float64(n)/used.elapsed.Seconds(), b.Callers)
	return nil
}
