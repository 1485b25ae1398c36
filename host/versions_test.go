package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// reads counts reads of versions whose cost grows with the number of versions.
type reads struct {
	store.Store
	versions, infos, counts *atomic.Int64 // listed versions, descriptions, and reads of all counts of a namespace
}

func (s reads) Counts(ctx context.Context, ns store.NamespaceID) ([]store.Count, error) {
	s.counts.Add(1)
	return s.Store.Counts(ctx, ns)
}

func (s reads) Modules() store.ModuleStore { return readModules{s.Store.Modules(), s} }

type readModules struct {
	store.ModuleStore
	s reads
}

func (m readModules) Versions(ctx context.Context, ns store.NamespaceID, w string) iter.Seq2[store.Version, error] {
	return func(yield func(store.Version, error) bool) {
		for v, err := range m.ModuleStore.Versions(ctx, ns, w) {
			if m.s.versions.Add(1); !yield(v, err) {
				return
			}
		}
	}
}

func (m readModules) Info(ctx context.Context, d store.Digest) (store.ModuleInfo, error) {
	m.s.infos.Add(1)
	return m.ModuleStore.Info(ctx, d)
}

// counting has a host count what it reads.
func counting(t *testing.T) (*hosttest.Host, reads) {
	data := memstore.New()
	n := reads{versions: new(atomic.Int64), infos: new(atomic.Int64), counts: new(atomic.Int64)}
	return hosttest.New(t, hosttest.WithStore(func() store.Store { return reads{data.Open(), n.versions, n.infos, n.counts} })), n
}

// TestVersionsAreNotListed uploads under a quota, starts children and imports a run in a namespace with many
// versions: none of these lists them.
func TestVersionsAreNotListed(t *testing.T) {
	h, n := counting(t)
	do(t, h.SetQuota(ctx, "default", host.Quota{MaxVersions: 5}))
	parent := wasmgen.New(0).Text("kid").Text("nap").Text("1s").I32(0).I32(0).Call(abi.FnChildStart).Drop()
	wasm := parent.I32(0).Export(abi.ExportRun).Bytes()
	upload := func(name string, wasm []byte, opts ...host.UploadOption) error {
		_, err := h.Upload(ctx, name, wasm, opts...)
		return err
	}
	do(t, upload("nap", wasm)) // with the parent's module, which a child prefers
	do(t, upload("parent", wasm))
	do(t, upload("nap", napModule()))
	do(t, h.Workflows().DeleteVersion(ctx, "nap", 2))
	do(t, upload("nap", napModule()))
	do(t, upload("nap", napModule(), host.AllowStep("charge")))
	do(t, upload("other", napModule()))
	if err := upload("another", napModule()); !errors.Is(err, host.ErrBusy) {
		t.Error(err)
	}
	do(t, h.Workflows().DeleteVersion(ctx, "nap", 4))
	from := hosttest.New(t)
	_, err := from.Upload(ctx, "other", napModule())
	do(t, err)
	_, err = from.Start(ctx, "other", "1d", host.WithRunID("away"))
	do(t, err)
	from.Settle()
	var archive bytes.Buffer
	do(t, from.Export(ctx, "away", &archive, host.ExportOptions{}))

	_, err = h.Start(ctx, "parent", nil, host.WithRunID("p"))
	do(t, err)
	h.Settle()
	_, err = h.Import(ctx, bytes.NewReader(archive.Bytes()), host.ImportOptions{})
	do(t, err)
	if n := n.versions.Load(); n > 0 {
		t.Errorf("%d versions were listed", n)
	}
	kids := 0
	for r, err := range h.Runs(ctx, host.Query{Workflow: "nap"}) {
		if do(t, err); r.Version == 1 && r.Parent == "p" {
			kids++
		}
	}
	if kids == 0 {
		t.Error("no child has the version of its parent's module")
	}
}

// TestLiveVersionsReadsADescriptionOnce lists versions of few modules, and requests some of them: each description is
// read once, and no counts of other workflows are read.
func TestLiveVersionsReadsADescriptionOnce(t *testing.T) {
	h, n := counting(t)
	description := fmt.Sprintf(`{"workflows":[{"name":"w","queries":["q"],"signals":["go"],"input_schema":{"description":%q}}]}`,
		strings.Repeat("long ", 1000))
	wasm := described(t, description)
	const many = 30
	for i := range many {
		_, err := h.Upload(ctx, "w", wasm, host.AllowStep(fmt.Sprint("step", i)))
		do(t, err)
	}
	_, err := h.Upload(ctx, "w", described(t, `{"workflows":[{"name":"w","updates":["u"]}]}`))
	do(t, err)
	for version, runs := range map[uint32]int{3: 2, many + 1: 1} {
		for range runs {
			_, err := h.Start(ctx, "w", nil, host.WithVersion(version))
			do(t, err)
		}
	}
	h.Settle()
	n.infos.Store(0)
	n.counts.Store(0)
	for range 2 {
		versions, err := h.Workflows().LiveVersions(ctx, "w")
		do(t, err)
		want(t, len(versions), many+1)
		for i, v := range versions {
			live, names := 0, [][]string{{"q"}, {"go"}, nil}
			switch i {
			case 2:
				live = 2
			case many:
				live, names = 1, [][]string{nil, nil, {"u"}}
			}
			if got := [][]string{v.Queries, v.Signals, v.Updates}; v.Live != live || !reflect.DeepEqual(got, names) {
				t.Errorf("version %d has %d live runs and %q, want %d and %q", v.Number, v.Live, got, live, names)
			}
		}
		_, err = h.Workflows().DeclaredSignals(ctx, "w", 3)
		do(t, err)
	}
	if got := n.infos.Load(); got != 2 {
		t.Errorf("descriptions of two modules were read %d times", got)
	}
	if got := n.counts.Load(); got != 0 {
		t.Errorf("the counts of all workflows were read %d times", got)
	}
}
