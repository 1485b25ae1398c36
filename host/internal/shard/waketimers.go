package shard

import (
	"math"

	"github.com/wfhost/wfhost/store"
)

// loadAheadMs is how far ahead wakes are loaded, in milliseconds: a little more than half a minute. That makes each
// portion large enough to be worth a read, and memory does not grow with the number of runs that sleep longer.
const loadAheadMs = 32_768

// tight is how far ahead wakes are loaded while memory holds many timers, in milliseconds.
const tight = 1000

const (
	// Never is the instant that stands for no wake.
	Never = math.MaxInt64
	// beginning is the value of far before the index was read.
	beginning = -1
)

// aheadMs returns how far ahead wakes may be loaded, in milliseconds, for the number of timers in memory: loadAheadMs
// below limit, tight below twice the limit, else 0.
func aheadMs(timers, limit int) int64 {
	switch {
	case timers < limit:
		return loadAheadMs
	case timers < 2*limit:
		return tight
	}
	return 0
}

// TimerKey identifies a timer.
type TimerKey struct {
	Kind store.WakeKind
	Run  store.RunKey
}

// wakeTimers schedules the wakes of the runs of a partition. Near wakes have timers in memory. Far wakes are only keys in
// the store's wake index, which is read in portions as they come near. wakeTimers does not read the index itself: it tells
// its caller when and from where to read, and takes the portion that FindWakes read. It starts no goroutine, reads no
// clock and takes no lock.
type wakeTimers struct {
	pendingWakes
	margin int64

	pos     store.WakeKey // wakes up to this key have timers; later wakes are only in the index
	far     int64         // lower bound for the first wake after pos; Never if there is none
	reading bool          // a portion is being read
	notMs   int64         // earliest instant of the next read, after a read failed
	sought  int64         // far when the present read began
}

// newWakeTimers returns the schedule of a partition whose index was not read yet. pacer may be nil: then runs wake when
// they are due.
func newWakeTimers(id store.PartitionID, pacer WakePacer) wakeTimers {
	return wakeTimers{pendingWakes: pendingWakes{pacer: pacer}, margin: margin(id), far: beginning}
}

// margin returns how long before its first far wake a partition loads the next portion: between a quarter and half of
// loadAheadMs. So a portion covers at least half of loadAheadMs, however closely wakes follow each other. The margin
// differs between partitions, so they do not all load at the same time.
func margin(id store.PartitionID) int64 {
	return loadAheadMs/4 + int64(id)*(loadAheadMs/4)/store.Partitions
}

// Dropped adjusts the timer of a run that is dropped from memory and whose durable wake is wakeUnixMs. The timer stays if the
// wake was loaded from the index. Otherwise Dropped removes it, and the index brings it later.
func (s *wakeTimers) Dropped(k TimerKey, wakeUnixMs int64) {
	if wakeUnixMs == store.NoWake {
		s.Remove(k)
		return
	}
	key := store.WakeKey{UnixMs: max(wakeUnixMs, 0), Kind: k.Kind, Key: k.Run}
	if key.Compare(s.pos) <= 0 {
		return // the timer is right; a start that waits as a key, or a run that waits for a handler, has none
	}
	s.Remove(k)
	s.far = min(s.far, key.UnixMs)
}

// Reads reports whether the next portion must be read by now.
func (s *wakeTimers) Reads(now, ahead int64) bool {
	return !s.reading && s.far != Never && s.far-min(ahead, s.margin) <= now && s.notMs <= now
}

// Behind reports whether timers are left that fire no later than the next portion. While there are, the portion can wait.
func (s *wakeTimers) Behind() bool {
	at, ok := s.wakes.Next()
	return ok && at <= s.far
}

// Set records the durable wake of a run or key that is not in memory. It sets a timer if the index was read that far; otherwise
// the index brings it later.
func (s *wakeTimers) Set(k TimerKey, wakeUnixMs int64) {
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

// Read begins a read of a portion and returns its bounds: the wakes after a key and up to an instant. The caller must end it with
// Loaded or Failed.
func (s *wakeTimers) Read(now, ahead int64) (after store.WakeKey, untilUnixMs int64) {
	after, untilUnixMs = s.pos, now+ahead
	s.reading, s.sought = true, s.far
	if end := lastKey(untilUnixMs); end.Compare(s.pos) > 0 {
		s.pos = end
	}
	s.far = Never // Set and Dropped may lower it during the read
	return after, untilUnixMs
}

// lastKey returns a key after every key of an instant: runs of the default namespace stand last in the index, and their
// ids are ASCII.
func lastKey(unixMs int64) store.WakeKey {
	return store.WakeKey{UnixMs: unixMs, Key: store.RunKey{ID: "\xff"}}
}

// Loaded ends a read with its portion. more and first are as returned by FindWakes. Loaded skips wakes of runs that are in
// memory, as reported by inMemory, and of keys with a timer: theirs are newer.
func (s *wakeTimers) Loaded(wakes []store.Wake, more bool, first int64, inMemory func(store.RunKey) bool) {
	s.reading = false
	for _, w := range wakes {
		k := TimerKey{w.Key.Kind, w.Key.Key}
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

// Failed ends a read that failed. After againMs, the index is read again from the beginning.
func (s *wakeTimers) Failed(now int64) {
	s.reading = false
	s.pos, s.far, s.notMs = store.WakeKey{}, beginning, now+againMs
}

// SetBack must be called when the clock was set back. Runs still sleep until the clock shows their instants. Retries become due
// at once, so they do not wait for the clock to catch up.
func (s *wakeTimers) SetBack(now int64) {
	s.pendingWakes.setBack(now)
	s.notMs = min(s.notMs, now)
}

// NextRead returns when the next portion must be read; false if there is none, or a read is in progress.
func (s *wakeTimers) NextRead(ahead int64) (unixMs int64, ok bool) {
	if s.reading || s.far == Never {
		return 0, false
	}
	return max(s.far-min(ahead, s.margin), s.notMs), true
}

// First returns the instant of the first wake in memory or in the index, Never if there is none. Until the index has been read,
// the instant of its next read stands for its wakes.
func (s *wakeTimers) First() int64 {
	far := s.far
	if far == beginning {
		far = s.notMs
	}
	if near, ok := s.Next(); ok {
		return min(near, far)
	}
	return far
}

// OverdueMs returns how long the most overdue wake has been due without being popped, 0 if none is due. Retries and paced runs do
// not count. Wakes in the index count once the index has been read.
func (s *wakeTimers) OverdueMs(now int64) int64 {
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

// Finds reports whether the schedule will read the wake at k, which has no timer, from the index in time.
func (s *wakeTimers) Finds(k store.WakeKey) bool {
	return s.reading || k.Compare(s.pos) > 0 && s.far <= k.UnixMs
}
