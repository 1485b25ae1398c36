// Package room bounds the memory of all journals together. A journal is in memory whole while something goes on with its run, and
// has at most abi.MaxJournalBytes; a hundred of those are more than a host should take.
//
// Over the budget, a run that is to be read waits as a key, and a guest that makes its journal longer waits at its next
// call, without a place. It gives its instance up if that takes longer than a second, and waits for room before it gets
// another one (turn.go): a guest that has its journal, and needs a place, must not wait for guests that have places, and
// wait for journals. Nobody fails. One of those that wait goes on to its end in any case, guests first: they hold memory
// until they are done. That one may take long, such as one whose step goes on for an hour. So others go on after a while,
// too, a piece at a time, the later the more is held.
//
// Beside the budget there is room for modest journals, of each workflow no more than a part: whoever keeps the budget full, the
// runs of others that are read for a moment need not wait for it.
//
// A guest that makes its journal longer also waits while the store is behind with what it was given before: guests that write
// more than a disk takes would have the commits of all others wait. The store may be behind for as long as others write, so one
// of those guests goes on every now and then all the same.
package room

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
)

const (
	// smallBytes is a journal that is read without waiting, and not counted: there are few runs in memory, and thousands of
	// these are a few hundred megabytes.
	smallBytes = 64 << 10
	// modestBytes is a journal of some thousand entries, as most that are not small are.
	modestBytes = 1 << 20
	// besideShare is the part of the budget that modest journals may have beside it, and groupShare what those of one workflow may:
	// of 96 MiB a third, and 16 MiB, with which some dozens of its runs are at work at a time. With 8 MiB, a thousand runs with
	// some thousand entries each, 65 of which woke each second beside attackers, were up to two minutes late.
	besideShare, groupShare = 3, 6
	// growBytes is how much longer a journal becomes before it is counted again, while there is room.
	growBytes = 256 << 10
	// pieceBytes is the same while there is no room: one such piece each second is an eighth of the budget in six minutes.
	pieceBytes = 32 << 10
	// patience is how long one that goes on over the budget, or while the store is behind, keeps the next one from doing so. Such a
	// guest writes growBytes, which no disk notices.
	patience = time.Second
	// loadPatience is for how many times as long a run that is to be read waits for guests that make their journals longer.
	loadPatience = 8
	// mostPatience is how often the patience doubles at most, once with each eighth of the limit that is held beyond it: to a
	// quarter of an hour.
	mostPatience = 10
	// lookEvery is how often a guest that waits sees whether its run is wanted by others, and how often it is looked who may go on.
	lookEvery = 20 * time.Millisecond
	// keepFor is how long a guest that waits for room keeps its instance.
	keepFor = time.Second
)

// ErrFull tells a guest that waits for room to give its instance up.
var ErrFull = errors.New("journals hold more memory than there is room for")

// entryBytes is what an entry takes in memory beside what is encoded of it, about: with its handle, and the copies that a commit
// and a replay make of it.
const entryBytes = 512

// Size returns what a journal takes in memory, about, of so many encoded bytes and entries.
func Size(bytes int64, entries int) int64 { return bytes + entryBytes*int64(entries) }

// Budget is the room for journals. A nil Budget has room for all. Its methods may be called concurrently.
type Budget struct {
	limit  int64
	behind func() bool // whether the store is
	clock  clock.Clock

	mu      sync.Mutex // guards the fields below; while it is held, only behind and the clock are called
	bytes   int64      // that are counted
	peak    int64
	runs    map[store.RunKey]int64 // bytes of those that are counted
	first   *store.RunKey          // of those, the one that goes on over the budget to its end; nil if none does
	passed  time.Time              // when another one last went on a piece
	urged   time.Time              // when a guest last went on though the store was behind
	growing []*waiter              // guests, with an instance or without
	loading []*waiter              // runs to be read
	held    held                   // guests that have not begun
	beside  beside
	begins  []func() // to be called when mu is not held
	looking bool     // a goroutine looks every now and then
}

// Group is whose runs they are, among those that have the same share of what is beside the budget.
type Group struct {
	Namespace store.NamespaceID
	Workflow  string
}

// beside is the modest journals beside the budget, as long as they were when they were read.
type beside struct {
	held   int64
	groups map[Group]int64
	runs   map[store.RunKey]*waiter
}

type waiter struct {
	run   store.RunKey
	group Group
	bytes int64 // to be counted when it goes on
	since time.Time
	goes  chan struct{} // closed when it goes on; nil for a guest without an instance
	turn  *Turn         // of such a guest
}

// New returns a budget of so many bytes. behind reports whether the store is behind, at once; nil is never.
func New(limit int64, behind func() bool) *Budget {
	if behind == nil {
		behind = func() bool { return false }
	}
	return &Budget{limit: limit, behind: behind, clock: clock.System(), runs: map[store.RunKey]int64{},
		held: held{groups: map[Group]*group{}}, beside: beside{groups: map[Group]int64{}, runs: map[store.RunKey]*waiter{}}}
}

