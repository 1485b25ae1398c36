package run

import (
	"context"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

func TestChildStart(t *testing.T) {
	cmd := store.Command{From: store.RunKey{Namespace: 3, ID: "parent"}, To: store.RunKey{Namespace: 3, ID: "kid"}}
	m := Message{Workflow: "w", Payload: []byte("in"), Depth: 2, Handle: 5, Iteration: 1, TimeoutMs: 7}
	n := ChildStart(&cmd, &m, &store.Version{Number: 4})
	if p := n.Parent; n.Key != cmd.To || n.Version != 4 || string(n.Input) != "in" || n.TimeoutMs != 7 || p.Depth != 2 || p.Handle != 5 ||
		p.RunID != "parent" || p.Namespace != 3 || p.Iteration != 1 {
		t.Errorf("%+v", n)
	}
}

func TestChildRefused(t *testing.T) {
	for err, want := range map[error]bool{store.ErrNotFound: true, abi.Errorf(abi.Limit, "quota"): true, store.ErrClosed: false,
		context.Canceled: false} {
		if ChildRefused(err) != want {
			t.Errorf("%v is refused: %v", err, !want)
		}
	}
}
