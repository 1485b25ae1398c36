package partition

import (
	"github.com/wfhost/wfhost/host/internal/run"
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
	p := s.parts[key.Partition()]
	if p == nil {
		return SourceNone, 0
	}
	if sl := p.slots[key]; sl != nil && sl.working() {
		return SourceWork, 0
	}
	if p.unreadable[key] != nil {
		return SourceUnreadable, 0
	}
	for _, later := range s.later {
		if later == key {
			return SourceQueue, 0
		}
	}
	if at, ok := p.timers.Due(timerKey{store.WakeRun, key}); ok {
		return SourceTimer, at
	}
	k := store.WakeKey{UnixMs: max(wakeUnixMs, 0), Kind: store.WakeRun, Key: key}
	if f := &p.front; wakeUnixMs != store.NoWake && p.slots[key] == nil &&
		(f.reading || k.Compare(f.pos) > 0 && f.far <= k.UnixMs) {
		return SourceIndex, k.UnixMs
	}
	for _, runs := range p.missing {
		if runs[key] {
			return SourceHandler, 0
		}
	}
	return SourceNone, 0
}

// Run returns a run in memory, nil if it is not there. It must not be changed, nor used while it is lent.
func (s *Shard) Run(key store.RunKey) *run.Run {
	if p := s.parts[key.Partition()]; p != nil && p.slots[key] != nil {
		return p.slots[key].run
	}
	return nil
}
