package fairqueue

import "container/list"

// Turns orders groups that take turns of the same weight, for users that hold the items themselves. A group joins, at the back,
// when it has pending items, and leaves when it has none. The zero Turns is empty.
type Turns[G any] struct {
	all list.List // of *Turn[G]; the group at the front is next
}

// Turn is the place of a group in Turns. The zero Turn with a Group has not joined.
type Turn[G any] struct {
	Group G
	at    *list.Element // nil = it has not joined
}

// Len returns the number of groups that take turns.
func (t *Turns[G]) Len() int { return t.all.Len() }

// Join adds a group at the back. It does nothing if the group has joined.
func (t *Turns[G]) Join(x *Turn[G]) {
	if x.at == nil {
		x.at = t.all.PushBack(x)
	}
}

// Leave removes a group. It does nothing if the group has not joined.
func (t *Turns[G]) Leave(x *Turn[G]) {
	if x.at != nil {
		t.all.Remove(x.at)
		x.at = nil
	}
}

// First returns the first group accepted by may; nil if there is none. The groups before it keep their places.
func (t *Turns[G]) First(may func(G) bool) *Turn[G] {
	for e := t.all.Front(); e != nil; e = e.Next() {
		if x := e.Value.(*Turn[G]); may(x.Group) { //nolint:forcetypeassert // the list holds only turns
			return x
		}
	}
	return nil
}

// Had moves a group, which has had its turn, to the back.
func (t *Turns[G]) Had(x *Turn[G]) {
	if x.at != nil {
		t.all.MoveToBack(x.at)
	}
}

// All yields the groups, the next one first. They must not join or leave meanwhile.
func (t *Turns[G]) All(yield func(G) bool) {
	t.First(func(g G) bool { return !yield(g) })
}
