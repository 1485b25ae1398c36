package check

import (
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// TestVerifyJudgesTheEnd checks that the end has the right number of taken deliveries, and allows limits to be
// reached elsewhere.
func TestVerifyJudgesTheEnd(t *testing.T) {
	again := func(h engine.Host) (int32, error) { return 0, h.ContinueAsNew(nil, nil) }
	loops := func(engine.Host) (int32, error) { return 0, guest.ErrFuel }
	calls := func(engine.Host) (int32, error) { return 0, guest.ErrCalls }
	const cpu, many = `{"code":"LIMIT","kind":"cpu","message":""}`, `{"code":"LIMIT","kind":"calls","message":""}`
	const late = `{"code":"TIMEOUT","kind":"timeout","message":"late"}`
	end := func(kind store.Kind, taken uint64, data string) *store.Entry {
		return &store.Entry{Kind: kind, Consumed: taken, Data: []byte(data)}
	}
	for i, c := range []struct {
		guest  script
		end    *store.Entry // nil if the run still computes
		dueIn  int64        // the deadline in ms, or 0
		differ string
	}{
		{returns, end(store.KindCompleted, 2, ""), 0, ""},
		{returns, end(store.KindCompleted, 0, ""), 0, ""}, // by an older release
		{returns, end(store.KindCompleted, 1, ""), 0, "has completed after 1 deliveries, the workflow did it after 2"},
		{again, end(store.KindCompleted, 2, ""), 0, "a call that the journal does not have"},
		{loops, end(store.KindFailed, 2, cpu), 0, ""},
		{loops, end(store.KindFailed, 1, cpu), 0, ""},
		{loops, end(store.KindCompleted, 2, ""), 0, guest.ErrFuel.Error()},
		{loops, nil, 0, ""},
		{calls, end(store.KindFailed, 2, many), 0, ""},
		{calls, end(store.KindCompleted, 2, ""), 0, guest.ErrCalls.Error()},
		{calls, nil, 0, ""},
		{returns, end(store.KindFailed, 0, late), 1, ""},
		{returns, end(store.KindFailed, 1, late), 1, "has failed after 1 deliveries, the workflow did it after 0"},
		{returns, end(store.KindFailed, 0, late), 1 << 40, "its return"},
		{returns, end(store.KindTerminated, 1, ""), 0, "has terminated after 1 deliveries"},
	} {
		entries := []store.Entry{activated, nap, woken, step, paid}
		if c.end != nil {
			entries = append(entries, *c.end)
		}
		w := newWorld(t, naps("1", c.guest), entries...)
		if c.end == nil {
			w.state.Status = store.Running
		}
		if c.dueIn > 0 {
			started := journal.Started{RunID: "r", Workflow: "w", Version: 1, Seed: make([]byte, 32), DeadlineUnixMs: 1000 + c.dueIn}
			first := started.Entry([]byte("input"))
			first.UnixMs = w.entries[0].UnixMs
			w.state.JournalBytes += int64(len(first.Options)-len(w.entries[0].Options)) + 8
			w.entries[0] = first
		}
		err := w.checker().Verify(t.Context(), w.state.Run)
		if (c.differ == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.differ) {
			t.Errorf("%d: %v, want %q", i, err, c.differ)
		}
	}
}
