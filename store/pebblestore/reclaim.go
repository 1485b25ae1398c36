package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore/logfs"
)

var _ store.Reclaiming = (*Store)(nil)

// flushRoom is how much space must be free for Reclaim to proceed: a memtable becomes a table, and the log continues in
// another file.
const flushRoom = memTableBytes + memTableBytes/4

// leastGarbage is how many bytes the deletions in a table must hide for Reclaim to compact it.
const leastGarbage = 1 << 20

// statsPatience is the interval at which Reclaim polls, at most statsAttempts times, whether Pebble has counted what
// the deletions in new tables hide.
const (
	statsPatience = 10 * time.Millisecond
	statsAttempts = 500
)

// Reclaim implements store.Reclaiming. A deletion hides a record, and frees its space when both are compacted; in the
// memtable, it frees nothing. Normally the memtable is flushed when it is full, and later writes trigger compactions.
// On a full disk there are no writes, so Reclaim flushes and compacts. Of several calls, one does so at a time.
func (s *Store) Reclaim(ctx context.Context) error {
	end, err := s.beginWrite()
	if err != nil {
		return err
	}
	defer end()
	if err := s.reclaim.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.reclaim.Release(1)
	s.reclaiming.Store(true)
	defer s.reclaiming.Store(false)
	if n := s.deletions.Swap(0); n > 0 || !s.reclaimed.Load() {
		s.reclaimed.Store(false)
		if err := s.flushDeletions(ctx, n); err != nil {
			s.deletions.Add(n)
			return err
		}
	}
	if s.reclaimed.Load() {
		return nil
	}
	if err := s.compactDeletions(ctx); err != nil {
		return err
	}
	s.reclaimed.Store(true) // nothing to reclaim until more is deleted
	return nil
}

// flushDeletions flushes the memtable and waits for it. If the store fails meanwhile, it returns that failure.
func (s *Store) flushDeletions(ctx context.Context, deleted int64) error {
	if err := s.roomToReclaim(0); err != nil || deleted == 0 {
		return err
	}
	type flushing struct {
		done <-chan struct{}
		err  error
	}
	end, err := s.beginWrite() // keeps the store open until the end
	if err != nil {
		return err
	}
	begun := make(chan flushing, 1)
	go func() { // parked if the log cannot be continued
		defer end()
		done, err := s.db.AsyncFlush()
		begun <- flushing{done, err}
	}()
	var done <-chan struct{}
	for {
		select {
		case f := <-begun:
			if f.err != nil {
				return f.err
			}
			done = f.done
		case <-done:
			return nil
		case <-s.failed:
			return s.failure()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// roomToReclaim returns an error if there is not enough space for what Reclaim writes before it frees anything: the
// given bytes of tables, plus flushRoom.
func (s *Store) roomToReclaim(bytes uint64) error {
	usage, err := s.usage()
	if need := bytes + flushRoom; err == nil && usage.AvailBytes < need {
		return fmt.Errorf("to give back the room of what was deleted, %d bytes must be free, and %d are", need, usage.AvailBytes)
	}
	return nil
}

// compactDeletions compacts tables with deletions into the levels below them, until no table hides much. The tables
// that free most come first. Each compaction is requested for one key: Pebble takes the whole table with the tables
// that it overlaps in the next level, and in each level below only the tables that have the key. So a compaction writes
// no more than some tables before it frees its inputs.
func (s *Store) compactDeletions(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // if the store has failed, a compaction may never end
	tried := map[string]bool{}
	for {
		worst, err := s.mostDeletions(ctx, tried)
		if err != nil || worst == nil {
			return err
		}
		tried[worst.FileNum.String()] = true
		if err := s.roomToReclaim(worst.Size); err != nil {
			return err
		}
		key := worst.Smallest.UserKey
		end, err := s.beginWrite() // keeps the store open until the compaction has ended
		if err != nil {
			return err
		}
		done := make(chan error, 1)
		go func() {
			defer end()
			done <- s.db.Compact(ctx, key, append(bytes.Clone(key), 0), false)
		}()
		select {
		case err := <-done:
			if err != nil {
				return err
			}
		case <-s.failed:
			return s.failure()
		}
	}
}

// compactionsAtATime returns the limits on concurrent compactions: one, and a second one if there is a backlog. While
// Reclaim runs, only one may run: each needs space on a disk that has little.
func (s *Store) compactionsAtATime() (lower, upper int) {
	if s.reclaiming.Load() {
		return 1, 1
	}
	return 1, 2
}

// mostDeletions returns the table whose deletions hide most, nil if no table hides leastGarbage.
func (s *Store) mostDeletions(ctx context.Context, tried map[string]bool) (worst *pebble.SSTableInfo, err error) {
	for range statsAttempts {
		levels, err := s.db.SSTables()
		if err != nil {
			return nil, err
		}
		worst, counted := mostHidden(levels, tried)
		if counted {
			return worst, nil
		}
		later := make(chan struct{})
		stop := logfs.AfterFunc(statsPatience, func() { close(later) })
		select {
		case <-later:
		case <-s.failed:
			return nil, s.failure()
		case <-ctx.Done():
			stop()
			return nil, ctx.Err()
		}
	}
	return nil, errors.New("what deletions hide was not counted in time")
}

// mostHidden returns the table whose deletions hide most, and whether Pebble has counted that for all tables.
func mostHidden(levels [][]pebble.SSTableInfo, tried map[string]bool) (worst *pebble.SSTableInfo, counted bool) {
	most := uint64(leastGarbage)
	for n, level := range levels {
		for i := range level {
			stats := &level[i].TableStats
			if stats.NumEntries == 0 {
				return nil, false
			}
			hidden := stats.PointDeletionsBytesEstimate + stats.RangeDeletionsBytesEstimate
			if n == 0 && stats.NumDeletions > 0 { // Pebble counts only what is hidden in lower levels
				hidden = max(hidden, besides(level, i))
			}
			if hidden >= most && !tried[level[i].FileNum.String()] {
				worst, most = &level[i], hidden
			}
		}
	}
	return worst, true
}

// besides returns the bytes of the other tables of the top level that overlap table of.
func besides(level []pebble.SSTableInfo, of int) (sum uint64) {
	for i := range level {
		if i != of && bytes.Compare(level[i].Smallest.UserKey, level[of].Largest.UserKey) <= 0 &&
			bytes.Compare(level[of].Smallest.UserKey, level[i].Largest.UserKey) <= 0 {
			sum += level[i].Size
		}
	}
	return sum
}
