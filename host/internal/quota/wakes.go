package quota

import (
	"math"
	"sync"

	"github.com/wfhost/wfhost/store"
)

// Wakes bounds how many runs of each namespace are woken in a second. Writers call it with each timer that is due, so it has a
// lock of its own, which is held for no more than that.
type Wakes struct {
	mu        sync.Mutex
	otherwise int64             // limit where none is set; 0: none
	limits    map[uint32]int64  // that were set
	rates     map[uint32]ration // of those that have a limit
}

// set sets the limit of a namespace, or removes it. What was used of the one before is forgotten.
func (w *Wakes) set(x *store.Quota) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limits == nil {
		w.limits = map[uint32]int64{}
	}
	w.limits[uint32(x.Namespace)] = x.Wakes
	if x.None() {
		delete(w.limits, uint32(x.Namespace))
	}
	delete(w.rates, uint32(x.Namespace))
}

// Wake lets a run of a namespace be woken now, and counts it, or reports false.
func (w *Wakes) Wake(namespace uint32, nowMs int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	limit, ok := w.limits[namespace]
	if !ok {
		limit = w.otherwise
	}
	if limit <= 0 {
		return true
	}
	r, ok := w.rates[namespace]
	if !ok {
		r = ration{perSecond: limit, left: 1000 * limit}
	}
	took := r.take(nowMs)
	if w.rates == nil {
		w.rates = map[uint32]ration{}
	}
	w.rates[namespace] = r
	return took
}

// NextWake returns the instant in milliseconds from which on Wake lets another run of the namespace be woken, unless the clock is
// set back.
func (w *Wakes) NextWake(namespace uint32) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.rates[namespace]
	if !ok || r.left >= 1000 {
		return 0
	}
	return r.whenMs(1000)
}

// ration is how much of something a namespace may still do, in thousandths, which grows with each millisecond up to that of a
// second. Whole numbers have the instant of NextWake be one at which Wake does let one.
type ration struct {
	perSecond, left, atMs int64
}

const (
	// most bounds what is left, and what is owed, so that no sum of two overflows: it is more than a second of the greatest quota.
	most = math.MaxInt64 / 4
	// skewMs is how far the clocks of two goroutines may be apart that take of a ration: each has its own look at the time. A
	// larger step back is a clock that was set back.
	skewMs = 2000
)

// fill adds what the time since has brought.
func (r *ration) fill(nowMs int64) {
	full := 1000 * r.perSecond
	if passed := nowMs - r.atMs; passed > (full-r.left)/r.perSecond {
		r.left = full
	} else if passed > 0 {
		r.left = min(r.left+passed*r.perSecond, full)
	} else if passed >= -skewMs { // these milliseconds have counted
		return
	}
	r.atMs = nowMs
}

// spend takes so many, of which there may be too few.
func (r *ration) spend(n int64) {
	owed := 1000 * (ahead + longestDebt*min(r.perSecond, most/(2000*longestDebt)))
	r.left = max(r.left-1000*min(n, most/1000), -owed)
}

// whenMs returns the instant from which on so many thousandths are left.
func (r *ration) whenMs(thousandths int64) int64 {
	if r.left >= thousandths {
		return r.atMs
	}
	return r.atMs + (thousandths-r.left+r.perSecond-1)/r.perSecond
}

// take takes one, if there is one.
func (r *ration) take(nowMs int64) bool {
	if r.fill(nowMs); r.left < 1000 {
		return false
	}
	r.left -= 1000
	return true
}
