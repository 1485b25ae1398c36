package pebblestore

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

const (
	// mostCleared is how many keys of a kind are deleted one by one: a run has some journal chunks, lines of its log and pieces of
	// output, and seldom more.
	mostCleared = 64
	// mostRanges is how many ranges are deleted before a memtable is written to a table. Pebble puts all ranges of a memtable in
	// order again for the first read after each one that is added: with three for each deleted run, deleting a thousand runs a
	// day made all reads slower from day to day, until the memtable was full, which takes months.
	mostRanges = 256
)

// clear deletes the journal, the log and the output of a run. It reads no log or output, which may be large, or damaged: such a
// run can be deleted. Of one that is deleted but for its state there is nothing left.
func (s *Store) clear(b *pebble.Batch, run store.RunKey, old *record) {
	if old.state.Deleted {
		return
	}
	s.clearJournal(b, run, old)
	s.clearIndexed(b, run, store.TableLog, old.state.LogRecords)
	s.clearIndexed(b, run, store.TableOutput, old.state.Output)
}

// clearIndexed deletes n records of a table, which have the indexes from 0 on.
func (s *Store) clearIndexed(b *pebble.Batch, run store.RunKey, table byte, n uint64) {
	if n > mostCleared {
		s.clearRange(b, run, table)
		return
	}
	for i := range n {
		_ = b.Delete(store.IndexKey(run, table, i), nil)
	}
}

// clearJournal deletes the chunks of a journal. Only if there may be several, it looks which keys they have.
func (s *Store) clearJournal(b *pebble.Batch, run store.RunKey, old *record) {
	if old.state.Iteration == 0 && old.chunk == 0 {
		_ = b.Delete(store.JournalKey(run, 0, 0), nil)
		return
	}
	prefix := append(store.RunTableKey(run, store.TableJournal), 0)
	keys, err := s.firstKeys(prefix, store.PrefixEnd(prefix))
	if err != nil || len(keys) > mostCleared {
		s.clearRange(b, run, store.TableJournal)
		return
	}
	for _, k := range keys {
		_ = b.Delete(k, nil)
	}
}

// firstKeys returns the keys of a range, to which nobody adds one meanwhile: at most one more than mostCleared.
func (s *Store) firstKeys(lower, upper []byte) (keys [][]byte, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok && len(keys) <= mostCleared; ok = it.Next() {
		keys = append(keys, append([]byte(nil), it.Key()...))
	}
	return keys, firstError(it.Error(), it.Close())
}

// clearRange deletes all that a run has in a table.
func (s *Store) clearRange(b *pebble.Batch, run store.RunKey, table byte) {
	s.ranges.Add(1)
	prefix := append(store.RunTableKey(run, table), 0)
	_ = b.DeleteRange(prefix, store.PrefixEnd(prefix), nil)
}

// flushRanges has the memtable written to a table when many ranges were deleted. It does not wait for that: the log goes to its
// next file, and whoever meets an error of the log stays where it is.
func (s *Store) flushRanges() {
	n := s.ranges.Load()
	if n < mostRanges || !s.ranges.CompareAndSwap(n, 0) {
		return
	}
	end, err := s.beginWrite() // the store is not closed before
	if err != nil {
		return
	}
	go func() {
		defer end()
		_, _ = s.db.AsyncFlush() // the store fails with what does
	}()
}
