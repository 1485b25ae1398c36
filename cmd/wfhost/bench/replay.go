package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/host"
)

// Replay measures the cost of histories.
type Replay struct {
	Hosted `embed:""`

	Lengths []int `help:"Lengths of the histories, in journaled calls." default:"0,100,1000,10000"`
}

const (
	// replayWakes is the default number of wakes per history. Each makes the history longer by one call.
	replayWakes = 50
	// replayNapMs is longer than most replays take, so that the host is idle when a wake comes due.
	replayNapMs = 50
	// maxLengths bounds the number of histories.
	maxLengths = 16
)

// Run runs the measurement.
func (b *Replay) Run(env *Env) error {
	if err := errors.Join(b.check(0, replayWakes), between("n", b.N, 0, maxCalls/2),
		between("lengths", len(b.Lengths), 1, maxLengths)); err != nil {
		return err
	}
	wakes := b.N
	for _, n := range b.Lengths {
		if err := between("lengths", n, 0, maxCalls-max(wakes, replayWakes)); err != nil {
			return err
		}
	}
	b.Cold = true // measure the replay, not a thawed snapshot
	s, err := b.session(env, "replay", "calls")
	if err != nil {
		return err
	}
	defer s.end()
	s.notef("Each history is one run that is alone: it is replayed for %v (Host.Replay: journal read from the store, no "+
		"commit), then it wakes, each time from its journal, %d ms after the commit before. A call is a sleep of 0 ms, two "+
		"entries. Warm-up: one replay, one wake.", b.Probe, replayNapMs)
	for _, n := range b.Lengths {
		env.Say(fmt.Sprintf("history of %d calls", n))
		if err := b.history(s, n, wakes); err != nil {
			return err
		}
	}
	u, err := s.open().close()
	if err != nil {
		return err
	}
	s.tellMemory(u)
	return s.show()
}

// history measures a run that makes a number of calls before it sleeps.
func (b *Replay) history(s *session, calls, wakes int) error {
	name, label := fmt.Sprint("calls", calls), fmt.Sprintf("%d calls: ", calls)
	id := runID("calls", calls)
	total := maxCalls - calls // more wakes than the measurement takes
	if wakes > 0 {
		total = wakes + 1
	}
	c := newRecorder(func(r host.Run) int { return int(r.Entries) / entriesPerCall },
		func(r host.Run, _ time.Time) time.Time { return r.Wake })
	asleep := make(chan struct{}, 1)
	seen := 0
	s.onCommit(func(r host.Run, now time.Time) {
		if r.ID == id {
			c.commit(r, now)
			if !r.Wake.IsZero() {
				seen++
				if seen == 2 { // it has slept once, and sleeps again
					asleep <- struct{}{}
				}
			}
		}
	})
	defer s.onCommit(nil)
	if _, err := s.h.StartRaw(s.ctx, "calls", input(int64(calls), int64(total), replayNapMs), host.WithRunID(id)); err != nil {
		return err
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	go func() { ended <- s.completed(ctx, id) }()
	select {
	case <-asleep:
	case err := <-ended:
		return errors.Join(err, fmt.Errorf("history of %d calls: the run ended before it was measured", calls))
	}
	w := s.open()
	c.begin(wakes)
	over := time.NewTimer(max(b.For, 1))
	defer over.Stop()
	if b.For == 0 {
		over.Stop()
	}
	select {
	case <-over.C:
	case <-c.full:
	case err := <-ended:
		if err != nil {
			return err
		}
	}
	samples := c.taken()
	u, err := w.close()
	if err != nil {
		return err
	}
	l := s.latency(name+"Wake", label+"wake, from its instant until what it did is durable", samples)
	s.number(name+"CpuPerWake", label+"CPU time per wake", micros, u.cpuPer(len(samples)))
	s.compareLatency(name+"Wake", label+"wake", l)
	if calls > 0 {
		return b.pure(s, id, name, label)
	}
	return nil
}

// pure measures the replay of a run alone.
func (b *Replay) pure(s *session, id, name, label string) error {
	if err := s.h.Replay(s.ctx, id); err != nil {
		return err
	}
	r, err := s.h.Get(s.ctx, id)
	if err != nil {
		return err
	}
	var samples []time.Duration
	w := s.open()
	for len(samples) == 0 || time.Since(w.begun) < b.Probe {
		from := time.Now()
		if err := s.h.Replay(s.ctx, id); err != nil {
			return err
		}
		samples = append(samples, time.Since(from))
	}
	u, err := w.close()
	if err != nil {
		return err
	}
	s.latency(name+"Replay", label+"replay", samples)
	done := float64(len(samples)) * float64(int(r.Entries)-firstEntries) / entriesPerCall
	s.number(name+"Replayed", label+"calls replayed in a second", perSecond, done/u.elapsed.Seconds())
	s.number(name+"ReplayedPerCore", label+"calls replayed in a second of CPU time", perSecond, 1e6/u.cpuPer(int(done)))
	return nil
}
