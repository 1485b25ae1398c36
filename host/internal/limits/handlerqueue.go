package limits

import (
	"container/list"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/host/internal/timers"
	"github.com/wfhost/wfhost/store"
)

// Cells of the queue of a handler: its revision, which every change increments, and the counters of rates.
const (
	revisionCell = "q"
	ratePart     = "m"

	revisionBytes = 8
)

const (
	// maxBatch bounds the attempts that one commit lets begin. They share an fsync.
	maxBatch = 256
	// handlerSweepCells is how many cells a commit examines per cell that it writes, in order to delete expired ones. It is more
	// than one, so that cells are deleted faster than they are created.
	handlerSweepCells = 4
	// retryMs is how long a queue waits after an error of the store.
	retryMs = 1000
)

// handlerQueue is a handler with limits. Its methods, except commit and load, are called with mu of the HandlerLimiter held.
type handlerQueue struct {
	t       *HandlerLimiter
	key     HandlerKey
	rules   Rules
	totals  []*attemptWindow // of rules without a key
	keyed   map[string]*attemptWindow
	lanes   map[string]*attemptLane
	ring    list.List // of *attemptLane: those that are ready, in the order of their turns
	held    map[*attemptEntry]bool
	waiting int
	due     timers.Set[*attemptWindow] // full rates that block attempts

	read       bool   // revision was read from the store
	reads      int    // how often the cached state was discarded
	revision   []byte // cell q; nil = it does not exist
	sweep      []byte // the cell where the next sweep starts
	committing bool
	over       bool  // the queue was replaced because the limits changed
	retryAt    int64 // nothing begins before, because of an error of the store
	refused    int   // errors of the store since its last success
}

func newHandlerQueue(t *HandlerLimiter, key HandlerKey, rules Rules) *handlerQueue {
	g := &handlerQueue{t: t, key: key, rules: rules, keyed: map[string]*attemptWindow{},
		lanes: map[string]*attemptLane{}, held: map[*attemptEntry]bool{}}
	for _, r := range rules {
		if r.Per == "" {
			g.totals = append(g.totals, newAttemptWindow(r, "", t.share))
		}
	}
	return g
}

// enter queues an attempt.
func (g *handlerQueue) enter(e *attemptEntry, front bool) {
	e.queue = g
	keys := keysOf(g.rules, e.keys)
	name := strings.Join(keys, "\x00")
	l := g.lanes[name]
	if l == nil {
		l = &attemptLane{name: name, of: map[store.RunKey]*runAttempts{}}
		for _, c := range g.countersOf(keys) {
			c.lanes++
			l.counters = append(l.counters, c)
		}
		g.lanes[name] = l
	}
	l.put(e, front)
	g.waiting++
	g.queue(l, front)
}

// countersOf returns the counters of the rules with a key. It creates missing ones.
func (g *handlerQueue) countersOf(keys []string) (list []*attemptWindow) {
	for _, r := range g.rules {
		if r.Per == "" {
			continue
		}
		c := newAttemptWindow(r, keys[len(list)], g.t.share)
		if known := g.keyed[c.name+ruleName(&r)]; known != nil {
			c = known
		}
		g.keyed[c.name+ruleName(&r)] = c
		list = append(list, c)
	}
	return list
}

// queue adds a lane to the ring, unless the lane is in the ring, blocked or empty. If the counters of the lane have not been
// read, queue loads them first.
func (g *handlerQueue) queue(l *attemptLane, front bool) {
	if l.ring != nil || l.loading || l.blocked != nil || l.waiting == 0 {
		return
	}
	if g.unread(l) {
		if g.retryAt > 0 {
			return
		}
		l.loading = true
		g.t.background(func(ctx context.Context) { g.load(ctx, l) })
		return
	}
	if front {
		l.ring = g.ring.PushFront(l)
	} else {
		l.ring = g.ring.PushBack(l)
	}
}

