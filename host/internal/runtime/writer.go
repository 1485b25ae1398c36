package runtime

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/partition"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// noWake is the next wake of a writer that has none.
const noWake = math.MaxInt64

// writer drives a shard: it is the goroutine that touches it, and the port by which the shard reaches the world.
type writer struct {
	rt       *Runtime
	shard    *partition.Shard
	alarm    *clock.Alarm
	batches  chan *partition.Batch // to the committer; there is one at a time
	nextWake atomic.Int64
	over     chan struct{} // closed when the goroutines have ended

	// mu guards the mailbox. Nothing is called while it is held.
	mu     sync.Mutex
	mail   []func(s *partition.Shard, now int64)
	wake   chan struct{}
	closed bool
}

func newWriter(rt *Runtime, limits partition.Limits) *writer {
	w := &writer{rt: rt, alarm: clock.NewAlarm(rt.cfg.Clock), batches: make(chan *partition.Batch, 1),
		over: make(chan struct{}), wake: make(chan struct{}, 1)}
	w.nextWake.Store(noWake)
	w.shard = partition.NewShard(w, limits, rt.handled)
	go w.commits()
	go w.loop()
	return w
}

// post has the shard's goroutine call f. ErrClosed if it does not any more.
func (w *writer) post(f func(s *partition.Shard, now int64)) error {
	w.rt.begin()
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		w.rt.done()
		return ErrClosed
	}
	w.mail = append(w.mail, f)
	w.mu.Unlock()
	notify(w.wake)
	return nil
}

// do has the shard's goroutine call f, and waits for it.
func (w *writer) do(f func(s *partition.Shard, now int64)) error {
	done := make(chan struct{})
	err := w.post(func(s *partition.Shard, now int64) {
		defer close(done)
		f(s, now)
	})
	if err == nil {
		<-done
	}
	return err
}

// close ends the goroutine, after what was posted.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	notify(w.wake)
	<-w.over
	w.alarm.Close()
}

// loop is the shard's goroutine.
func (w *writer) loop() {
	defer close(w.batches)
	var spare []func(s *partition.Shard, now int64)
	for {
		w.mu.Lock()
		mail, closed := w.mail, w.closed
		w.mail, spare = spare[:0], nil
		w.mu.Unlock()
		now := w.now()
		for i, f := range mail {
			f(w.shard, now)
			mail[i] = nil
		}
		w.shard.Tick(now)
		if b := w.shard.Batch(now); b != nil {
			w.rt.begin()
			w.batches <- b
		}
		w.setAlarm(now)
		for range mail {
			w.rt.done()
		}
		spare = mail
		if len(mail) > 0 {
			continue
		}
		if closed {
			return
		}
		select {
		case <-w.wake:
		case <-w.alarm.C():
		}
	}
}

func (w *writer) now() int64 { return w.rt.cfg.Clock.Now().UnixMilli() }

