package host

import (
	"context"
	"errors"
	"time"

	"github.com/wfhost/wfhost/store"
)

// Stats is what the host holds in memory at the moment, and what it has done since Open.
type Stats struct {
	Runs      int    // runs in progress
	Instances int    // live instances
	Timers    int    // wakes within the next minute
	Queued    int    // new runs that wait for an instance
	Waiting   int    // guests that wait for an instance or for a place to continue in theirs, and bodies that wait
	Attempts  int    // attempts of steps that wait for their handlers, or for workers
	Commands  int    // commands between runs (signals, starts and ends of children, slots) that were read and not yet processed
	Commits   uint64 // durable commits of runs, since Open
	// JournalBytes and GuestBytes say how much of Config.JournalBytes and Config.GuestBytes is in use.
	JournalBytes, GuestBytes int64
	// Overdue is the delay of the longest overdue wake of a run, a schedule or a queue. A host that keeps up has 0 or
	// some milliseconds. Runs that wait because of Quota.WakesPerSecond do not count.
	Overdue    time.Duration
	Partitions int // owned by this host
	// NextSweep is when Run next deletes runs past their retention; it is in the past during a sweep. Zero if Run
	// does not sweep: see Config.SweepEvery.
	NextSweep time.Time
}

// Stats returns the current numbers. It takes some microseconds, however many runs there are.
func (h *Host) Stats() Stats {
	s := h.rt.Stats()
	var sweep time.Time
	if at := h.nextSweep.Load(); at != nil {
		sweep = *at
	}
	return Stats{NextSweep: sweep,
		Runs: s.Runs, Instances: s.Instances, Timers: s.Timers, Queued: s.Queued, Waiting: s.Waiting,
		Attempts: s.Attempts, Commands: s.Commands, Commits: s.Commits, JournalBytes: h.journals.Bytes(), GuestBytes: s.GuestBytes,
		Overdue: time.Duration(s.OverdueMs) * time.Millisecond, Partitions: s.Partitions}
}

// StoreStats is the size of the store, and how long it has delayed commits, since Open.
type StoreStats struct {
	Bytes       uint64        // of its files, a moment ago
	WriteStalls uint64        // how often commits waited for the store to catch up with earlier ones
	Stalled     time.Duration // how long they waited, including a stall in progress
}

// StoreStats asks the store, which takes at most a tenth of a second. ErrNotFound if Config.Store does not report it.
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

// CountsByNamespace returns the number of runs by namespace, for each namespace that has or had runs; the default one
// is "default". The counts are maintained as runs change, so the cost depends only on the number of namespaces.
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

// Failure returns why the store has failed, an ErrStoreFailed, or nil if it works. A host whose store has failed
// accepts no more calls, and Run returns. What is durable can be read until Close.
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
