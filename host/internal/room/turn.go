package room

import (
	"slices"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
)

const (
	// maxGrowing is how many guests of a workflow may wait for room before no further one begins: each of them has made its
	// journal longer by a payload of up to a megabyte before it was asked to wait, and holds it.
	maxGrowing = 16
	// fullShare is the part of the budget that is held beyond it when no new run begins, whatever its workflow is: who has many
	// workflows would begin with all of them.
	fullShare = 2
)

// Turn is a guest that waits for room before it gets an instance.
type Turn struct {
	b      *Budget
	w      *waiter
	begin  func()
	refuse func()
	starts bool // its run has not begun
	grows  bool // it has given an instance up because there was no room
}

// held is the guests that wait before they begin.
type held struct {
	list   []*waiter // those that have not grown
	groups map[Group]*group
}

// group is what is known of a workflow while guests of its runs wait.
type group struct {
	growing int       // its guests in Budget.growing
	last    time.Time // when one that was held began last
}

// Ask is for a guest that has given its instance up because of ErrFull. It returns nil if there is room for its journal to become
// longer. Otherwise begin is called when there is, or refuse by RefuseAll, without a lock, by any goroutine; they must not
// block.
func (s *Share) Ask(begin, refuse func()) *Turn {
	b := s.b
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.unlock()
	b.countLocked(s.run, s.began)
	if b.bytes <= b.limit || b.firstLocked(s.run) {
		return nil
	}
	t := s.newTurnLocked(begin, refuse)
	t.grows = true
	b.growLocked(t.w)
	b.grantLocked()
	return t
}

// MayBegin reports whether a guest may get an instance. starts says that its run has not begun: then it may not if journals are
// over the budget, and many guests of its workflow wait for room already, or if they are far over it. A run that has begun is in
// memory while it waits, and most wakes make a journal little longer: it may not if both is so.
func (s *Share) MayBegin(starts bool) bool {
	b := s.b
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mayBeginLocked(s.of, s.run, starts)
}

// Hold has a guest wait that may not begin. It returns nil if it may now. begin and refuse are as those of Ask.
func (s *Share) Hold(starts bool, begin, refuse func()) *Turn {
	b := s.b
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.unlock()
	t := s.newTurnLocked(begin, refuse)
	t.starts = starts
	if b.mayBeginLocked(s.of, s.run, starts) {
		return nil
	}
	b.held.list = append(b.held.list, t.w)
	b.grantLocked()
	return t
}

func (s *Share) newTurnLocked(begin, refuse func()) *Turn {
	b := s.b
	w := &waiter{run: s.run, group: s.of, since: b.clock.Now()}
	w.turn = &Turn{b: b, w: w, begin: begin, refuse: refuse}
	return w.turn
}

// Withdraw reports whether the guest has not begun, and will not. Neither function is called then. A nil Turn has begun.
func (t *Turn) Withdraw() bool {
	if t == nil {
		return false
	}
	b := t.b
	b.mu.Lock()
	defer b.unlock()
	if t.w.turn == nil {
		return false
	}
	t.removeLocked()
	b.grantLocked()
	return true
}

// RefuseAll refuses all guests that wait before they begin.
func (b *Budget) RefuseAll() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	for _, w := range slices.Concat(b.growing, b.held.list) {
		if t := w.turn; t != nil {
			t.removeLocked()
			b.begins = append(b.begins, t.refuse)
		}
	}
	b.grantLocked()
}

// Waiting returns how many guests wait before they begin.
func (b *Budget) Waiting() (n int) {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.growing {
		if w.turn != nil {
			n++
		}
	}
	return n + len(b.held.list)
}

// mayBeginLocked is MayBegin.
func (b *Budget) mayBeginLocked(of Group, run store.RunKey, starts bool) bool {
	if b.bytes <= b.limit || b.firstLocked(run) {
		return true
	}
	far := b.bytes > b.limit+b.limit/fullShare
	g := b.held.groups[of]
	many := g != nil && g.growing >= maxGrowing
	if starts {
		return !far && !many
	}
	return !far || !many
}

// releaseLocked lets guests begin that are held: as many as there is room for what they may append before they are asked to
// wait, and over the budget one of each workflow in a while, so that it is known first whether it grows.
func (b *Budget) releaseLocked(now time.Time) {
	free := b.limit - b.bytes
	waiting := b.held.list[:0]
	for _, w := range b.held.list {
		if free > 0 {
			free -= growBytes
			w.goLocked(b)
			continue
		}
		g, after := b.held.of(w.group), patience
		if !b.mayBeginLocked(w.group, w.run, w.turn.starts) { // what is held may be so for as long as steps take
			after <<= eighths(b.bytes, b.limit)
		}
		if now.Sub(g.last) < after || now.Sub(w.since) < after {
			waiting = append(waiting, w)
			continue
		}
		g.last = now
		w.goLocked(b)
	}
	clear(b.held.list[len(waiting):])
	b.held.list = waiting
	if len(waiting) == 0 {
		for of, g := range b.held.groups { // when they began last is not asked any more
			if g.growing == 0 {
				delete(b.held.groups, of)
			}
		}
	}
	b.lookLocked()
}

// of returns what is known of a workflow.
func (h *held) of(workflow Group) *group {
	g := h.groups[workflow]
	if g == nil {
		g = &group{}
		h.groups[workflow] = g
	}
	return g
}

// growLocked has a guest wait for room.
func (b *Budget) growLocked(w *waiter) {
	b.growing = append(b.growing, w)
	b.held.of(w.group).growing++
}

// shrinkLocked takes a guest away that waits for room.
func (b *Budget) shrinkLocked(w *waiter) {
	if i := slices.Index(b.growing, w); i >= 0 {
		b.growing = slices.Delete(b.growing, i, i+1)
		b.held.of(w.group).growing--
	}
}

// removeLocked takes a guest away that waits before it begins.
func (t *Turn) removeLocked() {
	t.w.turn = nil
	t.b.shrinkLocked(t.w)
	t.b.held.list = without(t.b.held.list, t.w)
}

// goLocked lets a guest go on that was taken from its list, or is about to be.
func (w *waiter) goLocked(b *Budget) {
	if w.turn == nil {
		close(w.goes)
		b.held.of(w.group).growing--
		return
	}
	if w.turn.grows {
		b.held.of(w.group).growing--
	}
	b.begins = append(b.begins, w.turn.begin)
	w.turn = nil
}

// unlock releases mu, and calls the functions of those that begin.
func (b *Budget) unlock() {
	begins := b.begins
	b.begins = nil
	b.mu.Unlock()
	for _, f := range begins {
		f()
	}
}

// lookLocked has it looked after a while who may go on, if anybody waits: some go on by time.
func (b *Budget) lookLocked() {
	if b.looking || len(b.growing)+len(b.loading)+len(b.held.list) == 0 {
		return
	}
	b.looking = true
	clock.AfterFunc(b.clock, lookEvery, func() {
		b.mu.Lock()
		defer b.unlock()
		b.looking = false
		b.grantLocked()
	})
}