// unread reports whether a counter of a lane must be read from the store.
func (g *handlerQueue) unread(l *attemptLane) bool {
	isUnread := func(c *attemptWindow) bool { return !c.loaded }
	return slices.ContainsFunc(g.totals, isUnread) || slices.ContainsFunc(l.counters, isUnread)
}

// queueKey returns the key of the queue's cells in the store.
func (g *handlerQueue) queueKey() store.RunKey {
	return store.RunKey{Namespace: g.key.Namespace, ID: QueuePrefix + g.key.Name}
}

// load reads the counters of a lane. After an error it is retried later. State that was read before a refused commit is
// discarded and read again: together with the revision after that commit, the old state would hide a change by another host.
func (g *handlerQueue) load(ctx context.Context, l *attemptLane) {
	one := func(name string) ([]byte, error) {
		q := store.CellQuery{Queue: g.queueKey(), From: []byte(name), To: []byte(name + "\x00"), Limit: 1}
		list, err := g.t.cfg.Store.Cells(ctx, q)
		if err != nil || len(list) == 0 {
			return nil, err
		}
		return list[0].Value, nil
	}
	g.t.mu.Lock()
	defer g.t.mu.Unlock()
	var err error
	reads := g.reads
	unlocked := func(name string) (b []byte) {
		g.t.mu.Unlock()
		defer g.t.mu.Lock()
		if err == nil {
			b, err = one(name)
		}
		return b
	}
	if !g.read { // before the counters, to detect a change by another host in between
		if b := unlocked(revisionCell); err == nil && !g.read && g.reads == reads {
			g.read, g.revision = true, b
		}
	}
	for _, c := range slices.Concat(g.totals, l.counters) {
		if c.loaded || err != nil || g.reads != reads {
			continue
		}
		b := unlocked(c.name)
		if g.reads != reads {
			break
		}
		if err != nil || c.loaded {
			continue
		}
		c.grains = nil
		if b != nil {
			_, c.grains, err = parseAttemptCell(b)
		}
		c.loaded = err == nil
	}
	if err != nil {
		g.refuse(err)
	}
	l.loading = false
	g.queue(l, false)
	g.process()
	g.rest(l)
	g.tidy(l)
}

// refuse stops attempts from beginning for retryMs. It logs the first, second, fourth, eighth error and so on, since a disk
// may be full for hours.
func (g *handlerQueue) refuse(err error) {
	g.retryAt = g.t.now() + retryMs
	g.refused++
	if !g.t.closed && g.refused&(g.refused-1) == 0 {
		g.t.cfg.Logger.Error("attempts of a handler with limits cannot begin", "handler", g.key.Name, "times", g.refused, "cause", err)
	}
}

// process starts the attempts that may begin and sets the timer for the next ones.
func (g *handlerQueue) process() {
	if g.committing || g.over || g.t.closed || g.t.draining {
		return
	}
	now := g.t.now()
	if g.retryAt > now {
		g.arm()
		return
	}
	if g.retryAt > 0 {
		g.retryAt = 0
		for _, l := range g.lanes { // lanes whose counters could not be read
			g.queue(l, false)
		}
	}
	for c, _, ok := g.due.Pop(now); ok; c, _, ok = g.due.Pop(now) {
		g.unblock(c)
	}
	for more := true; more; {
		batch, rated := g.pick(now)
		more = len(batch) == maxBatch && !rated
		if rated { // the end of the commit calls process again
			g.committing = true
			set := g.changes(batch)
			g.t.background(func(ctx context.Context) { g.commit(ctx, batch, set) })
			continue
		}
		for _, e := range batch {
			e.start()
		}
	}
	g.arm()
}