// setAlarm has the loop come again when the shard has something to do.
func (w *writer) setAlarm(now int64) {
	if at, ok := w.shard.Next(now); ok {
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

// commits makes the shard's batches durable, one after the other, while the shard gathers the next one.
func (w *writer) commits() {
	defer close(w.over)
	for b := range w.batches {
		began := budgetClock.Now()
		err := w.rt.cfg.Store.Commit(context.WithoutCancel(w.rt.ctx), b.Groups)
		w.rt.committed(b, budgetClock.Now().Sub(began), err)
		if err != nil && errors.Is(err, store.ErrFailed) {
			w.rt.fail(err)
		}
		_ = w.post(func(s *partition.Shard, now int64) { s.Committed(now, err) }) // a closed shard has lost its runs
		w.rt.done()
	}
}

// Load reads a run.
func (w *writer) Load(p *partition.Partition, key store.RunKey) {
	cfg := w.shard.Config()
	w.rt.background(func() {
		state, entries, err := w.rt.cfg.Store.Run(w.rt.ctx, key)
		var r *run.Run
		if err == nil {
			r, err = run.Load(state, entries, cfg)
		}
		var known *store.RunState
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			if st, err := w.rt.cfg.Store.State(w.rt.ctx, key); err == nil {
				known = &st
			}
		}
		_ = w.post(func(s *partition.Shard, now int64) { s.Loaded(now, p, key, r, known, err) })
	})
}

// Due reads wakes.
func (w *writer) Due(p *partition.Partition, after store.WakeKey, until int64, limit int) {
	w.rt.background(func() {
		wakes, more, first, err := readDue(w.rt.ctx, p.Owned, after, until, limit)
		_ = w.post(func(s *partition.Shard, now int64) { s.DueRead(now, p, wakes, more, first, err) })
	})
}

func readDue(ctx context.Context, p store.Partition, after store.WakeKey, until int64, limit int) (wakes []store.Wake,
	more bool, first int64, err error) {
	wakes, err = p.Due(ctx, after, until, limit+1)
	if err != nil {
		return nil, false, 0, err
	}
	if len(wakes) > limit {
		return wakes[:limit], true, wakes[limit].Key.UnixMs, nil
	}
	if n := len(wakes); n > 0 {
		after = wakes[n-1].Key
	}
	next, err := p.Due(ctx, after, math.MaxInt64-1, 1)
	if err != nil || len(next) == 0 {
		return wakes, false, math.MaxInt64, err
	}
	return wakes, false, next[0].Key.UnixMs, nil
}

// Inbox reads commands.
func (w *writer) Inbox(p *partition.Partition, after store.CommandSeq, limit int) {
	w.rt.background(func() {
		cmds, err := p.Owned.Commands(w.rt.ctx, after, limit)
		_ = w.post(func(s *partition.Shard, now int64) { s.InboxRead(now, p, cmds, err) })
	})
}

// Carry carries a command out.
func (w *writer) Carry(p *partition.Partition, cmd store.Command, m run.Message) {
	w.rt.background(func() {
		start, free, err := w.rt.carry(w.rt.ctx, p.Owned, cmd, m)
		if w.post(func(s *partition.Shard, now int64) { s.Carried(now, p, cmd.To, start, free, err) }) != nil && free != nil {
			free()
		}
	})
}

// Refuse answers a command that no run takes.
func (w *writer) Refuse(p *partition.Partition, cmd store.Command, answer *store.Command) {
	w.rt.background(func() {
		err := w.rt.answerAndDiscard(w.rt.ctx, p.Owned, cmd, answer)
		_ = w.post(func(s *partition.Shard, now int64) { s.Carried(now, p, cmd.To, nil, nil, err) })
	})
}

// acquireAgain is how long a host waits before it tries again to acquire a partition.
const acquireAgain = time.Second

// Acquire acquires a partition again, until it succeeds or the host stops.
func (w *writer) Acquire(p *partition.Partition) {
	if w.rt.usable() != nil {
		return
	}
	w.rt.background(func() {
		for w.rt.usable() == nil {
			err := w.rt.acquire(w.rt.ctx, p.ID)
			if err == nil {
				return
			}
			w.rt.cfg.Logger.Error("partition cannot be acquired, it is tried again", "partition", p.ID, "cause", err)
			t := budgetClock.NewTimer(acquireAgain)
			select {
			case <-t.C():
			case <-w.rt.ctx.Done():
			case <-w.rt.failing:
			}
			t.Stop()
		}
	})
}

// Activate makes a guest.
func (w *writer) Activate(l *run.Lease, c partition.Class) {
	class := guest.Woken
	if c == partition.ClassStart {
		class = guest.Starting
	}
	w.rt.begin()
	w.rt.guests.Activate(l, class, w, w.rt.done)
}

// Order tells a guest what to do.
func (w *writer) Order(l *run.Lease, o run.Order) { activation(l).Order(o) }

// Yield asks a guest to yield.
func (w *writer) Yield(l *run.Lease) { activation(l).Yield() }

// Halt ends a guest.
func (w *writer) Halt(l *run.Lease, cause error) { activation(l).Halt(cause) }

func activation(l *run.Lease) *guest.Activation {
	return l.Guest.(*guest.Activation) //nolint:forcetypeassert // Activate has set it
}

// Guest takes an event of a guest to the shard.
func (w *writer) Guest(l *run.Lease, ev run.Event) {
	_ = w.post(func(s *partition.Shard, now int64) { // one that is closed has halted the guest
		if e, ok := ev.(run.BodyEnds); ok {
			w.attemptEnded(e.Attempt, e.Outcome)
		}
		s.Guest(now, l, ev)
	})
}

// Inside takes an event of a run to the shard.
func (w *writer) Inside(key store.RunKey, ev run.Event) {
	_ = w.post(func(s *partition.Shard, now int64) { // one that is closed has lost the run
		if e, ok := ev.(run.AttemptEnds); ok {
			w.attemptEnded(e.Attempt, e.Outcome)
		}
		s.Inside(now, key, ev)
	})
}

// After calls f when time has passed.
func (w *writer) After(d time.Duration, f func(now int64)) {
	go func() {
		t := budgetClock.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C():
			_ = w.post(func(_ *partition.Shard, now int64) { f(now) }) // nobody waits for it
		case <-w.rt.ctx.Done():
		}
	}()
}

// Durable reports a commit.
func (w *writer) Durable(c *store.RunCommit) {
	w.rt.commits.Add(1)
	w.rt.changed(c.Run)
	if f := w.rt.cfg.Events.Committed; f != nil {
		f(c)
	}
}

// Kick has the inbox of a partition read.
func (w *writer) Kick(p store.PartitionID) {
	to := w.rt.writerOf(p)
	_ = to.post(func(s *partition.Shard, _ int64) { s.Kicked(p) }) // it is read at the next start
}
