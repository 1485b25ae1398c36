package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math"

	"github.com/wfhost/wfhost/store"
)

// Source is where an archive reads its run from. store.Store implements it.
type Source interface {
	State(ctx context.Context, run store.RunKey) (store.RunState, error)
	Run(ctx context.Context, run store.RunKey) (store.RunState, []store.Entry, error)
	Load(ctx context.Context, run store.RunKey, iteration uint32, from store.Seq) iter.Seq2[store.Entry, error]
	Logs(ctx context.Context, run store.RunKey, from uint64, limit int) ([]store.LogLine, error)
	Output(ctx context.Context, run store.RunKey, from uint64, limit int) ([]store.Chunk, error)
	Modules() store.ModuleStore
}

const (
	// page is how many log lines or chunks are read at a time.
	page = 100
	// A journal with at most wholeBytes bytes or wholeEntries entries is read as a whole, with its state. A longer one is
	// read in parts, so that only a part is in memory while a slow reader takes the archive. A run that has not begun is
	// read as a whole: another start may replace its records.
	wholeBytes   = 64 << 10
	wholeEntries = 4
)

// Write writes a run as it is durable now, with its module if module is true. The bytes depend only on the run and its
// state, not on the program that writes them. Write reads the state and the module before it writes anything. While w
// blocks, Write holds a few parts of partBytes, and nothing of the store.
//
// If newest is true, the iterations before the newest one are written as if the retention had removed their journals.
func Write(ctx context.Context, w io.Writer, from Source, key store.RunKey, module, newest bool) error {
	out := &writer{tar: tar.NewWriter(w), from: from, key: key}
	entries, err := out.read(ctx)
	if err != nil {
		return err
	}
	if newest {
		out.st.Kept, out.st.Past = out.st.Iteration, nil
	}
	st := out.st
	var wasm []byte
	if module {
		wasm, err = from.Modules().Get(ctx, st.Module)
		if err != nil {
			return fmt.Errorf("module of run %q: %w", key.ID, err)
		}
	}
	st.Run.Namespace, st.ID, st.ParentIteration, st.MayHaveBegun = 0, store.IDGiven, 0, 0 // these have no meaning elsewhere
	if err := out.member(stateName, store.AppendState(nil, &st)); err != nil {
		return err
	}
	if module {
		if err := out.module(ctx, wasm); err != nil {
			return err
		}
		wasm = nil
	}
	if err := out.journals(ctx, entries); err != nil {
		return err
	}
	if err := out.logs(ctx, st.LogRecords); err != nil {
		return err
	}
	if err := out.output(ctx, st.Output); err != nil {
		return err
	}
	manifest, err := json.MarshalIndent(manifestOf(&st, out.files), "", " ")
	if err != nil {
		return err
	}
	if err := out.member(manifestName, append(manifest, '\n')); err != nil {
		return err
	}
	return out.tar.Close()
}

type writer struct {
	tar    *tar.Writer
	from   Source
	key    store.RunKey
	st     store.RunState
	files  []File
	kind   string // of the part being filled
	number int    // of that part
	part   []byte
	record []byte
}

// member writes one member. The header has neither owner nor time, so that the same run makes the same file.
func (w *writer) member(name string, b []byte) error {
	if err := w.header(name, b); err != nil {
		return err
	}
	_, err := w.tar.Write(b)
	return err
}

func (w *writer) header(name string, b []byte) error {
	w.files = append(w.files, fileOf(name, b))
	return w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(b)),
		Format: tar.FormatUSTAR})
}

// read reads the state, and the journal of the newest iteration if it is short enough to be read as a whole.
func (w *writer) read(ctx context.Context) (entries []store.Entry, err error) {
	w.st, err = w.from.State(ctx, w.key)
	if err == nil && (w.st.JournalBytes <= wholeBytes || w.st.Length <= wholeEntries) {
		w.st, entries, err = w.from.Run(ctx, w.key)
	}
	if err == nil && w.st.Deleted {
		err = fmt.Errorf("run %q: %w: it was deleted", w.key.ID, store.ErrNotFound)
	}
	return entries, err
}

// same returns an error if the records read since the state may belong to another run, because this one was deleted or replaced.
func (w *writer) same(ctx context.Context) error {
	st, err := w.from.State(ctx, w.key)
	if err != nil {
		return err
	}
	if st.Deleted || st.Incarnation != w.st.Incarnation || st.Import != w.st.Import || st.Iteration < w.st.Iteration {
		return fmt.Errorf("run %q: %w: it was deleted, or replaced, while it was exported", w.key.ID, store.ErrNotFound)
	}
	return nil
}

// kept returns an error if the journal of an iteration may have been removed while it was read.
func (w *writer) kept(ctx context.Context, iteration uint32) error {
	st, err := w.from.State(ctx, w.key)
	if err != nil {
		return err
	}
	if err := st.Removed(iteration); err != nil {
		return fmt.Errorf("while it was exported, which can be repeated: %w", err)
	}
	return nil
}

