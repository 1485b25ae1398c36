package shard

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
)

// WriterConfig configures a Writer.
type WriterConfig struct {
	Clock    clock.Clock
	Activity *Activity
	// Commits is the maximum number of concurrent group commits.
	Commits int
	// Commit makes a batch durable.
	Commit func(b *Batch) error
}

// Writer runs the only goroutine that touches its shard. It has a mailbox, an alarm for the shard's next deadline, and goroutines
// that commit the shard's batches.
type Writer struct {
	cfg      WriterConfig
	shard    *Shard
	alarm    *clock.Alarm
	batches  chan *Batch // to the committers
	nextWake atomic.Int64
	over     chan struct{}               // closed when the goroutines have ended
	wake     chan struct{}               // receives when there is mail
	next     []func(s *Shard, now int64) // used only by the shard's goroutine
	yieldAt  time.Time                   // no yield before; used only by the shard's goroutine

	mu     sync.Mutex // guards the mailbox; no callback runs and no other lock is taken while it is held
	mail   []func(s *Shard, now int64)
	closed bool
}

const (
	// longYield is the duration from which a yield is not worth its time: an fsync takes a tenth of that.
	longYield = time.Millisecond
	// yieldAfter is the pause after a long yield, in multiples of its duration. It limits long yields to a twentieth
	// of the time.
	yieldAfter = 20
	// longestYield is the longest yield that busy guests can cause. Longer ones come from a stalled machine, and
	// count as this long.
	longestYield = time.Second
)

// noWake is the next wake of a writer that has none.
const noWake = math.MaxInt64

// NewWriter returns a Writer that accepts mail. Start starts it.
func NewWriter(cfg WriterConfig) *Writer {
	w := &Writer{cfg: cfg, alarm: clock.NewAlarm(cfg.Clock), batches: make(chan *Batch, cfg.Commits),
		over: make(chan struct{}), wake: make(chan struct{}, 1)}
	w.nextWake.Store(noWake)
	return w
}

// Start gives the writer its shard and starts its goroutines. The caller must close the writer.
func (w *Writer) Start(s *Shard) {
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

// Post queues f for the shard's goroutine. It returns false, without a call of f, if the writer is closed.
func (w *Writer) Post(f func(s *Shard, now int64)) bool {
	w.cfg.Activity.Begin()
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		w.cfg.Activity.Done()
		return false
	}
	w.mail = append(w.mail, f)
	w.mu.Unlock()
	w.wakeLoop()
	return true
}

// Next makes the shard's goroutine call f after its current work and before any posted function. Only that goroutine
// may call Next.
func (w *Writer) Next(f func(s *Shard, now int64)) { w.next = append(w.next, f) }

// follow calls the functions given to Next.
func (w *Writer) follow(now int64) {
	for i := 0; i < len(w.next); i++ {
		w.next[i](w.shard, now)
		w.next[i] = nil
	}
	w.next = w.next[:0]
}

// Do posts f and waits until it has returned. It returns false, without a call of f, if the writer is closed.
func (w *Writer) Do(f func(s *Shard, now int64)) bool {
	done := make(chan struct{})
	ok := w.Post(func(s *Shard, now int64) {
		defer close(done)
		f(s, now)
	})
	if ok {
		<-done
	}
	return ok
}

// Close handles all posted functions, then ends the writer's goroutines and waits for them.
func (w *Writer) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.wakeLoop()
	<-w.over
	w.alarm.Close()
}

// wakeLoop wakes the loop, which then reads the mailbox.
func (w *Writer) wakeLoop() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// loop is the shard's goroutine.
func (w *Writer) loop() {
	defer close(w.batches)
	var spare []func(s *Shard, now int64)
	for {
		w.yield()
		w.cfg.Activity.Begin() // count the work of a timer before it begins
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

// yield lets goroutines run that are about to post mail, so that one batch replaces several. If guests compute on all
// processors, a yield takes until each of them has computed for a time slice, and all other work waits for the writer
// meanwhile. So after a long yield, the writer skips yields for a multiple of its duration.
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

// gather hands batches to the committers until the shard has nothing to commit, or enough commits are in flight.
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

// hasMail reports whether the loop has mail to handle, or must end.
func (w *Writer) hasMail() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.mail) > 0 || w.closed
}

// setAlarm sets the alarm to the shard's next deadline, and publishes its next wake.
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

// commits makes batches durable while the shard gathers the next ones. Several goroutines run it, so that the disk
// always has a batch to write.
func (w *Writer) commits() {
	for b := range w.batches {
		err := w.cfg.Commit(b)
		w.Post(func(s *Shard, now int64) { s.Committed(now, b, err) }) // a closed shard has dropped its runs
		w.cfg.Activity.Done()
	}
}

// Writers holds the writers of all shards. Each partition has exactly one of them, whether or not this host owns the
// partition.
type Writers []*Writer

// Of returns the writer of a partition.
func (s Writers) Of(p store.PartitionID) *Writer { return s[int(p)%len(s)] }

// Post posts f to all writers. Closed writers do not call it.
func (s Writers) Post(f func(shard *Shard, now int64)) {
	for _, w := range s {
		w.Post(f)
	}
}

// Do calls f in the goroutine of each writer, one after the other, and waits for each. Closed writers do not call it.
func (s Writers) Do(f func(shard *Shard, now int64)) {
	for _, w := range s {
		w.Do(f)
	}
}

// Kick makes the shard read the inbox of a partition. If the writer is closed, the inbox is read at the next start.
func (s Writers) Kick(p store.PartitionID) {
	s.Of(p).Post(func(shard *Shard, _ int64) { shard.Kicked(p) })
}

// NextWake returns the instant of the next wake of all shards, in Unix milliseconds, or false if there is none.
func (s Writers) NextWake() (unixMs int64, ok bool) {
	for _, w := range s {
		if at := w.nextWake.Load(); at != noWake && (!ok || at < unixMs) {
			unixMs, ok = at, true
		}
	}
	return unixMs, ok
}

// Close closes all writers.
func (s Writers) Close() {
	for _, w := range s {
		w.Close()
	}
}
