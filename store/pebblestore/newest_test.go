package pebblestore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// records returns the number of records of versions, including deleted ones.
func (u *usesEnv) records() (n int) {
	u.Helper()
	u.do(u.s.eachVersion(func(_, _ []byte) error { n++; return nil }))
	return n
}

// TestDeletedVersionsLeaveOneRecord uploads and deletes in turn, and deletes many versions in both directions. At
// most one record per workflow is left, and its number is never used again.
func TestDeletedVersionsLeaveOneRecord(t *testing.T) {
	u := newUses(t)
	left := func(want int) {
		t.Helper()
		if n := u.records(); n != want {
			t.Errorf("there are %d records, want %d", n, want)
		}
	}
	m := func() store.ModuleStore { return u.s.Modules() }
	for i := range uint32(50) {
		u.add(0, "turns", u.put("module"))
		left(1)
		u.do(m().DeleteVersion(t.Context(), 0, "turns", i+1))
		left(1)
	}
	const many = 20
	for _, workflow := range []string{"up", "down"} {
		for i := range many {
			u.add(3, workflow, u.put(fmt.Sprint("module", i)))
		}
	}
	left(1 + 2*many)
	for i := range uint32(many) {
		u.do(m().DeleteVersion(t.Context(), 3, "up", i+1))
	}
	left(2 + many)
	for i := range uint32(many) {
		u.do(m().DeleteVersion(t.Context(), 3, "down", many-i))
	}
	left(3)
	u.reopen()
	left(3)
	for workflow, want := range map[string]uint32{"up": many + 1, "down": many + 1} {
		v, err := m().AddVersions(t.Context(), []store.VersionSpec{{Namespace: 3, Workflow: workflow, Module: u.put("again")}})
		if u.do(err); v[0].Number != want {
			t.Errorf("%s goes on with version %d, want %d", workflow, v[0].Number, want)
		}
	}
	left(3)
}

// TestDeletedVersionsOfAnEarlierRelease opens a store in which each deleted version has left its record.
func TestDeletedVersionsOfAnEarlierRelease(t *testing.T) {
	u := newUses(t)
	d := u.put("module")
	u.add(0, "a", d) // versions 1 of several workflows and namespaces stay
	u.add(0, "aa", d)
	u.add(9, "a", d)
	put := func(ns store.NamespaceID, workflow string, number uint32, deleted bool) {
		v := store.Version{Namespace: ns, Workflow: workflow, Number: number, Deleted: deleted, Module: d}
		u.do(u.s.db.Set(store.VersionKey(ns, workflow, number), store.AppendVersion(nil, &v), pebble.Sync))
	}
	for _, ns := range []store.NamespaceID{0, 4, 9} {
		for i := range uint32(5000) {
			put(ns, "a", i+2, true)
		}
	}
	put(0, "a", 6000, false)
	put(0, "aa", 2, true)
	before := u.records()
	u.s.readOnly = true // a read-only store deletes nothing
	u.s.newest.counts = nil
	u.do(u.s.readVersions())
	if n := u.records(); n != before || n < 15_000 {
		t.Fatalf("there are %d records, then %d", before, n)
	}
	u.reopen()
	if n := u.records(); n != 7 { // versions 1 and 6000 of a, and the last versions of aa, and of a in 4 and 9
		t.Errorf("%d records are left", n)
	}
	for ns, want := range map[store.NamespaceID]int64{0: 3, 4: 0, 9: 1} {
		if n, err := u.s.Modules().Count(t.Context(), ns); err != nil || n != want {
			t.Errorf("namespace %d has %d versions, %v, want %d", ns, n, err, want)
		}
	}
	for _, x := range []store.Version{{Workflow: "a", Number: 6001}, {Workflow: "aa", Number: 3}, {Namespace: 4, Workflow: "a", Number: 5002},
		{Namespace: 9, Workflow: "a", Number: 5002}} {
		v, err := u.s.Modules().AddVersions(t.Context(), []store.VersionSpec{{Namespace: x.Namespace, Workflow: x.Workflow,
			Module: u.put("again")}})
		if u.do(err); v[0].Number != x.Number {
			t.Errorf("the next version is %+v, want %+v", v[0], x)
		}
	}
}

