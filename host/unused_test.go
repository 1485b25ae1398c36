package host_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// cutStore refuses to add versions on demand, after the module was stored.
type cutStore struct {
	store.Store
	refuse *error
}

func (s cutStore) Modules() store.ModuleStore { return cutModules{s.Store.Modules(), s.refuse} }

type cutModules struct {
	store.ModuleStore
	refuse *error
}

func (m cutModules) AddVersions(ctx context.Context, specs []store.VersionSpec) ([]store.Version, error) {
	if *m.refuse != nil {
		return nil, *m.refuse
	}
	return m.ModuleStore.AddVersions(ctx, specs)
}

// TestRefusedUploadLeavesNoModule uploads modules whose versions are refused after the module was stored: the module
// is removed, unless another version uses it.
func TestRefusedUploadLeavesNoModule(t *testing.T) {
	var refuse error
	data := memstore.New()
	h, err := host.Open(ctx, host.Config{Store: cutStore{data.Open(), &refuse}})
	do(t, err)
	defer func() { _ = h.Close() }()
	modules := data.Open().Modules()
	used, cut := wasmgen.New(0).I32(0).Export(abi.ExportRun).Bytes(), wasmgen.New(0).I32(1).Export(abi.ExportRun).Bytes()
	_, err = h.Upload(ctx, "used", used)
	do(t, err)
	for _, refuse = range []error{errors.New("the disk"), fmt.Errorf("it is gone: %w", store.ErrNotFound)} {
		for _, wasm := range [][]byte{used, cut} {
			if _, err := h.Upload(ctx, "other", wasm); err == nil {
				t.Fatal("it was not refused")
			}
		}
		if _, err := modules.Info(ctx, sha256.Sum256(cut)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%v: the module of the refused upload stays: %v", refuse, err)
		}
		if _, err := modules.Get(ctx, sha256.Sum256(used)); err != nil {
			t.Errorf("%v: the module of a version is gone: %v", refuse, err)
		}
	}
	refuse = nil
	if v, err := h.Upload(ctx, "other", cut); err != nil || v.Number != 1 {
		t.Errorf("afterwards: %+v %v", v, err)
	}
}

// TestCutUploadIsCollected opens a host after another one was killed between storing a module and adding its
// versions: the module is removed from the store and the cache.
func TestCutUploadIsCollected(t *testing.T) {
	dir := t.TempDir()
	wasm := wasmgen.New(0).Text("cut-upload").Call(abi.FnComplete).Drop().I32(0).Export(abi.ExportRun).Bytes()
	cached := func() int {
		t.Helper()
		paths, err := filepath.Glob(filepath.Join(dir, "cache", "modules", "*"))
		do(t, err)
		return len(paths)
	}
	h, err := host.Open(ctx, host.Config{Dir: dir})
	do(t, err)
	before := cached()
	_, err = h.Upload(ctx, "w", wasm)
	do(t, err)
	with := cached()
	do(t, h.Workflows().DeleteVersion(ctx, "w", 1))
	gone := cached()
	_, err = h.Upload(ctx, "w", wasm)
	do(t, errors.Join(err, h.Close()))
	if with <= before || gone != with-1 {
		t.Fatalf("the cache has %d, %d and %d modules", before, with, gone)
	}
	// What a kill leaves behind: module and artifact, but no version.
	s, err := pebblestore.Open(filepath.Join(dir, "store"), pebblestore.Options{})
	do(t, err)
	kept := cached()
	do(t, s.Modules().DeleteVersion(ctx, 0, "w", 2))
	_, err = s.Modules().Put(ctx, wasm, store.ModuleInfo{Size: int64(len(wasm))})
	do(t, errors.Join(err, s.Close()))
	h, err = host.Open(ctx, host.Config{Dir: dir})
	do(t, err)
	do(t, h.Close())
	s, err = pebblestore.Open(filepath.Join(dir, "store"), pebblestore.Options{})
	do(t, err)
	_, err = s.Modules().Info(ctx, sha256.Sum256(wasm))
	if do(t, s.Close()); !errors.Is(err, store.ErrNotFound) {
		t.Error("the module of the upload that was cut stays:", err)
	}
	if n := cached(); n != kept-1 {
		t.Errorf("the cache has %d modules, and had %d before", n, kept)
	}
	h, err = host.Open(ctx, host.Config{Dir: dir})
	do(t, err)
	v, err := h.Upload(ctx, "w", wasm)
	if err != nil || v.Number != 3 {
		t.Errorf("%+v %v", v, err)
	}
	do(t, h.Close())
}

