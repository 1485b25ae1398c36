package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/host/internal/partition"
	"github.com/wfhost/wfhost/host/internal/wake"
	"github.com/wfhost/wfhost/host/internal/writer"
	"github.com/wfhost/wfhost/store"
)

// Partitions are those that this host owns.
type Partitions struct {
	life    *life
	store   store.Store
	writers writer.Set
	logger  *slog.Logger
	owner   string       // name of this host, for people
	count   atomic.Int32 // how many it owns

	// acquiring is held while a partition is acquired or released, so that the newest epoch is that of the partition that
	// stays. Nobody who holds another lock waits for one of these.
	acquiring [store.Partitions]sync.Mutex
	released  [store.Partitions]bool // since it was acquired; guarded by acquiring
}

// Acquire makes this host the owner of partitions, whoever owned them before. It acquires them all at a time, since their
// new epochs share fsyncs. With an error some of them may be this host's, and the others are not.
func (ps *Partitions) Acquire(ctx context.Context, ids ...store.PartitionID) error {
	for _, id := range ids {
		if id >= store.Partitions {
			return fmt.Errorf("partition %d: %w: there are %d", id, store.ErrNotFound, store.Partitions)
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, len(ids))
	for i, id := range ids {
		wg.Go(func() { errs[i] = ps.acquire(ctx, id, false) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// acquire acquires a partition; again, unless it was released meanwhile.
func (ps *Partitions) acquire(ctx context.Context, id store.PartitionID, again bool) error {
	ps.acquiring[id].Lock()
	defer ps.acquiring[id].Unlock()
	if again && ps.released[id] {
		return nil
	}
	ps.released[id] = false
	if p := ps.Get(id); p != nil && p.Renew(ctx) == nil {
		return nil
	}
	owned, err := ps.store.Acquire(ctx, id, ps.owner, 0)
	if err != nil {
		return fmt.Errorf("acquire partition %d: %w", id, err)
	}
	if !ps.writers.Of(id).Do(func(s *partition.Shard, _ int64) {
		if p := s.Partition(id); p != nil {
			s.Lose(p, store.ErrFenced) // by ourselves
		}
		s.Acquired(id, owned)
	}) {
		return ErrClosed
	}
	return nil
}

// acquireAgain is how long a host waits before it tries again to acquire a partition.
const acquireAgain = time.Second

// regain acquires a partition that was lost, until it succeeds or the host stops.
func (ps *Partitions) regain(id store.PartitionID) {
	for ps.life.usable() == nil {
		err := ps.acquire(ps.life.ctx, id, true)
		if err == nil {
			return
		}
		ps.logger.Error("partition cannot be acquired, it is tried again", "partition", id, "cause", err)
		t := budgetClock.NewTimer(acquireAgain)
		select {
		case <-t.C():
		case <-ps.life.ctx.Done():
		case <-ps.life.failing:
		}
		t.Stop()
	}
}

// Release gives partitions up. What is not durable of them is dropped; who waits for it is told.
func (ps *Partitions) Release(ctx context.Context, ids ...store.PartitionID) error {
	var errs []error
	for _, id := range ids {
		ps.acquiring[id].Lock()
		ps.released[id] = true
		var owned store.Partition
		var err error
		if !ps.writers.Of(id).Do(func(s *partition.Shard, _ int64) {
			if p := s.Partition(id); p != nil {
				owned = p.Owned
				s.Lose(p, ErrReleased)
			}
		}) {
			err = ErrClosed
		}
		if owned != nil {
			err = owned.Release(ctx)
		}
		ps.acquiring[id].Unlock()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ErrReleased is what callers are told whose event was not durable when its partition was released.
var ErrReleased = errors.New("this host has released the partition")

// Arm has a schedule or a queue looked at when it is due: see partition.Partition.Arm. With store.ErrFenced its partition is
// lost.
func (ps *Partitions) Arm(k wake.Key, wakeMs int64, err error) {
	id := k.Run.Partition()
	ps.writers.Of(id).Post(func(s *partition.Shard, now int64) {
		if p := s.Partition(id); p != nil && errors.Is(err, store.ErrFenced) {
			s.Lose(p, err)
		} else if p != nil {
			p.Arm(now, k, wakeMs, err)
		}
	})
}

// Get returns a partition as the store has given it, nil if this host does not own it.
func (ps *Partitions) Get(id store.PartitionID) (owned store.Partition) {
	ps.writers.Of(id).Do(func(s *partition.Shard, _ int64) { // a closed one owns none
		if p := s.Partition(id); p != nil {
			owned = p.Owned
		}
	})
	return owned
}

// Kick has the inbox of a partition read in which there may be a command.
func (ps *Partitions) Kick(id store.PartitionID) { ps.writers.Kick(id) }

// CheckOwned returns partition.ErrNotOwned if this host does not own the partition of a run.
func (ps *Partitions) CheckOwned(key store.RunKey) error {
	if err := ps.life.usable(); err != nil {
		return err
	}
	if ps.Get(key.Partition()) == nil {
		return fmt.Errorf("run %q: %w", key.ID, partition.ErrNotOwned)
	}
	return nil
}

// inboxEvery is how often a host that shares its store looks into its inboxes.
const inboxEvery = time.Second

// watchInboxes has the inboxes read every now and then while other hosts own partitions: a command that another host sends is
// durable in the inbox of its receiver, and nobody says so here. When this host has come to own all partitions, they are read
// once more: what another host sent was durable before its last partition was acquired. It ends when the runtime is closed.
func (ps *Partitions) watchInboxes() {
	for shared := true; ; {
		t := budgetClock.NewTimer(inboxEvery)
		select {
		case <-t.C():
		case <-ps.life.ctx.Done():
			t.Stop()
			return
		}
		before := shared
		shared = ps.count.Load() < store.Partitions
		if !shared && !before {
			continue
		}
		for _, id := range ps.Owned() {
			ps.writers.Kick(id)
		}
	}
}

// Owned returns the partitions that this host owns, ascending within each writer.
func (ps *Partitions) Owned() (ids []store.PartitionID) {
	ps.writers.Do(func(s *partition.Shard, _ int64) { // a closed one owns none
		for _, p := range s.Partitions() {
			ids = append(ids, p.ID)
		}
	})
	return ids
}
