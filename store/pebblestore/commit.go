package pebblestore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// chunkBytes is the size up to which the last chunk of a journal is rewritten by an append: one short journal is
// one value, read by one Get, and an append never writes more than this beside its own entries.
const chunkBytes = 4096

// stored is a run's state with what only this package needs: the first seq of the journal's last chunk. It is
// encoded as that seq u64be before the state.
type stored struct {
	chunk store.Seq
	state store.RunState
}

func (s *Store) stored(run store.RunKey) (*stored, error) {
	v, err := s.get(store.RunTableKey(run, store.TableState))
	if err != nil || v == nil {
		return nil, err
	}
	return decodeStored(v)
}

func decodeStored(v []byte) (*stored, error) {
	if len(v) < 8 {
		return nil, fmt.Errorf("%w: run state of %d bytes", store.ErrCorrupt, len(v))
	}
	state, err := store.DecodeState(v[8:])
	return &stored{chunk: store.Seq(binary.BigEndian.Uint64(v)), state: state}, err
}

type partition struct {
	s     *Store
	id    store.PartitionID
	epoch store.Epoch
}

func (p *partition) Epoch() store.Epoch { return p.epoch }

// hold takes the fence for reading, or says that the partition has another owner.
func (p *partition) hold() (release func(), err error) {
	f := &p.s.parts[p.id]
	f.mu.RLock()
	if f.epoch != p.epoch {
		f.mu.RUnlock()
		return nil, store.ErrFenced
	}
	return f.mu.RUnlock, nil
}

// Commit makes all commits durable, or none.
func (p *partition) Commit(_ context.Context, commits []store.RunCommit) error {
	if len(commits) > store.MaxCommitRecords {
		return fmt.Errorf("group commit of %d runs, the limit is %d", len(commits), store.MaxCommitRecords)
	}
	end, err := p.s.beginWrite()
	if err != nil {
		return err
	}
	defer end()
	release, err := p.hold()
	if err != nil {
		return err
	}
	defer release()
	defer p.s.lockRuns(commits)()
	if slices.ContainsFunc(commits, func(c store.RunCommit) bool { return len(c.Outbox) > 0 }) {
		p.s.inbox.Lock()
		defer p.s.inbox.Unlock()
	}
	b := p.s.db.NewBatch()
	defer func() { _ = b.Close() }() // memory only
	for i := range commits {
		if err := p.s.add(b, p.id, &commits[i]); err != nil {
			return err
		}
	}
	return p.s.sync(b)
}

// lockRuns locks the stripes of the runs, in order, so that commits of several runs cannot lock each other out.
func (s *Store) lockRuns(commits []store.RunCommit) (unlock func()) {
	var stripes []int
	for i := range commits {
		h := fnv.New32a()
		_, _ = h.Write([]byte(commits[i].Run.ID))
		stripes = append(stripes, int(h.Sum32()%runLocks))
	}
	slices.Sort(stripes)
	stripes = slices.Compact(stripes)
	locks := make([]*sync.Mutex, 0, len(stripes))
	for _, i := range stripes {
		s.runs[i].Lock()
		locks = append(locks, &s.runs[i])
	}
	return func() {
		for _, l := range locks {
			l.Unlock()
		}
	}
}

// add puts the change of one run into the batch.
func (s *Store) add(b *pebble.Batch, p store.PartitionID, c *store.RunCommit) error {
	old, err := s.stored(c.Run)
	switch {
	case err != nil:
		return err
	case c.Create && old != nil && !c.Replace:
		return fmt.Errorf("run %q: %w", c.Run.ID, store.ErrExists)
	case !c.Create && old == nil:
		return fmt.Errorf("run %q: %w", c.Run.ID, store.ErrNotFound)
	}
	if c.Delete {
		s.delete(b, c.Run, old)
		if c.State.Deleted {
			_ = b.Set(store.RunTableKey(c.Run, store.TableState), store.AppendState(make([]byte, 8), &c.State), nil)
		}
		return s.addCommands(b, p, c)
	}
	if c.Create && old != nil {
		s.delete(b, c.Run, old)
		old = nil
	}
	if c.Before != nil {
		if err := s.addBefore(b, c, old); err != nil {
			return err
		}
	}
	next := stored{state: c.State}
	length := store.Seq(0) // of a new journal
	if old != nil && old.state.Iteration == c.State.Iteration {
		length, next.chunk = old.state.Length, old.chunk
	}
	if length != c.Expect {
		return fmt.Errorf("run %q: %w: it has %d entries, the commit expects %d", c.Run.ID, store.ErrConflict,
			length, c.Expect)
	}
	next.state.Length = c.Expect + store.Seq(len(c.Append))
	if err := s.appendEntries(b, c.Run, c.State.Iteration, c.Expect, c.Append, &next.chunk); err != nil {
		return err
	}
	value := binary.BigEndian.AppendUint64(nil, uint64(next.chunk))
	_ = b.Set(store.RunTableKey(c.Run, store.TableState), store.AppendState(value, &next.state), nil)
	setIndexes(b, c.Run, old, &next.state)
	for i := range c.Logs {
		_ = b.Set(store.IndexKey(c.Run, store.TableLog, c.Logs[i].Index), store.AppendLogLine(nil, &c.Logs[i]), nil)
	}
	for i := range c.Output {
		_ = b.Set(store.IndexKey(c.Run, store.TableOutput, c.Output[i].Index), store.AppendChunk(nil, &c.Output[i]), nil)
	}
	return s.addCommands(b, p, c)
}

