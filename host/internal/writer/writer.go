// Package writer gives shards their goroutines. A Writer is the goroutine that touches a shard: it has a mailbox, an alarm for
// the shard's next deadline, and goroutines beside it that commit what the shard has gathered. An Activity counts what goes
// on, so that it can be known that nothing does.
package writer

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/partition"
	"github.com/wfhost/wfhost/store"
)

// Config is what a Writer is made from.
type Config struct {
	Clock    clock.Clock
	Activity *Activity
	// Commits is how many group commits are on their way at a time.
	Commits int
	// Commit makes a batch durable.
	Commit func(b *partition.Batch) error
}

// Writer drives a shard.
type Writer struct {
	cfg      Config
	shard    *partition.Shard
	alarm    *clock.Alarm
	batches  chan *partition.Batch // to the committers
	nextWake atomic.Int64
	over     chan struct{}                         // closed when the goroutines have ended
	wake     chan struct{}                         // receives when there is mail
	next     []func(s *partition.Shard, now int64) // the goroutine's own
	yieldAt  time.Time                             // not before; the goroutine's own, too

	mu     sync.Mutex // guards the mailbox; nothing is called, and nothing else is locked, while it is held
	mail   []func(s *partition.Shard, now int64)
	closed bool
}

const (
	// longYield is a yield for which what was brought meanwhile is no reward: an fsync takes a tenth of it.
	longYield = time.Millisecond
	// yieldAfter is how many times as long as such a yield took there is none: then they are a twentieth of the time.
	yieldAfter = 20
	// longestYield is what guests on all processors make of one; what took longer was a machine that stood still.
	longestYield = time.Second
)

// noWake is the next wake of a writer that has none.
const noWake = math.MaxInt64

// New returns a Writer that takes mail, and begins with Start.
func New(cfg Config) *Writer {
	w := &Writer{cfg: cfg, alarm: clock.NewAlarm(cfg.Clock), batches: make(chan *partition.Batch, cfg.Commits),
		over: make(chan struct{}), wake: make(chan struct{}, 1)}
	w.nextWake.Store(noWake)
	return w
}

// Start gives the writer its shard. The caller closes the writer.
func (w *Writer) Start(s *partition.Shard) {
	w.shard = s
	var committers sync.WaitGroup
	for range w.cfg.Commits {
		committers.Go(w.commits)
	}
	go func() {
		committers.Wait()
		close(w.over)
	}()
	go w.loop()
}

// Post has the shard's goroutine call f. It reports whether it will: a closed writer does not.
func (w *Writer) Post(f func(s *partition.Shard, now int64)) bool {
	w.cfg.Activity.Begin()
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		w.cfg.Activity.Done()
		return false
	}
	w.mail = append(w.mail, f)
	w.mu.Unlock()
	w.look()
	return true
}

// Next has the shard's goroutine, which calls it, call f when it has done what it does, before anything that was posted.
func (w *Writer) Next(f func(s *partition.Shard, now int64)) { w.next = append(w.next, f) }

// follow does what is next.
func (w *Writer) follow(now int64) {
	for i := 0; i < len(w.next); i++ {
		w.next[i](w.shard, now)
		w.next[i] = nil
	}
	w.next = w.next[:0]
}

// Do has the shard's goroutine call f, and waits for it. It reports whether that was called: a closed writer does not.
func (w *Writer) Do(f func(s *partition.Shard, now int64)) bool {
	done := make(chan struct{})
	ok := w.Post(func(s *partition.Shard, now int64) {
		defer close(done)
		f(s, now)
	})
	if ok {
		<-done
	}
	return ok
}

// Close ends the goroutine, after what was posted.
func (w *Writer) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.look()
	<-w.over
	w.alarm.Close()
}

