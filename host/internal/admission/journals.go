package admission

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
)

const (
	// smallBytes is the size below which a journal is read without waiting and not counted. Few runs are in memory, and
	// thousands of small journals take a few hundred megabytes.
	smallBytes = 64 << 10
	// modestBytes is the maximum size of a modest journal: some thousand entries. Most journals that are not small are modest.
	modestBytes = 1 << 20
	// besideShare and groupShare are divisors of the budget: the extra room for all modest journals, and its part for one
	// workflow. For a budget of 96 MiB that is 32 MiB and 16 MiB, enough for some dozens of a workflow's runs at a time. With
	// 8 MiB, a thousand runs of some thousand entries, waking at 65 per second beside attackers, were up to two minutes late.
	besideShare, groupShare = 3, 6
	// growBytes is how much a journal may grow before it is counted again, while there is room.
	growBytes = 256 << 10
	// pieceBytes is the same limit while there is no room. One piece per second adds an eighth of the budget in six minutes.
	pieceBytes = 32 << 10
	// patience is the minimum delay between two waiters that go on over the budget, or while the store is behind. A guest that
	// goes on while the store is behind writes growBytes at most, too little to burden the disk.
	patience = time.Second
	// loadPatience times patience is how long a run to be read waits for growing guests at most.
	loadPatience = 8
	// mostPatience bounds how often patience doubles: once for each eighth by which the journals exceed the limit, to a quarter
	// of an hour.
	mostPatience = 10
	// grantEvery is the interval between a waiting guest's calls of look, and between checks of which waiters may go on.
	grantEvery = 20 * time.Millisecond
	// keepFor is how long a guest that waits for room keeps its instance.
	keepFor = time.Second
)

// ErrJournalsFull: the guest has waited for room and must give its instance up.
var ErrJournalsFull = errors.New("journals hold more memory than there is room for")

// entryBytes is the approximate memory of an entry besides its encoded bytes: its handle, and its copies in commits and
// replays.
const entryBytes = 512

// JournalSize returns the approximate memory of a journal.
func JournalSize(bytes int64, entries int) int64 { return bytes + entryBytes*int64(entries) }

// Journals bounds the memory of all journals together. While a run is active, its whole journal is in memory, up to
// abi.MaxJournalBytes. A hundred journals of that size are more than a host should hold.
//
// Over the budget, a run to be read waits as a key, and a guest that appends to its journal waits at its next call, without a
// place. After a second it gives its instance up, and waits for room before it gets another instance (journalwait.go). Otherwise
// guests that hold journals and wait for places could deadlock with guests that hold places and wait for room. No run fails. One
// waiter, a guest if there is one, always goes on to its end, because guests hold memory until they are done. That may take
// long, for example while a step runs for an hour. So other waiters also go on, a piece at a time, after a delay that grows
// with the excess over the budget.
//
// Besides the budget there is extra room for modest journals, and each workflow may use a part of it. So even if some
// workflows keep the budget full, the short reads of other workflows' runs need not wait.
//
// A guest that appends to its journal also waits while the store is behind with its writes. Otherwise guests that write faster
// than the disk would delay all commits. Because the store may stay behind for as long as other guests write, one waiting
// guest goes on every now and then all the same.
//
// A nil value has no limit. Its methods may be called concurrently.
type Journals struct {
	limit  int64
	behind func() bool // reports whether the store is behind
	clock  clock.Clock

	mu        sync.Mutex // guards the fields below; while it is held, only behind and the clock are called
	bytes     int64      // sum of runs
	peak      int64
	runs      map[store.RunKey]int64 // bytes of the counted journals
	first     *store.RunKey          // the run that may go on over the budget to its end; nil if there is none
	passed    time.Time              // when a waiter last went on over the budget
	urged     time.Time              // when a guest last went on while the store was behind
	growing   []*journalWaiter       // guests that wait for room, with an instance or without
	loading   []*journalWaiter       // runs to be read
	beginning beginning              // guests that wait before they begin
	beside    beside
	begins    []func() // callbacks for unlock
	granting  bool     // the timer of scheduleGrantLocked is set
}

// JournalGroup identifies a workflow. All groups get equal shares of the extra room.
type JournalGroup struct {
	Namespace store.NamespaceID
	Workflow  string
}

// beside counts the modest journals in the extra room, with their sizes when they were read.
type beside struct {
	held   int64
	groups map[JournalGroup]int64
	runs   map[store.RunKey]*journalWaiter
}

