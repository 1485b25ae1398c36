// Package retention deletes ended runs that were kept long enough, and the remains of deleted ones.
//
// A Sweeper reads two tables of the store, ended runs and deleted runs, each ordered by time, and continues where the last
// sweep stopped. For workflows with too many runs it reads the oldest runs, likewise from a cursor. It changes nothing
// itself: the writer of the partition deletes each run, on condition that the run is still as the Sweeper read it. So a
// sweep may stop anywhere, even by a crash, and the next one continues.
package retention

import (
	"context"
	"errors"
	"slices"

	"github.com/wfhost/wfhost/store"
)

const (
	// portion is how many ended runs are read at a time.
	portion = 256
	// atOnce bounds the deletions in flight. They share fsyncs and leave most of a batch to other work.
	atOnce = 32
	// MaxListed bounds the runs that a Report lists.
	MaxListed = 1000
	// heldMs is how long runs that were held back are left alone before the next look.
	heldMs = 24 * 3600 * 1000
)

// Config configures a Sweeper. All fields but Default are required.
type Config struct {
	Store store.Store
	// Owned returns the partitions whose runs this host may delete.
	Owned func() []store.PartitionID
	// Delete deletes an ended run, or the remains of a deleted one, if which returns true for its current state.
	Delete func(ctx context.Context, key store.RunKey, which func(*store.RunState) bool) error
	// Default is the retention of workflows without one in the store. Its namespace and workflow are ignored.
	Default store.Retention
}

// Report is the result of a sweep.
type Report struct {
	Deleted   int // runs
	Held      int // runs that were due, but a live parent waits for them
	Forgotten int // deleted runs whose remains were deleted
	Failed    int // runs that could not be read or deleted; retried after a day, or by the next host
	First     []store.RunState
	Err       error // of the first failed run
}

// A Sweeper deletes runs. Its methods may be called concurrently; sweeps run one after the other.
type Sweeper struct {
	cfg Config

	turn    chan struct{}     // holds one element during a sweep; guards the fields below
	seen    []store.Retention // retentions as of the newest sweep
	cursors map[sweepTable]*cursor
	lists   map[store.NamespaceID]map[list]*cursor // ordered by creation; valid while there is a cursor for numbers
}

// numbers, in place of an age, marks the cursors that find late runs for the numbers of kept runs.
const numbers = -1

// sweepTable is a table that is swept for an age. Age 0 is the table of deleted runs.
type sweepTable struct {
	ns    store.NamespaceID
	p     store.PartitionID
	ageMs int64
}

// cursor is how far a table was swept. Runs before it are deleted or stay.
type cursor struct {
	at     store.Position
	held   *store.Position // just before the first run that was held back or failed since heldAt
	heldAt int64
	// stay and young are for lists: how many runs stay in front of the cursor, and which of them had just ended.
	stay  int64
	young map[string]bool
}

// New returns a Sweeper.
func New(cfg Config) *Sweeper {
	return &Sweeper{cfg: cfg, turn: make(chan struct{}, 1), cursors: map[sweepTable]*cursor{},
		lists: map[store.NamespaceID]map[list]*cursor{}}
}

// sweep is one sweep.
type sweep struct {
	*Sweeper
	ctx    context.Context //nolint:containedctx // it lives for one call
	now    int64
	dry    bool
	only   *store.NamespaceID // nil = all
	rules  map[store.NamespaceID]*rules
	gone   map[list]int64 // runs that were deleted, or would be, by list
	report Report
}

// Sweep deletes what is due at an instant; with dry it only reports. It covers one namespace, or all if only is nil. After a
// read error or the end of ctx it returns an error, with the work done so far in the Report.
func (s *Sweeper) Sweep(ctx context.Context, now int64, only *store.NamespaceID, dry bool) (Report, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return Report{}, context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	set, err := s.cfg.Store.Retentions(ctx)
	if err != nil {
		return Report{}, err
	}
	s.changed(set)
	w := &sweep{Sweeper: s, ctx: ctx, now: now, dry: dry, only: only, rules: rulesOf(set, s.cfg.Default), gone: map[list]int64{}}
	for ns, err := range s.cfg.Store.Namespaces(ctx) {
		if err != nil {
			return w.report, err
		}
		if only != nil && *only != ns.ID {
			continue
		}
		if err := w.namespace(ns.ID); err != nil {
			return w.report, err
		}
	}
	return w.report, nil
}

