package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// source is a run that has continued as new once, and sleeps.
type source struct {
	store.ModuleStore
	state      store.RunState
	iterations [][]store.Entry
	logs       []store.LogLine
	output     []store.Chunk
	wasm       []byte
	bad        map[string]error // by what is read
}

func (s *source) Modules() store.ModuleStore { return s }

func (s *source) Get(context.Context, store.Digest) ([]byte, error) { return s.wasm, s.bad["module"] }

func (s *source) State(context.Context, store.RunKey) (store.RunState, error) {
	return s.state, s.bad["run"]
}

func (s *source) Run(context.Context, store.RunKey) (store.RunState, []store.Entry, error) {
	return s.state, s.iterations[len(s.iterations)-1], s.bad["run"]
}

func (s *source) Load(_ context.Context, _ store.RunKey, it uint32, _ store.Seq) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for _, e := range s.iterations[it] {
			if !yield(e, s.bad["load"]) {
				return
			}
		}
	}
}

func (s *source) Logs(_ context.Context, _ store.RunKey, from uint64, limit int) ([]store.LogLine, error) {
	from = min(from, uint64(len(s.logs)))
	return s.logs[from:min(from+uint64(limit), uint64(len(s.logs)))], s.bad["logs"]
}

func (s *source) Output(_ context.Context, _ store.RunKey, from uint64, limit int) ([]store.Chunk, error) {
	from = min(from, uint64(len(s.output)))
	return s.output[from:min(from+uint64(limit), uint64(len(s.output)))], s.bad["output"]
}

func iteration(t *testing.T, n uint32, module string, entries ...store.Entry) []store.Entry {
	t.Helper()
	var j journal.Journal
	started := journal.Started{RunID: "r", Workflow: "w", Version: 1, Module: module, Iteration: n, Seed: make([]byte, 32)}
	for i, e := range append([]store.Entry{started.Entry([]byte("input"))}, entries...) {
		if _, err := j.Append(e, int64(1000+i)); err != nil {
			t.Fatal(err)
		}
	}
	return j.All()
}

func newSource(t *testing.T) *source {
	t.Helper()
	s := &source{wasm: []byte("\x00asm"), bad: map[string]error{}}
	module := store.Digest(sha256.Sum256(s.wasm))
	activated := store.Entry{Kind: store.KindActivated}
	s.iterations = [][]store.Entry{
		iteration(t, 0, module.String(), activated, store.Entry{Kind: store.KindContinue}, store.Entry{Kind: store.KindContinued}),
		iteration(t, 1, module.String(), activated, store.Entry{Kind: store.KindSleep, Handle: 1, Name: "nap", DueUnixMs: 9000, HasDue: true}),
	}
	for i := range uint64(page + 7) {
		s.logs = append(s.logs, store.LogLine{Index: i, UnixMs: 1, Text: strings.Repeat("line ", 10_000)})
		s.output = append(s.output, store.Chunk{Index: i, UnixMs: 1, Topic: "t", Data: []byte("chunk")})
	}
	s.state = store.RunState{Run: store.RunKey{Namespace: 7, ID: "r"}, Workflow: "w", Version: 1, Module: module, Status: store.Sleeping,
		Iteration: 1, Length: 3, LogRecords: page + 5, Output: page + 5, CreatedUnixMs: 1}
	return s
}

