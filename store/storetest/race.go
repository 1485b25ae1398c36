package storetest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// testUploadRacesDelete deletes the last version of a module between Put and AddVersions, and then at random moments:
// every version's module exists.
func testUploadRacesDelete(t *testing.T, e *env) {
	ctx := context.Background()
	m := e.s.Modules()
	put := func() store.Digest {
		d, err := m.Put(ctx, []byte("wasm"), store.ModuleInfo{Size: 4})
		if err != nil {
			t.Error(err)
		}
		return d
	}
	spec := []store.VersionSpec{{Workflow: "other", Module: put()}}
	_, err := m.AddVersions(ctx, []store.VersionSpec{{Workflow: "w", Module: put()}})
	e.ok(err)
	put()
	e.ok(m.DeleteVersion(ctx, 0, "w", 1))
	_, err = m.AddVersions(ctx, spec)
	e.is(err, store.ErrNotFound)
	_, err = m.Version(ctx, 0, "other", 0)
	e.is(err, store.ErrNotFound)
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		wg.Go(func() {
			for n := 0; n < 50 && !t.Failed(); {
				v, err := m.AddVersions(ctx, []store.VersionSpec{{Workflow: name, Module: put()}})
				if errors.Is(err, store.ErrNotFound) {
					continue
				}
				if err == nil {
					_, err = m.Get(ctx, v[0].Module)
				}
				if err == nil {
					err = m.DeleteVersion(ctx, 0, name, v[0].Number)
				}
				if err != nil {
					t.Errorf("workflow %s after %d uploads: %v", name, n, err)
					return
				}
				n++
			}
		})
	}
	wg.Go(func() { // another caller collects unused modules in the meantime
		for n := 0; n < 50 && !t.Failed(); n++ {
			list, err := m.Unused(ctx, 10)
			if err == nil {
				_, err = m.DeleteUnused(ctx, list)
			}
			if err != nil {
				t.Errorf("after %d collections: %v", n, err)
				return
			}
		}
	})
	wg.Wait()
	list, err := m.Unused(ctx, 10)
	e.ok(err)
	deleted, err := m.DeleteUnused(ctx, list)
	e.ok(err)
	if _, err := m.Info(ctx, spec[0].Module); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the module stays without any version: %v, %d were deleted", err, len(deleted))
	}
}

// testSharedModule keeps a module while a version in any namespace uses it.
func testSharedModule(t *testing.T, e *env) {
	ctx := context.Background()
	m := e.s.Modules()
	d, err := m.Put(ctx, []byte("wasm"), store.ModuleInfo{Size: 4})
	e.ok(err)
	spaces := []store.NamespaceID{7, 0, 1 << 31, 1<<32 - 1}
	for _, ns := range spaces {
		v, err := m.AddVersions(ctx, []store.VersionSpec{{Namespace: ns, Workflow: "w", Module: d}})
		if err != nil || v[0].Number != 1 || v[0].Namespace != ns {
			t.Fatalf("namespace %d: %+v %v", ns, v, err)
		}
	}
	e.ok(e.commit(state("r"), true, 0, 1)) // other keys stand between
	for _, ns := range spaces {
		_, err = m.Get(ctx, d)
		e.ok(err)
		e.ok(m.DeleteVersion(ctx, ns, "w", 1))
		_, err = m.Version(ctx, ns, "w", 0)
		e.is(err, store.ErrNotFound)
	}
	_, err = m.Get(ctx, d)
	e.is(err, store.ErrNotFound)
}

// testPayloadSharesModule stores a payload with the bytes of a module: it outlives the module.
func testPayloadSharesModule(t *testing.T, e *env) {
	ctx := context.Background()
	m := e.s.Modules()
	wasm := bytes.Repeat([]byte("wasm"), abi.BlobBytes/4+1)
	for i, id := range []string{"before", "after"} {
		d, err := m.Put(ctx, wasm, store.ModuleInfo{})
		e.ok(err)
		st := state(id)
		st.Length = 1
		e.ok(e.partition(st.Run.Partition()).Commit(ctx, []store.RunCommit{{Run: st.Run, Create: true, State: st,
			Append: []store.Entry{{Kind: store.KindStarted, Data: wasm}}}}))
		v, err := m.AddVersions(ctx, []store.VersionSpec{{Workflow: "w", Module: d}})
		e.ok(err)
		if i == 1 {
			got, err := m.Get(ctx, d)
			e.ok(err)
			if !bytes.Equal(got, wasm) {
				t.Fatal("the module is another one")
			}
		}
		e.ok(m.DeleteVersion(ctx, 0, "w", v[0].Number))
		e.reopen()
		m = e.s.Modules()
		_, err = m.Get(ctx, d)
		e.is(err, store.ErrNotFound)
		for _, id := range []string{"before", "after"}[:i+1] {
			if list := e.load(id, 0, 0); len(list) != 1 || !bytes.Equal(list[0].Data, wasm) {
				t.Fatal("the payload is another one")
			}
		}
	}
}
