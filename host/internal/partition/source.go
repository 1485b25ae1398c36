package partition

import (
	"github.com/wfhost/wfhost/store"
)

// Source is what brings the next step of a run that is neither ended nor held.
type Source uint8

// The sources.
const (
	SourceNone       Source = iota // an event from outside alone
	SourceWork                     // it is read, committed, or a guest computes or is to
	SourceTimer                    // a timer in memory
	SourceIndex                    // the wake index, which will be read in time
	SourceQueue                    // it is a new run, and waits until others have a place
	SourceHandler                  // a handler that is to be registered
	SourceUnreadable               // another release: this one cannot read the run
)

// Source returns what brings the next step of a run, whose durable wake is given, and the instant of its timer. It changes
// nothing: simulations and diagnoses ask it to find runs that nothing would ever wake.
func (s *Shard) Source(key store.RunKey, wakeUnixMs int64) (from Source, unixMs int64) {
	p := s.mem.parts[key.Partition()]
	if p == nil {
		return SourceNone, 0
	}
	sl := p.slots[key]
	switch {
	case sl != nil && sl.working():
		return SourceWork, 0
	case p.unreadable[key] != nil:
		return SourceUnreadable, 0
	case s.mem.starts.Waits(key):
		return SourceQueue, 0
	}
	if at, ok := p.wakes.Due(wakeKey(key)); ok {
		return SourceTimer, at
	}
	k := store.WakeKey{UnixMs: max(wakeUnixMs, 0), Kind: store.WakeRun, Key: key}
	if wakeUnixMs != store.NoWake && sl == nil && p.wakes.Finds(k) {
		return SourceIndex, k.UnixMs
	}
	for _, runs := range p.missing {
		if runs[key] {
			return SourceHandler, 0
		}
	}
	return SourceNone, 0
}
