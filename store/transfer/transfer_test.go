package transfer_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
	"github.com/wfhost/wfhost/store/postgres"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
	"github.com/wfhost/wfhost/store/transfer"
)

func TestMain(m *testing.M) { os.Exit(pgtest.M{M: m}.Run()) }

// place is where a store is: a folder, or a database.
type place struct{ dir, url string }

func folder(t testing.TB) place   { return place{dir: filepath.Join(t.TempDir(), "store")} }
func database(t testing.TB) place { return place{url: pgtest.Fresh(t)} }

// open opens the store for use, as a host does.
func (p place) open(t testing.TB) store.Store {
	t.Helper()
	s, err := p.tryOpen()
	ok(t, err)
	return s
}

func (p place) tryOpen() (store.Store, error) {
	if p.dir != "" {
		return pebblestore.Open(p.dir, pebblestore.Options{NoSync: true})
	}
	return postgres.Open(ctx, p.url, postgres.Options{Unsafe: true, Migrate: true})
}

// side opens the store for a copy.
func (p place) side(t testing.TB, target bool) transfer.Store {
	t.Helper()
	if p.dir != "" {
		s, err := pebblestore.OpenTransfer(p.dir, p.dir, pebblestore.Options{NoSync: true})
		ok(t, err)
		return s
	}
	s, err := postgres.OpenTransfer(ctx, p.url, postgres.TransferOptions{Target: target, Unsafe: true})
	ok(t, err)
	return s
}

// copyTo moves what is in p.
func (p place) copyTo(t testing.TB, to place) *transfer.Report {
	t.Helper()
	a, b := p.side(t, false), to.side(t, true)
	defer func() { ok(t, errors.Join(a.Close(), b.Close())) }()
	r, err := transfer.Copy(ctx, a, b, transfer.Options{})
	ok(t, err)
	return r
}

// records returns all records, sorted, without epochs: each opening of a database for a copy fences its owners.
func (p place) records(t testing.TB) (list []string) {
	t.Helper()
	s := p.side(t, false)
	defer func() { ok(t, s.Close()) }()
	ok(t, s.Export(ctx, func(r *transfer.Record) error {
		r.Epoch = 0
		list = append(list, string(r.AppendTo(nil)))
		return nil
	}))
	slices.Sort(list)
	return list
}

// TestCopyThereAndBack copies a store with random records of all kinds from one to the next, of each kind of store into each. The
// records are the same, and so is everything that a host reads.
func TestCopyThereAndBack(t *testing.T) {
	for name, way := range map[string][]place{
		"folder first":   {folder(t), database(t), folder(t)},
		"database first": {database(t), database(t), folder(t), folder(t)},
	} {
		t.Run(name, func(t *testing.T) {
			s := way[0].open(t)
			fill(t, s, 7, 200)
			ok(t, s.Close())
			want := read(t, way[0])
			newest := epochs(t, way[0])
			for i, to := range way[1:] {
				before := way[i].records(t)
				r := way[i].copyTo(t, to)
				for _, k := range transfer.Kinds() {
					if r.Records(k) == 0 {
						t.Errorf("no %s were copied: the test must make some", k)
					}
				}
				same(t, before, to.records(t))
				if _, err := way[i].tryOpen(); !errors.Is(err, transfer.ErrMoved) || !strings.Contains(err.Error(), "wfhost store reopen") {
					t.Errorf("the source can be opened: %v", err)
				}
				got := read(t, to)
				for what := range want {
					t.Run(what, func(t *testing.T) { same(t, want[what], got[what]) })
				}
				if to.dir != "" {
					sound(t, to.dir)
				}
				now := epochs(t, to)
				for p := range now {
					if now[p] <= newest[p] {
						t.Errorf("partition %d has epoch %d, and %d before the copy", p, now[p], newest[p])
					}
				}
				newest = now
			}
		})
	}
}

// epochs acquires all partitions.
func epochs(t testing.TB, p place) (list []store.Epoch) {
	t.Helper()
	s := p.open(t)
	defer func() { ok(t, s.Close()) }()
	for i := range store.PartitionID(store.Partitions) {
		part, err := s.Acquire(ctx, i, "test", 0)
		ok(t, err)
		list = append(list, part.Epoch())
	}
	return list
}

func same(t testing.TB, a, b []string) {
	t.Helper()
	if slices.Equal(a, b) {
		return
	}
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("record %d of %d and %d:\n%q\n%q", i, len(a), len(b), a[i], b[i])
		}
	}
	t.Fatalf("%d and %d records", len(a), len(b))
}

// sound checks the indexes, counts and payloads of a folder.
func sound(t testing.TB, dir string) {
	t.Helper()
	r, err := pebblestore.Check(ctx, dir, pebblestore.CheckOptions{})
	ok(t, err)
	if len(r.Problems) > 0 || r.Orphans > 0 {
		t.Errorf("%d problems, first %+v; %d orphans", len(r.Problems), r.Problems[:min(1, len(r.Problems))], r.Orphans)
	}
}