// addBefore appends the end of the iteration before.
func (s *Store) addBefore(b *pebble.Batch, c *store.RunCommit, old *stored) error {
	length, chunk := store.Seq(0), store.Seq(0)
	if old != nil && old.state.Iteration == c.Before.Iteration {
		length, chunk = old.state.Length, old.chunk
	}
	if length != c.Before.Expect {
		return fmt.Errorf("run %q: %w: iteration %d has %d entries, the commit expects %d", c.Run.ID, store.ErrConflict,
			c.Before.Iteration, length, c.Before.Expect)
	}
	return s.appendEntries(b, c.Run, c.Before.Iteration, length, c.Before.Append, &chunk)
}

// appendEntries appends entries to the journal of an iteration that has expect of them, the last of which stand in
// the chunk that begins with entry last.
func (s *Store) appendEntries(b *pebble.Batch, run store.RunKey, iteration uint32, expect store.Seq,
	entries []store.Entry, last *store.Seq) error {
	if len(entries) == 0 {
		return nil
	}
	var chunk []byte
	if expect > *last {
		var err error
		if chunk, err = s.get(store.JournalKey(run, iteration, *last)); err != nil {
			return err
		}
		if chunk == nil {
			return fmt.Errorf("run %q: %w: the chunk at entry %d is gone", run.ID, store.ErrCorrupt, *last)
		}
	}
	for i := range entries {
		e := entries[i]
		if want := expect + store.Seq(i); e.Seq != want {
			return fmt.Errorf("run %q: %w: entry %d where %d belongs", run.ID, store.ErrConflict, e.Seq, want)
		}
		if len(chunk) >= chunkBytes {
			_ = b.Set(store.JournalKey(run, iteration, *last), chunk, nil)
			chunk, *last = nil, e.Seq
		}
		chunk = appendItem(b, chunk, &e)
	}
	return b.Set(store.JournalKey(run, iteration, *last), chunk, nil)
}

// Flags of an item of a chunk: the field holds the SHA-256 of a blob.
const (
	inputIsBlob = 1
	dataIsBlob  = 2
)

// appendItem appends an entry to a chunk: flags u8, length uvarint, entry. Large payloads become blobs.
func appendItem(b *pebble.Batch, chunk []byte, e *store.Entry) []byte {
	var flags byte
	x := *e
	for _, f := range []struct {
		flag byte
		p    *[]byte
	}{{inputIsBlob, &x.Input}, {dataIsBlob, &x.Data}} {
		if len(*f.p) > abi.BlobBytes {
			d := sha256.Sum256(*f.p)
			_ = b.Set(store.GlobalKey(0, store.TableBlob, d[:]), *f.p, nil)
			*f.p = d[:]
			flags |= f.flag
		}
	}
	record := store.AppendEntry(nil, &x)
	chunk = binary.AppendUvarint(append(chunk, flags), uint64(len(record)))
	return append(chunk, record...)
}

// setIndexes replaces what the wake index and the lists hold of a run, where it changed.
func setIndexes(b *pebble.Batch, run store.RunKey, old *stored, now *store.RunState) {
	oldWake := store.NoWake
	if old != nil {
		oldWake = old.state.WakeUnixMs
	}
	if oldWake != now.WakeUnixMs {
		if oldWake != store.NoWake {
			_ = b.Delete(store.TimeKey(run, store.TableWake, oldWake), nil)
		}
		if now.WakeUnixMs != store.NoWake {
			due := binary.BigEndian.AppendUint64(nil, uint64(now.WakeUnixMs))
			_ = b.Set(store.TimeKey(run, store.TableWake, now.WakeUnixMs), due, nil)
		}
	}
	var oldKey []byte
	if old != nil {
		oldKey = listKey(&old.state)
	}
	if newKey := listKey(now); !bytes.Equal(oldKey, newKey) {
		if oldKey != nil {
			_ = b.Delete(oldKey, nil)
		}
		_ = b.Set(newKey, nil, nil)
	}
}

// listKey gives the key of a run in the list of live runs, of those that need attention, or of ended ones.
func listKey(s *store.RunState) []byte {
	switch {
	case s.Status.Terminal():
		return store.TimeKey(s.Run, store.TableEnded, s.EndedUnixMs)
	case s.Status.Attention():
		return store.RunTableKey(s.Run, store.TableStuck)
	}
	return store.RunTableKey(s.Run, store.TableLive)
}

// delete removes a run's records. Blobs stay: others may have the same content.
func (s *Store) delete(b *pebble.Batch, run store.RunKey, old *stored) {
	_ = b.Delete(store.RunTableKey(run, store.TableState), nil)
	if !old.state.Deleted {
		_ = b.Delete(listKey(&old.state), nil)
	}
	if old.state.WakeUnixMs != store.NoWake {
		_ = b.Delete(store.TimeKey(run, store.TableWake, old.state.WakeUnixMs), nil)
	}
	for _, table := range []byte{store.TableJournal, store.TableLog, store.TableOutput} {
		prefix := append(store.RunTableKey(run, table), 0)
		_ = b.DeleteRange(prefix, store.PrefixEnd(prefix), nil)
	}
}
