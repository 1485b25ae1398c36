package runtime

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// TestVersionOfChild asks for versions as parents do.
func TestVersionOfChild(t *testing.T) {
	ctx := context.Background()
	s := memstore.New().Open()
	var modules []store.Digest
	for i := range 2 {
		d, err := s.Modules().Put(ctx, []byte(fmt.Sprint("module ", i)), store.ModuleInfo{})
		if err != nil {
			t.Fatal(err)
		}
		modules = append(modules, d)
		if _, err := s.Modules().AddVersions(ctx, []store.VersionSpec{{Workflow: "w", Module: d}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		m    run.Message
		want uint32
	}{
		{run.Message{Workflow: "w"}, 2},
		{run.Message{Workflow: "w", Module: modules[0].String()}, 1},
		{run.Message{Workflow: "w", Module: modules[0].String(), Latest: true}, 2},
		{run.Message{Workflow: "w", Module: modules[1].String(), Version: 1}, 1},
		{run.Message{Workflow: "w", Module: "another"}, 2},
		{run.Message{Workflow: "nobody"}, 0},
	} {
		v, err := childVersion(ctx, s.Modules(), 0, &c.m)
		if v.Number != c.want || (c.want == 0) != errors.Is(err, store.ErrNotFound) {
			t.Errorf("%+v: version %d, %v", c.m, v.Number, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"m", modules[0].String()} {
		if _, err := childVersion(ctx, s.Modules(), 0, &run.Message{Workflow: "w", Module: module}); !errors.Is(err, store.ErrClosed) {
			t.Errorf("module %q: %v", module, err)
		}
	}
}
