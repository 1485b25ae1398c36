package archive

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// long is a source whose newest iteration is long and is read in parts.
type long struct {
	*source
	whole int   // number of reads of the whole run
	gets  int   // how often the module was read
	read  int64 // bytes of entries that were read
}

func (l *long) Run(ctx context.Context, key store.RunKey) (store.RunState, []store.Entry, error) {
	l.whole++
	return l.source.Run(ctx, key)
}

func (l *long) Modules() store.ModuleStore { return l }

func (l *long) Get(ctx context.Context, d store.Digest) ([]byte, error) {
	l.gets++
	return l.source.Get(ctx, d)
}

func (l *long) Load(_ context.Context, _ store.RunKey, it uint32, from store.Seq) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for _, e := range l.iterations[it][from:] {
			l.read += int64(len(e.Data))
			if !yield(e, nil) {
				return
			}
		}
	}
}

// newLong returns a source with a journal and a module of several parts. One entry was appended after the state was
// read.
func newLong(t *testing.T) *long {
	t.Helper()
	s := newSource(t)
	newest := s.iterations[1]
	for i := range 120 {
		newest = append(newest, store.Entry{Seq: newest[len(newest)-1].Seq + 1, UnixMs: 2000, Kind: store.KindSignal, Name: "s",
			Data: bytes.Repeat([]byte{byte(i)}, 200_000)})
	}
	s.state.Length = store.Seq(len(newest))
	s.iterations[1] = append(newest, store.Entry{Seq: store.Seq(len(newest)), Data: []byte("since")})
	s.wasm = bytes.Repeat([]byte("wasm"), 5<<20/2)
	s.state.JournalBytes = 120 * 200_000
	return &long{source: s}
}

// TestWriteHoldsNoJournal writes a long journal for a reader that takes piece after piece. The file is the same as if
// the journal had been read as a whole, but only one part is in memory at a time.
func TestWriteHoldsNoJournal(t *testing.T) {
	l := newLong(t)
	var b bytes.Buffer
	if err := Write(t.Context(), &b, l, l.state.Run, true, false); err != nil {
		t.Fatal(err)
	}
	if l.whole != 0 || l.gets < 3 {
		t.Errorf("the journal was read as a whole %d times, the module %d times", l.whole, l.gets)
	}
	parts := members(t, b.Bytes())
	l.state.JournalBytes = 1
	l.iterations[1] = l.iterations[1][:l.state.Length]
	var whole bytes.Buffer
	if err := Write(t.Context(), &whole, l, l.state.Run, true, false); err != nil || l.whole != 1 {
		t.Fatal(err, l.whole)
	}
	for i, m := range members(t, whole.Bytes()) {
		if same := m.Name == parts[i].Name && bytes.Equal(m.b, parts[i].b); !same && m.Name != stateName && m.Name != manifestName {
			t.Errorf("member %d is %s, and %s in parts", i, m.Name, parts[i].Name)
		}
	}
	if n := slices.IndexFunc(parts, func(m member) bool { return strings.HasPrefix(m.Name, journalName) }); n < 0 || len(parts) < n+5 {
		t.Fatalf("%d parts", len(parts))
	}

	l = newLong(t)
	var written int64
	if err := Write(t.Context(), writerFunc(func(p []byte) (int, error) {
		if ahead := l.read - written; ahead > 2*partBytes {
			t.Fatalf("%d bytes of the journal were read, when %d bytes were written", l.read, written)
		}
		written += int64(len(p))
		return len(p), nil
	}), l, l.state.Run, false, false); err != nil {
		t.Fatal(err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestReplacedWhileWritten deletes and replaces a run in the middle of writing its journal: the rest is not written.
func TestReplacedWhileWritten(t *testing.T) {
	for name, change := range map[string]func(*store.RunState){
		"deleted":  func(st *store.RunState) { st.Deleted = true },
		"replaced": func(st *store.RunState) { st.Incarnation[0]++ },
		"imported": func(st *store.RunState) { st.Import = "x" },
	} {
		l := newLong(t)
		err := Write(t.Context(), writerFunc(func(p []byte) (int, error) {
			if len(p) > partBytes/2 {
				change(&l.state)
			}
			return len(p), nil
		}), l, l.state.Run, false, false)
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
