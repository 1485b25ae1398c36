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
// The hosts of a cluster share the records of suspects, in their store. Each of them keeps a file of its own about the runs that
// compute, and reports what it finds in it when it is started again.
//
// A process may also be killed by a person or a supervisor, at any moment. So the three trials are at times that do not
// overlap, counted from the start of the process: a process that is killed every minute is not killed in each of them.
package quarantine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
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
	cfg   Config
	clock clock.Clock
	began time.Time
	found atomic.Int32   // len(suspects)
	saves sync.WaitGroup // goroutines that save
	saved sync.Mutex     // held while records are read or written

	mu       sync.Mutex // guards the fields below; no callback is called while it is held
	table    *table     // nil when closed
	free     []int32    // rows of table
	suspects map[store.RunKey]*suspect
	unsaved  map[store.RunKey]int // how many changes of a record are not saved
	trying   *suspect
	timer    func() // stops the timer, which begins the next trial or ends the current one
}

// Config says what is watched, and where what is found is kept. All fields but Host are required.
type Config struct {
	Running string  // the path of the file that notes which runs compute
	Records Records // of suspects
	Host    string  // the name of the host in its cluster; empty if it is alone
	Times   Times
	Logger  *slog.Logger
	Read    ReadProgress
}

// suspect is a record, and the callers that wait for the run's trial.
type suspect struct {
	Record
	waiting []*waiter
}

type waiter struct{ begin, refuse func() }

// Open reads what the previous process left, judges its suspects, and begins to watch. Convicted runs are no longer suspects: the
// caller makes them stuck before any run computes. In a cluster there are none before Refresh.
func Open(ctx context.Context, cfg Config) (w *Watch, convicted []Record, err error) {
	w = &Watch{cfg: cfg, clock: clock.System(), suspects: map[store.RunKey]*suspect{}, unsaved: map[store.RunKey]int{}}
	w.began = w.clock.Now()
	marked, unclean, err := readTable(cfg.Running)
	if err != nil {
		return nil, nil, err
	}
	records, err := cfg.Records.Change(ctx, func(before []Record) ([]Record, error) {
		after, err := judge(cfg.Host, before, marked, unclean, cfg.Read)
		if cfg.Host != "" {
			return after, err
		}
		convicted = nil
		return slices.DeleteFunc(after, func(r Record) bool {
			if r.convicted() {
				convicted = append(convicted, r)
			}
			return r.convicted()
		}), err
	})
	if err != nil {
		return nil, nil, err
	}
	w.adopt(records)
	w.table, err = newTable(cfg.Running)
	if err != nil {
		return nil, nil, err
	}
	for i := range int32(rows) {
		w.free = append(w.free, rows-1-i)
	}
	return w, convicted, nil
}

// adopt makes records the suspects, except those that were changed here and are not saved. It returns what must be called then.
func (w *Watch) adopt(records []Record) (ready []*waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stored := map[store.RunKey]bool{}
	for _, r := range records {
		run := r.key()
		stored[run] = true
		x := w.suspects[run]
		switch {
		case w.unsaved[run] > 0 || x != nil && x == w.trying:
		case x != nil:
			x.Record = r
		default:
			w.suspects[run] = &suspect{Record: r}
			if r.needsTrial() {
				w.cfg.Logger.Warn("the host ended again and again while a run computed; it waits, and is then tried alone", "run", r.ID,
					"ends", r.Ends, "trials", r.Trials)
			}
		}
	}
	for run, x := range w.suspects {
		if !stored[run] && w.unsaved[run] == 0 && x != w.trying { // another host has acquitted it
			delete(w.suspects, run)
			ready = append(ready, x.waiting...)
		}
	}
	w.found.Store(int32(len(w.suspects)))
	return ready
}

// Refresh reads what other hosts of the cluster have found out. A host calls it before it takes over runs of another one. It
// returns the convicted runs: the caller makes those stuck that it takes over, before they compute, and calls Forget.
func (w *Watch) Refresh(ctx context.Context) (convicted []Record, err error) {
	if w == nil {
		return nil, nil
	}
	w.saved.Lock()
	defer w.saved.Unlock()
	records, err := w.cfg.Records.Change(ctx, func(list []Record) ([]Record, error) { return list, nil })
	if err != nil {
		return nil, err
	}
	call(w.adopt(records))
	for _, r := range records {
		if r.convicted() {
			convicted = append(convicted, r)
		}
	}
	return convicted, nil
}

// Forget removes a run from the records.
func (w *Watch) Forget(run store.RunKey) {
	w.mu.Lock()
	s := w.suspects[run]
	var ready []*waiter
	if s != nil {
		ready = w.acquitLocked(s)
	}
	w.mu.Unlock()
	call(ready)
}

