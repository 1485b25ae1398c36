package admission

// maxOvertaken is how many guests enter before one that has computed for a slice, or is large, so that it goes on however
// much others have to do.
const maxOvertaken = 64

// maxBefore is how many guests of runs that have waited enter before one of a run that is new: runs that wait for a moment again
// and again would keep all others from beginning.
const maxBefore = 3

// wokenFirstLocked reports whether a guest of the class Woken is to enter before the next one of the class Resuming, since
// maxOvertaken of those have entered before it, and there is room for it. Otherwise bodies that sleep for a moment again and
// again would keep all runs from waking.
func (a *Admission) wokenFirstLocked() bool {
	if a.resumed < maxOvertaken {
		return false
	}
	w := a.firstLocked(Woken)
	return w != nil && a.roomLocked(w.place, Woken)
}

// resumedLocked counts a guest of the class Resuming that enters.
func (a *Admission) resumedLocked() {
	if a.waiters[Woken].Len() > 0 {
		a.resumed++
	}
}

// grantFirstLocked lets in who is first in a class, if there is one and room.
func (a *Admission) grantFirstLocked(c Class) bool {
	w := a.firstLocked(c)
	if w == nil || !a.roomLocked(w.place, c) {
		return false
	}
	a.waiters[c].enter(w)
	a.enterLocked(w.place, c)
	w.place.nextLocked(c)
	if w.request != nil {
		w.request.waits = nil
		w.request.Begin() // which only starts a goroutine
		return true
	}
	close(w.granted)
	return true
}
