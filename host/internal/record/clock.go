package record

import (
	"github.com/wfhost/wfhost/host/internal/origin"
	"github.com/wfhost/wfhost/store"
)

// Clock returns the instant of a run's own clock, in Unix milliseconds, where that of the host shows now. It is not before now.
// parent is the id of the run that has started it, "" if none has. It is called by writers and guests at the same time.
type Clock func(now int64, run store.RunKey, parent string) int64

// Of returns what the clock of a run shows where that of the host shows now: the same, if c is nil.
func (c Clock) Of(r *Record, now int64) int64 {
	if c == nil {
		return now
	}
	parent := ""
	if r.Exists && r.Journal.Started().Parent != nil {
		parent = r.Journal.Started().Parent.RunID
	}
	return c(now, r.Key, parent)
}

// OfStart returns what the clock of a new run shows: a child begins by that of its parent.
func (c Clock) OfStart(n *origin.NewRun, now int64) int64 {
	if c == nil || n.Parent == nil {
		return now
	}
	return c(now, n.Key, n.Parent.RunID)
}
