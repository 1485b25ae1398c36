package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/shard"
	"github.com/wfhost/wfhost/store"
)

// Partitions holds the partitions that this host owns.
type Partitions struct {
	life    *life
	store   store.Store
	writers shard.Writers
	logger  *slog.Logger
	owner   string                        // name of this host, for people; Config.Lease
	lease   time.Duration                 // Config.Lease
	notify  func(store.PartitionID)       // Config.Notify; nil = none
	count   atomic.Int32                  // number of owned partitions
	owned   [store.Partitions]atomic.Bool // as of the last Acquired or Lost

	// acquiring is held while a partition is acquired or released, so that the shard ends up with the newest epoch. It must not
	// be locked while another lock is held.
	acquiring [store.Partitions]sync.Mutex
	released  [store.Partitions]bool // Release was called after the last Acquire; guarded by acquiring
}

// Acquire makes this host the owner of partitions, taking them from their previous owners. It acquires them concurrently, so
// that their new epochs share fsyncs. After an error the host may own some of them.
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

// acquire acquires a partition. If again is true, it does nothing if the partition was released meanwhile.
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
	owned, err := ps.store.Acquire(ctx, id, ps.owner, ps.lease)
	if err != nil {
		return fmt.Errorf("acquire partition %d: %w", id, err)
	}
	if !ps.writers.Of(id).Do(func(s *shard.Shard, _ int64) {
		if p := s.Partition(id); p != nil {
			s.Lose(p, store.ErrFenced) // fenced by our own new epoch
		}
		ps.owned[id].Store(true)
		s.Acquired(id, owned)
	}) {
		return guest.ErrClosed
	}
	return nil
}

// acquireAgain is the delay before regain retries.
const acquireAgain = time.Second

// regain acquires a lost partition again. It retries until it succeeds, another member owns the partition, or the host stops.
func (ps *Partitions) regain(id store.PartitionID) {
	for ps.life.usable() == nil {
		err := ps.acquire(ps.life.ctx, id, true)
		if err == nil || errors.Is(err, store.ErrOwned) {
			return
		}
		ps.logger.Error("partition cannot be acquired, it is tried again", "partition", id, "cause", err)
		t := clock.System().NewTimer(acquireAgain)
		select {
		case <-t.C():
		case <-ps.life.ctx.Done():
		case <-ps.life.failing:
		}
		t.Stop()
	}
}

// Release gives partitions up and drops their changes that are not durable. The callers waiting for them get ErrReleased.
func (ps *Partitions) Release(ctx context.Context, ids ...store.PartitionID) error {
	return ps.release(ctx, ErrReleased, ids...)
}

// Give is Release for partitions that another host takes at once. The callers get ErrGivenUp, so they do not take what is being
// committed for undone.
func (ps *Partitions) Give(ctx context.Context, ids ...store.PartitionID) error {
	return ps.release(ctx, ErrGivenUp, ids...)
}

func (ps *Partitions) release(ctx context.Context, cause error, ids ...store.PartitionID) error {
	var errs []error
	for _, id := range ids {
		ps.acquiring[id].Lock()
		ps.released[id] = true
		var owned store.Partition
		var err error
		if !ps.writers.Of(id).Do(func(s *shard.Shard, _ int64) {
			if p := s.Partition(id); p != nil {
				owned = p.Owned
				s.Lose(p, cause)
			}
		}) {
			err = guest.ErrClosed
		}
		if owned != nil {
			err = owned.Release(ctx)
		}
		ps.acquiring[id].Unlock()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ErrGivenUp: the host has dropped the partition, or another one owns it. What was being committed may be durable.
var ErrGivenUp = errors.New("this host has given the partition up")

// Resting reports whether releasing a partition would disturb no run; see shard.Partition.
func (ps *Partitions) Resting(id store.PartitionID) bool {
	resting := true
	ps.writers.Of(id).Do(func(s *shard.Shard, _ int64) { // not called if the writer is closed
		if p := s.Partition(id); p != nil {
			resting = p.Resting()
		}
	})
	return resting
}

// ErrReleased: the partition was released before the caller's event was durable.
var ErrReleased = errors.New("this host has released the partition")

// Arm sets the timer of a schedule or queue: see shard.Partition.Arm. With store.ErrFenced the host loses the partition.
func (ps *Partitions) Arm(k shard.TimerKey, wakeMs int64, err error) {
	id := k.Run.Partition()
	ps.writers.Of(id).Post(func(s *shard.Shard, now int64) {
		if p := s.Partition(id); p != nil && errors.Is(err, store.ErrFenced) {
			s.Lose(p, err)
		} else if p != nil {
			p.Arm(now, k, wakeMs, err)
		}
	})
}

// Get returns the store's handle of a partition, nil if this host does not own the partition.
func (ps *Partitions) Get(id store.PartitionID) (owned store.Partition) {
	ps.writers.Of(id).Do(func(s *shard.Shard, _ int64) { // not called if the writer is closed
		if p := s.Partition(id); p != nil {
			owned = p.Owned
		}
	})
	return owned
}

// Kick reads the inbox of a partition, which may have new commands, or tells the host that owns it.
func (ps *Partitions) Kick(id store.PartitionID) {
	if ps.notify != nil && !ps.owned[id].Load() {
		ps.notify(id)
		return
	}
	ps.writers.Kick(id)
}

// Drop loses partitions without a call to the store, whose ownership has passed to another host or may do so.
func (ps *Partitions) Drop(cause error, ids ...store.PartitionID) {
	for _, id := range ids {
		ps.acquiring[id].Lock()
		ps.released[id] = true
		ps.writers.Of(id).Do(func(s *shard.Shard, _ int64) { // not called if the writer is closed
			if p := s.Partition(id); p != nil {
				s.Lose(p, cause)
			}
		})
		ps.acquiring[id].Unlock()
	}
}

// CheckOwned returns partition.ErrNotOwned if this host does not own the partition of a run.
func (ps *Partitions) CheckOwned(key store.RunKey) error {
	if err := ps.life.usable(); err != nil {
		return err
	}
	if ps.Get(key.Partition()) == nil {
		return fmt.Errorf("run %q: %w", key.ID, shard.ErrNotOwned)
	}
	return nil
}

// inboxEvery is the interval at which a host that shares its store reads its inboxes.
const inboxEvery = time.Second

// watchInboxes polls the inboxes while other hosts own partitions, because this host is not notified when another host commits
// a command to one of its inboxes. When this host has come to own all partitions, it polls once more: the commands of the other
// hosts were durable before their last partition was acquired. It returns when the runtime is closed.
func (ps *Partitions) watchInboxes() {
	for shared := true; ; {
		t := clock.System().NewTimer(inboxEvery)
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
	ps.writers.Do(func(s *shard.Shard, _ int64) { // not called for closed writers
		for _, p := range s.Partitions() {
			ids = append(ids, p.ID)
		}
	})
	return ids
}
