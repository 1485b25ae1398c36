package pebblestore

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

const (
	// mostCleared is how many keys of a kind are deleted one by one, before a range deletion is used. Most runs have
	// fewer journal chunks, log lines and pieces of output.
	mostCleared = 64
	// mostRanges is how many ranges are deleted before the memtable is flushed. After each added range deletion, Pebble
	// sorts all ranges of a memtable again at the next read. Each deleted run may add three: at a thousand deleted runs
	// a day, all reads became slower from day to day until the memtable was full, which takes months.
	mostRanges = 256
)

// clear deletes the journal, the log and the output of a run. It does not read the log or output, which may be large or
// damaged, so that such a run can be deleted. A run that is deleted except for its state has nothing to clear.
func (s *Store) clear(b *pebble.Batch, run store.RunKey, old *record) {
	if old.state.Deleted {
		return
	}
	s.clearJournal(b, run, old)
	s.clearIndexed(b, run, store.TableLog, old.state.LogRecords)
	s.clearIndexed(b, run, store.TableOutput, old.state.Output)
}

// clearIndexed deletes n records of a table, with the indexes from 0 on.
func (s *Store) clearIndexed(b *pebble.Batch, run store.RunKey, table byte, n uint64) {
	if n > mostCleared {
		s.clearRange(b, run, table)
		return
	}
	for i := range n {
		_ = b.Delete(store.IndexKey(run, table, i), nil)
	}
}

// clearJournal deletes the chunks of a journal. It looks up their keys only if there may be several.
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

// firstKeys returns at most mostCleared + 1 keys of a range. No keys may be added to the range meanwhile.
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

// clearRange deletes all records of a run in a table with one range deletion.
func (s *Store) clearRange(b *pebble.Batch, run store.RunKey, table byte) {
	s.ranges.Add(1)
	prefix := append(store.RunTableKey(run, table), 0)
	_ = b.DeleteRange(prefix, store.PrefixEnd(prefix), nil)
}

// flushRanges starts a flush of the memtable once many ranges were deleted. It does not wait for it: the log rotates,
// and a goroutine that meets an error of the log is parked, see guard.
func (s *Store) flushRanges() {
	n := s.ranges.Load()
	if n < mostRanges || !s.ranges.CompareAndSwap(n, 0) {
		return
	}
	end, err := s.beginWrite() // keeps the store open until the end
	if err != nil {
		return
	}
	go func() {
		defer end()
		_, _ = s.db.AsyncFlush() // an error of the flush fails the store
	}()
}
