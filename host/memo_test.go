package host_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

// TestMemo starts a run with a memo, which all lists show, across restarts and iterations, and in a restart of the
// run. The workflow and its queries can read it, and the attributes at their current point in the journal.
func TestMemo(t *testing.T) {
	p := newPrims(t)
	memo := map[string]any{"who": "Ada <ada@example.com>", "items": []int{1, 2}}
	id := p.begin("counter", 2, host.WithMemo(memo), host.WithAttributes(map[string]string{"a": "b", "left": "none yet"}))
	shown := func(id string) {
		t.Helper()
		var got map[string]any
		r, err := p.Get(ctx, id)
		if err != nil || json.Unmarshal(r.Memo, &got) != nil || got["who"] != memo["who"] {
			t.Fatalf("the memo is %s, %v", r.Memo, err)
		}
		page, err := p.RunPage(ctx, host.Query{})
		if err != nil || len(page.Runs) == 0 || string(page.Runs[0].Memo) != string(r.Memo) {
			t.Fatalf("the list has %+v, %v", page.Runs, err)
		}
	}
	asked := func(left string) {
		t.Helper()
		b, err := p.Query(ctx, id, "attributes", "")
		var text string
		if err != nil || json.Unmarshal(b, &text) != nil || !strings.HasPrefix(text, left+" b {") || !strings.Contains(text, "Ada") {
			t.Fatalf("the query answers %s, %v", b, err)
		}
	}
	p.Settle()
	shown(id)
	if r, err := p.Get(ctx, id); err != nil || !strings.Contains(string(r.Memo), "<ada@example.com>") {
		t.Errorf("people are shown %s, %v", r.Memo, err)
	}
	asked("2")
	p.Crash()
	shown(id)
	asked("2")
	p.Advance(time.Second)
	shown(id)
	asked("1")
	p.Finish(id)
	shown(id)
	again, err := p.Restart(ctx, id, "again", "")
	if err != nil {
		t.Fatal(err)
	}
	shown(again.ID)
	if _, err := p.Start(ctx, "counter", 0, host.WithMemo(nil), host.WithRunID("none")); err != nil {
		t.Fatal(err)
	}
	if r := p.Finish("none"); r.Memo != nil {
		t.Errorf("a run without a memo has %s", r.Memo)
	}
}

// TestMemoRefused starts runs with invalid memos.
func TestMemoRefused(t *testing.T) {
	p := newPrims(t)
	for _, c := range []struct {
		memo any
		want error
		say  string
	}{
		{json.RawMessage(`{"a":`), host.ErrInvalid, "memo"},
		{json.RawMessage("\"\xff\""), host.ErrInvalid, "UTF-8"},
		{func() {}, host.ErrInvalid, "memo"},
		{strings.Repeat("x", 2047), host.ErrLimit, "2049 bytes"},
	} {
		if _, err := p.Start(ctx, "counter", 0, host.WithMemo(c.memo)); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%.20v: %v", c.memo, err)
		}
	}
	if _, err := p.Start(ctx, "counter", 0, host.WithMemo(strings.Repeat("&", 2046))); err != nil {
		t.Error(err)
	}
}

// TestMemoOfSchedule gives the runs of a schedule its memo, also after a crash, until the memo is removed.
func TestMemoOfSchedule(t *testing.T) {
	h := newScheduled(t)
	memos := func() []string { return h.runs(func(r host.Run) string { return string(r.Memo) }) }
	s := h.create("@every 1h", "1s", func(s *host.ScheduleSpec) { s.Memo = json.RawMessage(`{"for": "Ada & co"}`) })
	const memo = `{"for":"Ada & co"}`
	if string(s.Spec.Memo) != memo {
		t.Errorf("the schedule shows %s", s.Spec.Memo)
	}
	h.Advance(time.Hour)
	h.Crash()
	h.Advance(time.Hour)
	h.same(memos(), memo, memo)
	_, err := h.Schedules().Trigger(ctx, "s", host.OverlapAllow)
	do(t, err)
	s.Spec.Memo = json.RawMessage("null")
	s, err = h.Schedules().Update(ctx, "s", s.Spec)
	do(t, err)
	h.Advance(time.Hour)
	h.same(memos(), memo, memo, memo, "")
	s.Spec.Memo = json.RawMessage("{")
	if _, err := h.Schedules().Update(ctx, "s", s.Spec); !errors.Is(err, host.ErrInvalid) || !strings.Contains(err.Error(), "memo") {
		t.Error(err)
	}
}
