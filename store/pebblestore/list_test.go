package pebblestore

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// twins are a store on disk and its model in memory, with the same operations.
type twins struct {
	t     *rapid.T
	fs    *vfs.MemFS
	s     *Store
	model *memstore.Store
	parts map[store.PartitionID][2]store.Partition
}

func (w *twins) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *twins) open() {
	s, err := Open("db", Options{FS: w.fs})
	w.do(err)
	w.s, w.parts = s, map[store.PartitionID][2]store.Partition{}
}

// commit makes a commit in both.
func (w *twins) commit(c store.RunCommit) {
	p := c.Run.Partition()
	if _, ok := w.parts[p]; !ok {
		a, err := w.s.Acquire(w.t.Context(), p, "a", 0)
		w.do(err)
		b, err := w.model.Acquire(w.t.Context(), p, "b", 0)
		w.do(err)
		w.parts[p] = [2]store.Partition{a, b}
	}
	for _, part := range w.parts[p] {
		w.do(part.Commit(w.t.Context(), []store.RunCommit{c}))
	}
}

var (
	someAttributes = [][]store.Attribute{nil, {{Key: "a", Value: "1"}}, {{Key: "a", Value: "2"}}, {{Key: "a", Value: "1"}, {Key: "b", Value: ""}}}
	someWorkflows  = []string{"w", "v", "wv"}
)

// run draws a run and its stored parts.
func (w *twins) run() (key store.RunKey, st store.RunState, there bool) {
	key = store.RunKey{Namespace: store.NamespaceID(rapid.IntRange(0, 1).Draw(w.t, "namespace")),
		ID: fmt.Sprint("r", rapid.IntRange(0, 15).Draw(w.t, "run"))}
	st, err := w.model.State(w.t.Context(), key)
	return key, st, err == nil
}

// drawn makes a state another one.
func (w *twins) drawn(st store.RunState) store.RunState {
	st.Status = store.Status(rapid.IntRange(1, int(store.Terminated)).Draw(w.t, "status"))
	st.Attributes = rapid.SampledFrom(someAttributes).Draw(w.t, "attributes")
	st.Version = rapid.Uint32Range(1, 2).Draw(w.t, "version")
	st.WakeUnixMs = rapid.SampledFrom([]int64{store.NoWake, -7, 3, 5, 1 << 40}).Draw(w.t, "wake")
	st.EndedUnixMs = 0
	if st.Status.Terminal() {
		st.EndedUnixMs = rapid.Int64Range(1, 3).Draw(w.t, "end")
	}
	return st
}

// fresh is the state of a run that begins.
func (w *twins) fresh(key store.RunKey) store.RunState {
	return w.drawn(store.RunState{Run: key, Workflow: rapid.SampledFrom(someWorkflows).Draw(w.t, "workflow"),
		CreatedUnixMs: rapid.Int64Range(-2, 4).Draw(w.t, "created")})
}

// Change lets something happen to a run.
func (w *twins) Change(t *rapid.T) {
	w.t = t
	key, st, there := w.run()
	switch {
	case !there:
		w.commit(store.RunCommit{Run: key, Create: true, State: w.fresh(key)})
	case st.Deleted || rapid.IntRange(0, 9).Draw(t, "replace") == 0:
		w.commit(store.RunCommit{Run: key, Create: true, Replace: true, State: w.fresh(key)})
	case rapid.IntRange(0, 9).Draw(t, "delete") == 0:
		st.Deleted = rapid.Bool().Draw(t, "the id is kept")
		st.WakeUnixMs = store.NoWake
		w.commit(store.RunCommit{Run: key, Delete: true, State: st})
	case rapid.IntRange(0, 9).Draw(t, "continue") == 0:
		expect := st.Length
		st = w.drawn(st)
		st.Iteration++
		w.commit(store.RunCommit{Run: key, State: st,
			Before: &store.IterationEnd{Iteration: st.Iteration - 1, Expect: expect, Append: []store.Entry{{Seq: expect, Kind: store.KindSleep}}}})
	default:
		w.commit(store.RunCommit{Run: key, Expect: st.Length, State: w.drawn(st),
			Append: []store.Entry{{Seq: st.Length, Kind: store.KindSleep}}})
	}
}

