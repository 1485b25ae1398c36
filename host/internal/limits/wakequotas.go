package limits

import (
	"sync"

	"github.com/wfhost/wfhost/store"
)

// WakeQuotas bounds how many runs of each namespace wake per second. Writers call it for each due timer, so it has its own lock,
// which is held briefly.
type WakeQuotas struct {
	mu     sync.Mutex
	limits perNamespace
	rates  map[uint32]bucket // of namespaces with a limit that have woken runs
}

// all sets the limit of the namespaces without their own, and resets all buckets.
func (w *WakeQuotas) all(perSecond int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limits.otherwise = perSecond
	clear(w.rates)
}

// set sets or removes the limit of a namespace and resets its bucket.
func (w *WakeQuotas) set(x *store.Quota, perSecond int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limits.set(x, perSecond)
	delete(w.rates, uint32(x.Namespace))
}

// Wake counts a wake of a namespace, or reports false if it must wait.
func (w *WakeQuotas) Wake(namespace uint32, nowMs int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	limit := w.limits.of(namespace)
	if limit <= 0 {
		return true
	}
	r, ok := w.rates[namespace]
	if !ok {
		r = newBucket(limit)
	}
	took := r.take(nowMs)
	if w.rates == nil {
		w.rates = map[uint32]bucket{}
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
