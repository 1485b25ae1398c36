package storetest

import (
	"context"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/store"
)

func testModules(t *testing.T, e *env) {
	ctx := context.Background()
	m := e.s.Modules()
	d, err := m.Put(ctx, []byte("wasm"), store.ModuleInfo{Size: 4, DescriptionJSON: []byte("{}")})
	e.ok(err)
	other, err := m.Put(ctx, []byte("other"), store.ModuleInfo{Size: 5})
	e.ok(err)
	_, err = m.AddVersions(ctx, []store.VersionSpec{{Workflow: "a", Module: d}, {Workflow: "b", Module: store.Digest{9}}})
	e.is(err, store.ErrNotFound)
	_, err = m.Version(ctx, 0, "a", 0)
	e.is(err, store.ErrNotFound) // all or none
	add := func(d store.Digest, g store.Grants) uint32 {
		t.Helper()
		v, err := m.AddVersions(ctx, []store.VersionSpec{{Workflow: "a", Module: d, Grants: g}, {Workflow: "b", Module: d}})
		e.ok(err)
		return v[0].Number
	}
	if n := []uint32{add(d, store.Grants{}), add(d, store.Grants{}), add(other, store.Grants{}),
		add(other, store.Grants{Steps: []string{"x"}}), add(d, store.Grants{})}; !slices.Equal(n, []uint32{1, 1, 2, 3, 4}) {
		t.Fatalf("versions %v", n)
	}
	e.reopen()
	m = e.s.Modules()
	b, err := m.Get(ctx, d)
	e.ok(err)
	info, err := m.Info(ctx, d)
	e.ok(err)
	if string(b) != "wasm" || info.Size != 4 || string(info.DescriptionJSON) != "{}" {
		t.Fatalf("module %q %+v", b, info)
	}
	_, err = m.Get(ctx, store.Digest{1})
	e.is(err, store.ErrNotFound)
	v, err := m.Version(ctx, 0, "a", 3)
	e.ok(err)
	if !slices.Equal(v.Grants.Steps, []string{"x"}) || v.Module != other {
		t.Fatalf("version %+v", v)
	}
	count := map[string]int{}
	for v, err := range m.Versions(ctx, 0, "") {
		e.ok(err)
		count[v.Workflow]++
	}
	for v, err := range m.Versions(ctx, 0, "b") {
		e.ok(err)
		count["only "+v.Workflow]++
	}
	if count["a"] != 4 || count["b"] != 3 || count["only b"] != 3 || count["only a"] != 0 {
		t.Fatalf("listed %v", count)
	}
	testDeleteVersion(e, m, d, other)
}

// testDeleteVersion deletes versions 4, 3 and 2 of workflow a: only the last two use the other module.
func testDeleteVersion(e *env, m store.ModuleStore, d, other store.Digest) {
	ctx := context.Background()
	e.is(m.DeleteVersion(ctx, 0, "a", 9), store.ErrNotFound)
	e.ok(m.DeleteVersion(ctx, 0, "a", 4))
	e.is(m.DeleteVersion(ctx, 0, "a", 4), store.ErrNotFound)
	_, err := m.Version(ctx, 0, "a", 4)
	e.is(err, store.ErrNotFound)
	latest, err := m.Version(ctx, 0, "a", 0)
	e.ok(err)
	e.ok(m.DeleteVersion(ctx, 0, "a", 3))
	if v, err := m.Version(ctx, 0, "a", 0); err != nil || v.Number != 2 || latest.Number != 3 {
		e.t.Errorf("the latest versions before and after version 3 was deleted: %d, %d, %v", latest.Number, v.Number, err)
	}
	_, err = m.Get(ctx, other)
	e.ok(err) // version 2 has it, and b@2
	e.ok(m.DeleteVersion(ctx, 0, "a", 2))
	e.ok(m.DeleteVersion(ctx, 0, "b", 2))
	e.reopen()
	m = e.s.Modules()
	_, err = m.Get(ctx, other)
	e.is(err, store.ErrNotFound)
	_, err = m.Get(ctx, d)
	e.ok(err)
	next, err := m.AddVersions(ctx, []store.VersionSpec{{Workflow: "a", Module: d}})
	e.ok(err)
	if latest.Number != 3 || next[0].Number != 5 {
		e.t.Fatalf("latest %d, next %d: a number must not be given twice", latest.Number, next[0].Number)
	}
	for v, err := range m.Versions(ctx, 0, "a") {
		e.ok(err)
		if v.Number != 1 && v.Number != 5 {
			e.t.Fatalf("version %d is listed", v.Number)
		}
	}
}
