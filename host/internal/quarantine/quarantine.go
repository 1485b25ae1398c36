// Package quarantine finds runs that bring their process down. A run that takes all memory, or whose step ends the process,
// does so again after each restart, and then nothing goes on any more.
//
// A process notes in a file which runs compute. The file is mapped into memory: what is written there is seen by the next
// process however this one ends, and costs no system call. When a process finds that the one before was not closed, the runs that
// computed then are suspects:
//
//	ended with the process once:          it goes on as always
//	twice in a row, without progress:     it is held, and then tried: alone among the suspects, for a while
//	the process ended in three trials:    convicted: the caller sets it aside
//
// Progress of its journal, or a trial that the process survives, acquits a suspect. So does the end of a process in which it was
// held: it was somebody else then.
//
// A process may also be killed by a person or a supervisor, in the middle of anything. So the three trials are at times that do
// not overlap, counted from the start of the process: one that is killed every minute is not killed in each of them.
package quarantine

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
)

// Times say when suspects are tried.
type Times struct {
	// Hold is how long after the start of the process the first trial of a suspect begins at the earliest, and how long after the
	// end of the trial before it, counted in the same way, each later one.
	Hold time.Duration
	// Trial is how long a trial lasts at most.
	Trial time.Duration
}

// DefaultTimes hold a suspect long enough for everything else to come up, and try it longer than a guest takes to fill memory:
// 6 GB took 9 s. The three trials begin 2, 24 and 46 s after the start.
func DefaultTimes() Times { return Times{Hold: 2 * time.Second, Trial: 20 * time.Second} }

// ErrStopped says that a suspect was not tried before the host stopped.
var ErrStopped = errors.New("the host stops")

// Watch notes which runs compute, and tries suspects. A nil Watch watches nothing. Its methods may be called concurrently.
type Watch struct {
	times Times
	log   *slog.Logger
	path  string // of the file of suspects
	clock clock.Clock
	began time.Time
	found atomic.Int32 // len(suspects)

	mu       sync.Mutex // guards the fields below; nothing is called while it is held
	table    *table     // nil when closed
	free     []int32    // slots of table
	suspects map[store.RunKey]*suspect
	trying   *suspect
	timer    func() // stops the timer of the next trial, or of the end of this one
}

// suspect is a record with those who wait for the run's trial.
type suspect struct {
	Record
	waiting []*waiter
}

type waiter struct{ begin, refuse func() }

// Open reads what the process before has left in a folder, decides what becomes of its suspects, and begins to watch. The
// convicted are suspects no longer; the caller sets them aside before anything runs.
func Open(dir string, times Times, log *slog.Logger, look Looks) (w *Watch, convicted []Record, err error) {
	w = &Watch{times: times, log: log, path: filepath.Join(dir, suspectsName), clock: clock.System(),
		suspects: map[store.RunKey]*suspect{}}
	w.began = w.clock.Now()
	running := filepath.Join(dir, runningName)
	marked, unclean, err := readTable(running)
	if err != nil {
		return nil, nil, err
	}
	records, err := judge(readRecords(w.path, log), marked, unclean, look)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range records {
		if r.Trials >= trials {
			convicted = append(convicted, r)
			continue
		}
		w.suspects[r.key()] = &suspect{Record: r}
		if r.held() {
			log.Warn("the host ended again and again while a run computed; it is held back, and then tried alone", "run", r.ID,
				"ends", r.Ends, "trials", r.Trials)
		}
	}
	w.found.Store(int32(len(w.suspects)))
	if err := w.save(); err != nil {
		return nil, nil, err
	}
	w.table, err = newTable(running)
	if err != nil {
		return nil, nil, err
	}
	for i := range int32(slots) {
		w.free = append(w.free, slots-1-i)
	}
	return w, convicted, nil
}

// Close ends the watch: the process was closed, and nothing that computed now is a suspect for that.
func (w *Watch) Close() error {
	if w == nil {
		return nil
	}
	w.Release()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.table == nil {
		return nil
	}
	if w.timer != nil {
		w.timer()
	}
	if w.trying != nil {
		w.trying.Trying = false
	}
	err := w.table.close()
	w.table = nil
	return errors.Join(err, w.save())
}

// Subject returns what is needed to watch a guest, or an attempt, of a run.
func (w *Watch) Subject(namespace uint32, run string) *Subject {
	if w == nil {
		return nil
	}
	return &Subject{w: w, run: store.RunKey{Namespace: store.NamespaceID(namespace), ID: run}, slot: noSlot}
}

// Subject is a guest, or an attempt, of a run. A nil Subject is not watched.
type Subject struct {
	w    *Watch
	run  store.RunKey
	slot int32 // of the table, noSlot while it does not compute
}

const noSlot = -1

// Begin notes that it computes, until End. Where more compute than the table has room for, it is not noted.
func (s *Subject) Begin() {
	if s == nil {
		return
	}
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.free); s.slot == noSlot && n > 0 && w.table != nil {
		s.slot, w.free = w.free[n-1], w.free[:n-1]
		w.table.set(s.slot, s.run)
	}
}

