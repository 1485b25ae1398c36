package retention

import (
	"errors"
	"math"
	"slices"

	"github.com/wfhost/wfhost/store"
)

const (
	// settleMs is how long after its end a run may still enter the table of ended runs: its commit has to reach the disk.
	settleMs = 60 * 1000
	// maxLate bounds the late runs in memory, a few hundred bytes each.
	maxLate = 10_000
)

// list identifies the ended runs of a workflow with one status, or with any status if it is 0. They are ordered by creation.
type list struct {
	ns       store.NamespaceID
	workflow string
	status   store.Status
}

// listsOf returns the lists that contain a run: the list of its status and the list of all.
func listsOf(st *store.RunState) [2]list {
	ns := st.Run.Namespace
	return [2]list{{ns, st.Workflow, st.Status}, {ns, st.Workflow, 0}}
}

// created returns the position of a run in its lists.
func created(st *store.RunState) store.Position {
	return store.Position{UnixMs: st.CreatedUnixMs, ID: st.Run.ID}
}

// counts deletes the runs that exceed the number a workflow may keep. A sweep continues in each list where the previous one
// ended. In front of that cursor there are only runs that must stay, and late runs, which have ended since. If several hosts
// share a store, each sweep starts at the beginning, because other hosts delete runs in front of the cursor.
type counts struct {
	*sweep
	ns    store.NamespaceID
	rules *rules
	owned []store.PartitionID
	lists map[list]*cursor
	late  map[list][]store.RunState // in front of the cursor of their list
	held  int                       // number of late runs
	again map[list][]string         // young runs of a cursor that were read again
}

// counts deletes the runs of a namespace that exceed the numbers its workflows may keep.
func (w *sweep) counts(ns store.NamespaceID, r *rules, owned []store.PartitionID) (err error) {
	stored, err := w.cfg.Store.Counts(w.ctx, ns)
	if err != nil {
		return err
	}
	runs := map[string]*store.Tally{}
	for i := range stored {
		t := runs[stored[i].Workflow]
		if t == nil {
			t = &store.Tally{}
			runs[stored[i].Workflow] = t
		}
		t.Sum(&stored[i].Runs)
	}
	c := &counts{sweep: w, ns: ns, rules: r, owned: owned, lists: map[list]*cursor{}}
	switch {
	case w.dry:
	case len(owned) < store.Partitions: // runs that other hosts are about to delete would count as staying
		delete(w.lists, ns)
	default:
		defer func() {
			if err != nil { // late runs may remain in front of the cursors
				delete(w.lists, ns)
			}
		}()
		if err := c.findLate(); err != nil {
			return err
		}
	}
	for workflow, t := range runs {
		if err := c.workflow(workflow, t); err != nil {
			return err
		}
	}
	return nil
}

// workflow deletes the excess runs of one workflow, first by status, then of all that remain.
func (c *counts) workflow(workflow string, t *store.Tally) error {
	x := c.rules.of(workflow)
	for _, s := range ended {
		at := list{c.ns, workflow, s}
		if c.dry { // subtract what a real sweep would have deleted by age
			t.Add(s, -c.gone[at])
		}
		keep, gone := x.KeepOf(s), c.gone[at]
		if keep == 0 {
			continue
		}
		if err := c.list(at, x, t[s]-keep); err != nil {
			return err
		}
		t.Add(s, gone-c.gone[at])
	}
	if x.Keep == 0 {
		return nil
	}
	return c.list(list{c.ns, workflow, 0}, x, t.Of(ended)-x.Keep)
}

// list deletes the n oldest runs of a list, except those of other hosts, which delete their own.
func (c *counts) list(of list, x *store.Retention, n int64) error {
	cur, late := c.lists[of], c.late[of]
	switch {
	case cur == nil && n <= 0:
		return nil
	case cur == nil:
		cur = &cursor{}
		c.lists[of] = cur
	}
	late = slices.DeleteFunc(late, func(st store.RunState) bool {
		if created(&st).Compare(cur.at) > 0 { // the cursor went back and will reach the run
			return true
		}
		// The limit of its status may have deleted the run.
		now, err := c.cfg.Store.State(c.ctx, st.Run)
		return errors.Is(err, store.ErrNotFound) || err == nil && now.Deleted
	})
	if n < cur.stay+int64(len(late)) { // some runs in front of the cursor may be kept
		for i := range late {
			cur.back(created(&late[i]))
		}
		late = nil
	}
	o := oldest{counts: c, of: of, x: x, b: batch{sweep: c.sweep}, to: cur.at, left: max(n-cur.stay, 0), young: map[string]bool{}}
	for i := range late {
		o.deleteExcess(&late[i])
	}
	if err := o.walk(cur); err != nil {
		return err
	}
	o.b.run()
	if err := c.ctx.Err(); err != nil {
		return err
	}
	cur.pass(o.to, o.b.stay, c.now)
	cur.stay += int64(len(o.b.stay))
	young := map[string]bool{}
	for _, pos := range o.b.stay {
		if o.young[pos.ID] {
			young[pos.ID] = true
		}
	}
	for _, id := range c.again[of] {
		young[id] = true
	}
	cur.young = young
	return nil
}