// Crash cuts the power, with some of the unsynced data on the disk.
func (w *twins) Crash(t *rapid.T) {
	w.t = t
	seed := rapid.Uint64().Draw(t, "seed")
	fs := w.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rapid.IntRange(0, 100).Draw(t, "unsynced"),
		RNG: rand.New(rand.NewPCG(seed, 1))})
	w.do(w.s.Close())
	w.fs = fs
	w.open()
}

// Old downgrades the store to format 2 and opens it.
func (w *twins) Old(t *rapid.T) {
	w.t = t
	w.do(makeOld(w.s))
	w.do(w.s.Close())
	w.open()
}

// makeOld removes what format 3 has added.
func makeOld(s *Store) error {
	b := s.db.NewBatch()
	err := s.scan(nil, []byte{0xff}, func(k, v []byte) (bool, error) {
		switch k[6] {
		case store.TableRuns, store.TableStatus, store.TableBusy, store.TableOf, store.TableWith, store.TableCount:
			return true, b.Delete(k, nil)
		case store.TableState:
			run, err := store.ParseRunTableKey(k)
			old := slices.Clone(v)
			old[0] = 0
			_ = b.Set(k, old, nil)
			_ = b.Set(store.RunTableKey(run, store.TableLive), nil, nil)
			_ = b.Set(append(store.AppendPrefix(nil, 0, run.Partition(), store.TableSeen), run.ID...), []byte{1}, nil)
			return true, err
		}
		return true, nil
	})
	_ = b.Set(formatKey, binary.BigEndian.AppendUint16([]byte{2}, store.Partitions), nil)
	_ = b.Set(store.GlobalKey(0, store.TableNamespace, []byte("n")), store.AppendNamespace(nil, &store.Namespace{ID: 1, Name: "n"}), nil)
	return firstError(err, b.Commit(pebble.Sync))
}

// pages returns all runs of a query, page by page.
func pages(t *rapid.T, s store.Store, q store.Query, timers *store.TimerQuery) (runs []store.RunState) {
	for n := 0; ; n++ {
		var page store.Page
		var err error
		if timers != nil {
			page, err = s.Timers(t.Context(), *timers)
		} else {
			page, err = s.List(t.Context(), q)
		}
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, page.Runs...)
		if page.Next == nil {
			return runs
		}
		if n > 1000 {
			t.Fatal("the pages do not end")
		}
		q.After = page.Next
		if timers != nil {
			timers.After = page.Next
		}
	}
}

// Check compares the list for a random query, and all counts.
func (w *twins) Check(t *rapid.T) {
	w.t = t
	q := store.Query{Namespace: store.NamespaceID(rapid.IntRange(0, 1).Draw(t, "namespace")),
		Workflow: rapid.SampledFrom(append(someWorkflows, "")).Draw(t, "workflow"), Oldest: rapid.Bool().Draw(t, "oldest"),
		Attributes: rapid.SampledFrom(someAttributes).Draw(t, "attributes"), Limit: rapid.IntRange(0, 4).Draw(t, "limit"),
		Statuses: rapid.SliceOfN(rapid.Map(rapid.IntRange(1, 10), func(i int) store.Status { return store.Status(i) }), 0, 4).Draw(t, "statuses")}
	for _, bound := range []**int64{&q.CreatedFrom, &q.CreatedBefore} {
		if rapid.IntRange(0, 3).Draw(t, "bounded") == 0 {
			ms := rapid.Int64Range(-2, 5).Draw(t, "bound")
			*bound = &ms
		}
	}
	if a, b := pages(t, w.s, q, nil), pages(t, w.model, q, nil); !reflect.DeepEqual(a, b) {
		t.Fatalf("%+v lists\n%s, want\n%s", q, said(a), said(b))
	}
	timers := store.TimerQuery{Namespace: q.Namespace, UntilMs: rapid.SampledFrom([]int64{-9, 4, 5, 1 << 50}).Draw(t, "until"), Limit: q.Limit}
	x, y := timers, timers
	if a, b := pages(t, w.s, q, &x), pages(t, w.model, q, &y); !reflect.DeepEqual(a, b) {
		t.Fatalf("%+v: timers\n%s, want\n%s", timers, said(a), said(b))
	}
	w.nothingLeft()
	for ns := range store.NamespaceID(2) {
		a, err := w.s.Counts(t.Context(), ns)
		w.do(err)
		b, err := w.model.Counts(t.Context(), ns)
		w.do(err)
		if len(a)+len(b) > 0 && !slices.Equal(a, b) {
			t.Fatalf("counts\n%+v, want\n%+v", a, b)
		}
	}
}

