package check

import (
	"errors"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// TestContradictions changes data that a replay does not read, because it is in the run's state, or repeated in
// another entry.
func TestContradictions(t *testing.T) {
	hook := store.Entry{Kind: store.KindHook, Handle: 2, Name: "h", Data: []byte("token"), Consumed: 1}
	child := store.Entry{Kind: store.KindChild, Handle: 3, Name: "c", Target: "w", Consumed: 1}
	emit := store.Entry{Kind: store.KindEmit, Name: "topic", Consumed: 1}
	refused := store.Entry{Kind: store.KindStep, Name: "no", Target: "host/no", Consumed: 1, Refused: 12,
		Data: []byte(`{"code":"DENIED","message":"no"}`)}
	taken := store.Entry{Kind: store.KindChildFailure, Handle: 3, Code: 15, Data: []byte(`{"code":"CONFLICT","message":"taken"}`)}
	withdraw := store.Entry{Kind: store.KindWithdraw, Handle: 3, Code: 1, Consumed: 1}
	failed := store.Entry{Kind: store.KindFailed, Data: []byte(`{"code":"STEP_FAILED","message":"lost"}`)}
	entries := []store.Entry{activated, nap, woken, hook, child, emit, emit, refused, taken, withdraw, failed}
	at := func(w *world, k store.Kind) *store.Entry {
		for i := range w.entries {
			if w.entries[i].Kind == k {
				return &w.entries[i]
			}
		}
		t.Fatal("there is no", k)
		return nil
	}
	for i, c := range []struct {
		change func(w *world)
		want   string
	}{
		{func(*world) {}, ""},
		{func(w *world) { w.state.Status = store.Completed }, "its state says completed, and its journal ends with failed"},
		{func(w *world) { w.state.Status = store.Sleeping }, "its state says sleeping, and its journal ends with failed"},
		{func(w *world) { w.entries[len(w.entries)-1].Kind = store.KindTerminated }, "its journal ends with terminated"},
		{func(w *world) { w.state.Reason = "found" }, `by "found", and its journal by "lost"`},
		{func(w *world) { w.state.Output = 3 }, "3 chunks, and its journal 2"},
		{func(w *world) { at(w, store.KindEmit).Code = 1; w.state.Output = 3 }, "chunk 1 of the output, behind chunk 1"},
		{func(w *world) { at(w, store.KindChild).Data = []byte("other") }, `has the id "other", and its call names "r.6"`},
		{func(w *world) { at(w, store.KindHook).Data = []byte("other") }, `ready with the token "token"`},
		{func(w *world) { at(w, store.KindHook).Target = "other" }, "its call names another one"},
		{func(w *world) { at(w, store.KindStep).Refused = 13 }, "step was answered by LIMIT, and the error is DENIED"},
		{func(w *world) { at(w, store.KindChildFailure).Code = 16 }, "child_failure was answered by PENDING, and the error is CONFLICT"},
		{func(w *world) { at(w, store.KindWithdraw).Code = 3 }, "a cancel of handle 3 was answered by 3"},
	} {
		w := newWorld(t, naps("1", returns), entries...)
		w.state.Reason, w.state.Output = "lost", 2
		c.change(w)
		err := w.checker().Verify(t.Context(), w.state.Run)
		if c.want == "" && errors.Is(err, store.ErrCorrupt) || c.want != "" && (!errors.Is(err, store.ErrCorrupt) ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d: %v, want %q", i, err, c.want)
		}
	}
}
