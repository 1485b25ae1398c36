package admission

import (
	"maps"
	"slices"
)

// beginShare is the part of the memory that bodies may hold, from their beginning to their end. None of them gives its instance
// up, and one may wait for a server, or for a time, for days: some hundred that wait would hold all the memory, and nobody on
// the host would come in until they end. So those for which there is no room wait before they begin, when they hold nothing.
//
// What a body holds comes back late. So nobody has all of the share: a namespace may come to hold mostOf what the others leave
// of it, and a group mostOf what the other groups of its namespace leave of that. Whoever comes later finds room, less each
// time. The first body of a namespace that finds none has half of the share more, together with others like it, and the first
// one of a group half of that. One that finds no other body may hold any amount.
// The other half has room for the largest guest, as the least limit is twice as much.
const (
	beginShare  = 2
	firstSpaces = 2 // the part of the share that first bodies of namespaces have beyond it, about
	firstGroups = 4 // the same of groups
)

// mostOf returns what one may come to hold where others hold something of a share: three quarters of the rest. With a half, one
// alone would leave as much unused as it has; with more, the third one that comes would have no room for a single guest.
func mostOf(share, others int64) int64 { return max(share-others, 0) * 3 / 4 }

// bodies says which bodies may begin, and what they hold. It is used while the admission is locked.
type bodies struct {
	share    int64           // what they may hold
	held     int64           // what they hold, those included that have begun and are not inside yet
	beyond   int64           // of held, what those hold for which there was no room, and which were the first
	of       map[group]int64 // of held, by group, and by namespace (without a workflow)
	long     map[group]int64 // of those that have computed for a slice, by group
	longMost int64
	waiting  queue // those that wait; after each change all of them are set aside
}

// newBodies returns the bodies of an admission with a limit.
func newBodies(limit int64) bodies {
	return bodies{share: limit / beginShare, longMost: limit / bodyShare, of: map[group]int64{}, long: map[group]int64{}}
}

// verdict says whether a body may begin.
type verdict uint8

const (
	begins      verdict = iota
	beginsFirst         // though there is no room
	groupFull           // others of its group hold too much
	spaceFull           // there is no room for others of its namespace either
)

// verdict returns whether the body of a guest may begin. The first one of a group that computes for long may hold any amount.
func (b *bodies) verdict(p *Place) verdict {
	ofSpace, ofGroup := b.of[p.group.space()], b.of[p.group]
	most := mostOf(b.share, b.held-ofSpace)
	room, long := ofSpace+p.bytes <= most, b.long[p.group] > b.longMost
	switch {
	case long:
	case b.held == 0 || room && ofGroup+p.bytes <= mostOf(most, ofSpace-ofGroup):
		return begins
	case b.mayBeFirst(p):
		return beginsFirst
	}
	if room && (long || ofGroup > 0) {
		return groupFull
	}
	return spaceFull
}

// mayBeFirst reports whether a body may begin, though there is no room, as it is the first one of its namespace or group.
func (b *bodies) mayBeFirst(p *Place) bool {
	return b.of[p.group.space()] == 0 && b.beyond < b.share/firstSpaces || b.of[p.group] == 0 && b.beyond < b.share/firstGroups
}

// set says whether a guest executes a body, and whether that began as the first one.
func (b *bodies) set(p *Place, begun, first bool) {
	if p.at != outside {
		p.tallyLocked(-1)
		defer p.tallyLocked(1)
	}
	if !begun {
		b.tally(p, -1)
	}
	p.begun, p.first = begun, first
	if begun {
		b.tally(p, 1)
	}
}

// tally has the bytes of a body that has begun count, or, with a sign of -1, no more.
func (b *bodies) tally(p *Place, sign int64) {
	bytes := sign * p.bytes
	b.held += bytes
	if p.first {
		b.beyond += bytes
	}
	addLocked(b.of, p.group, bytes)
	if space := p.group.space(); space != p.group {
		addLocked(b.of, space, bytes)
	}
}

// push has a body wait, unless it may begin before those that wait.
func (b *bodies) push(w *waiter) {
	if of := w.place.group; b.waiting.asideOf(of) {
		b.waiting.push(w)
		b.waiting.setAside(w, of)
		return
	}
	b.bring() // before it, as they came first
	b.waiting.push(w)
	if b.look() {
		b.grant()
	}
}

// grant has all those begin that may.
func (b *bodies) grant() {
	for more := true; more && len(b.waiting.groups) > 0; more = b.look() {
		b.bring()
	}
}

// bring has the first ones wait among the others again that were set aside because of a group, or of a namespace.
func (b *bodies) bring() {
	for _, of := range slices.SortedFunc(maps.Keys(b.waiting.aside), compare) {
		b.waiting.bring(of)
	}
}

// withdraw has a body wait no more, if it still does.
func (b *bodies) withdraw(w *waiter) {
	if !w.place.begun {
		b.waiting.remove(w)
		b.grant() // others may have waited behind it
	}
}

// look goes over those that are not set aside, in turns. Where there is no room for one, later ones of its namespace do not begin
// before it, unless they are the first of their groups. It sets those aside that do not begin, and reports whether one began:
// then others may be next.
func (b *bodies) look() (began bool) {
	q, full := &b.waiting, map[uint32]bool{}
	for e := q.Front(); e != nil; e = q.Front() {
		w := waiterOf(e)
		p, of, space := w.place, w.place.group, w.place.group.space()
		v := b.verdict(p)
		first := v == beginsFirst || v == begins && full[of.namespace] && b.mayBeFirst(p)
		if first || v == begins && !full[of.namespace] {
			began = true
			q.enter(w)
			b.set(p, true, first)
			p.bodyLocked(true)
			close(w.granted)
			if q.asideOf(of) {
				q.bring(of)
			}
		} else {
			full[of.namespace] = full[of.namespace] || v == spaceFull
			if v != groupFull && b.of[of] == 0 {
				of = space
			}
			q.setAside(w, of)
			if of == space {
				continue
			}
		}
		if q.asideOf(space) { // it may have been the first one there
			q.bring(space)
		}
	}
	return began
}
