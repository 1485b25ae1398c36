package limits

import (
	"sync"
	"sync/atomic"

	"github.com/wfhost/wfhost/store"
)

const (
	// wakeBytes is charged for a wake before anything is written for it, and is less than most wakes write. It bounds how many
	// waiting runs wake at once when their namespace may write again.
	wakeBytes = 256
	// ahead is how many bytes a namespace may owe. So a run that was woken may continue although its wake was charged, and a
	// run may start although running ones use up the whole rate.
	ahead = 16 << 10
	// longestDebt bounds the debt of a namespace, in seconds of its quota: no namespace waits longer than that.
	longestDebt = 3600
)

// WriteQuotas bounds how many bytes the runs of each namespace write per second. Bytes are charged when they are sent to the
// store and may exceed the balance; then guests wait and starts are refused until the debt is paid. Shards and guests call
// it, so it has its own lock, which is held briefly.
type WriteQuotas struct {
	limited atomic.Bool // a namespace has or had a limit; otherwise no lock is taken
	mu      sync.Mutex
	limits  perNamespace
	rates   map[uint32]bucket    // of namespaces with a limit, from their first use on
	heads   map[uint32]queueHead // of namespaces with waiting runs
}

// queueHead is the head of the queue of waiting runs, across shards: the run that was due first.
type queueHead struct {
	dueMs int64
	atMs  int64 // when that run asks again
}

// graceMs is how much later than the head the other runs ask. If the head has not asked by then, it no longer waits.
const graceMs = 5

// turnLocked reports whether a run that was due at dueMs is at the head, or the head is late. The caller holds mu.
func (w *WriteQuotas) turnLocked(namespace uint32, nowMs, dueMs int64) bool {
	l, ok := w.heads[namespace]
	return !ok || dueMs <= l.dueMs || nowMs >= l.atMs+graceMs
}

// all sets the limit of the namespaces without their own.
func (w *WriteQuotas) all(perSecond int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limits.otherwise = perSecond
	w.limited.Store(w.limited.Load() || perSecond > 0)
	for ns := range w.rates {
		if _, own := w.limits.own[ns]; !own {
			w.rescaleLocked(ns)
		}
	}
}

// rescale changes the limit of a namespace, whose debt stays.
func (w *WriteQuotas) rescale(x *store.Quota, perSecond int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limits.set(x, perSecond)
	w.rescaleLocked(uint32(x.Namespace))
}

func (w *WriteQuotas) rescaleLocked(namespace uint32) {
	b, ok := w.rates[namespace]
	if !ok {
		return
	}
	b.perSecond = w.limits.of(namespace)
	b.left = min(b.left, 1000*b.perSecond)
	w.rates[namespace] = b
}

// set sets or removes the limit of a namespace and forgets what was written.
func (w *WriteQuotas) set(x *store.Quota, perSecond int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limits.set(x, perSecond)
	w.limited.Store(w.limited.Load() || perSecond > 0)
	delete(w.rates, uint32(x.Namespace))
	delete(w.heads, uint32(x.Namespace))
}

// rateLocked returns the balance of a namespace, false if it has no limit. The caller holds mu.
func (w *WriteQuotas) rateLocked(namespace uint32, nowMs int64) (b bucket, limited bool) {
	limit := w.limits.of(namespace)
	if limit <= 0 {
		return b, false
	}
	b, ok := w.rates[namespace]
	if !ok {
		b = newBucket(limit)
	}
	b.fill(nowMs)
	return b, true
}

func (w *WriteQuotas) keepLocked(namespace uint32, b bucket) {
	if w.rates == nil {
		w.rates = map[uint32]bucket{}
	}
	w.rates[namespace] = b
}

// Wrote charges the bytes that a run of a namespace writes.
func (w *WriteQuotas) Wrote(namespace uint32, bytes int, nowMs int64) {
	if !w.limited.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if b, limited := w.rateLocked(namespace, nowMs); limited {
		b.spend(int64(bytes), ahead+longestDebt*min(b.perSecond, most/(2000*longestDebt)))
		w.keepLocked(namespace, b)
	}
}

// OwesMs returns for how many milliseconds the runs of a namespace may neither begin nor continue because of its debt, 0 if
// they may. A debt of at most ahead is allowed, but a run that waits, waits until the whole debt is paid.
func (w *WriteQuotas) OwesMs(namespace uint32, nowMs int64) int64 {
	if !w.limited.Load() {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b, limited := w.rateLocked(namespace, nowMs)
	if !limited || b.left >= -1000*ahead {
		return 0
	}
	return b.whenMs(0) - nowMs
}

// May reports whether a run may continue without a wake: its namespace has no debt and no waiting run.
func (w *WriteQuotas) May(namespace uint32, nowMs int64) bool {
	if !w.limited.Load() {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b, limited := w.rateLocked(namespace, nowMs)
	return !limited || b.left >= 0 && w.turnLocked(namespace, nowMs, nowMs)
}

// mayWake reports whether a run that was due at dueMs may be woken. If only the debt prevents it, the run becomes the head
// of the queue.
func (w *WriteQuotas) mayWake(namespace uint32, nowMs, dueMs int64) bool {
	if !w.limited.Load() {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b, limited := w.rateLocked(namespace, nowMs)
	if !limited {
		return true
	}
	w.keepLocked(namespace, b)
	if l, ok := w.heads[namespace]; ok {
		l.atMs = min(l.atMs, max(b.whenMs(0), nowMs)) // lowered only after the clock was set back
		w.heads[namespace] = l
	}
	turn := w.turnLocked(namespace, nowMs, dueMs)
	if turn && b.left < 0 {
		if w.heads == nil {
			w.heads = map[uint32]queueHead{}
		}
		w.heads[namespace] = queueHead{dueMs, max(b.whenMs(0), nowMs)}
	}
	return turn && b.left >= 0
}

// woken charges a wake and clears the head of the queue, which is the woken run or is late.
func (w *WriteQuotas) woken(namespace uint32, nowMs int64) {
	if !w.limited.Load() {
		return
	}
	w.Wrote(namespace, wakeBytes, nowMs)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.heads, namespace)
}

// nextMs returns when mayWake next reports true for a run that was due at dueMs, unless the clock is set back.
func (w *WriteQuotas) nextMs(namespace uint32, dueMs int64) int64 {
	if !w.limited.Load() {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b, ok := w.rates[namespace]
	if !ok {
		return 0
	}
	if l, ok := w.heads[namespace]; ok && dueMs > l.dueMs {
		return b.whenMs(0) + graceMs
	}
	return b.whenMs(0)
}

// Wake counts a wake of a run that was due at dueMs, or reports false if it must wait: for a wake of its namespace
// (WakeQuotas), or until the namespace has paid its debt (WriteQuotas). With NextWake, May and Wrote it makes Quotas the
// pacer of shards.
func (q *Quotas) Wake(namespace uint32, nowMs, dueMs int64) bool {
	if !q.mayWake(namespace, nowMs, dueMs) || !q.WakeQuotas.Wake(namespace, nowMs) {
		return false
	}
	q.woken(namespace, nowMs)
	return true
}

// NextWake returns when Wake next succeeds for a run that was due at dueMs, in Unix milliseconds, unless the clock is set
// back or other runs of the namespace wake first.
func (q *Quotas) NextWake(namespace uint32, dueMs int64) int64 {
	return max(q.WakeQuotas.NextWake(namespace), q.WriteQuotas.nextMs(namespace, dueMs))
}