// nothingLeft compares the number of keys in each list with the model's runs: no key of a former state is left.
func (w *twins) nothingLeft() {
	w.t.Helper()
	got, want := map[byte]int{}, map[byte]int{}
	w.do(w.s.scan(nil, []byte{0xff}, func(k, _ []byte) (bool, error) {
		got[k[6]]++
		return true, nil
	}))
	for ns := range store.NamespaceID(2) {
		for _, st := range pages(w.t, w.model, store.Query{Namespace: ns}, nil) {
			want[store.TableRuns]++
			want[store.TableOf]++
			want[store.TableWith] += len(st.Attributes)
			switch {
			case st.Status.Busy():
				want[store.TableBusy]++
				r, err := w.s.record(st.Run)
				w.do(err)
				if r.listed != 0 {
					want[store.TableStatus]++
				}
			case st.Status.Terminal():
				want[store.TableEnded]++
				want[store.TableStatus]++
			default:
				want[store.TableStatus]++
			}
		}
	}
	for _, table := range []byte{store.TableRuns, store.TableOf, store.TableWith, store.TableBusy, store.TableStatus, store.TableEnded,
		store.TableLive, store.TableStuck, store.TableSeen} {
		if got[table] != want[table] {
			w.t.Fatalf("table %c has %d keys, want %d", table, got[table], want[table])
		}
	}
}

func said(runs []store.RunState) string {
	var b strings.Builder
	for i := range runs {
		fmt.Fprintf(&b, "%s@%d %s %s; ", runs[i].Run.ID, runs[i].CreatedUnixMs, runs[i].Status, runs[i].Workflow)
	}
	return b.String()
}

// TestListsAreAsTheModel applies random operations and crashes: lists, timers and counts equal the model's.
func TestListsAreAsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &twins{t: t, fs: vfs.NewCrashableMem(), model: memstore.New().Open()}
		w.open()
		for range rapid.IntRange(0, 8).Draw(t, "first") {
			w.Change(t)
		}
		again := func(t *rapid.T) {
			switch rapid.IntRange(0, 5).Draw(t, "again") {
			case 0:
				w.Crash(t)
			case 1:
				w.Old(t)
			default:
				w.Change(t)
			}
		}
		t.Repeat(map[string]func(*rapid.T){"change": w.Change, "change too": w.Change, "and change": w.Change, "again": again,
			"": w.Check})
		w.do(w.s.Close())
	})
}