// module writes the module in pieces. A large module is read again for each piece, and not held while w takes a piece.
func (w *writer) module(ctx context.Context, wasm []byte) (err error) {
	size := len(wasm)
	if err := w.header(moduleName, wasm); err != nil {
		return err
	}
	for at := 0; at < size; at += partBytes {
		if wasm == nil {
			wasm, err = w.from.Modules().Get(ctx, w.st.Module)
			if err != nil {
				return fmt.Errorf("module of run %q: %w", w.key.ID, err)
			}
		}
		piece := wasm[at:min(at+partBytes, size)]
		if size > partBytes {
			piece, wasm = bytes.Clone(piece), nil
		}
		if _, err := w.tar.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// begin starts the first part of a kind.
func (w *writer) begin(kind string) { w.kind, w.number, w.part = kind, 0, w.part[:0] }

// add appends a record to the part: prefix, the record's length, the record. It reports whether the part is full; the
// caller then calls flush.
func (w *writer) add(prefix, record []byte) (full bool) {
	w.part = append(w.part, prefix...)
	w.part = append(binary.AppendUvarint(w.part, uint64(len(record))), record...)
	return len(w.part) >= partBytes
}

// flush writes the part unless it is empty. It fails if the part may not be of this run.
func (w *writer) flush(ctx context.Context) error {
	if len(w.part) == 0 {
		return nil
	}
	if err := w.same(ctx); err != nil {
		return err
	}
	if len(w.files) >= maxParts {
		return fmt.Errorf("%w: the run has more than %d parts of %d bytes", store.ErrTooLarge, maxParts, partBytes)
	}
	err := w.member(partName(w.kind, w.number), w.part)
	w.number++
	w.part = w.part[:0]
	return err
}

func partName(kind string, number int) string { return fmt.Sprintf("%s/%06d", kind, number) }

// journals writes the journals of all iterations. Those before the newest one do not change any more. entries is the
// journal of the newest one, or nil if it must be read.
func (w *writer) journals(ctx context.Context, entries []store.Entry) error {
	w.begin(journalName)
	if w.st.Kept > 0 {
		if _, err := w.journal(ctx, 0, 1); err != nil {
			return fmt.Errorf("the beginning: %w", err)
		}
	}
	for it := w.st.Kept; it < w.st.Iteration; it++ {
		_, err := w.journal(ctx, it, math.MaxUint64)
		if err == nil {
			err = w.kept(ctx, it)
		}
		if err != nil {
			return fmt.Errorf("iteration %d: %w", it, err)
		}
	}
	for i := range entries {
		if w.entry(w.st.Iteration, &entries[i]) {
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
	}
	if entries == nil {
		n, err := w.journal(ctx, w.st.Iteration, w.st.Length)
		if err == nil && n != w.st.Length {
			err = w.same(ctx)
			if err == nil {
				err = fmt.Errorf("%w: the journal of run %q has %d entries, its state says %d", store.ErrCorrupt, w.key.ID, n, w.st.Length)
			}
		}
		if err != nil {
			return err
		}
	}
	return w.flush(ctx)
}

// journal writes the entries of an iteration whose seq is below end, and returns how many there are. It does not hold
// the store's iterator while it writes a part.
func (w *writer) journal(ctx context.Context, iteration uint32, end store.Seq) (n store.Seq, err error) {
	for full := true; full; {
		full = false
		for e, err := range w.from.Load(ctx, w.key, iteration, n) {
			if err != nil {
				return n, err
			}
			if e.Seq >= end {
				break
			}
			n = e.Seq + 1
			full = w.entry(iteration, &e)
			if full {
				break
			}
		}
		if full {
			if err := w.flush(ctx); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// entry adds an entry to the part, and reports whether the part is full.
func (w *writer) entry(iteration uint32, e *store.Entry) (full bool) {
	w.record = store.AppendEntry(w.record[:0], e)
	return w.add(binary.AppendUvarint(nil, uint64(iteration)), w.record)
}

// logs writes the log lines that the state counts.
func (w *writer) logs(ctx context.Context, n uint64) error {
	w.begin(logsName)
	for next := uint64(0); next < n; {
		lines, err := w.from.Logs(ctx, w.key, next, page)
		if err != nil {
			return err
		}
		if len(lines) == 0 {
			break
		}
		for i := range lines {
			next = lines[i].Index + 1
			if next > n { // logged after the state was read
				break // it was written since
			}
			w.record = store.AppendLogLine(w.record[:0], &lines[i])
			if !w.add(nil, w.record) {
				continue
			}
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
	}
	return w.flush(ctx)
}

// output writes the chunks that the state counts.
func (w *writer) output(ctx context.Context, n uint64) error {
	w.begin(outputName)
	for next := uint64(0); next < n; {
		chunks, err := w.from.Output(ctx, w.key, next, page)
		if err != nil {
			return err
		}
		if len(chunks) == 0 {
			break
		}
		for i := range chunks {
			next = chunks[i].Index + 1
			if next > n { // written after the state was read
				break // it was written since
			}
			w.record = store.AppendChunk(w.record[:0], &chunks[i])
			if !w.add(nil, w.record) {
				continue
			}
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
	}
	return w.flush(ctx)
}
