package examples_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestPrinter prints twelve documents of three customers, two at a time of each. One more is urgent.
func TestPrinter(t *testing.T) {
	h := hosttest.New(t)
	ctx := t.Context()
	if _, err := h.Upload(ctx, "", build(t, "printer")); err != nil {
		t.Fatal(err)
	}
	limits := host.WorkflowLimit{Workflow: "printer", Concurrency: []string{"5", "2 per input.customer"}, Rate: []string{"100/1h per input.customer"}}
	if _, err := h.WorkflowLimits().Set(ctx, limits); err != nil {
		t.Fatal(err)
	}
	start := func(id, customer string, priority int) {
		t.Helper()
		in := fmt.Appendf(nil, `{"customer":%q,"title":%q,"pages":6}`, customer, id)
		if _, err := h.StartRaw(ctx, "printer", in, host.WithRunID(id), host.WithPriority(priority)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 {
		start(fmt.Sprint("page", i), fmt.Sprint("c", i%3), 0)
	}
	h.Settle() // five have begun
	start("menu", "c0", 10)
	h.Settle()
	info, err := h.WorkflowLimits().Get(ctx, "printer")
	if err != nil || info.Holding != 5 || info.Waiting != 8 {
		t.Fatalf("%+v, %v", info, err)
	}
	r, err := h.Get(ctx, "menu")
	if err != nil || r.QueuePosition == nil || r.QueuePosition.Position != 1 || r.QueuePosition.Same != 3 {
		t.Fatalf("%+v, %v", r.QueuePosition, err)
	}
	h.Advance(time.Minute)
	r, err = h.Get(ctx, "menu")
	if err != nil || r.Started.IsZero() {
		t.Errorf("the urgent one has not begun: %+v, %v", r, err)
	}
	h.Advance(2 * time.Minute)
	if n, err := h.WorkflowLimits().Get(ctx, "printer"); err != nil || n.Holding+n.Waiting != 0 {
		t.Errorf("%+v, %v", n, err)
	}
}
