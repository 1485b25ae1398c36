package archive

import (
	"archive/tar"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"github.com/wfhost/wfhost/store"
)

// Source is what an archive is made of. A store.Store is one.
type Source interface {
	Run(ctx context.Context, run store.RunKey) (store.RunState, []store.Entry, error)
	Load(ctx context.Context, run store.RunKey, iteration uint32, from store.Seq) iter.Seq2[store.Entry, error]
	Logs(ctx context.Context, run store.RunKey, from uint64, limit int) ([]store.LogLine, error)
	Output(ctx context.Context, run store.RunKey, from uint64, limit int) ([]store.Chunk, error)
	Modules() store.ModuleStore
}

// page is how many log lines or chunks are read at a time.
const page = 100

// Write writes a run as it is durable now, with its module or without. The same run at the same point is the same bytes, whatever
// wrote them. Nothing is written before the state, the newest journal and the module have been read.
func Write(ctx context.Context, w io.Writer, from Source, key store.RunKey, module bool) error {
	st, entries, err := from.Run(ctx, key)
	if err != nil {
		return err
	}
	if st.Deleted {
		return fmt.Errorf("run %q: %w: it was deleted", key.ID, store.ErrNotFound)
	}
	var wasm []byte
	if module {
		if wasm, err = from.Modules().Get(ctx, st.Module); err != nil {
			return fmt.Errorf("module of run %q: %w", key.ID, err)
		}
	}
	st.Run.Namespace = 0 // the number means nothing elsewhere
	out := &writer{tar: tar.NewWriter(w)}
	if err := out.member(stateName, store.AppendState(nil, &st)); err != nil {
		return err
	}
	if module {
		if err := out.member(moduleName, wasm); err != nil {
			return err
		}
	}
	if err := out.journals(ctx, from, key, st.Iteration, entries); err != nil {
		return err
	}
	if err := out.logs(ctx, from, key, st.LogRecords); err != nil {
		return err
	}
	if err := out.output(ctx, from, key, st.Output); err != nil {
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
	files  []File
	kind   string // of the part that is being filled
	number int    // of the part
	part   []byte
	record []byte
}

// member writes one member. Its header has neither owner nor time, so that the same run makes the same file.
func (w *writer) member(name string, b []byte) error {
	w.files = append(w.files, fileOf(name, b))
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(b)), Format: tar.FormatUSTAR}
	if err := w.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.tar.Write(b)
	return err
}

// begin begins with the first part of a kind.
func (w *writer) begin(kind string) { w.kind, w.number, w.part = kind, 0, w.part[:0] }

// add adds a record to the part; prefix stands before its length.
func (w *writer) add(prefix, record []byte) error {
	w.part = append(w.part, prefix...)
	w.part = append(binary.AppendUvarint(w.part, uint64(len(record))), record...)
	if len(w.part) < partBytes {
		return nil
	}
	return w.flush()
}

// flush writes the part, unless it is empty.
func (w *writer) flush() error {
	if len(w.part) == 0 {
		return nil
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

// journals writes the journals of all iterations. Those before the newest one do not change any more.
func (w *writer) journals(ctx context.Context, from Source, key store.RunKey, newest uint32, entries []store.Entry) error {
	w.begin(journalName)
	add := func(iteration uint32, e *store.Entry) error {
		w.record = store.AppendEntry(w.record[:0], e)
		return w.add(binary.AppendUvarint(nil, uint64(iteration)), w.record)
	}
	for it := range newest {
		for e, err := range from.Load(ctx, key, it, 0) {
			if err == nil {
				err = add(it, &e)
			}
			if err != nil {
				return fmt.Errorf("iteration %d: %w", it, err)
			}
		}
	}
	for i := range entries {
		if err := add(newest, &entries[i]); err != nil {
			return err
		}
	}
	return w.flush()
}

// logs writes the lines that the state counts.
func (w *writer) logs(ctx context.Context, from Source, key store.RunKey, n uint64) error {
	w.begin(logsName)
	for next := uint64(0); next < n; {
		lines, err := from.Logs(ctx, key, next, page)
		if err != nil {
			return err
		}
		if len(lines) == 0 {
			break
		}
		for i := range lines {
			if next = lines[i].Index + 1; next > n {
				break // it was written since
			}
			w.record = store.AppendLogLine(w.record[:0], &lines[i])
			if err := w.add(nil, w.record); err != nil {
				return err
			}
		}
	}
	return w.flush()
}

// output writes the chunks that the state counts.
func (w *writer) output(ctx context.Context, from Source, key store.RunKey, n uint64) error {
	w.begin(outputName)
	for next := uint64(0); next < n; {
		chunks, err := from.Output(ctx, key, next, page)
		if err != nil {
			return err
		}
		if len(chunks) == 0 {
			break
		}
		for i := range chunks {
			if next = chunks[i].Index + 1; next > n {
				break // it was written since
			}
			w.record = store.AppendChunk(w.record[:0], &chunks[i])
			if err := w.add(nil, w.record); err != nil {
				return err
			}
		}
	}
	return w.flush()
}
