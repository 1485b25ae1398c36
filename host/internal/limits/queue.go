package limits

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

const (
	// fairTurn: every eighth admission takes the lane whose turn it is, regardless of priorities. So no key starves while more
	// urgent runs keep arriving.
	fairTurn = 8
	// maxMoves bounds the lanes that one Admit visits without admitting a run, and the lanes that one Queue unblocks.
	maxMoves = 1024
	// maxChanges bounds the cells, lanes and counters that one Queue touches before it leaves the rest to the next Queue. A batch
	// of commands plus one step then stays below store.MaxCells under any rules. A Queue that is too large to commit would be
	// rebuilt identically each time, forever.
	maxChanges = store.MaxCells / 2
)

// Queue is the queue of the runs of a workflow that wait for its limits. It consists of cells in a store, so a waiting run takes
// no memory. A Queue reads the cells that it needs, changes them, and returns the changes to commit. It is used for one commit.
type Queue struct {
	c        *cells
	rules    Rules
	now      int64
	q        queue
	lanes    map[string]*lane // lanes that were read, nil if there is none
	counters map[string]*counter
	wakeMs   int64  // the stored wake
	before   []byte // the stored record of the queue
	budget   int    // how many more lanes may be unblocked
	most     int    // maxChanges
	more     bool
}

// Grant is an admitted run.
type Grant struct {
	Run         string
	Incarnation store.Incarnation
	Ask         store.CommandID // the command with which the run asked
}

// OpenQueue reads the record of a queue. marks may be nil; the Queue changes them.
func OpenQueue(read Reader, marks Marks, rules Rules, now int64) (*Queue, error) {
	b := &Queue{c: newCells(read, marks), rules: rules, now: now, lanes: map[string]*lane{}, counters: map[string]*counter{},
		budget: maxMoves, most: maxChanges}
	if v := b.c.get(partQueue); v != nil {
		b.before = v
		if err := decodeInto("the record", v, &b.q); err != nil {
			return nil, err
		}
	}
	if b.q.Ready == nil {
		b.q.Ready = map[int]int64{}
	}
	b.wakeMs = b.q.WakeMs
	if d := sha256.Sum256(rules.Encode()); !bytes.Equal(b.q.Rules, d[:nameBytes]) {
		b.q.Rules, b.q.Free = d[:nameBytes], []byte(partBlocked)
	}
	return b, b.c.err
}

// fail keeps the first error.
func (b *Queue) fail(err error) {
	if b.c.err == nil {
		b.c.err = err
	}
}

// Ask queues a run for a slot. It does nothing if the run already waits or holds a slot.
func (b *Queue) Ask(run string, ask store.CommandID, x *journal.Limit) {
	for _, part := range []string{partPosition, partHolder} {
		if v := b.c.get(part + run); v != nil && incarnationOf(part, v) == ask.Incarnation {
			return
		}
	}
	name := laneOf(x.Keys)
	l := b.lane(name)
	head := priorityText(x.Priority) + seqBytes(b.q.Next)
	if kept := b.c.get(partKept + run); kept != nil { // the run had a position before it was paused
		if n := len(kept) - len(ask.Incarnation); n > nameBytes && incarnationOf(partKept, kept) == ask.Incarnation &&
			string(kept[:nameBytes]) == name {
			head = string(kept[nameBytes:n])
		}
		b.c.set(partKept+run, nil)
	}
	if l == nil {
		l = &lane{Head: []byte(head), Keys: map[string][]byte{}}
		for path, text := range x.Keys {
			l.Keys[path] = []byte(nameOf(text))
		}
		b.lanes[name] = l
		b.enqueue(name, l)
	} else if string(l.Head) > head {
		ready := l.Blocked == nil
		if ready {
			b.unready(name, l)
		}
		l.Head = []byte(head)
		if ready {
			b.ready(name, l)
		}
	}
	b.q.Next++
	l.Waiting++
	b.q.Waiting++
	b.c.set(partWaiter+name+head, encode(waiter{run, ask.Incarnation, ask.Iteration, ask.Seq}))
	b.c.set(partPosition+run, append([]byte(name+head), ask.Incarnation[:]...))
}