// Close ends the watch. Since the process was closed properly, the runs that compute now do not become suspects.
func (w *Watch) Close() error {
	if w == nil {
		return nil
	}
	w.Release()
	w.mu.Lock()
	if w.table == nil {
		w.mu.Unlock()
		return nil
	}
	if w.timer != nil {
		w.timer()
	}
	if s := w.trying; s != nil {
		s.Trying, s.By, w.trying = false, "", nil
		w.saveLocked(s.key())
	}
	err := w.table.close()
	w.table = nil
	w.mu.Unlock()
	w.saves.Wait()
	return err
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
	w.nextLocked()
	w.mu.Unlock()
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

// acquitLocked removes a suspect, and begins the next trial. It returns the waiters whose begin must be called.
func (w *Watch) acquitLocked(s *suspect) (ready []*waiter) {
	delete(w.suspects, s.key())
	w.found.Store(int32(len(w.suspects)))
	ready = s.waiting
	s.waiting = nil
	if s == w.trying {
		w.trying = nil
		w.stopTimerLocked()
	}
	w.saveLocked(s.key())
	w.nextLocked()
	return ready
}

func (w *Watch) stopTimerLocked() {
	if w.timer != nil {
		w.timer()
		w.timer = nil
	}
}

// nextLocked begins the next trial, or schedules it, if a caller waits for one and none is in progress.
func (w *Watch) nextLocked() {
	if w.trying != nil || w.table == nil {
		return
	}
	var first *suspect
	for _, s := range w.suspects {
		if len(s.waiting) > 0 && (first == nil || s.before(&first.Record)) {
			first = s
		}
	}
	if first == nil {
		return
	}
	w.stopTimerLocked()
	up := w.clock.Now().Sub(w.began)
	if wait := w.holdOf(first) - up; wait > 0 {
		w.timer = clock.AfterFunc(w.clock, wait, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.nextLocked()
		})
		return
	}
	w.trying, first.Trying, first.By, first.UntilMs = first, true, w.cfg.Host, (up + w.cfg.Times.Trial).Milliseconds()
	w.unsaved[first.key()]++
	w.saves.Go(func() { w.try(first) })
}

// try begins a trial, when it is durable that it begins.
func (w *Watch) try(s *suspect) {
	w.save(s.key())
	w.mu.Lock()
	if w.trying != s || w.table == nil {
		w.mu.Unlock()
		return
	}
	w.cfg.Logger.Warn("a run is tried: if the host ends now, that is taken to be by this run", "run", s.ID, "trials", s.Trials)
	w.timer = clock.AfterFunc(w.clock, w.cfg.Times.Trial, func() {
		w.mu.Lock()
		var ready []*waiter
		if w.trying == s && w.table != nil {
			ready = w.acquitLocked(s)
		}
		w.mu.Unlock()
		call(ready)
	})
	ready := s.waiting
	s.waiting = nil
	w.mu.Unlock()
	call(ready)
}

// holdOf returns how long after the start of the process a suspect may be tried.
func (w *Watch) holdOf(s *suspect) time.Duration {
	return time.Duration(s.UntilMs)*time.Millisecond + w.cfg.Times.Delay
}

// saveLocked saves the record of a run, if it has one, or removes it. It does not wait for that: the records may be in a
// database.
func (w *Watch) saveLocked(run store.RunKey) {
	w.unsaved[run]++
	w.saves.Go(func() { w.save(run) })
}

// saveWithin is how long a host waits for the store, in a trial's beginning or at its own end.
const saveWithin = 5 * time.Second

func (w *Watch) save(run store.RunKey) {
	ctx, cancel := context.WithTimeout(context.Background(), saveWithin)
	defer cancel()
	w.saved.Lock()
	defer w.saved.Unlock()
	_, err := w.cfg.Records.Change(ctx, func(list []Record) ([]Record, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		s := w.suspects[run]
		i := slices.IndexFunc(list, func(r Record) bool { return r.key() == run })
		if i >= 0 && list[i].Trying && list[i].By != w.cfg.Host && (s == nil || s != w.trying) { // it has moved
			return list, nil
		}
		if i >= 0 {
			list = slices.Delete(list, i, i+1)
		}
		if s != nil {
			list = append(list, s.Record)
		}
		return list, nil
	})
	if err != nil {
		w.cfg.Logger.Error("the suspects cannot be written", "cause", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unsaved[run]--; w.unsaved[run] == 0 {
		delete(w.unsaved, run)
	}
}
