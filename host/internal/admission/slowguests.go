package admission

import "errors"

// slowShare is the divisor of the part of the memory that slow guests may hold. A guest is slow if it has computed for a
// slice since it last waited; large guests have a share of their own. A slow guest waits for its next slice with its
// instance, and since only one or two of them compute at a time, each takes long to finish. Many slow guests would hold all
// the memory and block the runs that wake. So a guest that becomes slow while the share is used up gives its instance up and
// enters again as a large guest; few of these are let in at a time, and each then runs to its end.
//
// Namespaces with slow guests have equal parts of the share, and so have the groups within a namespace. A guest keeps its
// instance if its namespace or group holds less than its part, if it is the first slow guest of its namespace, or, if there
// is only one namespace, the first of its group: a run whose replay takes a slice must not wait for minutes because of other
// runs. For these guests the share is larger by half.
//
// With the half of large guests, at least an eighth of the memory is left to guests that compute for less than a slice between
// waits. If bodies hold much, it is a quarter of what bodies and large guests leave.
const slowShare = 4

// leastHalfDone is the least limit of slow guests in a group. At the limit, new runs of the group do not begin. The limit is
// twice the number of processors if that is more, so that all processors have work. A slow guest holds uncommitted work until
// its next wait, which is little in an instance but may be much in a journal: a thousand runs that had each started some
// hundreds of children held half a gigabyte of journals. The limit of a namespace is spaceHalfDone times the limit of a
// group.
const (
	leastHalfDone     = 32
	namespaceHalfDone = 4
)

// slowMost returns how many bytes slow guests may hold: the limit divided by slowShare, but at most half of what bodies and
// large guests leave. Waiting bodies may hold their share for days.
func (a *Admission) slowMost() int64 {
	return min(a.limit/slowShare, max(a.leftLocked()-min(a.large, a.limit/largeShare), 0)/2)
}

// halfMost returns the limit of slow guests in a group.
func (a *Admission) halfMost() int { return max(leastHalfDone, 2*a.longLimit) }

// ErrSlow: slow guests hold as much memory as they may, and this slow guest must give its instance up.
var ErrSlow = errors.New("guests that compute for long hold as much memory as they may")

// slowNamespace counts the slow guests of a namespace.
type slowNamespace struct {
	bytes  int64
	groups int // groups with slow guests
}

// tooSlowLocked reports whether a guest that is inside and has computed for a slice must give its instance up. A
// guest that becomes slow must do so if the share is used up and its namespace and group have had their parts; see
// slowShare. A guest that is slow already must do so if its namespace and group hold more than their parts, which
// shrink when others arrive. The last slow guest of a namespace may stay, or of a group while only one namespace has
// slow guests. So may every guest while only one group has slow guests.
func (p *Place) tooSlowLocked() bool {
	a, share := p.a, p.a.slowMost()
	ns, of := a.slowIn[p.group.namespace], a.slowOf[p.group]
	shared := len(a.slowIn) > 1 && ns.bytes > 0 // with other namespaces
	part := share / int64(max(len(a.slowIn), 1))
	if large(p.bytes) > 0 {
		return false
	}
	if p.slow {
		alone := of == p.bytes
		if shared {
			alone = ns.bytes == p.bytes
		}
		return len(a.slowOf) > 1 && a.slow > share && !alone && ns.bytes > part && of > part/int64(ns.groups)
	}
	if of == 0 {
		ns.groups++
	}
	switch {
	case a.slow == 0 || a.slow+p.bytes <= share:
		return false
	case a.slow+p.bytes > share+share/2: // however many there are
		return true
	case shared && ns.bytes+p.bytes <= part:
		return false
	case of == 0 && !shared: // the first of its group
		return false
	}
	return of+p.bytes > part/int64(ns.groups)
}

// slowLocked sets whether a guest that is not outside is slow.
func (p *Place) slowLocked(slow bool) {
	if p.slow == slow {
		return
	}
	p.slow = slow
	a, bytes := p.a, p.bytes-large(p.bytes)
	n := 1
	if !slow {
		bytes, n = -bytes, -1
	}
	a.slow += bytes
	a.slowAddLocked(p.group, bytes)
	addLocked(a.half, p.group, n)
	if space := p.group.ofNamespace(); space != p.group {
		addLocked(a.half, space, n)
	}
	if !slow {
		p.nextLocked(Starting)
	}
}

// slowAddLocked adds bytes to the slow guests of a group.
func (a *Admission) slowAddLocked(g group, bytes int64) {
	ns, had := a.slowIn[g.namespace], len(a.slowOf)
	addLocked(a.slowOf, g, bytes)
	ns.bytes += bytes
	ns.groups += len(a.slowOf) - had
	if ns.groups == 0 {
		delete(a.slowIn, g.namespace)
		return
	}
	a.slowIn[g.namespace] = ns
}

// addLocked adds n to the count of g. Counts of 0 are removed from the map.
func addLocked[N int | int64](counts map[group]N, g group, n N) {
	counts[g] += n
	if counts[g] == 0 {
		delete(counts, g)
	}
}
