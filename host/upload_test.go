package host_test

import (
	"context"
	"errors"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// deletingStore deletes the newest version of workflow "old" before versions are added, the first few times.
type deletingStore struct {
	store.Store
	times *int
}

func (s deletingStore) Modules() store.ModuleStore {
	return deletingModules{s.Store.Modules(), s.times}
}

type deletingModules struct {
	store.ModuleStore
	times *int
}

func (m deletingModules) AddVersions(ctx context.Context, specs []store.VersionSpec) ([]store.Version, error) {
	if *m.times > 0 {
		*m.times--
		old, err := m.ModuleStore.AddVersions(ctx, []store.VersionSpec{{Workflow: "old", Module: specs[0].Module}})
		if err == nil {
			err = m.DeleteVersion(ctx, 0, "old", old[0].Number)
		}
		if err != nil {
			return nil, err
		}
	}
	return m.ModuleStore.AddVersions(ctx, specs)
}

// TestUploadRacesDelete deletes the last version of a module while the same bytes are uploaded: the upload stores
// them again.
func TestUploadRacesDelete(t *testing.T) {
	times := 3
	h, err := host.Open(ctx, host.Config{Store: deletingStore{memstore.New().Open(), &times}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	wasm := wasmgen.New(0).I32(0).Export(abi.ExportRun).Bytes()
	v, err := h.Upload(ctx, "new", wasm)
	if err != nil || !v.New || v.Number != 1 || times != 0 {
		t.Fatalf("%+v, %d left: %v", v, times, err)
	}
	if _, err := h.Start(ctx, "new", 1); err != nil {
		t.Fatal(err)
	}
	times = 1000
	if _, err := h.Upload(ctx, "never", wasmgen.New(0).I32(1).Export(abi.ExportRun).Bytes()); !errors.Is(err, host.ErrNotFound) {
		t.Fatal(err)
	}
}
