// Package wheel keeps the timers of the next minute in memory: one flat turn of 65,536 slots of a millisecond.
// A timer within the turn goes into its slot; a later one is refused and stays in the store's wake index alone,
// so memory does not grow with far sleepers. There is no hierarchy and so no cascade: nothing ever stalls.
//
// The wheel is pure: no goroutine, clock or lock. The caller says what time it is.
//
// Timers of one slot form a linked list through a slab, by index: 4 bytes a link beside the item itself. A
// bitmap of two levels tells which slots are occupied, so that the next deadline is found in constant time.
//
// Timers that have come due are a list of the same kind, to which whole slots are appended as the wheel moves. They
// stay there until somebody takes them: any number may come due at once, and takes no more memory than before.
package wheel

import "math/bits"

// Slots is the number of slots, and of milliseconds, of one turn: a little more than a minute, long enough that
// far timers are loaded in large portions, small enough that the empty wheel has half a megabyte.
const Slots = 1 << 16

const (
	mask    = Slots - 1
	words   = Slots / 64
	nothing = int32(-1)

	// The slab grows by chunks: nothing is copied when it does, and little of it is unused.
	chunkBits = 12
	chunkMask = 1<<chunkBits - 1
)

// Wheel is a timing wheel of items of type T. It is not safe for concurrent use.
type Wheel[T any] struct {
	nowMs   int64 // every timer due at or before it has come due
	slots   [Slots]list
	due     list
	slab    []*[1 << chunkBits]node[T]
	free    int32
	made    int32 // nodes of the slab that were ever used
	used    int   // timers in slots
	ready   int   // timers that have come due
	bitmap  [words]uint64
	summary [words / 64]uint64
}

// list is a list of nodes: empty if head is nothing.
type list struct{ head, tail int32 }

type node[T any] struct {
	next int32
	item T
}

// New gives an empty wheel that stands at an instant.
func New[T any](nowUnixMs int64) *Wheel[T] {
	w := &Wheel[T]{nowMs: nowUnixMs, due: list{head: nothing}, free: nothing}
	for i := range w.slots {
		w.slots[i].head = nothing
	}
	return w
}

// Len gives the number of timers that are not due.
func (w *Wheel[T]) Len() int { return w.used }

// Due gives the number of timers that have come due and were not taken.
func (w *Wheel[T]) Due() int { return w.ready }

// Horizon gives the last instant whose timers the wheel takes now.
func (w *Wheel[T]) Horizon() int64 { return w.nowMs + Slots - 1 }

func (w *Wheel[T]) node(i int32) *node[T] { return &w.slab[i>>chunkBits][i&chunkMask] }

// put appends an item to a list.
func (w *Wheel[T]) put(l *list, item T) {
	i := w.free
	if i != nothing {
		w.free = w.node(i).next
	} else {
		i = w.made
		if w.made++; int(i>>chunkBits) == len(w.slab) {
			w.slab = append(w.slab, new([1 << chunkBits]node[T]))
		}
	}
	*w.node(i) = node[T]{nothing, item}
	w.join(l, list{i, i})
}

// join appends a list to another one.
func (w *Wheel[T]) join(l *list, more list) {
	if l.head == nothing {
		*l = more
		return
	}
	w.node(l.tail).next = more.head
	l.tail = more.tail
}

// Add puts a timer in; false if it lies beyond the horizon. A timer that is due already comes due at the next
// Advance that moves the wheel, as of the millisecond after the wheel's time.
func (w *Wheel[T]) Add(dueUnixMs int64, item T) bool {
	if dueUnixMs > w.Horizon() {
		return false
	}
	slot := max(dueUnixMs, w.nowMs+1) & mask
	w.put(&w.slots[slot], item)
	w.bitmap[slot/64] |= 1 << (slot % 64)
	w.summary[slot/4096] |= 1 << (slot / 64 % 64)
	w.used++
	return true
}

// AddDue puts a timer in that has come due.
func (w *Wheel[T]) AddDue(item T) {
	w.put(&w.due, item)
	w.ready++
}

// Take takes the timer that came due first, false if there is none.
func (w *Wheel[T]) Take() (item T, ok bool) {
	i := w.due.head
	if i == nothing {
		return item, false
	}
	n := w.node(i)
	item, w.due.head = n.item, n.next
	*n = node[T]{next: w.free}
	w.free = i
	if w.ready--; w.ready+w.used == 0 { // give the memory of a burst back
		w.slab, w.free, w.made = nil, nothing, 0
	}
	return item, true
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

// Advance moves the wheel to an instant, and gives the number of timers that have come due by that: they are taken by
// millisecond, and within one in the order in which they were put in. A clock that goes backwards changes nothing.
func (w *Wheel[T]) Advance(nowUnixMs int64) int {
	before := w.ready
	for nowUnixMs > w.nowMs {
		due, ok := w.Next()
		if !ok || due > nowUnixMs {
			w.nowMs = nowUnixMs
			break
		}
		w.nowMs = due
		w.expire(due & mask)
	}
	return w.ready - before
}

// expire makes the timers of a slot due.
func (w *Wheel[T]) expire(slot int64) {
	l := &w.slots[slot]
	n := 0
	for i := l.head; i != nothing; i = w.node(i).next {
		n++
	}
	w.used -= n
	w.ready += n
	w.join(&w.due, *l)
	l.head = nothing
	w.bitmap[slot/64] &^= 1 << (slot % 64)
	if w.bitmap[slot/64] == 0 {
		w.summary[slot/4096] &^= 1 << (slot / 64 % 64)
	}
}
