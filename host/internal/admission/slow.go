package admission

import "errors"

// slowShare is the part of the memory that slow guests may keep: those that have computed for a slice since they last waited
// for something, and are not large, which have a share of their own. They wait for the next slice with their instances, which
// are not taken from them, and as one or two of them compute at a time, it takes each of them long to come to its end. Where
// there are many, these would hold all the memory, and whoever wakes would wait for one of them. So a guest that becomes slow
// while others keep this share gives its instance up, and comes again as a large one, of which few are let in at a time, and
// which then goes on to its end. Each namespace that has slow guests has an equal part of the share, and each of its groups that
// has any an equal part of that. One of a namespace or of a group that holds less than its part stays, and so do the first one of
// a namespace, and of a group where there is one namespace: a run whose replay takes a slice is not to wait for minutes because
// of others that compute. For them there is half of the share more.
//
// With the large ones' half, an eighth is left at least to those that wake, compute for less than a slice, and sleep; where
// bodies hold much, a quarter of what they and the large ones leave.
const slowShare = 4

// leastHalfDone is how many guests of a group may be slow before none of its new runs begins; where more than half as many
// compute at a time, it is twice as many as do, so that processors have work. Each guest holds what it has done until it
// comes to a wait, which is little of an instance, and may be much of a journal: a thousand runs that had each started some
// hundreds of children had half a gigabyte of them. A namespace may have spaceHalfDone times as many.
const (
	leastHalfDone = 32
	spaceHalfDone = 4
)

// slowMost returns what slow guests may keep. Bodies that wait may hold their share for days: where large guests have theirs
// as well, it is half of what both leave.
func (a *Admission) slowMost() int64 {
	return min(a.limit/slowShare, max(a.leftLocked()-min(a.large, a.limit/largeShare), 0)/2)
}

// halfMost returns how many guests of a group may be slow.
func (a *Admission) halfMost() int { return max(leastHalfDone, 2*a.longLimit) }

// ErrSlow tells a guest that has computed for a slice to give its instance up: such guests keep as much memory as they may.
var ErrSlow = errors.New("guests that compute for long hold as much memory as they may")

// slowSpace is what the slow guests of a namespace hold.
type slowSpace struct {
	bytes  int64
	groups int // that have slow guests
}

// tooSlowLocked reports whether a guest that is inside, and has computed for a slice, is to give its instance up. The only slow
// guest never is, nor one of the only group, nor the only one of a group of the only namespace. A namespace that holds more than
// its part, because others have come, gives instances up until it does not: those of groups that hold more than theirs.
func (p *Place) tooSlowLocked() bool {
	a, share := p.a, p.a.slowMost()
	space, of := a.slowIn[p.group.namespace], a.slowOf[p.group]
	shared := len(a.slowIn) > 1 && space.bytes > 0 // with other namespaces
	part := share / int64(max(len(a.slowIn), 1))
	if large(p.bytes) > 0 {
		return false
	}
	if p.slow {
		alone := of == p.bytes
		if shared {
			alone = space.bytes == p.bytes
		}
		return len(a.slowOf) > 1 && a.slow > share && !alone && space.bytes > part && of > part/int64(space.groups)
	}
	if of == 0 {
		space.groups++
	}
	switch {
	case a.slow == 0 || a.slow+p.bytes <= share:
		return false
	case a.slow+p.bytes > share+share/2: // however many there are
		return true
	case shared && space.bytes+p.bytes <= part:
		return false
	case of == 0 && !shared: // the first of its group
		return false
	}
	return of+p.bytes > part/int64(space.groups)
}

// slowLocked says whether a guest that is not outside is slow.
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
	if space := p.group.space(); space != p.group {
		addLocked(a.half, space, n)
	}
	if !slow {
		p.nextLocked(Starting)
	}
}

// slowAddLocked adds to what the slow guests of a group hold.
func (a *Admission) slowAddLocked(g group, bytes int64) {
	space, had := a.slowIn[g.namespace], len(a.slowOf)
	addLocked(a.slowOf, g, bytes)
	space.bytes += bytes
	space.groups += len(a.slowOf) - had
	if space.groups == 0 {
		delete(a.slowIn, g.namespace)
		return
	}
	a.slowIn[g.namespace] = space
}

// addLocked adds to a count, of which there is none where it is 0.
func addLocked[N int | int64](counts map[group]N, g group, n N) {
	counts[g] += n
	if counts[g] == 0 {
		delete(counts, g)
	}
}
