package shard

import (
	"github.com/wfhost/wfhost/store"
)

// Source is the trigger of the next step of a run that can continue: it has not ended and is not stuck, paused or set aside.
type Source uint8

// The sources.
const (
	SourceNone       Source = iota // only an event from outside
	SourceWork                     // work in progress: a read, a commit, or a guest that computes or waits for a place
	SourceTimer                    // a timer in memory
	SourceIndex                    // the wake index, which will be read in time
	SourceQueue                    // a queue in which it waits for a place: new runs, or attempts of its steps
	SourceUnreadable               // another release: this release cannot read the run
)

// Source returns the trigger of a run's next step, and its instant if that is a timer or an entry of the index. wakeUnixMs is
// the run's durable wake. Source changes nothing. Simulations and diagnostics use it to find runs that would never wake.
func (s *Shard) Source(key store.RunKey, wakeUnixMs int64) (from Source, unixMs int64) {
	p := s.mem.parts[key.Partition()]
	if p == nil {
		return SourceNone, 0
	}
	rs := p.residents[key]
	switch {
	case rs != nil && rs.working():
		return SourceWork, 0
	case p.unreadable[key] != nil:
		return SourceUnreadable, 0
	case s.mem.starts.Waits(key), s.port.Asks(key):
		return SourceQueue, 0
	}
	if at, ok := p.wakes.Due(wakeKey(key)); ok {
		return SourceTimer, at
	}
	k := store.WakeKey{UnixMs: max(wakeUnixMs, 0), Kind: store.WakeRun, Key: key}
	if wakeUnixMs != store.NoWake && rs == nil && p.wakes.Finds(k) {
		return SourceIndex, k.UnixMs
	}
	return SourceNone, 0
}
