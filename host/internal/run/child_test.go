package run

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

func TestVersion(t *testing.T) {
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
		m    Message
		want uint32
	}{
		{Message{Workflow: "w"}, 2},
		{Message{Workflow: "w", Module: modules[0].String()}, 1},
		{Message{Workflow: "w", Module: modules[0].String(), Latest: true}, 2},
		{Message{Workflow: "w", Module: modules[1].String(), Version: 1}, 1},
		{Message{Workflow: "w", Module: "another"}, 2},
		{Message{Workflow: "nobody"}, 0},
	} {
		v, err := Version(ctx, s.Modules(), 0, &c.m)
		if v.Number != c.want || (c.want == 0) != errors.Is(err, store.ErrNotFound) {
			t.Errorf("%+v: version %d, %v", c.m, v.Number, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"m", modules[0].String()} {
		if _, err := Version(ctx, s.Modules(), 0, &Message{Workflow: "w", Module: module}); !errors.Is(err, store.ErrClosed) {
			t.Errorf("module %q: %v", module, err)
		}
	}
}

func TestNew(t *testing.T) {
	cmd := store.Command{From: store.RunKey{Namespace: 3, ID: "parent"}, To: store.RunKey{Namespace: 3, ID: "kid"}}
	m := Message{Workflow: "w", Payload: []byte("in"), Depth: 2, Handle: 5, Iteration: 1, TimeoutMs: 7}
	n := ChildStart(&cmd, &m, &store.Version{Number: 4})
	if p := n.Parent; n.Key != cmd.To || n.Version != 4 || string(n.Input) != "in" || n.TimeoutMs != 7 || p.Depth != 2 || p.Handle != 5 ||
		p.RunID != "parent" || p.Namespace != 3 || p.Iteration != 1 {
		t.Errorf("%+v", n)
	}
}

func TestRefused(t *testing.T) {
	for err, want := range map[error]bool{store.ErrNotFound: true, abi.Errorf(abi.Limit, "quota"): true, store.ErrClosed: false,
		context.Canceled: false} {
		if ChildRefused(err) != want {
			t.Errorf("%v is refused: %v", err, !want)
		}
	}
}
