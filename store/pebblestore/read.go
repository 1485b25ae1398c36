package pebblestore

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// scan visits the keys in [lower, upper) until visit returns false or fails.
func (s *Store) scan(lower, upper []byte, visit func(k, v []byte) (bool, error)) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	return walk(it, it.First(), visit)
}

// walk visits the iterator's current record, if ok, and the following ones until visit returns false or fails. It
// closes the iterator.
func walk(it *pebble.Iterator, ok bool, visit func(k, v []byte) (bool, error)) error {
	for ; ok; ok = it.Next() {
		more, err := visit(it.Key(), it.Value())
		if err != nil || !more {
			return firstError(err, it.Close())
		}
	}
	return firstError(it.Error(), it.Close())
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// view returns an iterator over records of a run. It sees all durable commits of the run, and nothing of later ones,
// except what a commit in flight appends: if there may be such a commit, view returns the durable record, and the
// reader must stop at its end. Otherwise the record is nil.
//
// A cached record is the record of the newest durable commit. If it is still cached after the iterator is made, no
// commit ended in between, and none that deletes records was applied, see commit.hideReplaced. If no record is cached,
// view waits until no commit of the run is in flight.
func (s *Store) view(run store.RunKey, lower, upper []byte) (*pebble.Iterator, *record, error) {
	bounds := pebble.IterOptions{LowerBound: lower, UpperBound: upper}
	if r := s.cache.get(run); r != nil && r != absent {
		it, err := s.db.NewIter(&bounds)
		if err != nil || s.cache.get(run) == r {
			return it, r, err
		}
		if err := it.Close(); err != nil {
			return nil, nil, err
		}
	}
	defer s.lockRun(run)()
	it, err := s.db.NewIter(&bounds)
	return it, nil, err
}

// list visits at most limit records of a run in a table that is keyed by index, from an index on, and stops once they
// hold MaxPageBytes. durable returns the number of records by a durable state.
func (s *Store) list(run store.RunKey, table byte, from uint64, limit int, durable func(*store.RunState) uint64,
	visit func(v []byte) error) error {
	end, err := s.begin()
	if err != nil {
		return err
	}
	defer end()
	upper := store.PrefixEnd(append(store.RunTableKey(run, table), 0))
	it, r, err := s.view(run, store.IndexKey(run, table, from), upper)
	if err != nil {
		return err
	}
	held := 0
	return walk(it, it.First(), func(k, v []byte) (bool, error) {
		if limit <= 0 || held >= store.MaxPageBytes || r != nil && binary.BigEndian.Uint64(k[len(k)-8:]) >= durable(&r.state) {
			return false, nil
		}
		limit--
		held += len(v)
		return true, visit(v)
	})
}

// Logs reads log lines.
func (s *Store) Logs(_ context.Context, run store.RunKey, from uint64, limit int) (lines []store.LogLine, err error) {
	durable := func(st *store.RunState) uint64 { return st.LogRecords }
	err = s.list(run, store.TableLog, from, limit, durable, func(v []byte) error {
		line, err := store.DecodeLogLine(v)
		lines = append(lines, line)
		return err
	})
	return lines, err
}

// Output reads chunks of output.
func (s *Store) Output(_ context.Context, run store.RunKey, from uint64, limit int) (chunks []store.Chunk, err error) {
	durable := func(st *store.RunState) uint64 { return st.Output }
	err = s.list(run, store.TableOutput, from, limit, durable, func(v []byte) error {
		c, err := store.DecodeChunk(v)
		chunks = append(chunks, c)
		return err
	})
	return chunks, err
}

// Due lists wakes.
func (p *partition) Due(_ context.Context, after store.WakeKey, until int64, limit int) (wakes []store.Wake, err error) {
	end, err := p.s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	prefix := store.AppendPrefix(nil, 0, p.id, store.TableWake)
	var lower []byte
	m := &p.s.marks[p.id]
	m.mu.RLock()
	if after.UnixMs <= m.at || after == (store.WakeKey{}) {
		lower = m.lower(prefix)
	}
	m.mu.RUnlock()
	if lower == nil {
		if err := p.s.raise(p.id, after.UnixMs); err != nil {
			return nil, err
		}
		lower = append(store.WakeIndexKey(p.id, after), 0)
	}
	upper := binary.BigEndian.AppendUint64(slices.Clip(prefix), uint64(max(until, 0)+1))
	err = p.s.scan(lower, upper, func(k, v []byte) (bool, error) {
		if len(wakes) >= limit {
			return false, nil
		}
		key, err := store.ParseWakeIndexKey(k)
		if err == nil && len(v) != 8 {
			err = fmt.Errorf("%w: wake of %q", store.ErrCorrupt, key.Key.ID)
		}
		if err != nil {
			return false, err
		}
		wakes = append(wakes, store.Wake{Key: key, DueUnixMs: int64(binary.BigEndian.Uint64(v))})
		return true, nil
	})
	return wakes, err
}
