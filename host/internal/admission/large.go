package admission

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
)

// LargeBytes is the size from which a guest is large. A guest enters with an estimate from other guests of its module, and
// may grow to many times that. All large guests together may hold half of the memory, so that other guests can always enter.
// A guest that becomes large without room gives its instance up and enters again with the maximum size of a guest, so it is
// replayed only once. At least one large guest can always go on.
//
// A typical Go guest holds a few megabytes.
const LargeBytes = 16 << 20

// largeShare is the divisor of the part of the memory that large guests may hold.
const largeShare = 2

// ErrCrowded: the guest has become large while memory is short and must give its instance up.
var ErrCrowded = errors.New("guests hold more memory than there is room for")

// large returns bytes if a guest of this size is large, else 0.
func large(bytes int64) int64 {
	if bytes < LargeBytes {
		return 0
	}
	return bytes
}

// classOf returns the class in which a guest waits that requests class c: Large if it is outside and large, so that no other
// guest waits behind it, else c.
func (p *Place) classOf(c Class) Class {
	if p.at == outside && large(p.bytes) > 0 {
		return Large
	}
	return c
}

// weighLocked sets the bytes of a guest that is not outside.
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

// crowdedLocked reports whether guests hold more memory than they may, not counting evicted guests.
func (p *Place) crowdedLocked() bool {
	a := p.a
	held := a.chargedLocked()
	if p.begun {
		held = a.held
	}
	return held-a.leaving > a.limit || a.large > a.limit/largeShare
}

// largeFullLocked reports whether a large guest must wait for other large guests. Bodies have a share of their own.
func (p *Place) largeFullLocked() bool {
	a := p.a
	return !p.begun && a.large > 0 && a.large+p.bytes > a.leftLocked()/largeShare
}

// fitsLocked reports whether there is memory for a guest that is outside. If all other guests are bodies, parked or
// evicted, there always is. A guest of the class Large must also fit into the share of large guests; the only large
// guest always does.
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

// keptForLargeLocked returns the bytes reserved for the first waiting large guest, if maxOvertaken others have overtaken it.
// Without the reservation, arriving guests would take all memory that becomes free.
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

// grantLargeLocked lets large guests in while there is room, and evicts parked guests to make room for the next one.
func (a *Admission) grantLargeLocked() {
	for a.grantFirstLocked(Large) {
	}
	w := a.firstLocked(Large)
	if w == nil || a.free <= 0 {
		return
	}
	for e := a.parked.Front(); e != nil && w.place.largeFullLocked(); {
		p := e.Value.(*Place) //nolint:forcetypeassert // the list holds only *Place
		e = e.Next()
		if large(p.bytes) > 0 {
			p.evictLocked()
		}
	}
	if !w.place.largeFullLocked() {
		a.evictOverLocked(a.chargedLocked() + w.place.bytes - a.limit)
	}
}

// Spare is how much GOMAXPROCS exceeds the machine's processors, to make up for threads that wait for the disk. Guests must
// not compute on the spare processors: all other threads would then wait for the system's scheduler.
var Spare atomic.Int32

// processors returns the number of guests that can compute at a time.
func processors() int { return max(runtime.GOMAXPROCS(0)-int(Spare.Load()), 1) }

// quietSlices is the number of slices without an arrival of another guest after which Computing guests may use all processors:
// some 50 ms.
const quietSlices = 16

// longMost returns the maximum of guests inside that have computed for a slice: all processors in quiet times, else one less.
func (p *Place) longMost() int {
	a := p.a
	if a.quiet >= quietSlices {
		return a.longLimit
	}
	return max(a.longLimit-1, 1)
}

// Slice must be called by a guest's goroutine after each slice of computing. bytes is what the guest holds now, 0 if that is
// little; leaves says whether the guest can give its instance up. Slice lets waiting goroutines and guests go first and
// returns when the guest may compute again, or like Enter when ctx ends. While guests hold too much memory, only one of those
// that have computed for a slice computes at a time.
//
// If the guest can leave, Slice returns ErrCrowded at once if the guest has become large while guests hold too much memory
// and is not the only large guest, and ErrSlow if slow guests hold their share; see tooSlowLocked. For a guest that is not
// inside, or a nil Place, it only yields to other goroutines.
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
		p.slowLocked(false) // guests that end a slice before this guest has left may stay
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
		stays = stays && a.firstLocked(i) == nil && !a.waiters[i].blocks(p.group.ofNamespace()) // p may be what holds these up
	}
	a.mu.Unlock()
	if stays {
		return nil
	}
	return p.Enter(ctx, Computing, nil)
}
