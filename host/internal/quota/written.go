package quota

import (
	"sync"
	"sync/atomic"

	"github.com/wfhost/wfhost/store"
)

const (
	// wakeBytes is what a wake counts before anything is written for it, and less than what most write: of all the runs that
	// wait until their namespace may write again, no more are woken at a time than may write so much.
	wakeBytes = 256
	// ahead is what a namespace may write before it has it: a run that was woken may go on, though that counted, and another one
	// may begin, though those that are there use all that comes.
	ahead = 16 << 10
	// longestDebt is for how many seconds a namespace waits at most, whatever it has written.
	longestDebt = 3600
)

// Written bounds how many bytes the runs of each namespace write in a second. What is written is counted when it is on its way to
// the store, and may pass what there was: then guests wait, and starts are refused, until that has been made up for. Shards
// and guests call it, so it has a lock of its own, which is held for no more than that.
type Written struct {
	limited   atomic.Bool // some namespace has a limit, or had one: most hosts need no lock
	mu        sync.Mutex
	otherwise int64             // limit where none is set; 0: none
	limits    map[uint32]int64  // that were set
	rates     map[uint32]ration // of those that have a limit
	lines     map[uint32]line   // of those that have runs which wait
}

// line says which of the runs that wait goes on first, whichever shard has it: the one that was due first.
type line struct {
	dueMs int64
	atMs  int64 // when it asks again
}

// graceMs is how much later than the first one others ask. When it has not come by then, it needs nothing any more.
const graceMs = 5

// turnLocked reports whether it is the turn of a run that was due at an instant, and not that of another one.
func (w *Written) turnLocked(namespace uint32, nowMs, dueMs int64) bool {
	l, ok := w.lines[namespace]
	return !ok || dueMs <= l.dueMs || nowMs >= l.atMs+graceMs
}

// all sets the limit of those that have none of their own.
func (w *Written) all(perSecond int64) {
	w.otherwise = perSecond
	w.limited.Store(perSecond > 0)
}

// set sets the limit of a namespace, or removes it. What was written before is forgotten.
func (w *Written) set(x *store.Quota) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limits == nil {
		w.limits = map[uint32]int64{}
	}
	w.limits[uint32(x.Namespace)] = x.Written
	if x.None() {
		delete(w.limits, uint32(x.Namespace))
	}
	w.limited.Store(w.limited.Load() || x.Written > 0)
	delete(w.rates, uint32(x.Namespace))
	delete(w.lines, uint32(x.Namespace))
}

// rateLocked returns what a namespace may still write, false if it has no limit.
func (w *Written) rateLocked(namespace uint32, nowMs int64) (r ration, limited bool) {
	limit, ok := w.limits[namespace]
	if !ok {
		limit = w.otherwise
	}
	if limit <= 0 {
		return r, false
	}
	r, ok = w.rates[namespace]
	if !ok {
		r = ration{perSecond: limit, left: 1000 * limit}
	}
	r.fill(nowMs)
	return r, true
}

func (w *Written) keepLocked(namespace uint32, r ration) {
	if w.rates == nil {
		w.rates = map[uint32]ration{}
	}
	w.rates[namespace] = r
}

// Wrote counts bytes that a run of a namespace writes.
func (w *Written) Wrote(namespace uint32, bytes int, nowMs int64) {
	if !w.limited.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if r, limited := w.rateLocked(namespace, nowMs); limited {
		r.spend(int64(bytes))
		w.keepLocked(namespace, r)
	}
}

// OwesMs returns for how many milliseconds no run of a namespace may begin or go on, because they have written too much; 0 if
// they may. Who has to wait waits until nothing is owed.
func (w *Written) OwesMs(namespace uint32, nowMs int64) int64 {
	if !w.limited.Load() {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r, limited := w.rateLocked(namespace, nowMs)
	if !limited || r.left >= -1000*ahead {
		return 0
	}
	return r.whenMs(0) - nowMs
}

// May reports whether a run of a namespace may go on that nobody has woken: nothing is owed, and nobody waits.
func (w *Written) May(namespace uint32, nowMs int64) bool {
	if !w.limited.Load() {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r, limited := w.rateLocked(namespace, nowMs)
	return !limited || r.left >= 0 && w.turnLocked(namespace, nowMs, nowMs)
}

// mayWake reports whether a run that was due at an instant may be woken. If it may not because of what is owed, it waits in the
// line.
func (w *Written) mayWake(namespace uint32, nowMs, dueMs int64) bool {
	if !w.limited.Load() {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r, limited := w.rateLocked(namespace, nowMs)
	if !limited {
		return true
	}
	w.keepLocked(namespace, r)
	if l, ok := w.lines[namespace]; ok {
		l.atMs = min(l.atMs, max(r.whenMs(0), nowMs)) // not so only if the clock was set back
		w.lines[namespace] = l
	}
	turn := w.turnLocked(namespace, nowMs, dueMs)
	if turn && r.left < 0 {
		if w.lines == nil {
			w.lines = map[uint32]line{}
		}
		w.lines[namespace] = line{dueMs, max(r.whenMs(0), nowMs)}
	}
	return turn && r.left >= 0
}

// woken counts a wake, and begins the line anew: the run was its first, or the first did not come in time.
func (w *Written) woken(namespace uint32, nowMs int64) {
	if !w.limited.Load() {
		return
	}
	w.Wrote(namespace, wakeBytes, nowMs)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.lines, namespace)
}

// nextMs returns the instant from which on mayWake reports true for a run that was due at an instant, unless the clock is set
// back.
func (w *Written) nextMs(namespace uint32, dueMs int64) int64 {
	if !w.limited.Load() {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.rates[namespace]
	if !ok {
		return 0
	}
	if l, ok := w.lines[namespace]; ok && dueMs > l.dueMs {
		return r.whenMs(0) + graceMs
	}
	return r.whenMs(0)
}

// Wake lets a run of a namespace be woken now that was due at an instant, and counts it, or reports false.
func (q *Quotas) Wake(namespace uint32, nowMs, dueMs int64) bool {
	if !q.mayWake(namespace, nowMs, dueMs) || !q.Wakes.Wake(namespace, nowMs) {
		return false
	}
	q.woken(namespace, nowMs)
	return true
}

// NextWake returns the instant in milliseconds from which on Wake lets a run of the namespace be woken that was due at an
// instant, unless the clock is set back, or others come before it.
func (q *Quotas) NextWake(namespace uint32, dueMs int64) int64 {
	return max(q.Wakes.NextWake(namespace), q.Written.nextMs(namespace, dueMs))
}