// incarnationOf returns the incarnation in a cell of a run.
func incarnationOf(part string, v []byte) (i store.Incarnation) {
	from := 0
	if part == partPosition || part == partKept {
		from = len(v) - len(i)
	}
	if from >= 0 && len(v) >= from+len(i) {
		copy(i[:], v[from:])
	}
	return i
}

// Return returns the slot of a run, or removes the run from the queue. With keep, a waiting run is being paused: other runs pass
// it, and it gets its position back when it asks again. A run that was just admitted has no position to keep; when it asks again,
// it is behind the others.
func (b *Queue) Return(run string, of store.Incarnation, keep bool) {
	if v := b.c.get(partKept + run); !keep && v != nil && incarnationOf(partKept, v) == of {
		b.c.set(partKept+run, nil)
	}
	if v := b.c.get(partPosition + run); len(v) > nameBytes && incarnationOf(partPosition, v) == of {
		if keep {
			b.c.set(partKept+run, v)
		}
		b.c.set(partPosition+run, nil)
		position := string(v[:len(v)-len(of)])
		b.leave(position[:nameBytes], position[nameBytes:])
	}
	if v := b.c.get(partHolder + run); v != nil && incarnationOf(partHolder, v) == of {
		b.c.set(partHolder+run, nil)
		b.q.Held--
		for rest := v[len(of):]; len(rest) >= nameBytes; rest = rest[nameBytes:] {
			name := string(rest[:nameBytes])
			if c := b.counter(name, ""); c != nil {
				c.Held = max(c.Held-1, 0)
				b.release(name, c)
			}
		}
	}
}

// leave removes a run from its lane.
func (b *Queue) leave(name, position string) {
	l := b.lane(name)
	if l == nil {
		b.fail(fmt.Errorf("%w: a run of a queue waits in no lane", store.ErrCorrupt))
		return
	}
	b.c.set(partWaiter+name+position, nil)
	b.q.Waiting--
	l.Waiting--
	if l.Waiting <= 0 {
		if l.Blocked != nil {
			b.unblock(name, l)
		}
		b.unready(name, l)
		b.lanes[name] = nil
		b.pass(l, "")
		return
	}
	if string(l.Head) != position {
		return
	}
	next := b.c.first(partWaiter+name, partWaiter+name+position)
	if next == "" {
		b.fail(fmt.Errorf("%w: a lane of a queue says that %d runs wait, and there is none", store.ErrCorrupt, l.Waiting))
		return
	}
	ready := l.Blocked == nil
	if ready {
		b.unready(name, l)
	}
	l.Head = []byte(next[len(partWaiter)+nameBytes:])
	if ready {
		b.ready(name, l)
	}
}

// Admit admits at most limit waiting runs, in order, and returns them. QueueCommit.More says whether there is more to do at once.
func (b *Queue) Admit(limit int) (grants []Grant) {
	b.expire()
	b.reconsider()
	b.more = b.more || b.q.Free != nil
	for moves := 0; b.c.err == nil; {
		if len(grants) == limit || moves == maxMoves || b.crowded() {
			b.more = true
			return grants
		}
		if b.q.Waiting == 0 || b.full() {
			return grants
		}
		name := b.next()
		if name == "" {
			return grants
		}
		l := b.lane(name)
		if l == nil {
			b.fail(fmt.Errorf("%w: a queue has a lane without a record", store.ErrCorrupt))
			return nil
		}
		if by := b.blocking(l); by != "" {
			b.block(name, l, by)
			moves++
			continue
		}
		grants = append(grants, b.grant(name, l))
	}
	return nil
}

// crowded reports whether the Queue has changed as much as one commit should contain.
func (b *Queue) crowded() bool { return len(b.c.order)+len(b.lanes)+len(b.counters) > b.most }

// mayUnblock reports whether another lane may be unblocked.
func (b *Queue) mayUnblock() bool { return b.budget > 0 && !b.crowded() }

