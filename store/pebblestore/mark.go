package pebblestore

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// wakeMark is a lower bound of a partition's wake index: every key of the index is above it. A scan from the mark skips
// the tombstones of deleted wakes.
//
// The mark is raised without an fsync of its own: its record is in the log after the commits that made it true, and if
// a crash loses it, the mark before is still true. A commit that sets a key at or below the mark (its deadline is long
// over, or the clock was set back) lowers the mark in the same batch.
type wakeMark struct {
	mu    sync.RWMutex // held by a commit until its batch is applied: for reading, if its keys are above the mark
	at    int64
	tried int64 // the instant of the last attempt to raise it
}

const (
	// noMark is below every key.
	noMark = -1
	// markLag is how far the mark stays behind the instant up to which wakes were asked for. That instant is ahead of
	// the caller's clock; with the lag, a run that goes to sleep has its wake above the mark.
	markLag = nearMs
	// markEvery is how far that instant must advance before the mark is raised again.
	markEvery = 10_000
)

// markKey returns the key of the mark of a partition.
func markKey(p store.PartitionID) []byte {
	return append(store.AppendPrefix(nil, 0, p, store.TableEpoch), 'w')
}

// markValue is the first instant above the mark, u64be.
func markValue(at int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(at+1)) }

// read loads the stored mark, when the partition is acquired.
func (m *wakeMark) read(s *Store, p store.PartitionID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, err := s.get(markKey(p))
	if err != nil {
		return err
	}
	if v != nil && len(v) != 8 {
		return fmt.Errorf("%w: wake mark of partition %d", store.ErrCorrupt, p)
	}
	m.at = noMark
	if v != nil {
		m.at = int64(binary.BigEndian.Uint64(v)) - 1
	}
	m.tried = m.at
	return nil
}

// lowered is a mark that a commit has locked until its batch is applied.
type lowered struct {
	m  *wakeMark
	to int64 // the mark afterwards, if it is locked for writing
	w  bool
}

// lock keeps the mark below first, the earliest key of a batch, until unlock. If necessary it lowers the mark in the
// batch.
func (m *wakeMark) lock(b *pebble.Batch, p store.PartitionID, first int64) lowered {
	m.mu.RLock()
	if first > m.at {
		return lowered{m: m}
	}
	m.mu.RUnlock()
	m.mu.Lock()
	l := lowered{m, min(m.at, first-1), true}
	_ = b.Set(markKey(p), markValue(l.to), nil)
	return l
}

// unlock is called when the batch is applied, or will not be: a mark that is lower than necessary is still true.
func (l lowered) unlock() {
	if !l.w {
		l.m.mu.RUnlock()
		return
	}
	l.m.at, l.m.tried = l.to, l.to
	l.m.mu.Unlock()
}

// raise moves the mark of a partition up to just before its first key, unless after has advanced too little since the
// last attempt. Commits of the partition wait meanwhile, for as long as it takes to walk over the wakes that came due
// since the last time.
func (s *Store) raise(p store.PartitionID, after int64) error {
	m := &s.marks[p]
	m.mu.Lock()
	defer m.mu.Unlock()
	if after-m.tried < markEvery+markLag {
		return nil
	}
	to := after - markLag
	m.tried = to
	prefix := store.AppendPrefix(nil, 0, p, store.TableWake)
	upper := append(slices.Clip(prefix), markValue(to)...)
	err := s.scan(m.lower(prefix), upper, func(k, _ []byte) (bool, error) {
		key, err := store.ParseWakeIndexKey(k)
		to = key.UnixMs - 1
		return false, err
	})
	if err != nil || to <= m.at {
		return err
	}
	b := s.db.NewBatch()
	defer s.drop(b)
	_ = b.Set(markKey(p), markValue(to), nil)
	if err := s.apply(b); err != nil {
		return err
	}
	m.at = to
	return nil
}

// lower returns the smallest key that the wake index may have, given the prefix of its keys. The mark is locked.
func (m *wakeMark) lower(prefix []byte) []byte {
	return append(slices.Clip(prefix), markValue(m.at)...)
}
