package pebblestore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// record returns the stored record of a run, nil if there is no such run. The run is locked.
func (s *Store) record(run store.RunKey) (*record, error) {
	switch r := s.cache.get(run); r {
	case nil:
	case absent:
		return nil, nil
	default:
		return r, nil
	}
	v, err := s.get(store.RunTableKey(run, store.TableState))
	if err != nil {
		return nil, err
	}
	if v == nil {
		s.cache.put(run, absent)
		return nil, nil
	}
	r := &record{}
	r.stored, err = decodeStored(v)
	if err != nil {
		return nil, err
	}
	if r.state.Length > r.chunk && !r.state.Deleted {
		r.last, err = s.get(store.JournalKey(run, r.state.Iteration, r.chunk))
		if err != nil {
			return nil, err
		}
		if r.last == nil {
			return nil, fmt.Errorf("%w: the chunk at entry %d is gone", store.ErrCorrupt, r.chunk)
		}
	}
	return r, nil
}

// State reads a run's state.
func (s *Store) State(_ context.Context, run store.RunKey) (store.RunState, error) {
	end, err := s.begin()
	if err != nil {
		return store.RunState{}, err
	}
	defer end()
	return s.state(run)
}

// Absent implements store.Remembering.
func (s *Store) Absent(run store.RunKey) bool { return s.cache.get(run) == absent }

// noRun is the error of a run that does not exist. Each start looks for one, so the text is built only when it is read.
type noRun string

func (id noRun) Error() string { return fmt.Sprintf("run %q: %v", string(id), store.ErrNotFound) }

func (noRun) Unwrap() error { return store.ErrNotFound }

// state returns a run's durable state.
func (s *Store) state(run store.RunKey) (store.RunState, error) {
	switch r := s.cache.get(run); r {
	case nil:
	case absent:
		return store.RunState{}, noRun(run.ID)
	default:
		return r.state, nil
	}
	defer s.lockRun(run)() // a commit in flight may be visible in the database before it is durable
	v, err := s.get(store.RunTableKey(run, store.TableState))
	switch {
	case err != nil:
		return store.RunState{}, fmt.Errorf("run %q: %w", run.ID, err)
	case v == nil:
		s.cache.put(run, absent)
		return store.RunState{}, noRun(run.ID)
	}
	st, err := decodeStored(v)
	if err != nil {
		return store.RunState{}, fmt.Errorf("run %q: %w", run.ID, err)
	}
	return st.state, nil
}

// Run reads a run's state and journal.
func (s *Store) Run(_ context.Context, run store.RunKey) (store.RunState, []store.Entry, error) {
	end, err := s.begin()
	if err != nil {
		return store.RunState{}, nil, err
	}
	defer end()
	defer s.lockRun(run)()
	r, err := s.record(run)
	switch {
	case err != nil:
		return store.RunState{}, nil, fmt.Errorf("run %q: %w", run.ID, err)
	case r == nil:
		return store.RunState{}, nil, noRun(run.ID)
	case r.state.Deleted:
		return r.state, nil, nil
	}
	l := loader{s: s, entries: make([]store.Entry, 0, r.state.Length+4)} // a wake appends a few
	if r.chunk > 0 {
		err = s.chunks(run, r.state.Iteration, r.chunk, l.decode)
	}
	if err == nil && len(r.last) > 0 {
		_, err = l.decode(r.chunk, r.last)
	}
	if err == nil && store.Seq(len(l.entries)) != r.state.Length {
		err = fmt.Errorf("%w: the journal has %d entries, the state says %d", store.ErrCorrupt, len(l.entries),
			r.state.Length)
	}
	if err != nil {
		return r.state, nil, fmt.Errorf("journal of run %q: %w", run.ID, err)
	}
	s.cache.put(run, r)
	return r.state, l.entries, nil
}

// loader collects the entries of consecutive chunks.
type loader struct {
	s       *Store
	entries []store.Entry
	from    store.Seq // entries before it are left out
	next    store.Seq // 0 before the first chunk, which may have any seq
}

// decode reads a chunk, which must not change: the entries share its memory.
func (l *loader) decode(first store.Seq, chunk []byte) (bool, error) {
	return l.each(first, chunk, func(e store.Entry) bool {
		l.entries = append(l.entries, e)
		return true
	})
}

// each visits the entries of a chunk from l.from on until visit returns false, and reports whether it never did. It
// reads the blobs of an entry just before the visit: a chunk of 4 KiB may have forty blobs of 1 MiB each.
func (l *loader) each(first store.Seq, chunk []byte, visit func(store.Entry) bool) (bool, error) {
	if l.next != 0 && first != l.next {
		return false, fmt.Errorf("%w: entries %d to %d are missing", store.ErrCorrupt, l.next, first)
	}
	l.next = first
	for len(chunk) > 0 {
		e, flags, rest, err := takeItem(chunk)
		if err == nil && e.Seq >= l.from {
			err = l.s.fill(&e, flags)
		}
		if err != nil {
			return false, fmt.Errorf("entry %d: %w", l.next, err)
		}
		if e.Seq != l.next {
			return false, fmt.Errorf("%w: entry %d where %d belongs", store.ErrCorrupt, e.Seq, l.next)
		}
		l.next, chunk = l.next+1, rest
		if e.Seq >= l.from && !visit(e) {
			return false, nil
		}
	}
	return true, nil
}