// look has the loop look into the mailbox.
func (w *Writer) look() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// loop is the shard's goroutine.
func (w *Writer) loop() {
	defer close(w.batches)
	var spare []func(s *partition.Shard, now int64)
	for {
		w.yield()
		w.cfg.Activity.Begin() // what a timer brings is counted before it is
		w.mu.Lock()
		mail, closed := w.mail, w.closed
		w.mail, spare = spare[:0], nil
		w.mu.Unlock()
		now := w.cfg.Clock.Now().UnixMilli()
		for i, f := range mail {
			f(w.shard, now)
			w.follow(now)
			mail[i] = nil
		}
		w.shard.Tick(now)
		w.gather(now)
		w.setAlarm()
		for range len(mail) + 1 {
			w.cfg.Activity.Done()
		}
		spare = mail
		if closed && len(mail) == 0 {
			return
		}
		if w.hasMail() {
			continue
		}
		select {
		case <-w.wake:
		case <-w.alarm.C():
		case <-w.alarm.Moved():
		}
	}
}

// yield lets those go first who are about to bring something: one batch then has what would have been several. Where guests
// compute on all processors, that takes until each of them has computed for a while, and everything waits for the writer
// meanwhile: so one that took long is followed by none for many times as long.
func (w *Writer) yield() {
	begun := w.cfg.Clock.Now()
	if begun.Before(w.yieldAt) {
		return
	}
	runtime.Gosched()
	if took := w.cfg.Clock.Now().Sub(begun); took > longYield {
		w.yieldAt = begun.Add(yieldAfter * min(took, longestYield))
	}
}

// gather hands batches to the committers, until there is nothing to commit, or enough is on its way.
func (w *Writer) gather(now int64) {
	for more := true; more; {
		w.follow(now)
		b := w.shard.Batch(now)
		more = b != nil || len(w.next) > 0
		if b != nil {
			w.cfg.Activity.Begin()
			w.batches <- b
		}
	}
}

// hasMail reports whether the loop has something to do at once.
func (w *Writer) hasMail() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.mail) > 0 || w.closed
}

// setAlarm has the loop come again when the shard has something to do.
func (w *Writer) setAlarm() {
	if at, ok := w.shard.Next(); ok {
		w.alarm.Set(at)
	} else {
		w.alarm.Clear()
	}
	at, ok := w.shard.NextWake()
	if !ok {
		at = noWake
	}
	w.nextWake.Store(at)
}

// commits makes batches of the shard durable while the shard gathers the next ones. Several goroutines do, so that the disk
// always has one to write.
func (w *Writer) commits() {
	for b := range w.batches {
		err := w.cfg.Commit(b)
		w.Post(func(s *partition.Shard, now int64) { s.Committed(now, b, err) }) // a closed shard has lost its runs
		w.cfg.Activity.Done()
	}
}

// Set is the writers of all shards. Each partition has one of them, whether this host owns it or not.
type Set []*Writer

// Of returns the writer of a partition.
func (s Set) Of(p store.PartitionID) *Writer { return s[int(p)%len(s)] }

// Post has the goroutines of all shards call f. Those that are closed do not.
func (s Set) Post(f func(shard *partition.Shard, now int64)) {
	for _, w := range s {
		w.Post(f)
	}
}

// Do has the goroutines of all shards call f, one after the other, and waits for them. Those that are closed do not.
func (s Set) Do(f func(shard *partition.Shard, now int64)) {
	for _, w := range s {
		w.Do(f)
	}
}

// Kick has the inbox of a partition read. Where its writer is closed, it is read at the next start.
func (s Set) Kick(p store.PartitionID) {
	s.Of(p).Post(func(shard *partition.Shard, _ int64) { shard.Kicked(p) })
}

// NextWake returns the instant of the next wake, false if there is none.
func (s Set) NextWake() (unixMs int64, ok bool) {
	for _, w := range s {
		if at := w.nextWake.Load(); at != noWake && (!ok || at < unixMs) {
			unixMs, ok = at, true
		}
	}
	return unixMs, ok
}

// Close closes all writers.
func (s Set) Close() {
	for _, w := range s {
		w.Close()
	}
}
