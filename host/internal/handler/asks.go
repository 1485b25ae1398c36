package handler

import (
	"maps"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// askKey identifies a step that waits for a place.
type askKey struct {
	run    store.RunKey
	handle int64
}

// asks holds the waiting attempts, by partition and run. A run is represented by one of its attempts, whose field of
// has the others.
type asks struct {
	by     [store.Partitions]map[store.RunKey]*waiter // unpacked attempts
	packed packedIndex
	all    int // attempts
}

// of returns an attempt of a run, after unpacking it if necessary; nil if none waits.
func (a *asks) of(key store.RunKey) *waiter {
	if w := a.by[key.Partition()][key]; w != nil {
		return w
	}
	return a.unpack(key)
}

// peek returns an attempt of a run, which must not be changed; nil if none waits. A packed attempt stays packed.
func (a *asks) peek(key store.RunKey) *waiter {
	w := a.by[key.Partition()][key]
	if w == nil {
		_, w = a.packed.find(key)
	}
	return w
}

func (a *asks) find(key askKey) *waiter {
	first := a.of(key.run)
	switch {
	case first == nil:
		return nil
	case first.of != nil:
		return first.of[key.handle]
	case first.handle != key.handle:
		return nil
	}
	return first
}

func (a *asks) add(w *waiter) {
	a.all++
	first := a.of(w.run)
	switch {
	case first == nil:
		a.put(w)
		return
	case first.of == nil:
		first.of = map[int64]*waiter{first.handle: first}
	}
	first.of[w.handle] = w
}

// put adds the first attempt of a run.
func (a *asks) put(w *waiter) {
	p := &a.by[w.run.Partition()]
	if *p == nil {
		*p = map[store.RunKey]*waiter{}
	}
	(*p)[w.run] = w
}

func (a *asks) remove(w *waiter) {
	a.all--
	p := a.by[w.run.Partition()]
	first := p[w.run]
	if first.of == nil {
		delete(p, w.run)
		return
	}
	all := first.of
	delete(all, w.handle)
	if first == w {
		for _, first = range all { // any of the others
			break
		}
		p[w.run] = first
	}
	w.of, first.of = nil, all
	if len(all) == 1 {
		first.of = nil
	}
}

// ofRun returns the waiting attempts of a run.
func (a *asks) ofRun(key store.RunKey) []*waiter { return a.of(key).all() }

// ofPartition returns the unpacked waiting attempts of a partition's runs.
func (a *asks) ofPartition(id store.PartitionID) (list []*waiter) {
	for _, first := range a.by[id] {
		list = append(list, first.all()...)
	}
	return list
}

// all returns all waiting attempts of a run, given the one that represents the run.
func (w *waiter) all() []*waiter {
	switch {
	case w == nil:
		return nil
	case w.of == nil:
		return []*waiter{w}
	}
	return slices.Collect(maps.Values(w.of))
}