// next returns the lane of the next run, empty if there is none.
func (b *Queue) next() string {
	prefix := partTurn
	if b.q.Given%fairTurn != fairTurn-1 {
		best := -1
		for p, n := range b.q.Ready {
			if n > 0 && (best < 0 || p < best) {
				best = p
			}
		}
		if best < 0 {
			return ""
		}
		prefix = partReady + string([]byte{byte(best)})
	}
	key := b.c.front(prefix)
	if len(key) < nameBytes {
		return ""
	}
	return key[len(key)-nameBytes:]
}

// grant admits the first run of a lane.
func (b *Queue) grant(name string, l *lane) Grant {
	position := string(l.Head)
	var w waiter
	v := b.c.get(partWaiter + name + position)
	if v == nil {
		b.fail(fmt.Errorf("%w: the first run of a lane of a queue is not there", store.ErrCorrupt))
		return Grant{}
	}
	if err := decodeInto("a run", v, &w); err != nil {
		b.fail(err)
		return Grant{}
	}
	holder := append([]byte{}, w.Incarnation[:]...)
	for i := range b.rules {
		r := &b.rules[i]
		if r.Per == "" && r.WindowMs == 0 {
			continue // the queue record counts these
		}
		id := r.counterOf(l)
		c := b.counter(id, r.name())
		if r.WindowMs == 0 {
			c.Held++
			holder = append(holder, id...)
			continue
		}
		c.at = append(c.times(b.now, r.WindowMs), b.now)
		if c.DueMs == 0 {
			b.expires(id, c, b.now+r.WindowMs)
		}
	}
	b.c.set(partHolder+w.Run, holder)
	b.c.set(partPosition+w.Run, nil)
	b.q.Held++
	b.q.Given++
	b.leave(name, position)
	l = b.lane(name)
	if l != nil { // the other lanes get their turn first
		b.unready(name, l)
		b.enqueue(name, l)
	}
	return Grant{Run: w.Run, Incarnation: w.Incarnation,
		Ask: store.CommandID{Incarnation: w.Incarnation, Iteration: w.Iteration, Seq: w.Seq}}
}

// QueueCommit holds the changes of a Queue that the caller must make durable.
type QueueCommit struct {
	Before store.Cell // see store.QueueSet
	Cells  []store.Cell
	// OldWakeMs and WakeMs are the old and new wakes of the queue, store.NoWake for none.
	OldWakeMs, WakeMs int64
	More              bool // there is more to do at once
}

// Close returns the changes to commit.
func (b *Queue) Close() (*QueueCommit, error) {
	for name, l := range b.lanes {
		b.save(partLane+name, l != nil, l)
	}
	for name, c := range b.counters {
		c.encode()
		b.save(partCounter+name, c != nil && (c.Held > 0 || c.Blocked > 0 || len(c.Log) > 0), c)
	}
	b.q.WakeMs = 0
	if key := b.c.front(partExpiry); key != "" {
		b.q.WakeMs = expiryOf(key)
	}
	b.q.Revision++
	b.save(partQueue, true, &b.q)
	if b.c.err != nil {
		return nil, b.c.err
	}
	list := b.c.changes()
	if len(list) > store.MaxCells {
		return nil, errors.New("a queue changes too much at a time")
	}
	return &QueueCommit{Before: store.Cell{Key: []byte(partQueue), Value: b.before}, Cells: list,
		OldWakeMs: wakeOf(b.wakeMs), WakeMs: wakeOf(b.q.WakeMs), More: b.more}, nil
}

func wakeOf(ms int64) int64 {
	if ms == 0 {
		return store.NoWake
	}
	return ms
}

// save sets a cell to the encoding of x if exists is true, and deletes the cell otherwise. It does nothing if the cell is up to
// date.
func (b *Queue) save(key string, exists bool, x any) {
	old := b.c.get(key)
	switch {
	case !exists && old != nil:
		b.c.set(key, nil)
	case exists:
		if v := encode(x); !bytes.Equal(v, old) {
			b.c.set(key, v)
		}
	}
}
