package pebblestore

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/wfhost/wfhost/store"
)

// fence holds the newest owner of a partition. See lock.go for the locks.
type fence struct {
	acquire sync.Mutex
	mu      sync.RWMutex
	owner   *partition // nil before the first Acquire
}

type partition struct {
	s     *Store
	id    store.PartitionID
	epoch store.Epoch
	// flight counts commits until the cache has their durable records. It is increased only while the fence is held, so
	// that it only decreases once there is another owner.
	flight sync.WaitGroup
}

// ID returns the partition's number.
func (p *partition) ID() store.PartitionID { return p.id }

// Epoch returns the number of this ownership.
func (p *partition) Epoch() store.Epoch { return p.epoch }

// lockOwner locks the fence for reading, or returns ErrFenced if the partition has another owner.
func (p *partition) lockOwner() error {
	f := &p.s.parts[p.id]
	f.mu.RLock()
	if f.owner != p {
		f.mu.RUnlock()
		return fmt.Errorf("partition %d: %w", p.id, store.ErrFenced)
	}
	return nil
}

// unlockOwner unlocks the fence after lockOwner.
func (p *partition) unlockOwner() { p.s.parts[p.id].mu.RUnlock() }

// Acquire writes the next epoch of a partition. The earlier owner is fenced once the epoch is applied: its commits that
// are not applied by then are refused, and the applied ones are before the epoch in the log. Acquire waits until these
// are durable, so that the new owner reads their records.
func (s *Store) Acquire(_ context.Context, p store.PartitionID, _ string, _ time.Duration) (store.Partition, error) {
	end, err := s.beginWrite()
	if err != nil {
		return nil, err
	}
	defer end()
	f := &s.parts[p]
	f.acquire.Lock()
	defer f.acquire.Unlock()
	b := s.db.NewBatch()
	defer s.drop(b)
	f.mu.Lock()
	key := epochKey(p)
	v, err := s.get(key)
	if err != nil {
		f.mu.Unlock()
		return nil, err
	}
	epoch := store.Epoch(1)
	if len(v) == 8 {
		epoch += store.Epoch(binary.BigEndian.Uint64(v))
	}
	_ = b.Set(key, binary.BigEndian.AppendUint64(nil, uint64(epoch)), nil)
	_ = b.Set(epochCopyKey(p), binary.BigEndian.AppendUint64(nil, uint64(epoch)), nil) // see readUses
	before, now := f.owner, &partition{s: s, id: p, epoch: epoch}
	f.owner = now
	if err := s.sync(b, f.mu.Unlock); err != nil {
		return nil, err
	}
	if before != nil {
		before.flight.Wait()
	}
	if err := s.marks[p].read(s, p); err != nil {
		return nil, err
	}
	return now, nil
}

// Renew returns ErrFenced if the ownership is lost. On one machine it does not expire.
func (p *partition) Renew(context.Context) error {
	err := p.lockOwner()
	if err == nil {
		p.unlockOwner()
	}
	return err
}

// Release does nothing: the next Acquire takes a new epoch in any case.
func (p *partition) Release(context.Context) error { return nil }
