package pebblestore

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

const (
	// mostCleared is how many keys under a prefix are deleted one by one: a run has some journal chunks, lines of its log and pieces
	// of output, and seldom more of a kind.
	mostCleared = 64
	// mostRanges is how many ranges are deleted before a memtable is written to a table. Pebble puts all ranges of a memtable in
	// order again for the first read after each one that is added: with three for each deleted run, deleting a thousand runs a
	// day made all reads slower from day to day, until the memtable was full, which takes months.
	mostRanges = 256
)

// clear deletes what is under a prefix. Nobody else changes it meanwhile.
func (s *Store) clear(b *pebble.Batch, prefix []byte) error {
	upper := store.PrefixEnd(prefix)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: upper})
	if err != nil {
		return err
	}
	var keys [][]byte
	for ok := it.First(); ok && len(keys) <= mostCleared; ok = it.Next() {
		keys = append(keys, append([]byte(nil), it.Key()...))
	}
	if err := firstError(it.Error(), it.Close()); err != nil {
		return err
	}
	if len(keys) > mostCleared {
		s.ranges.Add(1)
		return b.DeleteRange(prefix, upper, nil)
	}
	for _, k := range keys {
		_ = b.Delete(k, nil)
	}
	return nil
}

// flushRanges has the memtable written to a table when many ranges were deleted. It does not wait for that, but for the next file
// of the log. Like a commit, it has a goroutine of its own, and ends when the store fails.
func (s *Store) flushRanges() {
	n := s.ranges.Load()
	if n < mostRanges || !s.ranges.CompareAndSwap(n, 0) {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.db.AsyncFlush() // the store fails with what does
	}()
	select {
	case <-done:
	case <-s.failed:
	}
}
