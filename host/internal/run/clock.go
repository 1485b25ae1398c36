package run

import (
	"github.com/wfhost/wfhost/store"
)

// Clock returns the time of a run's own clock when the host's clock shows now, both in Unix milliseconds. The result
// is never before now. parent is the run that started this one, with an empty id if there is none. Incarnations tell
// apart runs that had the same id. Writers and guests call it concurrently.
type Clock func(now int64, of, parent store.RunKey, incarnation, parentIncarnation store.Incarnation) int64

// Of returns the time of a run's clock when the host's clock shows now. If c is nil, that is now.
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

// OfStart returns the time of a new run's clock. A child starts by the clock of its parent.
func (c Clock) OfStart(n *NewRun, now int64) int64 {
	if c == nil || n.Parent == nil {
		return now
	}
	var begot store.Incarnation
	copy(begot[:], n.Parent.Incarnation)
	return c(now, n.Key, store.RunKey{Namespace: n.Key.Namespace, ID: n.Parent.RunID}, n.Incarnation, begot)
}