// TestIndexesAreCut cuts the power at many points while indexes are built: they are complete when the store is open
// again.
func TestIndexesAreCut(t *testing.T) {
	const runs = 300
	first := vfs.NewCrashableMem()
	s, err := Open("db", Options{FS: first})
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		run := store.RunKey{ID: fmt.Sprint("r", i)}
		st := store.RunState{Run: run, Workflow: "w", Status: store.Status(1 + i%10), WakeUnixMs: store.NoWake, CreatedUnixMs: int64(i)}
		p, err := s.Acquire(t.Context(), run.Partition(), "a", 0)
		if err == nil {
			err = p.Commit(t.Context(), []store.RunCommit{{Run: run, Create: true, State: st}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := firstError(makeOld(s), s.Close()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // several goroutines of Pebble write
	var cuts []*vfs.MemFS
	writes := 0
	fs := errorfs.Wrap(first, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		writes++
		cuts = append(cuts, first.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: writes % 2 * 100, RNG: rand.New(rand.NewPCG(1, uint64(writes)))}))
		return nil
	}))
	s, err = Open("db", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	halfway := 0
	for n, fs := range append(cuts, first) {
		if testing.Short() && n%4 > 0 && n < len(cuts) {
			continue
		}
		if db, err := pebble.Open("db", &pebble.Options{FS: fs, Merger: nil, ReadOnly: true, Logger: quiet{}}); err == nil {
			if v, closer, err := db.Get(indexKey); err == nil {
				if binary.BigEndian.Uint16(v) > 0 {
					halfway++
				}
				_ = closer.Close()
			}
			_ = db.Close()
		}
		s, err := Open("db", Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		listed := 0
		for i := range store.Terminated {
			page, err := s.List(t.Context(), store.Query{Statuses: []store.Status{i + 1}})
			if err != nil {
				t.Fatal(err)
			}
			listed += len(page.Runs)
		}
		counts, err := s.Counts(t.Context(), 0)
		if err != nil || listed != runs || len(counts) != 1 || counts[0].Runs.Total() != runs || counts[0].Runs[store.Failed] != runs/10 {
			t.Fatalf("cut %d: %d runs listed, counts %+v, %v", n, listed, counts, err)
		}
		if v, err := s.get(indexKey); v != nil || err != nil {
			t.Fatal("the indexes are not said to be whole", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if t.Logf("%d cuts, %d of them between two partitions", len(cuts), halfway); halfway == 0 {
		t.Error("no cut was between two partitions")
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

// TestListWithACorruptRun damages a run: each list that reaches it has it with its error, beside the other runs.
func TestListWithACorruptRun(t *testing.T) {
	s, err := Open("db", Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	parts := map[store.PartitionID]store.Partition{}
	for i := range 5 {
		run := store.RunKey{ID: fmt.Sprint("r", i)}
		if parts[run.Partition()] == nil {
			parts[run.Partition()] = acquire(t, s, run.Partition())
		}
		c := store.RunCommit{Run: run, Create: true, State: store.RunState{Run: run, Workflow: fmt.Sprint("w", i%2), Status: store.Sleeping,
			CreatedUnixMs: int64(1000 + i), WakeUnixMs: int64(5000 + i)}}
		if err := parts[run.Partition()].Commit(t.Context(), []store.RunCommit{c}); err != nil {
			t.Fatal(err)
		}
	}
	bad := store.RunKey{ID: "r2"}
	if err := s.db.Set(store.RunTableKey(bad, store.TableState), []byte("damaged bytes"), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	s.cache.put(bad, nil)
	for _, c := range []struct {
		q    store.Query
		want string
	}{
		{store.Query{}, "r4 r3 r2! r1 r0"}, {store.Query{Oldest: true, Limit: 3}, "r0 r1 r2! r3 r4"},
		{store.Query{Workflow: "w0"}, "r4 r2! r0"}, {store.Query{Statuses: []store.Status{store.Sleeping}}, "r4 r3 r2! r1 r0"},
		{store.Query{Statuses: []store.Status{store.Completed}}, ""},
	} {
		var got []string
		for st, err := range store.Runs(t.Context(), s, c.q, 0) {
			if err != nil {
				t.Fatal(err)
			}
			id := st.Run.ID
			if st.Run == bad {
				id += "!"
				if st.Status != store.Stuck || !strings.Contains(st.Reason, "cannot be read") || st.CreatedUnixMs != 1002 {
					t.Errorf("%+v", st)
				}
			}
			got = append(got, id)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %q, want %q", c.q, got, c.want)
		}
	}
	page, err := s.Timers(t.Context(), store.TimerQuery{UntilMs: 1 << 50})
	if err != nil || len(page.Runs) != 4 {
		t.Errorf("%d timers, %v", len(page.Runs), err)
	}
}
