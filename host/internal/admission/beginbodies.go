package admission

import (
	"maps"
	"slices"
)

// beginShare is the divisor of the part of the memory that bodies may hold. A body does not give its instance up until it
// ends, and it may wait for a server or a timer for days. A hundred waiting bodies could hold all the memory and block all
// other guests of the host. So if there is no room for a body, it waits before it begins, while it holds nothing.
//
// Because bodies return memory late, no namespace or group may take the whole share. A namespace may hold mostOf what the
// other namespaces leave of the share, and a group mostOf what the other groups of its namespace leave of that. So a later
// namespace or group still finds room, less each time. If there is no room, the first bodies of namespaces may together
// exceed the share by half of it, and the first bodies of groups by a quarter. A body that is the only one on the host may
// hold any amount. The other half of the memory has room for the largest guest, as the smallest limit is twice the largest
// guest.
const (
	beginShare      = 2
	firstNamespaces = 2 // divisor: first bodies of namespaces may exceed the share by about this part of it
	firstGroups     = 4 // the same for first bodies of groups
)

// mostOf returns how many bytes of a share one party may hold: three quarters of what is left beside taken, the bytes that the
// other parties hold. With a half, a single party would leave as much unused as it uses. With more, the third party would have
// no room for a single guest.
func mostOf(share, taken int64) int64 { return max(share-taken, 0) * 3 / 4 }

// bodies decides which bodies may begin, and counts the bytes they hold. Admission.mu guards it.
type bodies struct {
	share    int64           // maximum of held, except for first bodies
	held     int64           // bytes of the bodies that have begun, including those that are not inside yet
	beyond   int64           // part of held: first bodies that began without room
	of       map[group]int64 // held by group and by namespace
	long     map[group]int64 // bytes of the bodies that have computed for a slice, by group
	longMost int64           // above it, no further body of the group begins
	waiting  queue           // waiting bodies; between calls all of them are blocked
}

// newBodies returns the bodies of an admission with a limit.
func newBodies(limit int64) bodies {
	return bodies{share: limit / beginShare, longMost: limit / bodyShare, of: map[group]int64{}, long: map[group]int64{}}
}

// verdict is the decision whether a body may begin.
type verdict uint8

const (
	begins        verdict = iota
	beginsFirst           // begins without room, as a first body
	groupFull             // must wait; other groups of the namespace may have room
	namespaceFull         // must wait; the whole namespace has no room
)

// verdict returns whether the body of a guest may begin. The check of long counts only bodies that have computed already, so
// the first long body of a group may hold any amount.
func (b *bodies) verdict(p *Place) verdict {
	inNamespace, inGroup := b.of[p.group.ofNamespace()], b.of[p.group]
	most := mostOf(b.share, b.held-inNamespace)
	room, long := inNamespace+p.bytes <= most, b.long[p.group] > b.longMost
	switch {
	case long:
	case b.held == 0 || room && inGroup+p.bytes <= mostOf(most, inNamespace-inGroup):
		return begins
	case b.mayBeFirst(p):
		return beginsFirst
	}
	if room && (long || inGroup > 0) {
		return groupFull
	}
	return namespaceFull
}

// mayBeFirst reports whether a body may begin without room because it is the first of its namespace or group.
func (b *bodies) mayBeFirst(p *Place) bool {
	ns := p.group.ofNamespace()
	return b.of[ns] == 0 && b.beyond < b.share/firstNamespaces || b.of[p.group] == 0 && b.beyond < b.share/firstGroups
}

// set sets whether a guest executes a body, and whether the body began as a first body.
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

// tally adds the bytes of a body to the totals, or subtracts them if sign is -1.
func (b *bodies) tally(p *Place, sign int64) {
	bytes := sign * p.bytes
	b.held += bytes
	if p.first {
		b.beyond += bytes
	}
	addLocked(b.of, p.group, bytes)
	if ns := p.group.ofNamespace(); ns != p.group {
		addLocked(b.of, ns, bytes)
	}
}

// push queues a body, and lets it begin at once if its turn allows that.
func (b *bodies) push(w *waiter) {
	if of := w.place.group; b.waiting.blocks(of) {
		b.waiting.push(w)
		b.waiting.block(w, of)
		return
	}
	b.bring() // they arrived first, so they are checked first
	b.waiting.push(w)
	if b.check() {
		b.grant()
	}
}

// grant lets waiting bodies begin as long as there is room.
func (b *bodies) grant() {
	for more := true; more && len(b.waiting.groups) > 0; more = b.check() {
		b.bring()
	}
}

// bring moves the first waiter of each list in waiting.blocked back to the main queue.
func (b *bodies) bring() {
	for _, of := range slices.SortedFunc(maps.Keys(b.waiting.blocked), compare) {
		b.waiting.bring(of)
	}
}

// withdraw removes a body from the queue unless it has begun.
func (b *bodies) withdraw(w *waiter) {
	if !w.place.begun {
		b.waiting.remove(w)
		b.grant() // bodies behind it may begin now
	}
}

// check visits the waiting bodies that are not blocked, in the order of their turns: each begins or is blocked. If the namespace
// has no room for a body, later bodies of the namespace do not overtake it, unless they are the first of their groups. check
// reports whether a body began; then the caller calls bring and checks again.
func (b *bodies) check() (began bool) {
	q, full := &b.waiting, map[uint32]bool{}
	for e := q.Front(); e != nil; e = q.Front() {
		w := waiterOf(e)
		p, of, ns := w.place, w.place.group, w.place.group.ofNamespace()
		v := b.verdict(p)
		first := v == beginsFirst || v == begins && full[of.namespace] && b.mayBeFirst(p)
		if first || v == begins && !full[of.namespace] {
			began = true
			q.enter(w)
			b.set(p, true, first)
			p.bodyLocked(true)
			close(w.granted)
			if q.blocks(of) {
				q.bring(of)
			}
		} else {
			full[of.namespace] = full[of.namespace] || v == namespaceFull
			if v != groupFull && b.of[of] == 0 {
				of = ns
			}
			q.block(w, of)
			if of == ns {
				continue
			}
		}
		if q.blocks(ns) { // w may have come from the front of that list
			q.bring(ns)
		}
	}
	return began
}
