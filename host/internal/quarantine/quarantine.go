// Package quarantine finds runs that bring their process down. A run that takes all memory, or whose step ends the
// process, does so again after each restart, and then no run makes progress.
//
// A process notes in a file which runs compute. The file is mapped into memory: the next process sees what was written
// however this one ends, and a write costs no system call. When a process finds that the previous one was not closed,
// the runs that computed then are suspects:
//
//	ended with the process once:          it continues as usual
//	twice in a row, without progress:     it waits, and is then tried: alone among the suspects, for a limited time
//	the process ended in three trials:    convicted: the caller makes it stuck
//
// Progress of its journal, or a trial that the process survives, acquits a suspect. So does the end of a process during
// which it waited: it cannot have been the cause.
//
// A process may also be killed by a person or a supervisor, at any moment. So the three trials are at times that do not
// overlap, counted from the start of the process: a process that is killed every minute is not killed in each of them.
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

// Times set when suspects are tried.
type Times struct {
	// Delay is the least time before a trial of a suspect. The first trial begins no earlier than Delay after the start of
	// the process. If the previous trial ended T after the start of its process, the next one begins no earlier than T+Delay
	// after the start of the process.
	Delay time.Duration
	// Trial is the longest duration of a trial.
	Trial time.Duration
}

// DefaultTimes returns the times of a host. A suspect waits long enough for everything else to come up, and tried
// longer than a guest takes to fill memory: 6 GB took 9 s. The three trials begin 2, 24 and 46 s after the start.
func DefaultTimes() Times { return Times{Delay: 2 * time.Second, Trial: 20 * time.Second} }

// ErrStopped reports that a suspect was not tried before the host stopped.
var ErrStopped = errors.New("the host stops")

// Watch notes which runs compute, and tries suspects. A nil Watch watches nothing. Its methods may be called concurrently.
type Watch struct {
	times Times
	log   *slog.Logger
	path  string // of the file of suspects
	clock clock.Clock
	began time.Time
	found atomic.Int32 // len(suspects)

	mu       sync.Mutex // guards the fields below; no callback is called while it is held
	table    *table     // nil when closed
	free     []int32    // rows of table
	suspects map[store.RunKey]*suspect
	trying   *suspect
	timer    func() // stops the timer, which begins the next trial or ends the current one
}

// suspect is a record, and the callers that wait for the run's trial.
type suspect struct {
	Record
	waiting []*waiter
}

type waiter struct{ begin, refuse func() }

// Open reads what the previous process left in a folder, judges its suspects, and begins to watch. Convicted runs are
// no longer suspects; the caller makes them stuck before any run computes.
func Open(dir string, times Times, log *slog.Logger, read ReadProgress) (w *Watch, convicted []Record, err error) {
	w = &Watch{times: times, log: log, path: filepath.Join(dir, suspectsName), clock: clock.System(),
		suspects: map[store.RunKey]*suspect{}}
	w.began = w.clock.Now()
	running := filepath.Join(dir, runningName)
	marked, unclean, err := readTable(running)
	if err != nil {
		return nil, nil, err
	}
	records, err := judge(readRecords(w.path, log), marked, unclean, read)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range records {
		if r.Trials >= trials {
			convicted = append(convicted, r)
			continue
		}
		w.suspects[r.key()] = &suspect{Record: r}
		if r.needsTrial() {
			log.Warn("the host ended again and again while a run computed; it waits, and is then tried alone", "run", r.ID,
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
	for i := range int32(rows) {
		w.free = append(w.free, rows-1-i)
	}
	return w, convicted, nil
}

// Close ends the watch. Since the process was closed properly, the runs that compute now do not become suspects.
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

// Subject returns a Subject for a guest, or an attempt, of a run.
func (w *Watch) Subject(namespace uint32, run string) *Subject {
	if w == nil {
		return nil
	}
	return &Subject{w: w, run: store.RunKey{Namespace: store.NamespaceID(namespace), ID: run}, row: noRow}
}

// Subject watches a guest, or an attempt, of a run. A nil Subject watches nothing.
type Subject struct {
	w   *Watch
	run store.RunKey
	row int32 // in the table; noRow while it does not compute
}

const noRow = -1

// Begin notes that the subject computes, until End. If the table is full, it notes nothing.
func (s *Subject) Begin() {
	if s == nil {
		return
	}
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.free); s.row == noRow && n > 0 && w.table != nil {
		s.row, w.free = w.free[n-1], w.free[:n-1]
		w.table.set(s.row, s.run)
	}
}

// End notes that the subject no longer computes.
func (s *Subject) End() {
	if s == nil {
		return
	}
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.row == noRow {
		return
	}
	if w.table != nil {
		w.table.clear(s.row)
	}
	w.free = append(w.free, s.row)
	s.row = noRow
}

// AwaitsTrial reports whether the run may compute only in its trial, so that Ask would not call begin at once.
func (s *Subject) AwaitsTrial() bool {
	if s == nil || s.w.found.Load() == 0 {
		return false
	}
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.suspects[s.run]
	return x != nil && x.needsTrial() && x != w.trying && w.table != nil
}

// Ask calls begin: at once, or in the run's trial if it awaits one. If the host stops before the trial, it calls
// refuse instead.
func (s *Subject) Ask(begin, refuse func()) {
	if s == nil || s.w.found.Load() == 0 || !s.w.awaitTrial(s.run, &waiter{begin, refuse}) {
		begin()
	}
}

// Wait is Ask for a caller that blocks. It returns the cause of ctx if ctx ends first, and ErrStopped if the host stops first.
func (s *Subject) Wait(ctx context.Context) error {
	if s == nil || s.w.found.Load() == 0 {
		return nil
	}
	answer := make(chan error, 1)
	if !s.w.awaitTrial(s.run, &waiter{func() { answer <- nil }, func() { answer <- ErrStopped }}) {
		return nil
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// awaitTrial adds a waiter for the trial of a run. It returns false if the run needs none.
func (w *Watch) awaitTrial(run store.RunKey, waits *waiter) bool {
	w.mu.Lock()
	s := w.suspects[run]
	if s == nil || !s.needsTrial() || s == w.trying || w.table == nil {
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

// Release refuses all callers that wait for a trial.
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

// Committed takes a durable commit. A run that awaits its trial and has made progress is no longer a suspect.
func (w *Watch) Committed(c *store.RunCommit) {
	if w == nil || w.found.Load() == 0 || !advances(c) {
		return
	}
	w.mu.Lock()
	s := w.suspects[c.Run]
	if s == nil || !s.needsTrial() {
		w.mu.Unlock() // for other runs, the next process looks at the journal
		return
	}
	ready := w.acquitLocked(s)
	w.mu.Unlock()
	call(ready)
}

// acquitLocked removes a suspect. It returns the waiters whose begin must be called: those of the suspect, and those of
// the next one that is tried.
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

// nextLocked begins the next trial, or schedules it, if a caller waits for one and none is in progress. It returns the
// waiters whose begin must be called.
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
	return time.Duration(s.UntilMs)*time.Millisecond + w.times.Delay
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