// askers are queries for the versions of a workflow whose first version has the module old.
func askers(t testing.TB, u *usesEnv, old store.Digest) map[string]func() {
	m := u.s.Modules()
	ask := func(want uint32, f func() (store.Version, error)) func() {
		return func() {
			v, err := f()
			if v.Number != want || (want == 0) != errors.Is(err, store.ErrNotFound) {
				t.Errorf("version %d, %v, want %d", v.Number, err, want)
			}
		}
	}
	return map[string]func(){
		"newest with a module": ask(1, func() (store.Version, error) { return m.Newest(t.Context(), 0, "w", old) }),
		"none with a module":   ask(0, func() (store.Version, error) { return m.Newest(t.Context(), 0, "w", store.Digest{1}) }),
		"latest":               ask(1, func() (store.Version, error) { return m.Version(t.Context(), 0, "w", 0) }),
		"no latest":            ask(0, func() (store.Version, error) { return m.Version(t.Context(), 0, "imported", 0) }),
		"count": func() {
			if _, err := m.Count(t.Context(), 0); err != nil {
				t.Error(err)
			}
		},
	}
}

// versionsOf opens a store with two workflows of n versions each. All but the first version are imported, so that
// queries must look past them.
func versionsOf(t *testing.T, n int) (*usesEnv, store.Digest) {
	u := newUses(t)
	old, other, third := u.put("old"), u.put("other"), u.put("third")
	u.add(0, "w", old)
	for i := range n - 1 {
		d := other
		if i%2 == 0 {
			d = third // the same as before does not make a new version
		}
		for _, workflow := range []string{"w", "imported"} {
			v := store.Version{Workflow: workflow, Number: uint32(i) + 2, Module: d, Imported: true}
			u.do(u.s.db.Set(store.VersionKey(0, workflow, v.Number), store.AppendVersion(nil, &v), pebble.NoSync))
		}
	}
	u.reopen()
	return u, old
}

// TestNewestReadsNothingThatGrows counts the allocations of queries, one per record that is read, with ten versions
// and with ten thousand.
func TestNewestReadsNothingThatGrows(t *testing.T) {
	allocations := func(n int) map[string]float64 {
		u, old := versionsOf(t, n)
		got := map[string]float64{}
		for name, ask := range askers(t, u, old) {
			got[name] = testing.AllocsPerRun(3, ask)
		}
		return got
	}
	few, many := allocations(10), allocations(10_000)
	for name := range few {
		if many[name] > few[name]+10 {
			t.Errorf("%s: %.0f allocations with 10 versions, and %.0f with 10,000", name, few[name], many[name])
		}
	}
}

// TestNewestRemembersWhatOthersUpload adds and deletes versions of other workflows and with other modules: cached
// answers stay cached, and equal the stored data.
func TestNewestRemembersWhatOthersUpload(t *testing.T) {
	u, old := versionsOf(t, 10)
	all := askers(t, u, old)
	for _, ask := range all {
		ask()
	}
	d := u.put("new")
	u.add(0, "elsewhere", d)
	_, err := u.s.Modules().AddVersions(t.Context(), []store.VersionSpec{{Workflow: "w", Module: d, Imported: true}})
	u.do(err)
	u.do(u.s.Modules().DeleteVersion(t.Context(), 0, "elsewhere", 1))
	u.do(u.s.Modules().DeleteVersion(t.Context(), 0, "w", 5))
	for _, k := range []newestKey{{workflow: "w", module: old}, {workflow: "w", module: store.Digest{1}}, {workflow: "w", latest: true},
		{workflow: "imported", latest: true}, {workflow: "w", module: d}} {
		if _, v, known := u.s.newest.get(k); !known || k.module == d && v.Number != 11 {
			t.Errorf("%+v is not known: %+v", k, v)
		}
	}
	for _, ask := range all {
		ask()
	}
}

