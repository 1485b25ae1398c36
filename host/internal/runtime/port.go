package runtime

import (
	"errors"
	"time"

	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/shard"
	"github.com/wfhost/wfhost/store"
)

// port implements shard.Port.
type port struct {
	*desk     // guests and attempts
	*reporter // logs and events

	life       *life
	store      store.Store
	writers    shard.Writers
	partitions *Partitions
	courier    *courier
	writer     *shard.Writer // of the shard
	journals   *admission.Journals
	clocks     *virtualClocks
}

// Load reads a run. If the store remembers that the id is unused, Load needs no goroutine.
func (p *port) Load(of *shard.Partition, key store.RunKey) {
	if s, ok := p.store.(store.Remembering); ok && s.Absent(key) {
		p.writer.Next(func(s *shard.Shard, now int64) { s.Loaded(now, of, key, nil, nil, store.ErrNotFound) })
		return
	}
	p.life.reads.Go(uint32(key.Namespace), func(e *poolTask) {
		state, err := p.store.State(p.life.ctx, key)
		var entries []store.Entry
		if size := admission.JournalSize(state.JournalBytes, int(state.Length)); err == nil && p.journals.Counts(size) {
			e.WithoutPermit(func() {
				err = p.journals.Load(p.life.ctx, admission.JournalGroup{Namespace: key.Namespace, Workflow: state.Workflow}, key, size)
			})
		}
		if err == nil || errors.Is(err, store.ErrNotFound) {
			state, entries, err = p.store.Run(p.life.ctx, key)
		}
		var r *run.Run
		if err == nil {
			r, err = run.Load(state, entries, run.Config{Ask: p.Ask, Clock: p.clocks.Now}) // the shard calls SetActive
		}
		var known *store.RunState
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			if st, err := p.store.State(p.life.ctx, key); err == nil {
				known = &st
			}
		}
		p.writer.Post(func(s *shard.Shard, now int64) { s.Loaded(now, of, key, r, known, err) })
	})
}

// Forgot frees the run's part of the journal budget.
func (p *port) Forgot(key store.RunKey) { p.journals.Forget(key) }

// Due reads wakes.
func (p *port) Due(of *shard.Partition, after store.WakeKey, until int64, limit int) {
	p.life.background(func() {
		wakes, more, first, err := shard.FindWakes(p.life.ctx, of.Owned, after, until, limit)
		p.writer.Post(func(s *shard.Shard, now int64) { s.DueRead(now, of, wakes, more, first, err) })
	})
}

// Ahead seeks runs that began to wait while the clock showed a time after unixMs. It reads one state per wake, which takes some
// seconds for a million wakes. Unless the clock was set back just now, it searches one partition at a time, to leave the disk
// to a host that is starting.
func (p *port) Ahead(of *shard.Partition, unixMs int64, wasSet bool) {
	p.life.background(func() {
		if !wasSet {
			p.life.seeking.Lock()
			defer p.life.seeking.Unlock()
		}
		post := func(keys []store.RunKey, err error) {
			p.writer.Post(func(s *shard.Shard, now int64) { s.AheadRead(now, of, keys, err) })
		}
		err := shard.FindWakesAhead(p.life.ctx, of.Owned, p.store, unixMs, func(keys []store.RunKey) { post(keys, nil) })
		if err != nil && !errors.Is(err, store.ErrClosed) && p.life.ctx.Err() == nil {
			post(nil, err)
		}
	})
}

// Inbox reads commands.
func (p *port) Inbox(of *shard.Partition, after store.CommandSeq, limit int) {
	p.life.background(func() {
		cmds, err := of.Owned.Commands(p.life.ctx, after, limit)
		p.writer.Post(func(s *shard.Shard, now int64) { s.InboxRead(now, of, cmds, err) })
	})
}

// Carry executes a command. Starts of children use the pool life.starts.
func (p *port) Carry(of *shard.Partition, cmd store.Command, m run.Message) {
	carry := func(e *poolTask) {
		start, free, err := p.courier.carry(p.life.ctx, of.Owned, cmd, m)
		if free != nil {
			done, release := free, e.Keep(longestChildStart)
			free = func() { done(); release() }
		}
		if !p.writer.Post(func(s *shard.Shard, now int64) { s.Carried(now, of, cmd.To, start, free, err) }) && free != nil {
			free()
		}
	}
	if cmd.Kind == store.CommandChildStart {
		p.life.starts.Go(uint32(cmd.To.Namespace), carry)
	} else {
		p.life.background(func() { carry(nil) }) // may block, so it takes no permit of a pool
	}
}

// Refuse removes a command that no run takes from the inbox, and answers it.
func (p *port) Refuse(of *shard.Partition, cmd store.Command, answer *store.Command) {
	p.life.background(func() {
		err := p.courier.answerAndDiscard(p.life.ctx, of.Owned, cmd, answer)
		p.writer.Post(func(s *shard.Shard, now int64) { s.Carried(now, of, cmd.To, nil, nil, err) })
	})
}

// Ring processes a schedule or queue.
func (p *port) Ring(k shard.TimerKey) {
	p.life.activity.Begin()
	p.courier.keepers.Due(k, p.life.activity.Done)
}

// Acquire acquires a partition again, until it succeeds or the host stops.
func (p *port) Acquire(lost *shard.Partition) {
	if p.life.usable() != nil {
		return
	}
	p.life.background(func() { p.partitions.regain(lost.ID) })
}

// After calls f on the shard's goroutine after d of real time.
func (p *port) After(d time.Duration, f func(now int64)) (stop func()) {
	return clock.AfterFunc(clock.System(), d, func() {
		p.writer.Post(func(_ *shard.Shard, now int64) { f(now) }) // a closed writer drops it
	})
}

// Kick reads the inbox of a partition, or tells its owner.
func (p *port) Kick(to store.PartitionID) { p.partitions.Kick(to) }
