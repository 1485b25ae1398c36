// Package lru keeps things that may be used again, within a number of bytes: those that were used longest ago give way.
package lru

// List is things that are kept, by when they were used. Its zero value keeps nothing, and has room for nothing.
type List[T any] struct {
	Limit int64 // in bytes

	newest, oldest *Place[T]
	bytes          int64
}

// Place is the place of a thing in a list.
type Place[T any] struct {
	thing        T
	bytes        int64
	newer, older *Place[T]
}

// Thing returns what is kept there.
func (p *Place[T]) Thing() T { return p.thing }

// Bytes returns what all things take.
func (l *List[T]) Bytes() int64 { return l.bytes }

// Add keeps a thing that was used just now, and takes so many bytes.
func (l *List[T]) Add(thing T, bytes int64) *Place[T] {
	p := &Place[T]{thing: thing, bytes: bytes, older: l.newest}
	if l.newest != nil {
		l.newest.newer = p
	} else {
		l.oldest = p
	}
	l.newest = p
	l.bytes += bytes
	return p
}

// Remove takes a thing out, which is in the list.
func (l *List[T]) Remove(p *Place[T]) {
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

// Excess returns the thing that has to give way first, false while there is room for all of them.
func (l *List[T]) Excess() (thing T, ok bool) {
	if l.bytes <= l.Limit {
		return thing, false
	}
	return l.oldest.thing, true
}