// oldest deletes the oldest runs of a list.
type oldest struct {
	*counts
	of   list
	x    *store.Retention
	b    batch
	to   store.Position // how far the list was read
	left int64          // how many runs are in excess
	// young are runs that ended a moment ago. The next sweep will read them again in the table of ended runs.
	young map[string]bool
}

// walk takes excess runs from the cursor on.
func (o *oldest) walk(cur *cursor) error {
	if o.left == 0 {
		return nil
	}
	q := store.Query{Namespace: o.ns, Workflow: o.of.workflow, Statuses: ended, Oldest: true, Limit: portion}
	if o.of.status != 0 {
		q.Statuses = []store.Status{o.of.status}
	}
	if cur.at != (store.Position{}) {
		q.After = &cur.at
	}
	for st, err := range store.Runs(o.ctx, o.cfg.Store, q, 0) {
		if err != nil {
			return err
		}
		o.deleteExcess(&st)
		o.to = created(&st)
		if o.left == 0 {
			return nil
		}
	}
	return nil
}

// deleteExcess deletes an excess run, unless it must stay.
func (o *oldest) deleteExcess(st *store.RunState) {
	at := created(st)
	if st.RetainedUnixMs() > o.now-settleMs {
		o.young[at.ID] = true
	}
	stays := st.Aside == store.AsideCopy || !slices.Contains(o.owned, st.Run.Partition()) // only people delete a copy
	if o.looked(st) {
		if o.dry && !stays {
			stays, _ = o.b.awaited(st)
			if !stays {
				return // a real sweep would have deleted it
			}
		}
		stays = true
	}
	o.left--
	if stays {
		o.b.stay = append(o.b.stay, at)
		return
	}
	if o.b.add(at, *st); len(o.b.runs) == portion {
		o.b.run()
	}
}

// looked reports whether this sweep has already seen a run, by its age or in the list of its status.
func (o *oldest) looked(st *store.RunState) bool {
	if age := o.x.AgeMs(st.Status); age > 0 && st.RetainedUnixMs() <= o.now-age {
		return true
	}
	if o.of.status != 0 {
		return false
	}
	cur := o.lists[list{o.ns, o.of.workflow, st.Status}]
	return cur != nil && created(st).Compare(cur.at) <= 0
}

// findLate finds the runs in front of the cursor of a list that have ended since the last sweep. If a partition is new, or
// the clock was set back, all lists start from the beginning.
func (c *counts) findLate() error {
	c.late, c.again = map[list][]store.RunState{}, map[list][]string{}
	for _, p := range c.owned {
		if cur := c.cursors[sweepTable{c.ns, p, numbers}]; cur == nil || cur.at.UnixMs > c.now {
			delete(c.Sweeper.lists, c.ns)
		}
	}
	if of := c.Sweeper.lists[c.ns]; of != nil {
		c.lists = of
	}
	c.Sweeper.lists[c.ns] = c.lists
	for _, cur := range c.lists {
		cur.lookAgain(c.now)
	}
	for _, p := range c.owned {
		at := sweepTable{c.ns, p, numbers}
		if len(c.lists) == 0 { // the lists start from the beginning and contain these runs
			c.cursors[at] = &cursor{at: store.Position{UnixMs: c.now - settleMs}}
		} else if err := c.lateOf(at, c.cursors[at]); err != nil {
			return err
		}
	}
	return nil
}

// lateOf finds the late runs of a partition.
func (c *counts) lateOf(at sweepTable, cur *cursor) error {
	q := store.EndedQuery{Namespace: at.ns, Partition: at.p, After: cur.at, UntilMs: math.MaxInt64 - 1, Limit: portion}
	for {
		found, err := c.cfg.Store.Ended(c.ctx, q)
		if err != nil {
			return err
		}
		for _, pos := range found {
			q.After = pos
			if pos.UnixMs <= c.now-settleMs {
				cur.at = pos
			}
			st, err := c.cfg.Store.State(c.ctx, store.RunKey{Namespace: at.ns, ID: pos.ID})
			if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
				continue
			}
			if err != nil {
				return err
			}
			if !st.Deleted && st.Status.Terminal() && max(st.RetainedUnixMs(), 0) == pos.UnixMs {
				c.found(&st)
			}
		}
		if len(found) < portion {
			return nil
		}
	}
}

// found records an ended run in the lists whose cursor has passed it.
func (c *counts) found(st *store.RunState) {
	for _, of := range listsOf(st) {
		cur := c.lists[of]
		switch {
		case cur == nil || created(st).Compare(cur.at) > 0:
		case cur.young[st.Run.ID]:
			c.again[of] = append(c.again[of], st.Run.ID)
		case c.held == maxLate:
			cur.back(created(st))
		default:
			c.late[of] = append(c.late[of], *st)
			c.held++
		}
	}
}
