package examples_test

import (
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestNightly has a schedule start reports, one of them late: each is of its own day.
func TestNightly(t *testing.T) {
	h := hosttest.New(t)
	ctx := t.Context()
	if _, err := h.Upload(ctx, "", build(t, "nightly")); err != nil {
		t.Fatal(err)
	}
	_, err := h.Schedules().Create(ctx, "sales", host.ScheduleSpec{Workflow: "nightly", When: "30 0 * * *", Zone: "Europe/Berlin",
		Input: []byte(`{"of":"sales","zone":"Europe/Berlin"}`)})
	if err != nil {
		t.Fatal(err)
	}
	h.Advance(10 * time.Hour)
	h.Kill()
	h.Clock.Advance(20 * time.Hour) // over the next one
	h.Reopen()
	h.Settle()
	want := map[string]bool{`"sales of Tuesday 2026-01-06"`: false}
	for r, err := range h.Runs(ctx, host.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		b, err := h.ResultRaw(ctx, r.ID)
		if _, ok := want[string(b)]; err != nil || !ok {
			t.Errorf("%s: %s %v", r.ID, b, err)
		}
		want[string(b)] = true
	}
	for text, is := range want {
		if !is {
			t.Errorf("there is no report %s", text)
		}
	}
}