// pick takes out the attempts that may begin. It reports whether a rate counts one of them.
func (g *handlerQueue) pick(now int64) (batch []*attemptEntry, rated bool) {
	for g.ring.Len() > 0 && len(batch) < maxBatch {
		for _, c := range g.totals {
			if c.full(now) {
				g.wait(c)
				return batch, rated
			}
		}
		l := attemptLaneOf(g.ring.Front())
		g.ring.Remove(l.ring)
		l.ring = nil
		if g.unread(l) {
			g.queue(l, false)
			continue
		}
		if c := l.full(now); c != nil {
			l.blocked, l.behind = c, c.blocked.PushBack(l)
			g.wait(c)
			continue
		}
		e := l.next()
		g.waiting--
		e.counters = slices.Concat(g.totals, l.counters)
		for _, c := range e.counters {
			c.count(now)
			rated = rated || c.rule.WindowMs > 0
		}
		g.held[e] = true
		if !e.entering {
			e.told = false
			e.e.Wakes()
		}
		batch = append(batch, e)
		g.queue(l, false)
		g.tidy(l)
	}
	return batch, rated
}

// wait schedules the next call of process for when a rate lets another attempt begin.
func (g *handlerQueue) wait(c *attemptWindow) {
	if c.rule.WindowMs > 0 {
		g.due.Put(c, c.freeAt())
	}
}

// unblock queues the lanes that wait for a counter again, longest waiting first.
func (g *handlerQueue) unblock(c *attemptWindow) {
	for range c.blocked.Len() {
		l := attemptLaneOf(c.blocked.Front())
		c.blocked.Remove(l.behind)
		l.blocked, l.behind = nil, nil
		g.queue(l, false)
	}
}

// attemptLaneOf returns what an element of a list of lanes holds.
func attemptLaneOf(at *list.Element) *attemptLane {
	return at.Value.(*attemptLane) //nolint:forcetypeassert // it holds nothing else
}

// clockSet queues blocked lanes again after the clock was set, so that their waiting times are recomputed.
func (g *handlerQueue) clockSet(now int64) {
	g.retryAt = min(g.retryAt, now+retryMs)
	for c, _, ok := g.due.Pop(math.MaxInt64); ok; c, _, ok = g.due.Pop(math.MaxInt64) {
		g.unblock(c)
	}
	g.process()
}

// giveBack returns the slot of an attempt.
func (g *handlerQueue) giveBack(e *attemptEntry) {
	if !g.held[e] {
		return
	}
	delete(g.held, e)
	for _, c := range e.counters {
		c.held--
		if c.rule.WindowMs == 0 {
			g.unblock(c)
		}
		g.forget(c)
	}
	e.counters = nil
}

// tidy removes a lane without waiting attempts.
func (g *handlerQueue) tidy(l *attemptLane) {
	if l.waiting > 0 || l.loading || g.lanes[l.name] != l {
		return
	}
	delete(g.lanes, l.name)
	if l.blocked != nil {
		l.blocked.blocked.Remove(l.behind)
	}
	if l.ring != nil {
		g.ring.Remove(l.ring)
	}
	for _, c := range l.counters {
		c.lanes--
		g.forget(c)
	}
}

// forget drops an unused counter with a key. Its grains are in the store.
func (g *handlerQueue) forget(c *attemptWindow) {
	if c.rule.Per != "" && c.lanes == 0 && c.held == 0 {
		g.due.Remove(c)
		delete(g.keyed, c.name+ruleName(&c.rule))
	}
}

// rest reports that the attempts of a lane wait, so the host has no work for them.
func (g *handlerQueue) rest(l *attemptLane) {
	if l.loading {
		return
	}
	for at := l.runs.Front(); at != nil; at = at.Next() {
		for _, e := range attemptsOf(at).entries {
			e.rests()
		}
	}
}

func (g *handlerQueue) restAll() {
	for _, l := range g.lanes {
		g.rest(l)
	}
}

// arm sets the timer of the queue to the next instant at which time alone lets an attempt begin.
func (g *handlerQueue) arm() {
	at, ok := g.due.Next()
	if g.retryAt > 0 {
		at, ok = g.retryAt, true
	}
	if ok && !g.over {
		g.t.due.Put(g, at)
	} else {
		g.t.due.Remove(g)
	}
	g.t.arm()
}

