package admission

import (
	"slices"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
)

const (
	// maxGrowing is the limit of a workflow's guests that wait for room. At the limit, no further guest of the workflow begins,
	// because each waiting guest may have appended a payload of up to a megabyte before it had to wait, and holds it.
	maxGrowing = 16
	// When the excess reaches 1/fullShare of the budget, no new run of any workflow begins. Otherwise a namespace with many
	// workflows could begin runs of each of them.
	fullShare = 2
)

// JournalWait is the wait of a guest for room, before it gets an instance.
type JournalWait struct {
	b      *Journals
	w      *journalWaiter
	begin  func()
	refuse func()
	starts bool // its run has not begun
	grows  bool // the guest gave its instance up because of ErrJournalsFull
}

// beginning holds the guests that wait in AskToBegin.
type beginning struct {
	list   []*journalWaiter
	groups map[JournalGroup]*journalGroup
}

// journalGroup is the state of a workflow while its guests wait.
type journalGroup struct {
	growing int       // its guests in Journals.growing
	last    time.Time // when a guest of beginning.list was last let in
}

// AskToGrow queues a guest that gave its instance up because of ErrJournalsFull. It returns nil if there is room for the guest's
// journal to grow. Otherwise begin is called when there is room, or RefuseAll calls refuse. Both are called on any goroutine,
// without a lock held, and must not block.
func (s *JournalShare) AskToGrow(begin, refuse func()) *JournalWait {
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
	t := s.newWaitLocked(begin, refuse)
	t.grows = true
	b.growLocked(t.w)
	b.grantLocked()
	return t
}

// MayBegin reports whether a guest may get an instance. Within the budget it may. Over the budget there are two
// obstacles: maxGrowing guests of its workflow wait for room, and the excess is above 1/fullShare of the budget. One
// of them stops the guest of a new run (starts). Only both together stop the guest of a run that has begun: such a
// run is in memory while it waits, and most wakes add little to a journal.
func (s *JournalShare) MayBegin(starts bool) bool {
	b := s.b
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mayBeginLocked(s.of, s.run, starts)
}

// AskToBegin queues a guest that has no instance yet. It returns nil if the guest may begin now. begin and refuse are as in
// AskToGrow.
func (s *JournalShare) AskToBegin(starts bool, begin, refuse func()) *JournalWait {
	b := s.b
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.unlock()
	t := s.newWaitLocked(begin, refuse)
	t.starts = starts
	if b.mayBeginLocked(s.of, s.run, starts) {
		return nil
	}
	b.beginning.list = append(b.beginning.list, t.w)
	b.grantLocked()
	return t
}

func (s *JournalShare) newWaitLocked(begin, refuse func()) *JournalWait {
	b := s.b
	w := &journalWaiter{run: s.run, group: s.of, since: b.clock.Now()}
	w.wait = &JournalWait{b: b, w: w, begin: begin, refuse: refuse}
	return w.wait
}

// Withdraw removes a guest that has not begun, and returns true; begin and refuse are not called then. It returns false if the
// guest has begun or was refused, and for a nil JournalWait.
func (t *JournalWait) Withdraw() bool {
	if t == nil {
		return false
	}
	b := t.b
	b.mu.Lock()
	defer b.unlock()
	if t.w.wait == nil {
		return false
	}
	t.removeLocked()
	b.grantLocked()
	return true
}

// RefuseAll refuses all guests without an instance that wait.
func (b *Journals) RefuseAll() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	for _, w := range slices.Concat(b.growing, b.beginning.list) {
		if t := w.wait; t != nil {
			t.removeLocked()
			b.begins = append(b.begins, t.refuse)
		}
	}
	b.grantLocked()
}

// Waiting returns the number of waiting guests without an instance.
func (b *Journals) Waiting() (n int) {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.growing {
		if w.wait != nil {
			n++
		}
	}
	return n + len(b.beginning.list)
}

// mayBeginLocked implements MayBegin.
func (b *Journals) mayBeginLocked(of JournalGroup, run store.RunKey, starts bool) bool {
	if b.bytes <= b.limit || b.firstLocked(run) {
		return true
	}
	far := b.bytes > b.limit+b.limit/fullShare
	g := b.beginning.groups[of]
	many := g != nil && g.growing >= maxGrowing
	if starts {
		return !far && !many
	}
	return !far || !many
}

// releaseLocked lets guests of AskToBegin begin. Within the budget, each of them takes growBytes of the free room, which it may
// append before it has to wait. Over the budget, one guest per workflow may begin every patience, so that its growth is seen
// before the next one begins.
func (b *Journals) releaseLocked(now time.Time) {
	free := b.limit - b.bytes
	waiting := b.beginning.list[:0]
	for _, w := range b.beginning.list {
		if free > 0 {
			free -= growBytes
			w.goLocked(b)
			continue
		}
		g, after := b.beginning.of(w.group), patience
		if !b.mayBeginLocked(w.group, w.run, w.wait.starts) { // the excess may last as long as steps do
			after <<= eighths(b.bytes, b.limit)
		}
		if now.Sub(g.last) < after || now.Sub(w.since) < after {
			waiting = append(waiting, w)
			continue
		}
		g.last = now
		w.goLocked(b)
	}
	clear(b.beginning.list[len(waiting):])
	b.beginning.list = waiting
	if len(waiting) == 0 {
		for of, g := range b.beginning.groups { // last is no longer needed
			if g.growing == 0 {
				delete(b.beginning.groups, of)
			}
		}
	}
	b.scheduleGrantLocked()
}

// of returns the state of a workflow, which it creates if needed.
func (h *beginning) of(workflow JournalGroup) *journalGroup {
	g := h.groups[workflow]
	if g == nil {
		g = &journalGroup{}
		h.groups[workflow] = g
	}
	return g
}

// growLocked queues a guest that waits for room.
func (b *Journals) growLocked(w *journalWaiter) {
	b.growing = append(b.growing, w)
	b.beginning.of(w.group).growing++
}

// shrinkLocked removes a guest from growing, if it is there.
func (b *Journals) shrinkLocked(w *journalWaiter) {
	if i := slices.Index(b.growing, w); i >= 0 {
		b.growing = slices.Delete(b.growing, i, i+1)
		b.beginning.of(w.group).growing--
	}
}

// removeLocked removes a guest without an instance from its queue.
func (t *JournalWait) removeLocked() {
	t.w.wait = nil
	t.b.shrinkLocked(t.w)
	t.b.beginning.list = without(t.b.beginning.list, t.w)
}

// goLocked lets a guest go on. The caller removes it from its list.
func (w *journalWaiter) goLocked(b *Journals) {
	if w.wait == nil {
		close(w.goes)
		b.beginning.of(w.group).growing--
		return
	}
	if w.wait.grows {
		b.beginning.of(w.group).growing--
	}
	b.begins = append(b.begins, w.wait.begin)
	w.wait = nil
}

// unlock releases mu and then calls the callbacks in begins.
func (b *Journals) unlock() {
	begins := b.begins
	b.begins = nil
	b.mu.Unlock()
	for _, f := range begins {
		f()
	}
}

// scheduleGrantLocked schedules the next grantLocked after grantEvery if there are waiters, because some waiters go on by time
// alone.
func (b *Journals) scheduleGrantLocked() {
	if b.granting || len(b.growing)+len(b.loading)+len(b.beginning.list) == 0 {
		return
	}
	b.granting = true
	clock.AfterFunc(b.clock, grantEvery, func() {
		b.mu.Lock()
		defer b.unlock()
		b.granting = false
		b.grantLocked()
	})
}