// TestNewestWhileVersionsChange changes versions while a reader computes an answer to cache.
func TestNewestWhileVersionsChange(t *testing.T) {
	one, two := store.Version{Workflow: "w", Number: 1}, store.Version{Workflow: "w", Number: 2}
	imported := store.Version{Workflow: "w", Number: 3, Imported: true}
	k := newestKey{workflow: "w", latest: true}
	for name, c := range map[string]struct {
		change func(n *newest)
		known  bool
		want   uint32
	}{
		"nothing":             {func(*newest) {}, true, 1},
		"added":               {func(n *newest) { n.added(&two) }, true, 2},
		"deleted":             {func(n *newest) { n.deleted(&one) }, false, 0},
		"imported":            {func(n *newest) { n.added(&imported) }, true, 1},
		"added, then deleted": {func(n *newest) { n.added(&two); n.deleted(&two) }, false, 0},
		"pushed out": {func(n *newest) {
			for i := range uint32(maxNewest) {
				n.added(&store.Version{Workflow: fmt.Sprint("other", i), Number: 1})
			}
			delete(n.of, k) // it was evicted, or is now
		}, false, 0},
	} {
		n := &newest{}
		a, _, _ := n.get(k)
		c.change(n)
		n.put(k, a, one, true)
		if _, v, known := n.get(k); known != c.known || v.Number != c.want {
			t.Errorf("%s: known %v, version %d, want %v, %d", name, known, v.Number, c.known, c.want)
		}
		if len(n.of) > maxNewest {
			t.Errorf("%s: %d answers are remembered", name, len(n.of))
		}
	}
	n := &newest{}
	for i := range 3 * maxNewest { // answers about missing versions are not cached
		k := newestKey{workflow: fmt.Sprint(i), latest: true}
		a, _, _ := n.get(k)
		n.put(k, a, store.Version{}, false)
	}
	if len(n.of) > 0 {
		t.Errorf("%d answers are kept", len(n.of))
	}
}

// BenchmarkNewest looks up a version behind other ones, as each start of a child does.
func BenchmarkNewest(b *testing.B) {
	for _, n := range []uint32{10, 10_000} {
		b.Run(fmt.Sprint(n, " versions"), func(b *testing.B) {
			s, err := Open("db", Options{FS: vfs.NewMem()})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			module := func(i uint32) store.Digest { return store.Digest{1, byte(i >> 8), byte(i)} }
			for i := range n {
				v := store.Version{Workflow: "w", Number: i + 1, Module: module(i)}
				if err := s.db.Set(store.VersionKey(0, "w", v.Number), store.AppendVersion(nil, &v), pebble.NoSync); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if v, err := s.Modules().Newest(b.Context(), 0, "w", module(0)); err != nil || v.Number != 1 {
					b.Fatal(v, err)
				}
			}
		})
	}
}

// TestNewestOfTwoReaders: of two concurrent readers, one has read a version that was deleted in the meantime. Its
// answer is not cached.
func TestNewestOfTwoReaders(t *testing.T) {
	gone, left := store.Version{Workflow: "w", Number: 5}, store.Version{Workflow: "w", Number: 4}
	k := newestKey{workflow: "w", latest: true}
	var n newest
	slow, _, _ := n.get(k) // and reads 5, which is deleted then
	fast, _, _ := n.get(k)
	n.put(k, fast, left, true)
	n.deleted(&gone)
	n.put(k, slow, gone, true)
	if _, v, known := n.get(k); !known || v.Number != left.Number {
		t.Errorf("version %d is remembered: %v, want %d", v.Number, known, left.Number)
	}
}
