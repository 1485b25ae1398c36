package limits

import (
	"math"
	"sync"

	"github.com/wfhost/wfhost/store"
)

// WakeQuotas bounds how many runs of each namespace wake per second. Writers call it for each due timer, so it has its own lock,
// which is held briefly.
type WakeQuotas struct {
	mu        sync.Mutex
	otherwise int64             // limit of namespaces without their own; 0 = none
	limits    map[uint32]int64  // limits of their own
	rates     map[uint32]ration // of namespaces with a limit that have woken runs
}

// set sets or removes the limit of a namespace and resets its bucket.
func (w *WakeQuotas) set(x *store.Quota) {
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

// Wake counts a wake of a namespace, or reports false if it must wait.
func (w *WakeQuotas) Wake(namespace uint32, nowMs int64) bool {
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

// NextWake returns when Wake next succeeds for the namespace, in Unix milliseconds, unless the clock is set back.
func (w *WakeQuotas) NextWake(namespace uint32) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.rates[namespace]
	if !ok || r.left >= 1000 {
		return 0
	}
	return r.whenMs(1000)
}

// ration is a token bucket in thousandths of a token, with a capacity of one second. Integers guarantee that Wake succeeds at
// the instant that NextWake returns.
type ration struct {
	perSecond, left, atMs int64
}

const (
	// most bounds the credit and the debt, so that no sum of two overflows. It exceeds a second of the greatest quota.
	most = math.MaxInt64 / 4
	// skewMs is how far apart the clock readings of two callers may be. A larger step back means that the clock was set back.
	skewMs = 2000
)

// fill adds the tokens for the time since the last call.
func (r *ration) fill(nowMs int64) {
	full := 1000 * r.perSecond
	if passed := nowMs - r.atMs; passed > (full-r.left)/r.perSecond {
		r.left = full
	} else if passed > 0 {
		r.left = min(r.left+passed*r.perSecond, full)
	} else if passed >= -skewMs { // these milliseconds were counted
		return
	}
	r.atMs = nowMs
}

// spend takes n tokens. The balance may become negative; the debt is bounded.
func (r *ration) spend(n int64) {
	owed := 1000 * (ahead + longestDebt*min(r.perSecond, most/(2000*longestDebt)))
	r.left = max(r.left-1000*min(n, most/1000), -owed)
}

// whenMs returns when the balance reaches a number of thousandths.
func (r *ration) whenMs(thousandths int64) int64 {
	if r.left >= thousandths {
		return r.atMs
	}
	return r.atMs + (thousandths-r.left+r.perSecond-1)/r.perSecond
}

// take takes one token, or reports false if there is none.
func (r *ration) take(nowMs int64) bool {
	if r.fill(nowMs); r.left < 1000 {
		return false
	}
	r.left -= 1000
	return true
}
