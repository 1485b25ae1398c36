package turnstile

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/host/internal/limit"
	"github.com/wfhost/wfhost/host/internal/timers"
	"github.com/wfhost/wfhost/store"
)

// Cells of the queue of a handler: its revision, which each change raises, and the counters of rates.
const (
	revisionCell = "q"
	markPart     = "m"

	revisionBytes = 8
)

const (
	// maxBatch bounds the attempts that one commit lets begin: as many share an fsync.
	maxBatch = 256
	// sweepCells is how many cells each commit looks at for each one that it writes, to delete those that count nothing any more.
	// It is more than one, so that cells are deleted faster than they are made.
	sweepCells = 4
	// retryMs is how long a gate waits after the store has refused a commit.
	retryMs = 1000
)

// gate is a handler with limits. All but commit and load is called while mu of the Turnstile is held.
type gate struct {
	t       *Turnstile
	key     Handler
	rules   limit.Rules
	totals  []*counter // of rules without a key
	keyed   map[string]*counter
	lanes   map[string]*lane
	ring    []*lane // those with attempts that may begin as far as their keys are concerned
	held    map[*entry]bool
	waiting int
	due     timers.Set[*counter] // rates that are full, and for which attempts wait

	read       bool   // the store was read: revision is of it
	reads      int    // how often everything had to be read anew
	revision   []byte // cell q; nil = there is none
	sweep      []byte // the cell at which the next commit looks
	committing bool
	over       bool  // other limits have taken its place
	retryAt    int64 // the store has refused a commit: nothing begins before
	refused    int   // how often it has since the last one that it took
}

func newGate(t *Turnstile, key Handler, rules limit.Rules) *gate {
	g := &gate{t: t, key: key, rules: rules, keyed: map[string]*counter{}, lanes: map[string]*lane{}, held: map[*entry]bool{}}
	for _, r := range rules {
		if r.Per == "" {
			g.totals = append(g.totals, newCounter(r, ""))
		}
	}
	return g
}

// enter has an attempt wait for its turn.
func (g *gate) enter(e *entry, front bool) {
	e.gate = g
	keys := keysOf(g.rules, e.call.Input)
	name := strings.Join(keys, "\x00")
	l := g.lanes[name]
	if l == nil {
		l = &lane{name: name, of: map[store.RunKey]*line{}}
		for _, c := range g.countersOf(keys) {
			c.lanes++
			l.counters = append(l.counters, c)
		}
		g.lanes[name] = l
	}
	l.put(e, front)
	g.waiting++
	g.t.noteRun(e, true)
	g.queue(l, front)
}

// countersOf returns the counters of the rules with a key.
func (g *gate) countersOf(keys []string) (list []*counter) {
	for _, r := range g.rules {
		if r.Per == "" {
			continue
		}
		c := newCounter(r, keys[len(list)])
		if known := g.keyed[c.name+ruleName(&r)]; known != nil {
			c = known
		}
		g.keyed[c.name+ruleName(&r)] = c
		list = append(list, c)
	}
	return list
}