// changed restarts the namespaces whose retentions have changed: runs that stayed may be due now.
func (s *Sweeper) changed(set []store.Retention) {
	if slices.Equal(set, s.seen) {
		return
	}
	of := func(set []store.Retention) map[store.NamespaceID][]store.Retention {
		m := map[store.NamespaceID][]store.Retention{}
		for _, x := range set {
			m[x.Namespace] = append(m[x.Namespace], x)
		}
		return m
	}
	before, now := of(s.seen), of(set)
	s.seen = set
	for at := range s.cursors {
		if !slices.Equal(before[at.ns], now[at.ns]) {
			delete(s.cursors, at)
		}
	}
}

func (w *sweep) namespace(ns store.NamespaceID) error {
	r := w.rulesFor(ns)
	owned := w.cfg.Owned()
	for _, p := range owned {
		for _, age := range r.ages() {
			err := w.table(sweepTable{ns, p, age}, func(st *store.RunState) bool { return r.of(st.Workflow).AgeMs(st.Status) == age })
			if err != nil {
				return err
			}
		}
		if err := w.table(sweepTable{ns, p, 0}, nil); err != nil {
			return err
		}
	}
	return w.counts(ns, r, owned)
}

// table sweeps a table. due selects the ended runs to delete; if it is nil, the remains of all deleted runs are due.
func (w *sweep) table(at sweepTable, due func(*store.RunState) bool) error {
	q := store.EndedQuery{Namespace: at.ns, Partition: at.p, Deleted: due == nil, UntilMs: w.now - at.ageMs, Limit: portion}
	if due == nil {
		q.UntilMs = w.now - w.rulesFor(at.ns).rest.IDs()
	}
	c := w.cursor(at)
	if c.at.UnixMs > q.UntilMs { // the clock was set back, so runs end in front of the cursor
		*c = cursor{}
	}
	q.After = c.at
	for {
		list, err := w.cfg.Store.Ended(w.ctx, q)
		if err != nil || len(list) == 0 {
			return err
		}
		b := batch{sweep: w}
		for _, pos := range list {
			key := store.RunKey{Namespace: at.ns, ID: pos.ID}
			st, err := w.cfg.Store.State(w.ctx, key)
			switch {
			case errors.Is(err, store.ErrNotFound):
				continue
			case err != nil: // an unreadable run does not delay others
				b.failed(pos, err)
				continue
			case due == nil && (!st.Deleted || max(st.UpdatedUnixMs, 0) != pos.UnixMs):
				continue // another run has its id
			case due != nil && (st.Deleted || !st.Status.Terminal() || max(st.RetainedUnixMs(), 0) != pos.UnixMs || !due(&st)),
				due != nil && st.Aside == store.AsideCopy: // only people delete a copy
				continue
			}
			b.add(pos, st)
		}
		b.run()
		if err := w.ctx.Err(); err != nil {
			return err
		}
		q.After = list[len(list)-1]
		c.pass(q.After, b.stay, w.now)
		if len(list) < portion {
			return nil
		}
	}
}

// cursor returns the cursor of a table. For a dry sweep it is a temporary one at the beginning.
func (w *sweep) cursor(at sweepTable) *cursor {
	if w.dry {
		return &cursor{}
	}
	c := w.cursors[at]
	if c == nil {
		c = &cursor{}
		w.cursors[at] = c
	}
	c.lookAgain(w.now)
	return c
}

// lookAgain moves the cursor back to the runs that were held back, once per heldMs.
func (c *cursor) lookAgain(now int64) {
	if c.held != nil && now-c.heldAt >= heldMs {
		c.at, c.held, c.stay, c.young = *c.held, nil, 0, nil
	}
}

// back moves the cursor back to a run, and to the runs that were held back in front of it.
func (c *cursor) back(to store.Position) {
	to.UnixMs--
	if c.held != nil && c.held.Compare(to) < 0 {
		to = *c.held
	}
	if to.Compare(c.at) < 0 {
		c.at = to
	}
	c.held, c.stay, c.young = nil, 0, nil
}

// pass moves the cursor to a position. The runs in stay must be looked at again.
func (c *cursor) pass(to store.Position, stay []store.Position, now int64) {
	c.at = to
	for _, pos := range stay {
		pos.UnixMs-- // just before it
		if c.held == nil || pos.Compare(*c.held) < 0 {
			c.held, c.heldAt = &pos, now
		}
	}
}