type journalWaiter struct {
	run   store.RunKey
	group JournalGroup
	bytes int64 // counted when a run to be read goes on; 0 for guests
	since time.Time
	goes  chan struct{} // closed when the waiter goes on; nil for a guest without an instance
	wait  *JournalWait  // of a guest without an instance, until it begins
}

// NewJournals returns a budget of limit bytes. behind reports whether the store is behind, and must not block; nil means never.
func NewJournals(limit int64, behind func() bool) *Journals {
	if behind == nil {
		behind = func() bool { return false }
	}
	return &Journals{limit: limit, behind: behind, clock: clock.System(), runs: map[store.RunKey]int64{},
		beginning: beginning{groups: map[JournalGroup]*journalGroup{}},
		beside:    beside{groups: map[JournalGroup]int64{}, runs: map[store.RunKey]*journalWaiter{}}}
}

// Bytes returns the counted bytes.
func (b *Journals) Bytes() int64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes
}

// Peak returns the highest value of Bytes so far.
func (b *Journals) Peak() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.peak
}

// Counts reports whether a journal of this size is counted, so that its read may have to wait.
func (b *Journals) Counts(bytes int64) bool { return b != nil && bytes >= smallBytes }

// Load blocks until there is room for the journal of a run to be read, and counts the journal. If ctx ends first, it returns
// the cause of ctx.
func (b *Journals) Load(ctx context.Context, of JournalGroup, run store.RunKey, bytes int64) error {
	if !b.Counts(bytes) {
		return nil
	}
	b.mu.Lock()
	if _, counted := b.runs[run]; counted || len(b.growing)+len(b.loading) == 0 && b.bytes+bytes <= b.limit {
		b.countLocked(run, bytes)
		b.mu.Unlock()
		return nil
	}
	w := &journalWaiter{run: run, group: of, bytes: bytes, since: b.clock.Now(), goes: make(chan struct{})}
	if b.besideLocked(w) {
		b.mu.Unlock()
		return nil
	}
	b.loading = append(b.loading, w)
	b.grantLocked()
	b.unlock()
	return b.wait(ctx, w, nil)
}

