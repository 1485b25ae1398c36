package admission

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
)

// LargeBytes is what a guest holds that is large. A guest enters with what others of its module have held, and may come to hold
// many times as much. All large guests together have half of the memory, so that however many of them there are, the others
// enter. One that has become large while there is no room for it gives its instance up, and comes again as one that holds the
// most that a guest can: it is replayed once, and not again and again. One large guest always goes on.
//
// A Go guest with what most programs need holds a few megabytes.
const LargeBytes = 16 << 20

// largeShare is the part of the memory that large guests may have.
const largeShare = 2

// ErrCrowded tells a guest that has become large to give its instance up: guests hold more than there is room for.
var ErrCrowded = errors.New("guests hold more memory than there is room for")

// large returns what counts as held by large guests of a guest that holds so many bytes.
func large(bytes int64) int64 {
	if bytes < LargeBytes {
		return 0
	}
	return bytes
}

// classOf returns the class in which a guest waits that asks for another one: large guests have their own, so that none of
// the others waits behind them.
func (p *Place) classOf(c Class) Class {
	if p.at == outside && large(p.bytes) > 0 {
		return Large
	}
	return c
}

// weighLocked has a guest that is not outside hold so many bytes.
func (p *Place) weighLocked(bytes int64) {
	slow, b := p.slow, &p.a.bodies
	p.slowLocked(false)
	p.tallyLocked(-1)
	if p.begun {
		b.tally(p, -1)
		defer b.tally(p, 1)
	}
	if p.body {
		addLocked(b.long, p.group, bytes-p.bytes)
	}
	p.bytes = bytes
	p.tallyLocked(1)
	p.slowLocked(slow)
}

// crowdedLocked reports whether guests hold more than they should, with what is not being given up.
func (p *Place) crowdedLocked() bool {
	a := p.a
	held := a.chargedLocked()
	if p.begun {
		held = a.held
	}
	return held-a.leaving > a.limit || a.large > a.limit/largeShare
}

// largeFullLocked reports whether a large guest is to wait for others that are. Bodies have a share of their own.
func (p *Place) largeFullLocked() bool {
	a := p.a
	return !p.begun && a.large > 0 && a.large+p.bytes > a.leftLocked()/largeShare
}

// fitsLocked reports whether there is memory for a guest that is outside. There is for any that would be the only one inside
// beside bodies, and for the only one that is large.
func (p *Place) fitsLocked(c Class) bool {
	a := p.a
	if c == Large && p.largeFullLocked() {
		return false
	}
	kept := int64(0)
	if c != Large {
		kept = a.keptForLargeLocked()
	}
	return a.chargedLocked()+p.bytes+kept <= a.limit || a.held-a.ofBodies == a.parkedBytes+a.leaving
}

// keptForLargeLocked returns the bytes that are reserved for a large guest which maxOvertaken others have overtaken. Without
// that, those that keep coming would take all the memory that is given up.
func (a *Admission) keptForLargeLocked() int64 {
	if a.outrun < maxOvertaken {
		return 0
	}
	w := a.firstLocked(Large)
	if w == nil || w.place.largeFullLocked() {
		return 0
	}
	return w.place.bytes
}

// grantLargeLocked lets large guests in, for which others that are parked give their memory up.
func (a *Admission) grantLargeLocked() {
	for a.grantFirstLocked(Large) {
	}
	w := a.firstLocked(Large)
	if w == nil || a.free <= 0 {
		return
	}
	for e := a.parked.Front(); e != nil && w.place.largeFullLocked(); {
		p := e.Value.(*Place) //nolint:forcetypeassert // it holds nothing else
		e = e.Next()
		if large(p.bytes) > 0 {
			p.evictLocked()
		}
	}
	if !w.place.largeFullLocked() {
		a.evictOverLocked(a.chargedLocked() + w.place.bytes - a.limit)
	}
}

// Spare is how many of Go's processors are beyond what the machine has, for threads that wait for the disk. Guests that compute
// on these, too, would keep everything else waiting for the system's scheduler.
var Spare atomic.Int32

// processors returns how many guests can compute at a time.
func processors() int { return max(runtime.GOMAXPROCS(0)-int(Spare.Load()), 1) }

// quietSlices is after how many slices in which nobody else came guests that compute have all processors: some 50 ms.
const quietSlices = 16

// longMost returns how many guests may be inside that have computed for a slice.
func (p *Place) longMost() int {
	a := p.a
	if a.quiet >= quietSlices {
		return a.longLimit
	}
	return max(a.longLimit-1, 1)
}

// Slice is called by the goroutine of a guest that has computed for a slice since it last waited, with what the guest holds by
// now; 0 if that is little. It lets those go first that wait, goroutines and guests, and comes back when the guest may compute
// again, or as Enter does when ctx is done. While guests hold too much, one of those that have computed for a slice computes at a
// time; one that has become large meanwhile and can leave is told ErrCrowded at once, unless it is the only one; and one that
// is slow and can leave, while slow guests have their share, ErrSlow. For a guest that is not inside, or has no place, it does
// little.
func (p *Place) Slice(ctx context.Context, bytes int64, leaves bool) error {
	runtime.Gosched()
	if p == nil {
		return nil
	}
	a := p.a
	a.mu.Lock()
	if p.at != inside {
		a.mu.Unlock()
		return nil
	}
	if bytes > p.bytes {
		p.weighLocked(bytes)
		a.evictOverLocked(a.chargedLocked() - a.limit)
	}
	if leaves && p.bytes > p.asked && large(p.bytes) > 0 && a.large > p.bytes && p.crowdedLocked() {
		a.mu.Unlock()
		return ErrCrowded
	}
	if leaves && p.tooSlowLocked() {
		p.slowLocked(false) // others that come to a slice before it has left stay
		a.mu.Unlock()
		return ErrSlow
	}
	p.fresh = !p.slow && !p.body
	p.slowLocked(leaves)
	p.bodyLocked(!leaves)
	a.longLocked(p)
	a.quiet++
	if a.quiet == quietSlices {
		a.grantLocked()
	}
	stays := a.long <= p.longMost() && (a.long == 1 || !p.crowdedLocked())
	for i := range Class(Large) {
		stays = stays && a.firstLocked(i) == nil && !a.waiters[i].asideOf(p.group.space()) // for which it is in the way itself
	}
	a.mu.Unlock()
	if stays {
		return nil
	}
	return p.Enter(ctx, Computing, nil)
}
