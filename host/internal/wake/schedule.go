// Package wake knows when the runs of a partition are to be woken. Near wakes have timers in memory. Far ones are keys in the
// store's wake index alone, which is read in portions as they come near. A Schedule does not read it: it says when, and from
// where, and takes what Find has read.
//
// The package starts no goroutine, reads no clock and takes no lock.
package wake

import (
	"math"

	"github.com/wfhost/wfhost/store"
)

// Window is how far ahead wakes are loaded: a little more than half a minute, so that loads come in portions worth
// reading, and memory does not grow with far sleepers.
const Window = 32_768

// tight is how far ahead wakes are loaded when there are many timers in memory.
const tight = 1000

const (
	// Never is the instant of no wake.
	Never = math.MaxInt64
	// beginning is the far wake of a schedule whose index was not read yet.
	beginning = -1
)

// Ahead returns how far ahead wakes may be loaded where there are so many timers in memory, and a limit for them.
func Ahead(timers, limit int) int64 {
	switch {
	case timers < limit:
		return Window
	case timers < 2*limit:
		return tight
	}
	return 0
}

// Key is whose timer it is.
type Key struct {
	Kind store.WakeKind
	Run  store.RunKey
}

// Schedule is when the runs of a partition wake: the timers of near wakes, and how far these were loaded from the index.
type Schedule struct {
	pending
	margin int64

	pos     store.WakeKey // wakes up to this key have timers, those after it are in the index alone
	far     int64         // the instant of the first wake after pos, or an earlier one; Never if there is none
	reading bool          // a portion is being read
	notMs   int64         // not before this instant: the index could not be read
	sought  int64         // what far was when the portion began that is being read
}

// New returns the schedule of a partition whose index is to be read.
// pacer may be nil.
func New(id store.PartitionID, pacer Pacer) Schedule {
	return Schedule{pending: pending{pacer: pacer}, margin: margin(id), far: beginning}
}

// margin is how long before its first far wake a partition is loaded, at the latest half a window before: a load brings
// at least as much as half a window, however closely wakes follow one another. It differs between partitions, so that
// they do not all reload at the same time.
func margin(id store.PartitionID) int64 {
	return Window/4 + int64(id)*(Window/4)/store.Partitions
}

// Leave decides what becomes of the timer of a run that is dropped from memory, whose durable wake is given: it stays if
// that was loaded, and else is left to the index.
func (s *Schedule) Leave(k Key, wakeUnixMs int64) {
	if wakeUnixMs == store.NoWake {
		s.Remove(k)
		return
	}
	key := store.WakeKey{UnixMs: max(wakeUnixMs, 0), Kind: k.Kind, Key: k.Run}
	if key.Compare(s.pos) <= 0 {
		return // it has its timer, or none: a start that waits as a key, or a run that waits for a handler
	}
	s.Remove(k)
	s.far = min(s.far, key.UnixMs)
}

// Reads reports whether a portion is to be read by now.
func (s *Schedule) Reads(now, ahead int64) bool {
	return !s.reading && s.far != Never && s.far-min(ahead, s.margin) <= now && s.notMs <= now
}

// Set sets the durable wake of something that is not in memory: its timer, if the index was read so far, and else it is left
// to the index.
func (s *Schedule) Set(k Key, wakeUnixMs int64) {
	s.Remove(k)
	key := store.WakeKey{UnixMs: max(wakeUnixMs, 0), Kind: k.Kind, Key: k.Run}
	switch {
	case wakeUnixMs == store.NoWake:
	case key.Compare(s.pos) <= 0:
		s.Put(k, wakeUnixMs)
	default:
		s.far = min(s.far, key.UnixMs)
	}
}

// Read begins to read a portion: the wakes after a key and up to an instant. Loaded or Failed ends it.
func (s *Schedule) Read(now, ahead int64) (after store.WakeKey, untilUnixMs int64) {
	after, untilUnixMs = s.pos, now+ahead
	s.reading, s.sought = true, s.far
	if end := lastKey(untilUnixMs); end.Compare(s.pos) > 0 {
		s.pos = end
	}
	s.far = Never // what is left to the index meanwhile may bring it nearer
	return after, untilUnixMs
}

// lastKey returns a key after every key of an instant: runs of the default namespace stand last in the index, and their
// ids are ASCII.
func lastKey(unixMs int64) store.WakeKey {
	return store.WakeKey{UnixMs: unixMs, Key: store.RunKey{ID: "\xff"}}
}

// Loaded takes a portion that was read, and whether there is more of it. first is the instant of the first wake behind it,
// Never if there is none. inMemory reports whether a run is in memory, whose wake is newer then.
func (s *Schedule) Loaded(wakes []store.Wake, more bool, first int64, inMemory func(store.RunKey) bool) {
	s.reading = false
	for _, w := range wakes {
		k := Key{w.Key.Kind, w.Key.Key}
		if _, has := s.Due(k); has || k.Kind == store.WakeRun && inMemory(k.Run) {
			continue
		}
		s.Put(k, w.DueUnixMs)
	}
	if more {
		last := wakes[len(wakes)-1].Key
		s.pos, first = last, min(first, last.UnixMs)
	}
	s.far = min(s.far, first)
}

// Failed says that the index could not be read. It is read again after a while, from the beginning.
func (s *Schedule) Failed(now int64) {
	s.reading = false
	s.pos, s.far, s.notMs = store.WakeKey{}, beginning, now+againMs
}

// SetBack says that the clock was set back. Runs sleep until it shows their instants. What is tried again is tried at once, and
// does not wait for that.
func (s *Schedule) SetBack(now int64) {
	s.pending.setBack(now)
	s.notMs = min(s.notMs, now)
}

// NextRead returns the instant at which the next portion is to be read, false if none is, or one is being read.
func (s *Schedule) NextRead(ahead int64) (unixMs int64, ok bool) {
	if s.reading || s.far == Never {
		return 0, false
	}
	return max(s.far-min(ahead, s.margin), s.notMs), true
}

// First returns the instant of the first wake in memory or in the index, Never if there is none. While the index cannot be
// read, nobody knows what it has, and First returns when it will be read again.
func (s *Schedule) First() int64 {
	far := s.far
	if far == beginning {
		far = s.notMs
	}
	if near, ok := s.Next(); ok {
		return min(near, far)
	}
	return far
}

// OverdueMs returns how late the latest wake is that is due and has not been popped, 0 if none is. Those that are tried again,
// and those whose namespace has woken as many as it may, are not late by it. While nobody knows what the index has, those in
// memory alone count.
func (s *Schedule) OverdueMs(now int64) int64 {
	first := s.far
	if s.reading {
		first = min(first, s.sought)
	}
	if first == beginning {
		first = Never
	}
	if near, ok := s.wakes.Next(); ok {
		first = min(first, near)
	}
	return max(now-first, 0)
}

// Finds reports whether a wake in the index that has no timer will be found there in time.
func (s *Schedule) Finds(k store.WakeKey) bool {
	return s.reading || k.Compare(s.pos) > 0 && s.far <= k.UnixMs
}
