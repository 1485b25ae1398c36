package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/partition"
	"github.com/wfhost/wfhost/store"
)

// Acquire makes this host the owner of partitions, whoever owned them before. It acquires them all at a time, since their
// new epochs share fsyncs, and returns when each of them is this host's, or with an error after which none of those that
// were given and not acquired is.
func (rt *Runtime) Acquire(ctx context.Context, ids ...store.PartitionID) error {
	var wg sync.WaitGroup
	errs := make([]error, len(ids))
	for i, id := range ids {
		if id >= store.Partitions {
			return fmt.Errorf("partition %d: %w: there are %d", id, store.ErrNotFound, store.Partitions)
		}
		wg.Go(func() { errs[i] = rt.acquire(ctx, id) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (rt *Runtime) acquire(ctx context.Context, id store.PartitionID) error {
	rt.acquiring[id].Lock() // so that the newest epoch is that of the partition that stays
	defer rt.acquiring[id].Unlock()
	if p := rt.owned(id); p != nil && p.Renew(ctx) == nil {
		return nil
	}
	owned, err := rt.cfg.Store.Acquire(ctx, id, rt.cfg.Owner, 0)
	if err != nil {
		return fmt.Errorf("acquire partition %d: %w", id, err)
	}
	return rt.writerOf(id).do(func(s *partition.Shard, _ int64) {
		if p := s.Partition(id); p != nil {
			s.Lose(p, store.ErrFenced) // by ourselves
		}
		s.Acquired(id, owned)
	})
}

// Release gives partitions up. What is not durable of them is dropped; who waits for it is told.
func (rt *Runtime) Release(ctx context.Context, ids ...store.PartitionID) error {
	var errs []error
	for _, id := range ids {
		rt.acquiring[id].Lock()
		var owned store.Partition
		err := rt.writerOf(id).do(func(s *partition.Shard, _ int64) {
			if p := s.Partition(id); p != nil {
				owned = p.Owned
				s.Lose(p, ErrReleased)
			}
		})
		if err == nil && owned != nil {
			err = owned.Release(ctx)
		}
		rt.acquiring[id].Unlock()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ErrReleased is what callers are told whose event was not durable when its partition was released.
var ErrReleased = errors.New("this host has released the partition")

// owned returns a partition as the store has given it, nil if this host does not own it.
func (rt *Runtime) owned(id store.PartitionID) (owned store.Partition) {
	_ = rt.writerOf(id).do(func(s *partition.Shard, _ int64) { // a closed one owns none
		if p := s.Partition(id); p != nil {
			owned = p.Owned
		}
	})
	return owned
}

// CheckOwned returns partition.ErrNotOwned if this host does not own the partition of a run.
func (rt *Runtime) CheckOwned(key store.RunKey) error {
	if err := rt.usable(); err != nil {
		return err
	}
	if rt.owned(key.Partition()) == nil {
		return fmt.Errorf("run %q: %w", key.ID, partition.ErrNotOwned)
	}
	return nil
}

// inboxEvery is how often a host that shares its store looks into its inboxes.
const inboxEvery = time.Second

// watchInboxes has the inboxes read every now and then while other hosts own partitions: a command that another host sends
// is durable in the inbox of its receiver, and nobody says so here. When this host has come to own all partitions, they are
// read once more: what another host sent was durable before its last partition was acquired. It ends when the runtime is
// closed.
func (rt *Runtime) watchInboxes() {
	for shared := true; ; {
		t := budgetClock.NewTimer(inboxEvery)
		select {
		case <-t.C():
		case <-rt.ctx.Done():
			t.Stop()
			return
		}
		before := shared
		if shared = rt.count.Load() < store.Partitions; !shared && !before {
			continue
		}
		for _, id := range rt.Owned() {
			rt.kick(id)
		}
	}
}

// Owned returns the partitions that this host owns, ascending within each writer.
func (rt *Runtime) Owned() (ids []store.PartitionID) {
	for _, w := range rt.writers {
		_ = w.do(func(s *partition.Shard, _ int64) { // a closed one owns none
			for _, p := range s.Partitions() {
				ids = append(ids, p.ID)
			}
		})
	}
	return ids
}
