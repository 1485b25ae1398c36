// Package retention deletes ended runs that were kept long enough, and what is left of deleted ones.
//
// A Sweeper reads two tables that the store keeps anyway, of ended and of deleted runs by time, from where it came to in the
// sweep before; and of workflows with more runs than they may keep the oldest ones, from there, too. It changes nothing itself:
// each run is deleted by the writer of its partition, under the condition that it is still what the Sweeper has read. So a sweep
// may end anywhere, at a crash too, and the next one does the rest.
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
	// atOnce is how many deletions are under way at a time: they share fsyncs, and leave most of a batch to others.
	atOnce = 32
	// MaxListed is how many runs a Report names.
	MaxListed = 1000
	// heldMs is how long runs that were held back are left alone, before they are looked at again.
	heldMs = 24 * 3600 * 1000
)

// Config is what a Sweeper is made from. All fields but Default are required.
type Config struct {
	Store store.Store
	// Owned returns the partitions whose runs this host may delete.
	Owned func() []store.PartitionID
	// Delete deletes an ended run, or what is left of a deleted one, if which says so of its state.
	Delete func(ctx context.Context, key store.RunKey, which func(*store.RunState) bool) error
	// Default is the retention of workflows for which the store has none. Its namespace and workflow do not matter.
	Default store.Retention
}

// Report says what a sweep has done, or would do.
type Report struct {
	Deleted   int // runs
	Held      int // that were old enough, and are children for whose end a live run waits
	Forgotten int // deleted runs of which nothing is left now
	Failed    int // that could not be read or deleted, and are tried again after a day, or by the next host
	First     []store.RunState
	Err       error // of the first one that failed
}

// A Sweeper deletes runs. Its methods may be called concurrently; sweeps are made one after the other.
type Sweeper struct {
	cfg Config

	turn    chan struct{}     // holds one element while a sweep is made, which guards the rest
	seen    []store.Retention // those of the newest sweep
	cursors map[place]*cursor
	lists   map[store.NamespaceID]map[list]*cursor // by creation; they count while there is a cursor for numbers
}

// numbers, in the place of an age, says that a table is read for the numbers of runs that are kept.
const numbers = -1

// place is a table that is swept with an age: that of what is left of deleted runs, if it is 0.
type place struct {
	ns    store.NamespaceID
	p     store.PartitionID
	ageMs int64
}

// cursor is how far a sweep came in a table: what is before it is gone, or stays.
type cursor struct {
	at     store.Position
	held   *store.Position // in front of the first one that was held back or failed, since heldAt
	heldAt int64
	// In a list: how many were, and which of these had just ended.
	stay  int64
	young map[string]bool
}

// New returns a Sweeper.
func New(cfg Config) *Sweeper {
	return &Sweeper{cfg: cfg, turn: make(chan struct{}, 1), cursors: map[place]*cursor{},
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
	gone   map[list]int64 // how many runs were deleted, or would be
	report Report
}

// Sweep deletes what is due at an instant; dry only reports it. It covers the namespace only, or all if that is nil. An error
// means that something could not be read, or that ctx was done; what was done by then is in the report.
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

// changed begins at the beginning again in each namespace whose retentions have changed: what has stayed may be due now.
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
			err := w.table(place{ns, p, age}, func(st *store.RunState) bool { return r.of(st.Workflow).AgeMs(st.Status) == age })
			if err != nil {
				return err
			}
		}
		if err := w.table(place{ns, p, 0}, nil); err != nil {
			return err
		}
	}
	return w.counts(ns, r, owned)
}

// table sweeps a table. due says which of the ended runs are to be deleted; all that is left of deleted runs is.
func (w *sweep) table(at place, due func(*store.RunState) bool) error {
	q := store.EndedQuery{Namespace: at.ns, Partition: at.p, Deleted: due == nil, UntilMs: w.now - at.ageMs, Limit: portion}
	if due == nil {
		q.UntilMs = w.now - w.rulesFor(at.ns).rest.IDs()
	}
	c := w.cursor(at)
	if c.at.UnixMs > q.UntilMs { // the clock was set back: runs end in front of it
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
			case err != nil: // one that cannot be read holds up no other
				b.failed(pos, err)
				continue
			case due == nil && (!st.Deleted || max(st.UpdatedUnixMs, 0) != pos.UnixMs):
				continue // another run has its id
			case due != nil && (st.Deleted || !st.Status.Terminal() || max(st.RetainedUnixMs(), 0) != pos.UnixMs || !due(&st)),
				due != nil && st.Aside == store.AsideCopy: // a copy is deleted by a person
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

// cursor returns that of a table. One of a sweep that deletes nothing begins at the beginning, and is forgotten.
func (w *sweep) cursor(at place) *cursor {
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

// lookAgain goes back to what was held back, once a day.
func (c *cursor) lookAgain(now int64) {
	if c.held != nil && now-c.heldAt >= heldMs {
		c.at, c.held, c.stay, c.young = *c.held, nil, 0, nil
	}
}

// back goes back to a run, and to what was held back in front of it.
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

// pass says that everything up to a position was looked at, and stay has to be looked at again.
func (c *cursor) pass(to store.Position, stay []store.Position, now int64) {
	c.at = to
	for _, pos := range stay {
		pos.UnixMs-- // in front of it
		if c.held == nil || pos.Compare(*c.held) < 0 {
			c.held, c.heldAt = &pos, now
		}
	}
}
