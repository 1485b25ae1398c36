package timers

import "slices"

// mostFew is the largest number of timers kept in a slice. Up to it, a linear search takes less time and memory than a Set.
const mostFew = 32

// Few is a set of timers that takes little memory while it has at most mostFew timers. It fires in the same order as a Set. The
// zero value is an empty set. It is not safe for concurrent use.
type Few[K comparable] struct {
	few  []deadline[K] // in order of insertion
	many *Set[K]       // if not nil, holds all timers
}

type deadline[K comparable] struct {
	key K
	due int64 // unix ms
}

// Put adds the timer of a key. The key must not have a timer.
func (f *Few[K]) Put(key K, dueUnixMs int64) {
	if f.many == nil && len(f.few) == mostFew {
		f.many = &Set[K]{}
		for _, t := range f.few {
			f.many.Put(t.key, t.due)
		}
		f.few = nil
	}
	if f.many != nil {
		f.many.Put(key, dueUnixMs)
	} else {
		f.few = append(f.few, deadline[K]{key, dueUnixMs})
	}
}

// Remove removes the timer of key, if it has one.
func (f *Few[K]) Remove(key K) {
	if f.many == nil {
		f.few = slices.DeleteFunc(f.few, func(t deadline[K]) bool { return t.key == key })
	} else if f.many.Remove(key); f.many.Len() == 0 {
		f.many = nil
	}
}

// Len returns the number of timers.
func (f *Few[K]) Len() int {
	if f.many != nil {
		return f.many.Len()
	}
	return len(f.few)
}

// First returns the timer that fires first; false if the set is empty.
func (f *Few[K]) First() (key K, dueUnixMs int64, ok bool) {
	if f.many != nil {
		return f.many.First()
	}
	for _, t := range f.few {
		if !ok || t.due < dueUnixMs {
			key, dueUnixMs, ok = t.key, t.due, true
		}
	}
	return key, dueUnixMs, ok
}