// End notes that it does not compute.
func (s *Subject) End() {
	if s == nil {
		return
	}
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.slot == noSlot {
		return
	}
	if w.table != nil {
		w.table.clear(s.slot)
	}
	w.free = append(w.free, s.slot)
	s.slot = noSlot
}

// Ask calls begin: at once, or when the run is tried if it is held. If the host stops before that, it calls refuse instead.
func (s *Subject) Ask(begin, refuse func()) {
	if s == nil || s.w.found.Load() == 0 || !s.w.holds(s.run, &waiter{begin, refuse}) {
		begin()
	}
}

// Wait is Ask for a caller that waits, until ctx is done: the error is its cause then, or ErrStopped.
func (s *Subject) Wait(ctx context.Context) error {
	if s == nil || s.w.found.Load() == 0 {
		return nil
	}
	answer := make(chan error, 1)
	if !s.w.holds(s.run, &waiter{func() { answer <- nil }, func() { answer <- ErrStopped }}) {
		return nil
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// holds has somebody wait for the trial of a run. It reports false if the run is not held.
func (w *Watch) holds(run store.RunKey, waits *waiter) bool {
	w.mu.Lock()
	s := w.suspects[run]
	if s == nil || !s.held() || s == w.trying || w.table == nil {
		w.mu.Unlock()
		return false
	}
	s.waiting = append(s.waiting, waits)
	ready := w.nextLocked()
	w.mu.Unlock()
	call(ready)
	return true
}

func call(ready []*waiter) {
	for _, r := range ready {
		r.begin()
	}
}

// Release refuses all who wait for a trial.
func (w *Watch) Release() {
	if w == nil {
		return
	}
	w.mu.Lock()
	var refused []*waiter
	for _, s := range w.suspects {
		refused = append(refused, s.waiting...)
		s.waiting = nil
	}
	w.mu.Unlock()
	for _, r := range refused {
		r.refuse()
	}
}

// Committed takes a commit of a run that has become durable: one that has made progress is no suspect any more.
func (w *Watch) Committed(c *store.RunCommit) {
	if w == nil || w.found.Load() == 0 || !advances(c) {
		return
	}
	w.mu.Lock()
	s := w.suspects[c.Run]
	if s == nil || !s.held() {
		w.mu.Unlock() // of others, the next process looks at the journal
		return
	}
	ready := w.acquitLocked(s)
	w.mu.Unlock()
	call(ready)
}

// acquitLocked makes a run a suspect no longer. It returns whose begin is to be called: its own, and those of the next one.
func (w *Watch) acquitLocked(s *suspect) (ready []*waiter) {
	delete(w.suspects, s.key())
	w.found.Store(int32(len(w.suspects)))
	ready = s.waiting
	s.waiting = nil
	if s == w.trying {
		w.trying = nil
		w.timer()
		w.timer = nil
	}
	w.saveOrSay()
	return append(ready, w.nextLocked()...)
}

// nextLocked begins the next trial, or has it begin in a while, if somebody waits for one and none goes on. It returns those to
// whom begin is to be called.
func (w *Watch) nextLocked() []*waiter {
	if w.trying != nil || w.table == nil {
		return nil
	}
	var first *suspect
	for _, s := range w.suspects {
		if len(s.waiting) > 0 && (first == nil || s.before(&first.Record)) {
			first = s
		}
	}
	if first == nil {
		return nil
	}
	if w.timer != nil {
		w.timer()
		w.timer = nil
	}
	up := w.clock.Now().Sub(w.began)
	if wait := w.holdOf(first) - up; wait > 0 {
		w.timer = clock.AfterFunc(w.clock, wait, func() {
			w.mu.Lock()
			ready := w.nextLocked()
			w.mu.Unlock()
			call(ready)
		})
		return nil
	}
	w.trying, first.Trying, first.UntilMs = first, true, (up + w.times.Trial).Milliseconds()
	w.saveOrSay()
	w.log.Warn("a run is tried: if the host ends now, that is taken to be by this run", "run", first.ID, "trials", first.Trials)
	w.timer = clock.AfterFunc(w.clock, w.times.Trial, func() {
		w.mu.Lock()
		var ready []*waiter
		if w.trying == first && w.table != nil {
			ready = w.acquitLocked(first)
		}
		w.mu.Unlock()
		call(ready)
	})
	ready := first.waiting
	first.waiting = nil
	return ready
}

// holdOf returns how long after the start of the process a suspect may be tried.
func (w *Watch) holdOf(s *suspect) time.Duration {
	return time.Duration(s.UntilMs)*time.Millisecond + w.times.Hold
}

func (w *Watch) saveOrSay() {
	if err := w.save(); err != nil {
		w.log.Error("the suspects cannot be written", "cause", err)
	}
}

// save writes the suspects.
func (w *Watch) save() error {
	records := make([]Record, 0, len(w.suspects))
	for _, s := range w.suspects {
		records = append(records, s.Record)
	}
	return writeRecords(w.path, records)
}
