package admission

// maxOvertaken is the number of guests that may overtake a Computing or Large guest, so that it goes on under any load.
const maxOvertaken = 64

// maxBefore is the number of Woken guests that may overtake a Starting guest. Without the limit, runs with many short waits
// would block all starts.
const maxBefore = 3

// wokenFirstLocked reports whether the next Woken guest must enter before the next Resuming guest: maxOvertaken Resuming
// guests have overtaken it, and there is room for it. Without this rule, bodies with many short sleeps would block all wakes.
func (a *Admission) wokenFirstLocked() bool {
	if a.resumed < maxOvertaken {
		return false
	}
	w := a.firstLocked(Woken)
	return w != nil && a.roomLocked(w.place, Woken)
}

// resumedLocked counts the entry of a Resuming guest.
func (a *Admission) resumedLocked() {
	if a.waiters[Woken].Len() > 0 {
		a.resumed++
	}
}

// grantFirstLocked lets the first guest of a class in. It returns false if there is none, or no room.
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