// changes returns the change to make durable before a batch begins.
func (g *handlerQueue) changes(batch []*attemptEntry) (set store.QueueSet) {
	seen := map[*attemptWindow]bool{}
	for _, e := range batch {
		for _, c := range e.counters {
			if c.rule.WindowMs > 0 && !seen[c] {
				seen[c] = true
				set.Cells = append(set.Cells, c.cell())
			}
		}
	}
	n := uint64(1)
	if len(g.revision) == revisionBytes {
		n += binary.BigEndian.Uint64(g.revision)
	}
	set.Queue, set.Before = g.queueKey(), store.Cell{Key: []byte(revisionCell), Value: g.revision}
	set.Cells = append(set.Cells, store.Cell{Key: []byte(revisionCell), Value: binary.BigEndian.AppendUint64(nil, n)})
	return set
}

// commit makes the grains of a batch durable and then starts its attempts.
func (g *handlerQueue) commit(ctx context.Context, batch []*attemptEntry, set store.QueueSet) {
	next := g.sweepInto(ctx, &set)
	err := g.t.cfg.Store.SetCells(ctx, set)
	if errors.Is(err, store.ErrFailed) {
		g.t.cfg.Failed(err)
	}
	g.t.mu.Lock()
	defer g.t.mu.Unlock()
	g.committing = false
	if err == nil {
		for i := range set.Cells {
			if string(set.Cells[i].Key) == revisionCell {
				g.revision = set.Cells[i].Value
			}
		}
		g.sweep = next
		if g.refused > 0 {
			g.t.cfg.Logger.Info("attempts of a handler with limits begin again", "handler", g.key.Name, "times", g.refused)
			g.refused = 0
		}
		for _, e := range batch {
			e.start()
		}
	} else {
		g.undo(batch, err)
	}
	g.process()
}

// undo queues the attempts of a batch again after its commit was refused, mostly because another host changed the counters.
func (g *handlerQueue) undo(batch []*attemptEntry, err error) {
	if !errors.Is(err, store.ErrConflict) {
		g.refuse(err)
	}
	g.read = false
	g.reads++
	for _, c := range g.totals {
		c.loaded = c.rule.WindowMs == 0
	}
	for _, c := range g.keyed {
		c.loaded = c.rule.WindowMs == 0
	}
	for _, e := range batch { // uncommitted grains must not block lanes
		for _, c := range e.counters {
			if e.queue == g && !c.loaded {
				g.due.Remove(c)
				g.unblock(c)
			}
		}
	}
	for _, e := range slices.Backward(batch) {
		e.queue.giveBack(e)
		if e.gone { // it was withdrawn while the commit was in flight
			continue
		}
		if of := g.t.queues[g.key]; of == nil || !e.knows(of.rules) { // the limits have changed
			e.e.Wakes()
			go e.e.Admit(nil)
		} else if of.enter(e, true); of != g { // they have changed
			of.process()
		}
		if e.lane != nil && !e.lane.loading {
			e.rests()
		}
	}
}

// sweepInto adds the deletion of some expired cells to a commit and returns where the next sweep starts.
func (g *handlerQueue) sweepInto(ctx context.Context, set *store.QueueSet) (next []byte) {
	from := g.sweep
	if from == nil {
		from = []byte(ratePart)
	}
	limit := handlerSweepCells * len(set.Cells)
	q := store.CellQuery{Queue: g.queueKey(), From: from, To: []byte{ratePart[0] + 1}, Limit: limit}
	list, err := g.t.cfg.Store.Cells(ctx, q)
	if err != nil || len(list) < limit {
		next = []byte(ratePart)
	} else {
		next = append(slices.Clone(list[len(list)-1].Key), 0)
	}
	written := map[string]bool{}
	for _, c := range set.Cells {
		written[string(c.Key)] = true
	}
	for _, cell := range list {
		if end, _, err := parseAttemptCell(cell.Value); err == nil && end <= g.t.now() && !written[string(cell.Key)] {
			set.Cells = append(set.Cells, store.Cell{Key: cell.Key})
		}
	}
	return next
}
