package storetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// versionModel is the expected set of versions in two namespaces.
type versionModel struct {
	*env
	random  uint64
	there   []store.Version   // in the order of their addition
	numbers map[string]uint32 // the greatest number used, by namespace and workflow
	wasm    []string
}

// testVersions adds and deletes versions at random, and reopens the store in between. No number is used twice,
// whichever versions were deleted.
func testVersions(t *testing.T, e *env) {
	x := &versionModel{env: e, numbers: map[string]uint32{}, wasm: []string{"a", "b", "c"}}
	steps := 300
	if testing.Short() {
		steps = 100
	}
	for i := range steps {
		switch n := x.choose(20); {
		case n == 0:
			e.reopen()
		case n < 12 || len(x.there) == 0:
			x.add()
		default:
			x.remove(x.choose(len(x.there)))
		}
		if x.look(); t.Failed() {
			t.Fatalf("after step %d", i)
		}
	}
	for len(x.there) > 0 {
		x.remove(len(x.there) - 1)
	}
	x.look()
	e.reopen()
	x.look()
	for range 10 {
		x.add()
	}
	x.look()
}

// choose returns a pseudo-random number below n, the same ones in every run.
func (x *versionModel) choose(n int) int {
	x.random = x.random*6364136223846793005 + 1442695040888963407 // Knuth's MMIX
	return int(x.random>>33) % n
}

func (x *versionModel) place(ns store.NamespaceID, workflow string) string {
	return fmt.Sprint(ns, " ", workflow)
}

// latest returns the number of the latest version that was not imported, 0 for none.
func (x *versionModel) latest(ns store.NamespaceID, workflow string) (number uint32) {
	for _, v := range x.there {
		if v.Namespace == ns && v.Workflow == workflow && !v.Imported {
			number = max(number, v.Number)
		}
	}
	return number
}

func (x *versionModel) add() {
	x.t.Helper()
	ctx, m := context.Background(), x.s.Modules()
	d, err := m.Put(ctx, []byte(x.wasm[x.choose(len(x.wasm))]), store.ModuleInfo{})
	x.ok(err)
	spec := store.VersionSpec{Namespace: store.NamespaceID(x.choose(2)), Workflow: fmt.Sprint("w", x.choose(3)), Module: d,
		Imported: x.choose(4) == 0}
	if x.choose(3) == 0 {
		after := x.latest(spec.Namespace, spec.Workflow) + 1
		spec.After = &after
		_, err := m.AddVersions(ctx, []store.VersionSpec{spec})
		x.is(err, store.ErrConflict)
		after--
	}
	added, err := m.AddVersions(ctx, []store.VersionSpec{spec})
	x.ok(err)
	place, v := x.place(spec.Namespace, spec.Workflow), added[0]
	same := func(o store.Version) bool { return o.Number == v.Number && x.place(o.Namespace, o.Workflow) == place }
	if slices.ContainsFunc(x.there, same) {
		return // the same module as before makes no new version
	}
	x.numbers[place]++
	if v.Number != x.numbers[place] {
		x.t.Errorf("%s gets the number %d, want %d", place, v.Number, x.numbers[place])
	}
	x.there = append(x.there, v)
}

func (x *versionModel) remove(i int) {
	x.t.Helper()
	v := x.there[i]
	x.there = slices.Delete(x.there, i, i+1)
	x.ok(x.s.Modules().DeleteVersion(context.Background(), v.Namespace, v.Workflow, v.Number))
	x.is(x.s.Modules().DeleteVersion(context.Background(), v.Namespace, v.Workflow, v.Number), store.ErrNotFound)
}

// look compares the answers to all queries with the model.
func (x *versionModel) look() {
	x.t.Helper()
	ctx, m := context.Background(), x.s.Modules()
	for ns := range store.NamespaceID(3) {
		all := int64(0)
		for i := range 4 {
			workflow := fmt.Sprint("w", i)
			want := slices.DeleteFunc(slices.Clone(x.there), func(v store.Version) bool {
				return v.Namespace != ns || v.Workflow != workflow
			})
			all += int64(len(want))
			var got []uint32
			for v, err := range m.Versions(ctx, ns, workflow) {
				x.ok(err)
				got = append(got, v.Number)
			}
			if !slices.EqualFunc(got, want, func(n uint32, v store.Version) bool { return n == v.Number }) {
				x.t.Errorf("%s has the versions %v, want %v", x.place(ns, workflow), got, want)
			}
			x.newest(want, "the latest", func(v store.Version) bool { return !v.Imported }, func() (store.Version, error) {
				return m.Version(ctx, ns, workflow, 0)
			})
			for _, wasm := range x.wasm {
				d := store.Digest(sha256.Sum256([]byte(wasm)))
				x.newest(want, "with module "+wasm, func(v store.Version) bool { return v.Module == d }, func() (store.Version, error) {
					return m.Newest(ctx, ns, workflow, d)
				})
			}
		}
		if n, err := m.Count(ctx, ns); err != nil || n != all {
			x.t.Errorf("namespace %d has %d versions, %v, want %d", ns, n, err, all)
		}
	}
}

// newest asks for the newest version twice, since answers may be cached.
func (x *versionModel) newest(of []store.Version, what string, is func(store.Version) bool, ask func() (store.Version, error)) {
	x.t.Helper()
	want := uint32(0)
	for _, v := range of {
		if is(v) {
			want = v.Number
		}
	}
	for range 2 {
		v, err := ask()
		if want == 0 {
			x.is(err, store.ErrNotFound)
		} else if x.ok(err); v.Number != want || !is(v) {
			x.t.Errorf("%s is %+v, want number %d of %v", what, v, want, of)
		}
	}
}
