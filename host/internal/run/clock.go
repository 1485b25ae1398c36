package run

import (
	"github.com/wfhost/wfhost/store"
)

// Clock returns the instant of a run's own clock, in Unix milliseconds, where that of the host shows now. It is not before now.
// parent is the run that has started it, with an empty id if none has. An id may be taken again: which run of it is meant, its
// incarnation says. It is called by writers and guests at the same time.
type Clock func(now int64, of, parent store.RunKey, incarnation, parentIncarnation store.Incarnation) int64

// Of returns what the clock of a run shows where that of the host shows now: the same, if c is nil.
func (c Clock) Of(r *Record, now int64) int64 {
	if c == nil {
		return now
	}
	var parent store.RunKey
	var begot store.Incarnation
	if r.Exists && r.Journal.Started().Parent != nil {
		p := r.Journal.Started().Parent
		parent = store.RunKey{Namespace: r.Key.Namespace, ID: p.RunID}
		copy(begot[:], p.Incarnation)
	}
	return c(now, r.Key, parent, r.State.Incarnation, begot)
}

// OfStart returns what the clock of a new run shows: a child begins by that of its parent.
func (c Clock) OfStart(n *NewRun, now int64) int64 {
	if c == nil || n.Parent == nil {
		return now
	}
	var begot store.Incarnation
	copy(begot[:], n.Parent.Incarnation)
	return c(now, n.Key, store.RunKey{Namespace: n.Key.Namespace, ID: n.Parent.RunID}, n.Incarnation, begot)
}
