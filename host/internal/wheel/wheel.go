// Package wheel keeps the timers of the next minute in memory: one flat turn of 65,536 slots of a millisecond.
// A timer within the turn goes into its slot; a later one is refused and stays in the store's wake index alone,
// so memory does not grow with far sleepers. There is no hierarchy and so no cascade: nothing ever stalls.
//
// The wheel is pure: no goroutine, clock or lock. The caller says what time it is.
//
// Timers of one slot form a linked list through a slab, by index: 4 bytes a link beside the item itself. A
// bitmap of two levels tells which slots are occupied, so that the next deadline is found in constant time.
package wheel

import "math/bits"

// Slots is the number of slots, and of milliseconds, of one turn: a little more than a minute, long enough that
// far timers are loaded in large portions, small enough that the empty wheel has half a megabyte.
const Slots = 1 << 16

const (
	mask    = Slots - 1
	words   = Slots / 64
	nothing = int32(-1)
)

// Wheel is a timing wheel of items of type T. It is not safe for concurrent use.
type Wheel[T any] struct {
	nowMs   int64 // every timer due at or before it has fired
	head    []int32
	tail    []int32
	slab    []node[T]
	free    int32
	used    int
	bitmap  [words]uint64
	summary [words / 64]uint64
}

type node[T any] struct {
	next int32
	item T
}

// New gives an empty wheel that stands at an instant.
func New[T any](nowUnixMs int64) *Wheel[T] {
	w := &Wheel[T]{nowMs: nowUnixMs, head: make([]int32, Slots), tail: make([]int32, Slots), free: nothing}
	for i := range w.head {
		w.head[i] = nothing
	}
	return w
}

// Len gives the number of timers.
func (w *Wheel[T]) Len() int { return w.used }

// Horizon gives the last instant whose timers the wheel takes now.
func (w *Wheel[T]) Horizon() int64 { return w.nowMs + Slots - 1 }

// Add puts a timer in; false if it lies beyond the horizon. A timer that is due already fires at the next
// Advance that moves the wheel, as of the millisecond after the wheel's time.
func (w *Wheel[T]) Add(dueUnixMs int64, item T) bool {
	if dueUnixMs > w.Horizon() {
		return false
	}
	slot := max(dueUnixMs, w.nowMs+1) & mask
	i := w.free
	if i != nothing {
		w.free = w.slab[i].next
		w.slab[i] = node[T]{nothing, item}
	} else {
		i = int32(len(w.slab))
		w.slab = append(w.slab, node[T]{nothing, item})
	}
	if w.head[slot] == nothing {
		w.head[slot] = i
		w.bitmap[slot/64] |= 1 << (slot % 64)
		w.summary[slot/4096] |= 1 << (slot / 64 % 64)
	} else {
		w.slab[w.tail[slot]].next = i
	}
	w.tail[slot] = i
	w.used++
	return true
}

// Next gives the instant of the first timer, false if the wheel is empty.
func (w *Wheel[T]) Next() (dueUnixMs int64, ok bool) {
	if w.used == 0 {
		return 0, false
	}
	first := w.nowMs + 1
	start := int(first & mask)
	slot := w.occupied(start)
	if slot < 0 {
		slot = w.occupied(0)
	}
	return first + int64((slot-start)&mask), true
}

// occupied gives the first occupied slot at or after one, -1 if there is none up to the end.
func (w *Wheel[T]) occupied(slot int) int {
	word := slot / 64
	if b := w.bitmap[word] >> (slot % 64); b != 0 {
		return slot + bits.TrailingZeros64(b)
	}
	word++
	for group := word / 64; group < len(w.summary); group++ {
		b := w.summary[group]
		if group == word/64 {
			b &= ^uint64(0) << (word % 64)
		}
		if b != 0 {
			word = group*64 + bits.TrailingZeros64(b)
			return word*64 + bits.TrailingZeros64(w.bitmap[word])
		}
	}
	return -1
}

// Advance moves the wheel to an instant and fires the timers that are due by then: by millisecond, and within
// one in the order in which they were put in. fire may put timers in; those due by then fire in this Advance if
// their slot has not passed. A clock that goes backwards changes nothing.
func (w *Wheel[T]) Advance(nowUnixMs int64, fire func(dueUnixMs int64, item T)) {
	for nowUnixMs > w.nowMs {
		due, ok := w.Next()
		if !ok || due > nowUnixMs {
			w.nowMs = nowUnixMs
			break
		}
		w.nowMs = due
		w.fireSlot(due, fire)
	}
	if w.used == 0 { // give the memory of a burst back
		w.slab, w.free = nil, nothing
	}
}

func (w *Wheel[T]) fireSlot(due int64, fire func(int64, T)) {
	slot := due & mask
	i := w.head[slot]
	w.head[slot] = nothing
	w.bitmap[slot/64] &^= 1 << (slot % 64)
	if w.bitmap[slot/64] == 0 {
		w.summary[slot/4096] &^= 1 << (slot / 64 % 64)
	}
	for i != nothing {
		next, item := w.slab[i].next, w.slab[i].item
		w.slab[i] = node[T]{next: w.free}
		w.free = i
		w.used--
		fire(due, item)
		i = next
	}
}