// Held returns how many bytes are counted, and Peak how many were at most.
func (b *Budget) Held() int64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes
}

// Peak returns the most bytes that were counted at a time.
func (b *Budget) Peak() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.peak
}

// Counts reports whether a journal that is to be read may have to wait for room.
func (b *Budget) Counts(bytes int64) bool { return b != nil && bytes >= smallBytes }

// Load waits until there is room for the journal of a run that is to be read, and counts it, until ctx is done, whose cause is
// the error then.
func (b *Budget) Load(ctx context.Context, of Group, run store.RunKey, bytes int64) error {
	if !b.Counts(bytes) {
		return nil
	}
	b.mu.Lock()
	if _, counted := b.runs[run]; counted || len(b.growing)+len(b.loading) == 0 && b.bytes+bytes <= b.limit {
		b.countLocked(run, bytes)
		b.mu.Unlock()
		return nil
	}
	w := &waiter{run: run, group: of, bytes: bytes, since: b.clock.Now(), goes: make(chan struct{})}
	if b.besideLocked(w) {
		b.mu.Unlock()
		return nil
	}
	b.loading = append(b.loading, w)
	b.grantLocked()
	b.unlock()
	return b.wait(ctx, w, nil)
}

// Forget says that a journal is no longer in memory, or not more than for a while.
func (b *Budget) Forget(run store.RunKey) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	if _, counted := b.runs[run]; counted {
		b.forgetLocked(run)
		b.grantLocked()
	}
}

// forgetLocked counts a journal no longer. Where that makes room beside the budget, others get it.
func (b *Budget) forgetLocked(run store.RunKey) {
	b.bytes -= b.runs[run]
	delete(b.runs, run)
	if b.firstLocked(run) {
		b.first = nil
	}
	was := b.beside.runs[run]
	if was == nil {
		return
	}
	delete(b.beside.runs, run)
	b.beside.held -= was.bytes
	b.beside.groups[was.group] -= was.bytes
	if b.beside.groups[was.group] == 0 {
		delete(b.beside.groups, was.group)
	}
	waiting := b.loading[:0:0]
	for _, w := range b.loading {
		if b.besideLocked(w) {
			close(w.goes)
		} else {
			waiting = append(waiting, w)
		}
	}
	b.loading = waiting
}

// besideLocked reads a modest journal though the budget is full, or reports false if there is no room beside it either.
func (b *Budget) besideLocked(w *waiter) bool {
	if _, counted := b.runs[w.run]; counted {
		b.countLocked(w.run, w.bytes)
		return true
	}
	if w.bytes > modestBytes || b.beside.held+w.bytes > b.limit/besideShare ||
		b.beside.groups[w.group]+w.bytes > b.limit/groupShare {
		return false
	}
	b.beside.held += w.bytes
	b.beside.groups[w.group] += w.bytes
	b.beside.runs[w.run] = w
	b.countLocked(w.run, w.bytes)
	return true
}

// Share is the journal of a guest. The zero Share is not counted. It is used by the guest's goroutine.
type Share struct {
	b    *Budget
	of   Group
	run  store.RunKey
	next int64 // bytes at which it is counted again

	began int64 // bytes when it was made
}

// Share returns the share of a guest, of whose run the journal is in memory, and counts it.
func (b *Budget) Share(of Group, run store.RunKey, bytes int64) Share {
	s := Share{b: b, of: of, run: run, began: bytes, next: bytes + growBytes}
	if b == nil {
		return s
	}
	b.mu.Lock()
	defer b.unlock()
	if was, counted := b.runs[run]; counted && bytes < was { // it has continued as new, and has had its end
		b.forgetLocked(run)
		defer b.grantLocked()
	}
	if bytes >= smallBytes {
		b.countLocked(run, bytes)
	}
	s.next = b.nextLocked(run, bytes)
	return s
}

// nextLocked returns at which length the journal of a guest that goes on is to be counted again.
func (b *Budget) nextLocked(run store.RunKey, bytes int64) int64 {
	if b.bytes > b.limit && !b.firstLocked(run) {
		return bytes + pieceBytes
	}
	return bytes + growBytes
}

// Grown reports whether the journal has become so much longer that Wait is to be called.
func (s *Share) Grown(bytes int64) bool { return s.b != nil && bytes >= s.next }

// Wait counts the journal, and waits while there is no room for what it may still become, until look returns an error, which is
// called every now and then, or ctx is done. The error is ErrFull if it waits for long because of other journals.
func (s *Share) Wait(ctx context.Context, bytes int64, look func() error) error {
	b := s.b
	b.mu.Lock()
	defer func() {
		s.next = b.nextLocked(s.run, bytes)
		b.mu.Unlock()
	}()
	if ctx.Err() != nil { // the run may be lost, and forgotten already
		return context.Cause(ctx)
	}
	b.countLocked(s.run, bytes)
	if (b.firstLocked(s.run) || b.bytes <= b.limit) && !b.behind() {
		return nil
	}
	w := &waiter{run: s.run, group: s.of, since: b.clock.Now(), goes: make(chan struct{})}
	b.growLocked(w)
	b.grantLocked()
	b.unlock()
	err := b.wait(ctx, w, func() error {
		if b.clock.Now().Sub(w.since) >= keepFor && b.over(w.run) {
			return ErrFull
		}
		return look()
	})
	b.mu.Lock()
	return err
}

