package storetest

import (
	"context"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// testUnusedModules deletes modules that no version uses, after interrupted uploads, and no others.
func testUnusedModules(t *testing.T, e *env) {
	ctx := context.Background()
	m := e.s.Modules()
	put := func(wasm string) store.Digest {
		t.Helper()
		d, err := m.Put(ctx, []byte(wasm), store.ModuleInfo{Size: int64(len(wasm))})
		e.ok(err)
		return d
	}
	there := func(d store.Digest, want error) {
		t.Helper()
		_, err := m.Get(ctx, d)
		e.is(err, want)
		_, err = m.Info(ctx, d)
		e.is(err, want)
	}
	used, cut := put("used"), put("cut")
	v, err := m.AddVersions(ctx, []store.VersionSpec{{Namespace: 7, Workflow: "w", Module: used}})
	e.ok(err)
	list, err := m.Unused(ctx, 10)
	e.ok(err)
	if !slices.Equal(list, []store.Digest{cut}) {
		t.Errorf("unused are %v, want %v", list, cut)
	}
	e.reopen() // the process was killed between Put and AddVersions
	m = e.s.Modules()
	if !e.collect(cut) {
		t.Error("the module of an upload that was cut stays")
	}
	there(cut, store.ErrNotFound)
	there(used, nil)
	_, err = m.AddVersions(ctx, []store.VersionSpec{{Workflow: "w", Module: cut}})
	e.is(err, store.ErrNotFound)

	put("used") // by an upload that is interrupted as well
	if e.collect(used) {
		t.Error("a module that a version has was deleted")
	}
	same, err := m.AddVersions(ctx, []store.VersionSpec{{Namespace: 7, Workflow: "w", Module: put("used")}})
	e.ok(err)
	if e.collect(used) || same[0].Number != v[0].Number {
		t.Errorf("the same upload again made version %d", same[0].Number)
	}
	there(used, nil)
	deleted, err := m.DeleteUnused(ctx, []store.Digest{used, cut, {9}})
	e.ok(err)
	if len(deleted) != 0 {
		t.Errorf("%v were deleted, which a version has, or which are not there", deleted)
	}
	put("used")
	e.ok(m.DeleteVersion(ctx, 7, "w", 1))
	there(used, store.ErrNotFound)
	list, err = m.Unused(ctx, 10)
	if err != nil || len(list) != 0 {
		t.Errorf("after all are gone, unused are %v %v", list, err)
	}
	put("used") // and once more, after its version was deleted
	e.reopen()
	m = e.s.Modules()
	if !e.collect(used) {
		t.Error("a module that was put after its last version was deleted stays")
	}
}

// collect deletes unused modules, one at a time, and reports whether a given module was among them.
func (e *env) collect(d store.Digest) (found bool) {
	e.t.Helper()
	ctx, m := context.Background(), e.s.Modules()
	for {
		list, err := m.Unused(ctx, 1)
		e.ok(err)
		if len(list) == 0 {
			return found
		}
		if len(list) > 1 {
			e.t.Fatalf("%d modules, at most 1 was asked for", len(list))
		}
		deleted, err := m.DeleteUnused(ctx, list)
		e.ok(err)
		found = found || slices.Contains(deleted, d)
	}
}