// openingStore opens another host on the same store between Put and AddVersions, once.
type openingStore struct {
	store.Store
	open *func()
}

func (s openingStore) Modules() store.ModuleStore { return openingModules{s.Store.Modules(), s.open} }

type openingModules struct {
	store.ModuleStore
	open *func()
}

func (m openingModules) Put(ctx context.Context, wasm []byte, info store.ModuleInfo) (store.Digest, error) {
	d, err := m.ModuleStore.Put(ctx, wasm, info)
	if open := *m.open; open != nil {
		*m.open = nil
		open()
	}
	return d, err
}

// TestCollectionRacesUpload opens a second host on the same store while an uploaded module has no version yet.
func TestCollectionRacesUpload(t *testing.T) {
	data := memstore.New()
	var open func()
	wasm := wasmgen.New(0).I32(0).Export(abi.ExportRun).Bytes()
	h, err := host.Open(ctx, host.Config{Store: openingStore{data.Open(), &open}})
	do(t, err)
	defer func() { _ = h.Close() }()
	open = func() {
		other, err := host.Open(ctx, host.Config{Store: data.Open(), Partitions: []int{}})
		do(t, err)
		if _, err := data.Open().Modules().Info(ctx, sha256.Sum256(wasm)); !errors.Is(err, store.ErrNotFound) {
			t.Error("the other host has collected nothing:", err)
		}
		do(t, other.Close())
	}
	if v, err := h.Upload(ctx, "w", wasm); err != nil || v.Number != 1 || open != nil {
		t.Fatalf("%+v %v", v, err)
	}
	if _, err := data.Open().Modules().Get(ctx, sha256.Sum256(wasm)); err != nil {
		t.Error("the version has no module:", err)
	}
}

// pointStore fails the test if, once armed, it reads data that grows: the counts, runs or versions of a namespace.
type pointStore struct {
	store.Store
	t     *testing.T
	armed *atomic.Bool
}

func (s pointStore) Counts(ctx context.Context, ns store.NamespaceID) ([]store.Count, error) {
	s.read("all counts were read")
	return s.Store.Counts(ctx, ns)
}

func (s pointStore) List(ctx context.Context, q store.Query) (store.Page, error) {
	s.read("runs were listed")
	return s.Store.List(ctx, q)
}

func (s pointStore) Modules() store.ModuleStore { return pointModules{s.Store.Modules(), s} }

func (s pointStore) read(what string) {
	if s.armed.Load() {
		s.t.Error(what)
	}
}

type pointModules struct {
	store.ModuleStore
	of pointStore
}

func (m pointModules) Versions(ctx context.Context, ns store.NamespaceID, w string) iter.Seq2[store.Version, error] {
	m.of.read("versions were listed")
	return m.ModuleStore.Versions(ctx, ns, w)
}

// TestDeleteVersionReadsNothingThatGrows deletes a version without runs.
func TestDeleteVersionReadsNothingThatGrows(t *testing.T) {
	var armed atomic.Bool
	h, err := host.Open(ctx, host.Config{Store: pointStore{memstore.New().Open(), t, &armed}})
	do(t, err)
	defer func() { _ = h.Close() }()
	for n := range int32(2) {
		_, err = h.Upload(ctx, "w", wasmgen.New(0).I32(n).Export(abi.ExportRun).Bytes())
		do(t, err)
	}
	_, err = h.Start(ctx, "w", 1)
	do(t, err)
	armed.Store(true)
	do(t, h.Workflows().DeleteVersion(ctx, "w", 1))
	armed.Store(false)
}
