package journal

import (
	"slices"

	"github.com/wfhost/wfhost/store"
)

// waits pairs signals with waits. For each name, it holds the pending signals (accepted and not bound) and the open waits, both
// oldest first. So the cost of a signal or a wait does not depend on other names.
type waits struct {
	byName map[string]*queue // names with a pending signal or an open wait
	ready  map[*queue]struct{}
	signal load // pending signals of all names
}

// queue holds the pending signals and the open waits of one name.
type queue struct {
	signals []store.Seq // ascending
	waits   []int64     // handles, ascending
	bytes   int64       // payload bytes of signals
}

// load is the number and payload bytes of signals.
type load struct{ n, bytes int64 }

// of returns the load of the pending signals of a name.
func (w *waits) of(name string) load {
	if q := w.byName[name]; q != nil {
		return load{int64(len(q.signals)), q.bytes}
	}
	return load{}
}

// first returns the handle of the oldest open wait of a name, 0 if there is none.
func (w *waits) first(name string) int64 {
	if q := w.byName[name]; q != nil && len(q.waits) > 0 {
		return q.waits[0]
	}
	return 0
}

// has reports whether the signal accepted at seq is pending.
func (w *waits) has(name string, seq store.Seq) bool {
	q := w.byName[name]
	if q == nil {
		return false
	}
	_, ok := slices.BinarySearch(q.signals, seq)
	return ok
}

// addSignal adds the signal of an accept entry to the pending signals.
func (w *waits) addSignal(e *store.Entry) {
	q := w.queue(e.Name)
	q.signals = insert(q.signals, e.Seq)
	q.bytes += int64(len(e.Data))
	w.signal.n, w.signal.bytes = w.signal.n+1, w.signal.bytes+int64(len(e.Data))
	w.changed(e.Name, q)
}

// removeSignal removes a pending signal.
func (w *waits) removeSignal(e *store.Entry) {
	q := w.queue(e.Name)
	q.signals = remove(q.signals, e.Seq)
	q.bytes -= int64(len(e.Data))
	w.signal.n, w.signal.bytes = w.signal.n-1, w.signal.bytes-int64(len(e.Data))
	w.changed(e.Name, q)
}

// addWait adds an open wait.
func (w *waits) addWait(h *Handle) {
	q := w.queue(h.Name)
	q.waits = insert(q.waits, h.ID)
	w.changed(h.Name, q)
}

// removeWait removes a closed wait.
func (w *waits) removeWait(h *Handle) {
	q := w.queue(h.Name)
	q.waits = remove(q.waits, h.ID)
	w.changed(h.Name, q)
}

func (w *waits) queue(name string) *queue {
	q := w.byName[name]
	if q == nil {
		if w.byName == nil {
			w.byName, w.ready = map[string]*queue{}, map[*queue]struct{}{}
		}
		q = &queue{}
		w.byName[name] = q
	}
	return q
}

// changed updates ready and removes an empty queue.
func (w *waits) changed(name string, q *queue) {
	if len(q.signals) > 0 && len(q.waits) > 0 {
		w.ready[q] = struct{}{}
	} else if delete(w.ready, q); len(q.signals) == 0 && len(q.waits) == 0 {
		delete(w.byName, name)
	}
}

// pair is a pending signal and the handle of the wait that takes it.
type pair struct {
	signal store.Seq
	wait   int64
}

// pairs returns the signals that can be bound now, in order of acceptance, each with the oldest wait of its name.
func (w *waits) pairs() (list []pair) {
	for q := range w.ready {
		for i := range min(len(q.signals), len(q.waits)) {
			list = append(list, pair{q.signals[i], q.waits[i]})
		}
	}
	slices.SortFunc(list, func(a, b pair) int { return int(a.signal) - int(b.signal) })
	return list
}

// pending returns the seqs of all pending signals, in no particular order.
func (w *waits) pending() (list []store.Seq) {
	for _, q := range w.byName {
		list = append(list, q.signals...)
	}
	return list
}

// insert inserts x into an ascending list. It is fast at the end, the usual place.
func insert[T ~int64 | ~uint64](list []T, x T) []T {
	if n := len(list); n == 0 || list[n-1] < x {
		return append(list, x)
	}
	i, _ := slices.BinarySearch(list, x)
	return slices.Insert(list, i, x)
}

// remove removes x from an ascending list. It is fast at the beginning, the usual place.
func remove[T ~int64 | ~uint64](list []T, x T) []T {
	i, ok := slices.BinarySearch(list, x)
	switch {
	case !ok:
		return list
	case i == 0:
		return list[1:]
	}
	return slices.Delete(list, i, i+1)
}