// read returns what the methods of a store say, and the SHA-256 of what is long.
func read(t testing.TB, p place) map[string][]string {
	t.Helper()
	s := p.open(t)
	defer func() { ok(t, s.Close()) }()
	is := map[string][]string{}
	note := func(what string, v any, err error) {
		t.Helper()
		ok(t, err)
		b, err := json.Marshal(v)
		ok(t, err)
		if string(b) == "null" { // an empty list
			b = []byte("[]")
		}
		if len(b) > 1000 {
			b = fmt.Appendf(b[:200], "… %x", sha256.Sum256(b))
		}
		is[what] = append(is[what], string(b))
	}
	tallies, err := s.Tallies(ctx)
	for ns, n := range tallies {
		if n == (store.Tally{}) {
			delete(tallies, ns)
		}
	}
	note("tallies", tallies, err)
	quotas, err := s.Quotas(ctx)
	note("quotas", quotas, err)
	retentions, err := s.Retentions(ctx)
	note("retentions", retentions, err)
	keys, err := s.SealKeys(ctx)
	note("keys", keys, err)
	unused, err := s.Modules().Unused(ctx, 100)
	note("unused modules", unused, err)
	for tok, err := range s.Tokens().All(ctx) {
		note("tokens", tok, err)
	}
	for ns, err := range s.Namespaces(ctx) {
		note("namespaces", ns, err)
		readNamespace(t, s, ns.ID, note)
	}
	for i := range store.PartitionID(store.Partitions) {
		part, err := s.Acquire(ctx, i, "test", 0)
		ok(t, err)
		due, err := part.Due(ctx, store.WakeKey{}, 1e15, 1000)
		note("wakes", due, err)
		commands, err := part.Commands(ctx, 0, 10000)
		note("commands", commands, err)
		ok(t, part.Release(ctx))
	}
	return is
}

func readNamespace(t testing.TB, s store.Store, ns store.NamespaceID, note func(string, any, error)) {
	t.Helper()
	counts, err := s.Counts(ctx, ns)
	note("counts", counts, err)
	used, err := s.Used(ctx, ns)
	note("used", used, err)
	limits, err := s.Limits(ctx, ns)
	note("limits", limits, err)
	schedules, err := s.Schedules(ctx, store.ScheduleQuery{Namespace: ns, Limit: 1000})
	note("schedules", schedules, err)
	timers, err := s.Timers(ctx, store.TimerQuery{Namespace: ns, UntilMs: 1e12, Limit: 1000})
	note("timers", timers, err)
	for v, err := range s.Modules().Versions(ctx, ns, "") {
		note("versions", v, err)
		wasm, err := s.Modules().Get(ctx, v.Module)
		note("modules", wasm, err)
	}
	added, err := s.Modules().Count(ctx, ns)
	note("number of versions", added, err)
	for _, name := range []string{"w0", "w1", "w2", "host/charge"} {
		cells, err := s.Cells(ctx, store.CellQuery{Queue: store.RunKey{Namespace: ns, ID: name}, Limit: 1000})
		note("cells", cells, err)
	}
	for i := range 100 {
		h, held, err := s.Hook(ctx, ns, fmt.Sprint("token", i))
		note("hooks", []any{h, held}, err)
	}
	for _, status := range []store.Status{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10} {
		for _, attributes := range [][]store.Attribute{nil, {{Key: "k0", Value: "v\"\\é1"}}} {
			q := store.Query{Namespace: ns, Limit: 1000, Attributes: attributes}
			if status > 0 {
				q.Statuses = []store.Status{status}
			}
			page, err := s.List(ctx, q)
			note(fmt.Sprint("list of ", q.Statuses, attributes), page, err)
			if status == 0 && attributes == nil {
				readRuns(t, s, page.Runs, note)
			}
		}
	}
	for p := range store.PartitionID(store.Partitions) {
		for _, deleted := range []bool{false, true} {
			list, err := s.Ended(ctx, store.EndedQuery{Namespace: ns, Partition: p, Deleted: deleted, UntilMs: 1e13, Limit: 1000})
			note("ended", list, err)
			for _, at := range list {
				st, err := s.State(ctx, store.RunKey{Namespace: ns, ID: at.ID})
				note("ended states", st, err)
			}
		}
	}
}

func readRuns(t testing.TB, s store.Store, runs []store.RunState, note func(string, any, error)) {
	t.Helper()
	for i := range runs {
		run := runs[i].Run
		st, list, err := s.Run(ctx, run)
		note("runs", []any{st, list}, err)
		logs, err := s.Logs(ctx, run, 0, 10000)
		note("logs", logs, err)
		output, err := s.Output(ctx, run, 0, 10000)
		note("output", output, err)
		for it := st.Kept; it < st.Iteration; it++ {
			for e, err := range s.Load(ctx, run, it, 0) {
				note("earlier iterations", e, err)
			}
		}
		for e, err := range s.Load(ctx, run, 0, 0) {
			note("first entries", e, err)
			break
		}
	}
}
