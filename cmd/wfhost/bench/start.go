package bench

import (
	"context"
	"errors"
	"time"

	"github.com/wfhost/wfhost/host"
)

// Start measures runs of a workflow that does nothing, from their start to their result.
type Start struct {
	Hosted `embed:""`

	Rate    int `help:"Starts in a second, while latencies are measured." default:"200"`
	Callers int `help:"Callers at a time, each with one start after the other, while the rate is measured." default:"64"`
}

// Run runs the measurement.
func (b *Start) Run(env *Env) error {
	if err := errors.Join(b.check(loopFor, 0), between("rate", b.Rate, 1, maxRate),
		between("callers", b.Callers, 1, maxParallel)); err != nil {
		return err
	}
	warm, n, err := b.amount(b.Rate)
	if err != nil {
		return err
	}
	s, err := b.session(env, "start", "empty", b.Callers)
	if err != nil {
		return err
	}
	defer s.end()
	s.notef("First %d starts in a second, at instants that were fixed before and from which latencies count, whatever the ones "+
		"before take; lag is how late the benchmark itself was. Then %d callers, one start and result after the other, for as "+
		"long or as many. Warm-up %v before each.", b.Rate, b.Callers, b.WarmUp)
	if err := b.latencies(s, warm, n); err != nil {
		return err
	}
	if err := b.throughput(s); err != nil {
		return err
	}
	return s.show()
}

// latencies starts runs at fixed instants.
func (b *Start) latencies(s *session, warm, n int) error {
	s.env.Say("starts at a rate")
	var started, ended samples
	lags, err := s.pace(b.Rate, warm+n, func(ctx context.Context, i int, meant time.Time) error {
		id := runID("start", i)
		if _, err := s.h.StartRaw(ctx, "empty", nil, host.WithRunID(id)); err != nil {
			return err
		}
		durable := time.Since(meant)
		if err := s.completed(ctx, id); err != nil {
			return err
		}
		if i >= warm {
			started.add(durable)
			ended.add(time.Since(meant))
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.number("rate", "starts in a second that were due", perSecond, float64(b.Rate))
	s.latency("start", "start, until it is durable", started.list)
	l := s.latency("result", "start, until the result is there", ended.list)
	s.latency("lag", "lag of the benchmark", lags[warm:])
	s.rate = b.Rate
	s.compareLatency("result", "start to result", l)
	return nil
}

// throughput starts runs as fast as it can.
func (b *Start) throughput(s *session) error {
	c := newRecorder(nil, nil)
	u, err := s.measure(b.Callers, c, func(ctx context.Context, number int) error {
		from := time.Now()
		id := runID("callers", number)
		if _, err := s.h.StartRaw(ctx, "empty", nil, host.WithRunID(id)); err != nil {
			return err
		}
		if err := s.completed(ctx, id); err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sample(time.Since(from))
		return nil
	}, nil)
	if err != nil {
		return err
	}
	taken := c.taken()
	s.number("callers", "callers at a time", count, float64(b.Callers))
	s.latency("callersResult", "start, until the result is there, with these callers", taken)
	s.tell(u, "start", len(taken))
	s.compare("starts", float64(len(taken))/u.elapsed.Seconds(), b.Callers)
	return nil
}
