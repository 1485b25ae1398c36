package pebblestore

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// chunkBytes is the size at which a journal begins its next chunk: a short journal is one value, read by one Get. The
// cost of an append does not depend on it, see BenchmarkChunk.
const chunkBytes = 4096

// stored is a run's state with two fields of this package: the first seq of the journal's last chunk, and the status
// whose list has the run. Both are encoded as a u64be before the state: the seq in the lower chunkBits, and the status
// above if the run is busy.
type stored struct {
	chunk  store.Seq
	listed store.Status // 0 = none
	state  store.RunState
}

// chunkBits is more bits than the seq of an entry ever needs.
const chunkBits = 56

func decodeStored(v []byte) (stored, error) {
	if len(v) < 8 {
		return stored{}, fmt.Errorf("%w: run state of %d bytes", store.ErrCorrupt, len(v))
	}
	state, err := store.DecodeState(v[8:])
	head := binary.BigEndian.Uint64(v)
	r := stored{chunk: store.Seq(head & (1<<chunkBits - 1)), listed: store.Status(head >> chunkBits), state: state}
	if !state.Status.Busy() {
		r.listed = state.Status
	}
	return r, err
}

// add adds the change of one run to the batch, without its commands, and notes the change of the counts. It returns the
// run's record after the commit, nil if deleted. The run is locked.
func (s *Store) add(b *pebble.Batch, c *store.RunCommit, counts *shifts, large *payloads) (*record, error) {
	large.run = c.Run
	before, err := s.record(c.Run)
	old := before
	switch {
	case err != nil:
		return nil, fmt.Errorf("run %q: %w", c.Run.ID, err)
	case c.Create && old != nil && !c.Replace:
		return nil, fmt.Errorf("run %q: %w", c.Run.ID, store.ErrExists)
	case !c.Create && old == nil:
		return nil, fmt.Errorf("run %q: %w", c.Run.ID, store.ErrNotFound)
	}
	if c.Delete {
		if err := s.delete(b, c.Run, old, large); err != nil {
			return nil, err
		}
		counts.move(c.Run, old, nil)
		if c.State.Deleted {
			_ = b.Set(store.DeletedKey(c.Run, c.State.UpdatedUnixMs), nil, nil)
			return nil, setState(b, c.Run, &stored{state: c.State})
		}
		return nil, nil
	}
	if c.Create && old != nil {
		if err := s.delete(b, c.Run, old, large); err != nil {
			return nil, err
		}
		old = nil
	}
	for i := range c.Earlier {
		it := &c.Earlier[i]
		large.iteration = it.Iteration
		if err := (&record{}).append(b, c.Run, it.Iteration, 0, it.Append, s.chunkBytes, large); err != nil {
			return nil, err
		}
	}
	if c.Before != nil {
		if err := s.addBefore(b, c, old, large); err != nil {
			return nil, err
		}
	}
	if old != nil && c.State.Kept > old.state.Kept {
		if err := s.forgetIterations(b, c, old, large); err != nil {
			return nil, fmt.Errorf("run %q: %w", c.Run.ID, err)
		}
	}
	large.iteration = c.State.Iteration
	next := &record{stored: stored{state: c.State}}
	length := store.Seq(0) // initially of a new journal
	if old != nil && old.state.Iteration == c.State.Iteration {
		length, next.chunk, next.last = old.state.Length, old.chunk, old.last
	}
	if length != c.Expect {
		return nil, fmt.Errorf("run %q: %w: it has %d entries, the commit expects %d", c.Run.ID, store.ErrConflict,
			length, c.Expect)
	}
	next.state.Length = c.Expect + store.Seq(len(c.Append))
	if err := next.append(b, c.Run, c.State.Iteration, c.Expect, c.Append, s.chunkBytes, large); err != nil {
		return nil, err
	}
	next.listed = listed(old, &next.state)
	if err := setState(b, c.Run, &next.stored); err != nil {
		return nil, err
	}
	setWakeOf(b, c.Run, old, next)
	setIndexes(b, c.Run, old, next)
	counts.move(c.Run, before, next)
	return next, setLists(b, c)
}

// stateBytes is more than most encoded states take.
const stateBytes = 384

// setState writes a run's state, with the prefix of stored.
func setState(b *pebble.Batch, run store.RunKey, r *stored) error {
	head := uint64(r.chunk)
	if r.state.Status.Busy() {
		head |= uint64(r.listed) << chunkBits
	}
	value := binary.BigEndian.AppendUint64(make([]byte, 0, stateBytes), head)
	value = store.AppendState(value, &r.state)
	if err := store.CheckRecord("run state", value[8:]); err != nil {
		return fmt.Errorf("run %q: %w", run.ID, err)
	}
	return b.Set(store.RunTableKey(run, store.TableState), value, nil)
}