// queue puts a lane into the ring if it is not there, and nothing is in its way. Its counters are read first.
func (g *gate) queue(l *lane, front bool) {
	if l.ring || l.loading || l.blocked != nil || l.waiting == 0 {
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
	l.ring = true
	if front {
		g.ring = slices.Insert(g.ring, 0, l)
	} else {
		g.ring = append(g.ring, l)
	}
}

// unread reports whether a lane needs something of the store.
func (g *gate) unread(l *lane) bool {
	isUnread := func(c *counter) bool { return !c.loaded }
	return slices.ContainsFunc(g.totals, isUnread) || slices.ContainsFunc(l.counters, isUnread)
}

// queueKey is the key of the cells of the gate.
func (g *gate) queueKey() store.RunKey {
	return store.RunKey{Namespace: g.key.Namespace, ID: QueuePrefix + g.key.Name}
}

// load reads the counters of a lane. One that cannot be read is read again after a while. What was read before a commit was
// refused is dropped, and read again: with the revision of afterwards it would pass for what another host has stored.
func (g *gate) load(ctx context.Context, l *lane) {
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
	if !g.read { // before the counters, so that a change of another host in between is noticed
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
		c.marks = nil
		if b != nil {
			_, c.marks, err = parseCell(b)
		}
		c.loaded = err == nil
	}
	if err != nil {
		g.refuse(err)
	}
	l.loading = false
	g.queue(l, false)
	g.look()
	g.rest(l)
	g.tidy(l)
}

// refuse has nothing begin for a while. The first refusal is logged, the second one, the fourth, and so on: a disk may be full
// for hours.
func (g *gate) refuse(err error) {
	g.retryAt = g.t.now() + retryMs
	g.refused++
	if !g.t.closed && g.refused&(g.refused-1) == 0 {
		g.t.cfg.Logger.Error("attempts of a handler with limits cannot begin", "handler", g.key.Name, "times", g.refused, "cause", err)
	}
}

// look has attempts begin that may, and sets the timer of the others.
func (g *gate) look() {
	if g.committing || g.over || g.t.closed {
		return
	}
	now := g.t.now()
	if g.retryAt > now {
		g.arm()
		return
	}
	if g.retryAt > 0 {
		g.retryAt = 0
		for _, l := range g.lanes { // those that could not be read
			g.queue(l, false)
		}
	}
	for c, _, ok := g.due.Pop(now); ok; c, _, ok = g.due.Pop(now) {
		g.unblock(c)
	}
	for more := true; more; {
		batch, rated := g.pick(now)
		more = len(batch) == maxBatch && !rated
		if rated { // the end of the commit looks again
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

// pick takes attempts that may begin, and reports whether a rate counts them.
func (g *gate) pick(now int64) (batch []*entry, rated bool) {
	for len(g.ring) > 0 && len(batch) < maxBatch {
		for _, c := range g.totals {
			if c.full(now) {
				g.wait(c)
				return batch, rated
			}
		}
		l := g.ring[0]
		g.ring = g.ring[1:]
		l.ring = false
		if g.unread(l) {
			g.queue(l, false)
			continue
		}
		if c := l.full(now); c != nil {
			l.blocked = c
			c.blocked = append(c.blocked, l)
			g.wait(c)
			continue
		}
		e := l.next()
		g.waiting--
		g.t.noteRun(e, false)
		e.counters = slices.Concat(g.totals, l.counters)
		for _, c := range e.counters {
			c.take(now)
			rated = rated || c.rule.WindowMs > 0
		}
		g.held[e] = true
		e.busy(true)
		batch = append(batch, e)
		g.queue(l, false)
		g.tidy(l)
	}
	return batch, rated
}

// wait has the gate look again when a rate lets another attempt begin.
func (g *gate) wait(c *counter) {
	if c.rule.WindowMs > 0 {
		g.due.Put(c, c.freeAt())
	}
}

// unblock lets the lanes that wait for a counter try again, in the order in which they have come to wait.
func (g *gate) unblock(c *counter) {
	list := c.blocked
	c.blocked = nil
	for _, l := range list {
		l.blocked = nil
		g.queue(l, false)
	}
}

// clockSet computes anew when rates let something begin.
func (g *gate) clockSet(now int64) {
	g.retryAt = min(g.retryAt, now+retryMs)
	for c, _, ok := g.due.Pop(math.MaxInt64); ok; c, _, ok = g.due.Pop(math.MaxInt64) {
		g.unblock(c)
	}
	g.look()
}

// leave returns the slot of an attempt.
func (g *gate) leave(e *entry) {
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

// tidy forgets a lane in which nothing waits.
func (g *gate) tidy(l *lane) {
	if l.waiting > 0 || l.loading || g.lanes[l.name] != l {
		return
	}
	delete(g.lanes, l.name)
	if l.blocked != nil {
		l.blocked.blocked = slices.DeleteFunc(l.blocked.blocked, func(o *lane) bool { return o == l })
	}
	if l.ring {
		g.ring = slices.DeleteFunc(g.ring, func(o *lane) bool { return o == l })
	}
	for _, c := range l.counters {
		c.lanes--
		g.forget(c)
	}
}

// forget forgets a counter with a key that nothing needs. What it has counted under a rate is in the store.
func (g *gate) forget(c *counter) {
	if c.rule.Per != "" && c.lanes == 0 && c.held == 0 {
		g.due.Remove(c)
		delete(g.keyed, c.name+ruleName(&c.rule))
	}
}

// rest says of the attempts of a lane that they wait for something else than the host.
func (g *gate) rest(l *lane) {
	if l.loading {
		return
	}
	for _, x := range l.runs {
		for _, e := range x.entries {
			e.busy(false)
		}
	}
}

func (g *gate) restAll() {
	for _, l := range g.lanes {
		g.rest(l)
	}
}

// arm has the gate looked at when time alone lets something begin.
func (g *gate) arm() {
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

// changes returns what has to be durable before attempts begin.
func (g *gate) changes(batch []*entry) (set store.QueueSet) {
	seen := map[*counter]bool{}
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

// commit makes the marks of attempts durable, and has these begin.
func (g *gate) commit(ctx context.Context, batch []*entry, set store.QueueSet) {
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
	g.look()
}

// undo has attempts wait again whose commit was refused: in most cases since another host has begun some.
func (g *gate) undo(batch []*entry, err error) {
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
	for _, e := range batch { // what they would have counted holds up nobody
		for _, c := range e.counters {
			if e.gate == g && !c.loaded {
				g.due.Remove(c)
				g.unblock(c)
			}
		}
	}
	for _, e := range slices.Backward(batch) {
		e.gate.leave(e)
		of := g.t.gates[g.key] // which is another one if the limits have changed
		switch {
		case e.over():
			e.giveUp()
		case of == nil:
			e.start()
		case g.t.draining:
			e.stop()
			go e.notBegun()
		default:
			if of.enter(e, true); of != g {
				of.look()
			}
		}
	}
}

// sweepInto adds the deletion of some cells that count nothing any more, and returns where the next sweep begins.
func (g *gate) sweepInto(ctx context.Context, set *store.QueueSet) (next []byte) {
	from := g.sweep
	if from == nil {
		from = []byte(markPart)
	}
	limit := sweepCells * len(set.Cells)
	q := store.CellQuery{Queue: g.queueKey(), From: from, To: []byte{markPart[0] + 1}, Limit: limit}
	list, err := g.t.cfg.Store.Cells(ctx, q)
	if err != nil || len(list) < limit {
		next = []byte(markPart)
	} else {
		next = append(slices.Clone(list[len(list)-1].Key), 0)
	}
	written := map[string]bool{}
	for _, c := range set.Cells {
		written[string(c.Key)] = true
	}
	for _, cell := range list {
		if end, _, err := parseCell(cell.Value); err == nil && end <= g.t.now() && !written[string(cell.Key)] {
			set.Cells = append(set.Cells, store.Cell{Key: cell.Key})
		}
	}
	return next
}
