// Package lru keeps values that may be used again, within a number of bytes. The least recently used values are evicted first.
package lru

// List orders values by their last use. The zero List has a limit of 0, so there is no room for any value that takes bytes.
type List[T any] struct {
	Limit int64 // in bytes

	newest, oldest *Item[T]
	bytes          int64
}

// Item is the position of a value in a List.
type Item[T any] struct {
	thing        T
	bytes        int64
	newer, older *Item[T]
}

// Thing returns the value at p.
func (p *Item[T]) Thing() T { return p.thing }

// Bytes returns the size of all values in the list.
func (l *List[T]) Bytes() int64 { return l.bytes }

// Add inserts a value as the most recently used one.
func (l *List[T]) Add(thing T, bytes int64) *Item[T] {
	p := &Item[T]{thing: thing, bytes: bytes, older: l.newest}
	if l.newest != nil {
		l.newest.newer = p
	} else {
		l.oldest = p
	}
	l.newest = p
	l.bytes += bytes
	return p
}

// Remove removes a value. p must be in the list.
func (l *List[T]) Remove(p *Item[T]) {
	if p.newer != nil {
		p.newer.older = p.older
	} else {
		l.newest = p.older
	}
	if p.older != nil {
		p.older.newer = p.newer
	} else {
		l.oldest = p.newer
	}
	p.newer, p.older = nil, nil
	l.bytes -= p.bytes
}

// Excess returns the least recently used value if the list exceeds its limit, and false otherwise. It does not remove the value.
func (l *List[T]) Excess() (thing T, ok bool) {
	if l.bytes <= l.Limit {
		return thing, false
	}
	return l.oldest.thing, true
}