// setLists writes log lines and output.
func setLists(b *pebble.Batch, c *store.RunCommit) error {
	for i := range c.Logs {
		record := store.AppendLogLine(nil, &c.Logs[i])
		if err := store.CheckRecord("log line", record); err != nil {
			return fmt.Errorf("run %q: %w", c.Run.ID, err)
		}
		_ = b.Set(store.IndexKey(c.Run, store.TableLog, c.Logs[i].Index), record, nil)
	}
	for i := range c.Output {
		record := store.AppendChunk(nil, &c.Output[i])
		if err := store.CheckRecord("output", record); err != nil {
			return fmt.Errorf("run %q: %w", c.Run.ID, err)
		}
		_ = b.Set(store.IndexKey(c.Run, store.TableOutput, c.Output[i].Index), record, nil)
	}
	return nil
}

// addBefore appends the end of the iteration before this one.
func (s *Store) addBefore(b *pebble.Batch, c *store.RunCommit, old *record, large *payloads) error {
	large.iteration = c.Before.Iteration
	end, length := &record{}, store.Seq(0)
	if old != nil && old.state.Iteration == c.Before.Iteration {
		length, end.chunk, end.last = old.state.Length, old.chunk, old.last
	}
	if length != c.Before.Expect {
		return fmt.Errorf("run %q: %w: iteration %d has %d entries, the commit expects %d", c.Run.ID, store.ErrConflict,
			c.Before.Iteration, length, c.Before.Expect)
	}
	return end.append(b, c.Run, c.Before.Iteration, length, c.Before.Append, s.chunkBytes, large)
}

// append appends entries to the journal of an iteration that has expect entries. The last of these are in the record's
// chunk. It writes only the new entries.
func (r *record) append(b *pebble.Batch, run store.RunKey, iteration uint32, expect store.Seq,
	entries []store.Entry, chunkBytes int, large *payloads) error {
	stored := len(r.last) // length of the chunk in the database
	put := func() error {
		key, items := store.JournalKey(run, iteration, r.chunk), r.last[stored:]
		if stored == 0 {
			return b.Set(key, items, nil)
		}
		return b.Merge(key, items, nil)
	}
	for i := range entries {
		e := &entries[i]
		if want := expect + store.Seq(i); e.Seq != want {
			return fmt.Errorf("run %q: %w: entry %d where %d belongs", run.ID, store.ErrConflict, e.Seq, want)
		}
		if len(r.last) >= chunkBytes {
			if len(r.last) > stored {
				_ = put()
			}
			r.last, r.chunk, stored = nil, e.Seq, 0
		}
		var err error
		r.last, err = appendItem(b, r.last, e, large)
		if err != nil {
			return fmt.Errorf("run %q: %w", run.ID, err)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return put()
}

// Flags of an item of a chunk: the field contains the SHA-256 of a blob.
const (
	inputIsBlob = 1
	dataIsBlob  = 2
)

// appendItem appends an entry to a chunk: flags u8, length uvarint, entry. Large payloads become blobs.
func appendItem(b *pebble.Batch, chunk []byte, e *store.Entry, large *payloads) ([]byte, error) {
	var flags byte
	x := *e
	if len(x.Input) > abi.BlobBytes {
		x.Input = large.add(b, x.Input)
		flags |= inputIsBlob
	}
	if len(x.Data) > abi.BlobBytes {
		x.Data = large.add(b, x.Data)
		flags |= dataIsBlob
	}
	at := len(chunk) + 1
	chunk = store.AppendEntry(append(chunk, flags), &x)
	if err := store.CheckRecord("entry", chunk[at:]); err != nil {
		return nil, err
	}
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(chunk)-at))
	return slices.Insert(chunk, at, length[:n]...), nil
}

// runWake returns the key of a run's wake.
func runWake(run store.RunKey, unixMs int64) []byte {
	return store.WakeIndexKey(run.Partition(), store.WakeKey{UnixMs: unixMs, Key: run})
}

// setWakeOf moves the wake of a run.
func setWakeOf(b *pebble.Batch, run store.RunKey, old, now *record) {
	oldWake, newWake := store.NoWake, store.NoWake
	if old != nil {
		oldWake = old.state.WakeUnixMs
	}
	if now != nil {
		newWake = now.state.WakeUnixMs
	}
	if oldWake == newWake {
		return
	}
	if oldWake != store.NoWake {
		_ = b.Delete(runWake(run, oldWake), nil)
	}
	if newWake != store.NoWake {
		_ = b.Set(runWake(run, newWake), binary.BigEndian.AppendUint64(nil, uint64(newWake)), nil)
	}
}

// delete removes a run's records, and the large payloads that no other run has.
func (s *Store) delete(b *pebble.Batch, run store.RunKey, old *record, large *payloads) error {
	_ = b.Delete(store.RunTableKey(run, store.TableState), nil)
	if old.state.Deleted {
		_ = b.Delete(store.DeletedKey(run, old.state.UpdatedUnixMs), nil)
	}
	setWakeOf(b, run, old, nil)
	setIndexes(b, run, old, nil)
	s.clear(b, run, old)
	return s.giveUp(large, run)
}