func (s *source) write(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(t.Context(), &b, s, s.state.Run, true, false); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestWrite reads an archive that it has written. It lacks what came after the state was read, and the namespace's
// number.
func TestWrite(t *testing.T) {
	s := newSource(t)
	file := s.write(t)
	if !bytes.Equal(file, s.write(t)) {
		t.Error("it is not the same file")
	}
	s.state.Run.Namespace = 8
	if !bytes.Equal(file, s.write(t)) {
		t.Error("another namespace makes another file")
	}
	r, err := Read(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if r.State.Run != (store.RunKey{ID: "r"}) || r.Logs != page+5 || r.Output != page+5 || len(r.Entries) != 3 ||
		r.Entries[2].Name != "nap" || !bytes.Equal(r.Module, s.wasm) {
		t.Errorf("%+v", r)
	}
	if name, err := Workflow(bytes.NewReader(file)); name != "w" || err != nil {
		t.Error(name, err)
	}
	if parts := strings.Count(string(file), "logs/00000"); parts < 3 { // once in the manifest and twice as members
		t.Errorf("the log stands in %d parts", parts)
	}
	var without bytes.Buffer
	if err := Write(t.Context(), &without, s, s.state.Run, false, false); err != nil {
		t.Fatal(err)
	}
	if bare, err := Read(&without); err != nil || bare.Module != nil || len(bare.Entries) != 3 || bare.State.Module != r.State.Module {
		t.Errorf("without the module: %+v, %v", bare, err)
	}
	ill := errors.New("ill")
	for _, what := range []string{"run", "module", "load", "logs", "output"} {
		s.bad = map[string]error{what: ill}
		if err := Write(t.Context(), io.Discard, s, s.state.Run, true, false); !errors.Is(err, ill) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.bad = nil
	for n := range 12 {
		if err := Write(t.Context(), &short{left: n * 1000}, s, s.state.Run, true, false); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%d: %v", n, err)
		}
	}
	s.state.Deleted = true
	if err := Write(t.Context(), io.Discard, s, s.state.Run, true, false); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

// short is a writer that fills up.
type short struct{ left int }

func (s *short) Write(b []byte) (int, error) {
	s.left -= len(b)
	if s.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

// member is a member of a modified archive.
type member struct {
	tar.Header
	b []byte
}

func members(t *testing.T, file []byte) (list []member) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(file)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		b, err2 := io.ReadAll(r)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		list = append(list, member{*h, b})
	}
}

// pack writes members and, if right, a manifest that matches them as the last member.
func pack(t *testing.T, list []member, right bool) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i, m := range list {
		if right && i == len(list)-1 {
			var of Manifest
			if err := json.Unmarshal(m.b, &of); err != nil {
				t.Fatal(err)
			}
			if st, err := store.DecodeState(list[0].b); err == nil && of.Format != "" {
				of = manifestOf(&st, nil)
			}
			of.Files = nil
			for _, other := range list[:i] {
				of.Files = append(of.Files, fileOf(other.Name, other.b))
			}
			m.b, _ = json.Marshal(of)
		}
		m.Size = int64(len(m.b))
		if m.Typeflag != tar.TypeReg {
			m.Size, m.b = 0, nil
		}
		if err := w.WriteHeader(&m.Header); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(m.b)
	}
	_ = w.Close()
	return b.Bytes()
}

func records(prefix []byte, list ...[]byte) (b []byte) {
	for _, r := range list {
		b = append(binary.AppendUvarint(append(b, prefix...), uint64(len(r))), r...)
	}
	return b
}

// TestHostile refuses archives with contradictions and valid checksums.
func TestHostile(t *testing.T) {
	s := newSource(t)
	s.logs, s.state.LogRecords = s.logs[:1], 1
	s.output, s.state.Output = s.output[:1], 1
	const state, module, entries, logs, output, manifest = 0, 1, 2, 3, 4, 5
	set := func(change func(st *store.RunState)) func([]member) []member {
		return func(m []member) []member {
			st := s.state
			st.Run.Namespace = 0
			change(&st)
			m[state].b = store.AppendState(nil, &st)
			return m
		}
	}
	swap := func(i int, b []byte) func([]member) []member {
		return func(m []member) []member { m[i].b = b; return m }
	}
	name := func(i int, to string) func([]member) []member {
		return func(m []member) []member { m[i].Name = to; return m }
	}
	first, second := s.iterations[0], s.iterations[1]
	journals := func(of ...any) []byte {
		var b []byte
		it := 0
		for _, v := range of {
			switch v := v.(type) {
			case int:
				it = v
			case store.Entry:
				b = append(b, records(binary.AppendUvarint(nil, uint64(it)), store.AppendEntry(nil, &v))...)
			}
		}
		return b
	}
	sealedLine, sealedChunk, sealed := s.logs[0], s.output[0], second[2]
	sealedLine.Sealed, sealedChunk.Sealed, sealed.Sealed = true, true, true
	newer := store.AppendEntry(nil, &second[2])
	newer[0] = 200
	for what, c := range map[string]struct {
		change func([]member) []member
		want   string
	}{
		"the state alone":  {func(m []member) []member { return m[:1] }, "ends before its manifest"},
		"a path":           {name(entries, "../../etc/passwd"), "does not belong here"},
		"an absolute path": {name(module, "/module.wasm"), "does not belong here"},
		"a link": {func(m []member) []member {
			m[module].Typeflag, m[module].Linkname = tar.TypeSymlink, "/etc/passwd"
			return m
		}, "not a plain regular file"},
		"parts out of order":    {func(m []member) []member { m[logs], m[output] = m[output], m[logs]; return m }, "does not belong here"},
		"a part left out":       {name(logs, "logs/000001"), "does not belong here"},
		"the module later":      {func(m []member) []member { m[module], m[entries] = m[entries], m[module]; return m }, "does not belong here"},
		"another state":         {swap(state, []byte("no record")), "corrupt record"},
		"another module":        {swap(module, []byte("\x00asm2")), "its module is"},
		"too large a module":    {swap(module, make([]byte, 33<<20)), "the limit is"},
		"a namespace":           {set(func(st *store.RunState) { st.Run.Namespace = 1 }), "has a namespace"},
		"a deleted run":         {set(func(st *store.RunState) { st.Deleted = true }), "deleted run"},
		"an id":                 {set(func(st *store.RunState) { st.Run.ID = "../x" }), "its state"},
		"another id":            {set(func(st *store.RunState) { st.Run.ID = "q" }), "its journal is that of run"},
		"another length":        {set(func(st *store.RunState) { st.Length = 9 }), "its journal has 3 entries, and its state says 9"},
		"another iteration":     {set(func(st *store.RunState) { st.Iteration = 2 }), "its journal ends in iteration 1, and the run has come to 2"},
		"an earlier iteration":  {set(func(st *store.RunState) { st.Iteration = 0 }), "the newest is 0"},
		"another end":           {set(func(st *store.RunState) { st.Status = store.Completed }), "and its state says completed"},
		"another wait":          {set(func(st *store.RunState) { st.Suspension.Seq = 4 }), "waits behind entry 4 of 3"},
		"no journal":            {swap(entries, nil), "its journal ends in iteration 0"},
		"a cut record":          {swap(entries, journals(0, first[0])[:9]), "claims"},
		"half a number":         {swap(entries, []byte{0x80}), "without iteration"},
		"a huge record":         {swap(logs, binary.AppendUvarint(nil, 1<<62)), "claims"},
		"an endless length":     {swap(logs, bytes.Repeat([]byte{0xff}, 20)), "claims"},
		"a gap":                 {swap(entries, journals(0, first[0], first[2])), "entry 2 stands where entry 1 should"},
		"an iteration too many": {swap(entries, journals(0, first[0], first[1], 1, second[0])), "has not continued as new"},
		"no first iteration":    {swap(entries, journals(1, second[0], second[1], second[2])), "begins with iteration 1"},
		"a journal that lies": {swap(entries, journals(0, first[0], first[1], first[2], first[3], 1, second[0], second[1],
			store.Entry{Seq: 2, Kind: store.KindTimer, UnixMs: 2000, Handle: 5})), "handle 5"},
		"an encrypted entry": {swap(entries, journals(0, sealed)), ""},
		"an encrypted line":  {swap(logs, records(nil, store.AppendLogLine(nil, &sealedLine))), "encrypted"},
		"an encrypted chunk": {swap(output, records(nil, store.AppendChunk(nil, &sealedChunk))), "encrypted"},
		"no line":            {swap(logs, records(nil, []byte("x"))), "corrupt"},
		"no chunk":           {swap(output, records(nil, []byte("x"))), "corrupt"},
		"lines twice":        {swap(logs, records(nil, store.AppendLogLine(nil, &s.logs[0]), store.AppendLogLine(nil, &s.logs[0]))), "stands behind"},
		"no manifest":        {swap(manifest, []byte(`{}`)), `format ""`},
		"something behind":   {func(m []member) []member { return append(m, m[logs]) }, ""},
	} {
		m := c.change(members(t, s.write(t)))
		_, err := Read(bytes.NewReader(pack(t, m, len(m) == manifest+1)))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	line := s.logs[0]
	line.Text = "another line"
	changed := swap(logs, records(nil, store.AppendLogLine(nil, &line)))(members(t, s.write(t)))
	if _, err := Read(bytes.NewReader(pack(t, changed, false))); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "is not what") {
		t.Errorf("a member that was changed: %v", err)
	}
	for what, text := range map[string]string{"no JSON": "{", "a field": `{"format":"wfhost-run","version":1,"x":1}`,
		"another run": `{"format":"wfhost-run","version":1,"run":"q"}`} {
		if _, err := Read(bytes.NewReader(pack(t, swap(manifest, []byte(text))(members(t, s.write(t))), false))); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, m := range map[string][]member{
		"a manifest": swap(manifest, []byte(`{"format":"wfhost-run","version":3}`))(members(t, s.write(t))),
		"an entry":   swap(entries, records([]byte{0}, resummed(newer)))(members(t, s.write(t))),
	} {
		if _, err := Read(bytes.NewReader(pack(t, m, false))); !errors.Is(err, store.ErrVersion) || errors.Is(err, ErrInvalid) {
			t.Errorf("%s of a newer release: %v", what, err)
		}
	}
}

// resummed returns a record with a valid checksum.
func resummed(b []byte) []byte {
	body := b[:len(b)-4]
	return binary.LittleEndian.AppendUint32(bytes.Clone(body), crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

// TestDamage refuses archives that were cut, or in which any byte other than padding was changed.
func TestDamage(t *testing.T) {
	s := newSource(t)
	s.logs, s.state.LogRecords = s.logs[:1], 1
	file := s.write(t)
	want := fmt.Sprintf("%+v", must(Read(bytes.NewReader(file))))
	for i := 0; i < len(file); i += 11 {
		bad := bytes.Clone(file)
		bad[i] ^= 0x10
		if r, err := Read(bytes.NewReader(bad)); err == nil && fmt.Sprintf("%+v", r) != want {
			t.Fatalf("byte %d: the run is another one", i)
		}
	}
	for i := 0; i < len(file)-3*512; i += 97 { // the manifest is followed by its padding and two blocks of zeros
		if _, err := Read(bytes.NewReader(file[:i])); !errors.Is(err, ErrInvalid) {
			t.Fatalf("cut after %d of %d: %v", i, len(file), err)
		}
	}
	ill := errors.New("ill")
	if _, err := Read(io.MultiReader(bytes.NewReader(file[:600]), &failing{ill})); !errors.Is(err, ill) || errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func must(r *Run, err error) *Run {
	if err != nil {
		panic(err)
	}
	return r
}

// FuzzRead reads any bytes: an accepted archive gives the same run when it is written and read again.
func FuzzRead(f *testing.F) {
	f.Add([]byte("nothing"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := Read(bytes.NewReader(b)); err == nil && r.State.Run.ID == "" {
			t.Error("a run without id")
		}
	})
}

// TestHoles refuses sparse members, by which a file of a few kilobytes could have members of gigabytes.
func TestHoles(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	list := make([]byte, 512) // the list of data segments: none, for a member of 1 MiB
	copy(list, "1\n1048576\n0\n")
	h := &tar.Header{Name: stateName, Typeflag: tar.TypeReg, Size: int64(len(list)), Format: tar.FormatPAX, PAXRecords: map[string]string{
		"XXX.sparse.major": "1", "XXX.sparse.minor": "0", "XXX.sparse.name": stateName, "XXX.sparse.realsize": "1048576"}}
	if err := w.WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(list); err != nil {
		t.Fatal(err)
	}
	file := bytes.ReplaceAll(b.Bytes(), []byte("XXX."), []byte("GNU.")) // which package tar does not write
	if h, err := tar.NewReader(bytes.NewReader(file)).Next(); err != nil || h.Size != 1<<20 {
		t.Fatal("the test makes no holes:", h, err)
	}
	if _, err := Read(bytes.NewReader(file)); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "not a plain regular file") {
		t.Error(err)
	}
}