// Forget stops counting a run's journal. It must be called when the journal leaves memory or its run comes to rest.
func (b *Journals) Forget(run store.RunKey) {
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

// forgetLocked stops counting a journal. If that frees extra room, waiting reads of modest journals get it.
func (b *Journals) forgetLocked(run store.RunKey) {
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

// besideLocked counts a journal in the extra room for modest journals. It returns false if the journal is too large or there
// is no room. A journal that is counted already needs no extra room.
func (b *Journals) besideLocked(w *journalWaiter) bool {
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

// JournalShare is the share of a guest's journal in a budget. The zero JournalShare has no budget. Only the guest's
// goroutine uses it.
type JournalShare struct {
	b    *Journals
	of   JournalGroup
	run  store.RunKey
	next int64 // size at which Wait must be called

	began int64 // size when the JournalShare was made
}

// Share counts the journal of a guest's run, which is in memory, and returns its share.
func (b *Journals) Share(of JournalGroup, run store.RunKey, bytes int64) JournalShare {
	s := JournalShare{b: b, of: of, run: run, began: bytes, next: bytes + growBytes}
	if b == nil {
		return s
	}
	b.mu.Lock()
	defer b.unlock()
	if was, counted := b.runs[run]; counted && bytes < was { // the run has continued as new: its former iteration has ended
		b.forgetLocked(run)
		defer b.grantLocked()
	}
	if bytes >= smallBytes {
		b.countLocked(run, bytes)
	}
	s.next = b.nextLocked(run, bytes)
	return s
}

// nextLocked returns the size at which a growing journal must be counted again.
func (b *Journals) nextLocked(run store.RunKey, bytes int64) int64 {
	if b.bytes > b.limit && !b.firstLocked(run) {
		return bytes + pieceBytes
	}
	return bytes + growBytes
}

// Grown reports whether the journal has grown so much that the guest must call Wait.
func (s *JournalShare) Grown(bytes int64) bool { return s.b != nil && bytes >= s.next }

// Wait counts the journal and blocks until it may grow further. It calls look every grantEvery and returns look's error, if
// any, or the cause of ctx when ctx ends. After keepFor it returns ErrJournalsFull if it waits because of other journals.
func (s *JournalShare) Wait(ctx context.Context, bytes int64, look func() error) error {
	b := s.b
	b.mu.Lock()
	defer func() {
		s.next = b.nextLocked(s.run, bytes)
		b.mu.Unlock()
	}()
	if ctx.Err() != nil { // the run may be lost and forgotten already
		return context.Cause(ctx)
	}
	b.countLocked(s.run, bytes)
	if (b.firstLocked(s.run) || b.bytes <= b.limit) && !b.behind() {
		return nil
	}
	w := &journalWaiter{run: s.run, group: s.of, since: b.clock.Now(), goes: make(chan struct{})}
	b.growLocked(w)
	b.grantLocked()
	b.unlock()
	err := b.wait(ctx, w, func() error {
		if b.clock.Now().Sub(w.since) >= keepFor && b.over(w.run) {
			return ErrJournalsFull
		}
		return look()
	})
	b.mu.Lock()
	return err
}

// over reports whether the budget is exceeded and the run is not the first run.
func (b *Journals) over(run store.RunKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes > b.limit && !b.firstLocked(run)
}

// wait blocks until w goes on, ctx ends, or look, which may be nil, returns an error. It calls look every grantEvery.
func (b *Journals) wait(ctx context.Context, w *journalWaiter, look func() error) error {
	for {
		var again <-chan time.Time
		stop := func() bool { return true }
		if look != nil {
			t := b.clock.NewTimer(grantEvery)
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
			if !b.leave(w) && errors.Is(err, ErrJournalsFull) { // room became free at the same time
				return nil
			}
			return err
		}
	}
}

// leave removes a waiter. It returns false if the waiter went on at the same time.
func (b *Journals) leave(w *journalWaiter) bool {
	b.mu.Lock()
	defer b.unlock()
	select {
	case <-w.goes:
		if w.bytes > 0 { // its read was granted and counted, but will not happen
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

func without(list []*journalWaiter, w *journalWaiter) []*journalWaiter {
	for i := range list {
		if list[i] == w {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

func (b *Journals) countLocked(run store.RunKey, bytes int64) {
	b.bytes += bytes - b.runs[run]
	b.runs[run] = bytes
	b.peak = max(b.peak, b.bytes)
}

// grantLocked lets waiters go on while there is room. Without room it lets a waiter go on only if passLocked allows it.
func (b *Journals) grantLocked() {
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

// grantGrowingLocked lets growing guests go on. It reports whether some of them still wait for room.
func (b *Journals) grantGrowingLocked(now time.Time) (full bool) {
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
		if _, counted := b.runs[w.run]; !counted { // the run was lost, and its guest is about to leave
			w.goLocked(b)
			continue
		}
		if !b.firstLocked(w.run) && b.bytes > b.limit && !b.passLocked(w, now) {
			full = true // no break: the first run may be behind it
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

func (b *Journals) grantLoadingLocked(now time.Time) {
	for len(b.loading) > 0 {
		w := b.loading[0]
		if b.bytes+w.bytes > b.limit && !b.passLocked(w, now) {
			return
		}
		w.readLocked(b)
	}
}

// readLocked lets the first run of loading be read. w must be that run's waiter.
func (w *journalWaiter) readLocked(b *Journals) {
	b.countLocked(w.run, w.bytes)
	close(w.goes)
	b.loading = b.loading[1:]
}

// firstLocked reports whether a run is the first run, which may always go on.
func (b *Journals) firstLocked(run store.RunKey) bool { return b.first != nil && *b.first == run }

// passLocked reports whether a waiter may go on without room. If there is no first run, the waiter becomes the first run and
// may go on to its end. Otherwise it may go on a piece if patience has passed since the last waiter. Patience doubles with each
// eighth by which the journals exceed the limit: with a fixed patience, any number of runs would go on while a first run has
// steps that take hours.
func (b *Journals) passLocked(w *journalWaiter, now time.Time) bool {
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

// eighths returns by how many eighths of the limit held exceeds it, at most mostPatience.
func eighths(held, limit int64) int64 { return min(8*max(held-limit, 0)/max(limit, 1), mostPatience) }

// overdueLocked reports whether a guest may go on while the store is behind: it has waited for patience, and no other such
// guest has gone on within patience.
func (w *journalWaiter) overdueLocked(b *Journals, now time.Time) bool {
	return now.Sub(w.since) >= patience && now.Sub(b.urged) >= patience
}
