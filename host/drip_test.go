package host_test

import (
	"context"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

func TestDrip(t *testing.T) {
	h := hosttest.New(t)
	ctx := context.Background()
	if _, err := h.Upload(ctx, "drip", hosttest.Build(t, "../examples/drip")); err != nil {
		t.Fatal(err)
	}
	run, err := h.Start(ctx, "drip", map[string]string{"email": "a@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	r := h.Finish(run.ID)
	for e, err := range h.Journal(ctx, run.ID, 0) {
		t.Log(e.Seq, e.Kind, e.Name, e.Handle, time.UnixMilli(e.UnixMs).UTC(), string(e.Data), err)
	}
	if r.Status != host.Completed {
		t.Fatalf("status %s %s", r.Status, r.Reason)
	}
	if n, err := host.Result[int](ctx, h.Host, run.ID); n != 4 || err != nil {
		t.Fatalf("result %d, %v", n, err)
	}
	t.Log(h.Commits())
}