// over reports whether there is no room, and the run is not the one that goes on in any case.
func (b *Budget) over(run store.RunKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes > b.limit && !b.firstLocked(run)
}

// wait waits until w goes on. look is called every now and then, unless it is nil.
func (b *Budget) wait(ctx context.Context, w *waiter, look func() error) error {
	for {
		var again <-chan time.Time
		stop := func() bool { return true }
		if look != nil {
			t := b.clock.NewTimer(lookEvery)
			again, stop = t.C(), t.Stop
		}
		select {
		case <-w.goes:
			stop()
			return nil
		case <-ctx.Done():
			stop()
			b.leave(w)
			return context.Cause(ctx)
		case <-again:
		}
		if err := look(); err != nil {
			if !b.leave(w) && errors.Is(err, ErrFull) { // there is room now
				return nil
			}
			return err
		}
	}
}

// leave takes one that waits away, and reports false if it went on at the same time.
func (b *Budget) leave(w *waiter) bool {
	b.mu.Lock()
	defer b.unlock()
	select {
	case <-w.goes:
		if w.bytes > 0 { // what was counted for it is forgotten with the run
			b.forgetLocked(w.run)
			b.grantLocked()
		}
		return false
	default:
		b.shrinkLocked(w)
		b.loading = without(b.loading, w)
		b.grantLocked()
		return true
	}
}

func without(list []*waiter, w *waiter) []*waiter {
	for i := range list {
		if list[i] == w {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

func (b *Budget) countLocked(run store.RunKey, bytes int64) {
	b.bytes += bytes - b.runs[run]
	b.runs[run] = bytes
	b.peak = max(b.peak, b.bytes)
}

// grantLocked lets those go on for which there is room, and one in any case.
func (b *Budget) grantLocked() {
	now := b.clock.Now()
	if b.bytes > b.limit && len(b.loading) > 0 {
		w := b.loading[0]
		if late := loadPatience * patience << eighths(b.bytes, b.limit); now.Sub(w.since) >= late && b.passLocked(w, now) {
			w.readLocked(b)
		}
	}
	if !b.grantGrowingLocked(now) {
		b.grantLoadingLocked(now)
	}
	b.releaseLocked(now)
}

// grantGrowingLocked lets guests go on, and reports whether some of them wait for room.
func (b *Budget) grantGrowingLocked(now time.Time) (full bool) {
	if len(b.growing) == 0 {
		return false
	}
	behind := b.behind()
	waiting := b.growing[:0]
	for i, w := range b.growing {
		if behind && !w.overdueLocked(b, now) {
			waiting = append(waiting, b.growing[i:]...)
			break
		}
		if _, counted := b.runs[w.run]; !counted { // it was lost, and is about to leave
			w.goLocked(b)
			continue
		}
		if !b.firstLocked(w.run) && b.bytes > b.limit && !b.passLocked(w, now) {
			full = true // the one that goes on in any case may be behind it
			waiting = append(waiting, w)
			continue
		}
		if behind {
			b.urged = now
		}
		w.goLocked(b)
	}
	clear(b.growing[len(waiting):])
	b.growing = waiting
	return full
}

func (b *Budget) grantLoadingLocked(now time.Time) {
	for len(b.loading) > 0 {
		w := b.loading[0]
		if b.bytes+w.bytes > b.limit && !b.passLocked(w, now) {
			return
		}
		w.readLocked(b)
	}
}

// readLocked lets the first run be read of those that wait for it.
func (w *waiter) readLocked(b *Budget) {
	b.countLocked(w.run, w.bytes)
	close(w.goes)
	b.loading = b.loading[1:]
}

// firstLocked reports whether a run is the one that goes on in any case.
func (b *Budget) firstLocked(run store.RunKey) bool { return b.first != nil && *b.first == run }

// passLocked reports whether one may go on though there is no room: to its end, if no other one does, and else a piece. The
// more is held beyond the limit, the longer those before it have for themselves: runs whose steps take hours would have any
// number of others go on.
func (b *Budget) passLocked(w *waiter, now time.Time) bool {
	if b.first == nil {
		b.first, b.passed = &w.run, now
		return true
	}
	if now.Sub(b.passed) < patience<<eighths(b.bytes, b.limit) {
		return false
	}
	b.passed = now
	return true
}

// eighths returns how many eighths of the limit are held beyond it, and mostPatience at most.
func eighths(held, limit int64) int64 { return min(8*max(held-limit, 0)/max(limit, 1), mostPatience) }

// overdueLocked reports whether a guest may go on though the store is behind: it has waited long, and no other one went on
// lately.
func (w *waiter) overdueLocked(b *Budget, now time.Time) bool {
	return now.Sub(w.since) >= patience && now.Sub(b.urged) >= patience
}