// noSeq is above the seq of every entry.
const noSeq = 1<<64 - 1

// Load reads entries.
func (s *Store) Load(_ context.Context, run store.RunKey, iteration uint32, from store.Seq) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		end, err := s.begin()
		if err != nil {
			yield(store.Entry{}, err)
			return
		}
		defer end()
		l := loader{s: s, from: from}
		stopped := false
		visit := func(first store.Seq, chunk []byte, durable store.Seq) (bool, error) {
			more, err := l.each(first, chunk, func(e store.Entry) bool {
				if e.Seq >= durable {
					return false
				}
				stopped = !yield(e, nil)
				return !stopped
			})
			if errors.Is(err, store.ErrCorrupt) {
				err = s.unlessGone(err, store.JournalKey(run, iteration, first), chunk)
			}
			return more, err
		}
		err = s.loadChunks(run, iteration, from, visit)
		if err != nil && !stopped {
			yield(store.Entry{}, fmt.Errorf("journal of run %q: %w", run.ID, err))
		}
	}
}

// unlessGone returns cause, the error of reading a chunk, or ErrNotFound if the run was deleted meanwhile. A deletion
// removes the chunks and their blobs at once. A reader still sees the chunks as they were when it began, but not the
// blobs.
func (s *Store) unlessGone(cause error, key, chunk []byte) error {
	now, err := s.get(key)
	switch {
	case err != nil:
		return err
	case !bytes.HasPrefix(now, chunk): // it may have grown
		return fmt.Errorf("%w: it was deleted while it was read", store.ErrNotFound)
	}
	return cause
}

// loadChunks visits the chunks that hold the durable entries of an iteration from a seq on. Entries from seq durable on
// belong to a commit in flight.
func (s *Store) loadChunks(run store.RunKey, iteration uint32, from store.Seq,
	visit func(first store.Seq, chunk []byte, durable store.Seq) (bool, error)) error {
	if r := s.cache.get(run); r != nil {
		if last, ok := r.tail(iteration, from); ok {
			_, err := visit(r.chunk, bytes.Clone(last), r.state.Length)
			return err
		}
	}
	it, r, err := s.view(run, store.JournalKey(run, iteration, 0), store.JournalKey(run, iteration, noSeq))
	if err != nil {
		return err
	}
	durable := store.Seq(noSeq)
	if r != nil {
		durable = r.length(iteration)
	}
	return eachChunk(it, run, iteration, from, func(first store.Seq, chunk []byte) (bool, error) {
		if first >= durable {
			return false, nil
		}
		return visit(first, chunk, durable)
	})
}

// length returns the number of entries of an iteration, noSeq if the iteration is over: nothing is appended to it any
// more.
func (r *record) length(iteration uint32) store.Seq {
	switch {
	case iteration < r.state.Iteration:
		return noSeq
	case iteration == r.state.Iteration:
		return r.state.Length
	}
	return 0
}

// chunks visits copies of the chunks of an iteration that begin before seq to.
func (s *Store) chunks(run store.RunKey, iteration uint32, to store.Seq,
	visit func(first store.Seq, chunk []byte) (bool, error)) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: store.JournalKey(run, iteration, 0),
		UpperBound: store.JournalKey(run, iteration, to)})
	if err != nil {
		return err
	}
	return eachChunk(it, run, iteration, 0, visit)
}

// eachChunk visits copies of the chunks of an iterator, beginning with the chunk that holds seq from, and closes the
// iterator.
func eachChunk(it *pebble.Iterator, run store.RunKey, iteration uint32, from store.Seq,
	visit func(first store.Seq, chunk []byte) (bool, error)) error {
	ok := from > 0 && it.SeekLT(store.JournalKey(run, iteration, from+1))
	if !ok {
		ok = it.First()
	}
	return walk(it, ok, func(k, v []byte) (bool, error) {
		return visit(store.Seq(binary.BigEndian.Uint64(k[len(k)-8:])), bytes.Clone(v))
	})
}

// takeItem takes an entry from the front of a chunk. Its flags say which of its payloads are blobs, see fill.
func takeItem(chunk []byte) (e store.Entry, flags byte, rest []byte, err error) {
	flags = chunk[0]
	n, size := binary.Uvarint(chunk[1:])
	if size <= 0 || n > uint64(len(chunk)-1-size) {
		return e, flags, nil, fmt.Errorf("%w: chunk ends within an entry", store.ErrCorrupt)
	}
	body := chunk[1+size:]
	e, err = store.DecodeEntry(body[:n])
	return e, flags, body[n:], err
}

// fill reads the blobs of an entry.
func (s *Store) fill(e *store.Entry, flags byte) (err error) {
	if flags&inputIsBlob != 0 {
		e.Input, err = s.blob(e.Input)
		if err != nil {
			return err
		}
	}
	if flags&dataIsBlob != 0 {
		e.Data, err = s.blob(e.Data)
	}
	return err
}

func (s *Store) blob(digest []byte) ([]byte, error) {
	v, err := s.get(store.GlobalKey(0, store.TableBlob, digest))
	if err != nil {
		return nil, err
	}
	if d := sha256.Sum256(v); string(d[:]) != string(digest) {
		return nil, fmt.Errorf("%w: blob %x is missing or damaged", store.ErrCorrupt, digest)
	}
	return v, nil
}
