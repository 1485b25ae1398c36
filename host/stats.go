package host

import (
	"context"
	"errors"
	"time"

	"github.com/wfhost/wfhost/store"
)

// Stats is what the host holds in memory at the moment, and what it has done.
type Stats struct {
	Runs      int    // runs in progress
	Instances int    // live instances
	Timers    int    // wakes of the next minute
	Queued    int    // new runs that wait for an instance
	Waiting   int    // guests of all runs that wait for one, or for a place to continue in theirs, and bodies that have to wait
	Commands  int    // what runs want of each other (signals, starts and ends of children, slots), read and not taken in yet
	Commits   uint64 // of runs, each durable, since Open
	// JournalBytes and GuestBytes are what is counted for the limits of that name.
	JournalBytes, GuestBytes int64
	// Overdue is how long the wake has been due that is due longest and has not happened: of a run, a schedule or a
	// queue. A host that keeps up has 0 or some milliseconds. Runs that wait because of Quota.WakesPerSecond do not
	// count.
	Overdue    time.Duration
	Partitions int // that this host owns
	// NextSweep is when Run next deletes the runs that retentions no longer keep; it is in the past while it does. Zero if it does
	// not: see Config.SweepEvery.
	NextSweep time.Time
}

// Stats returns the numbers. It takes some microseconds, however many runs there are.
func (h *Host) Stats() Stats {
	s := h.rt.Stats()
	var sweep time.Time
	if at := h.nextSweep.Load(); at != nil {
		sweep = *at
	}
	return Stats{NextSweep: sweep,
		Runs: s.Runs, Instances: s.Instances, Timers: s.Timers, Queued: s.Queued, Waiting: s.Waiting, Commands: s.Commands,
		Commits: s.Commits, JournalBytes: h.journals.Held(), GuestBytes: s.GuestBytes,
		Overdue: time.Duration(s.OverdueMs) * time.Millisecond, Partitions: s.Partitions}
}

// StoreStats says how large the store is, and how long it had commits wait, since Open.
type StoreStats struct {
	Bytes       uint64        // of its files, as they were a moment ago
	WriteStalls uint64        // how often commits waited until the store had caught up with those before
	Stalled     time.Duration // how long they waited, a stall in progress included
}

// StoreStats asks the store, which takes a tenth of a second at most. ErrNotFound if the store of Config.Store does not say.
func (h *Host) StoreStats() (StoreStats, error) {
	s, ok := h.below.(store.Measured)
	if !ok {
		return StoreStats{}, &joined{errors.New("the store does not measure itself"), ErrNotFound}
	}
	m, err := s.Measure()
	if errors.Is(err, errors.ErrUnsupported) {
		return StoreStats{}, &joined{err, ErrNotFound}
	}
	return StoreStats{Bytes: m.Bytes, WriteStalls: m.WriteStalls, Stalled: m.Stalled}, translate(err)
}

// CountsByNamespace returns how many runs each namespace has that has or had any, by its name; the default one is
// "default". They are counted as they change, so it takes as long as there are namespaces, however many runs they have.
func (h *Host) CountsByNamespace(ctx context.Context) (map[string]RunCounts, error) {
	all, err := h.store.Tallies(ctx)
	if err != nil {
		return nil, translate(err)
	}
	counts := make(map[string]RunCounts, len(all))
	for ns, tally := range all {
		c := RunCounts{}
		for st := Queued; st <= Terminated; st++ {
			c[st] = tally[st]
		}
		name := h.nameOf(ns)
		if name == "" {
			name = store.DefaultNamespace
		}
		counts[name] = c
	}
	return counts, nil
}

// Failure returns why the store has failed, an ErrStoreFailed, and nil if it has not. A host whose store has failed accepts
// nothing any more, and Run returns; what is durable can be read until Close.
func (h *Host) Failure() error {
	if s, ok := h.below.(store.Failing); ok {
		select {
		case <-s.Failed():
			return translate(s.Failure())
		default:
		}
	}
	if err := h.failure.Load(); err != nil {
		return *err
	}
	return nil
}
