package host

import (
	"errors"
	"fmt"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// TestMayAccept refuses an update if the run has continued since it was asked, and an update over the limit.
func TestMayAccept(t *testing.T) {
	j := &journal.Journal{}
	add := func(e store.Entry) {
		t.Helper()
		if _, err := j.Append(e, 1); err != nil {
			t.Fatal(err)
		}
	}
	add(journal.Started{RunID: "r", Workflow: "w", Iteration: 2}.Entry(nil))
	add(store.Entry{Kind: store.KindActivated})
	st := store.RunState{Iteration: 2, Length: 2}
	if err := mayAccept(j, &st); err != nil {
		t.Error(err)
	}
	for _, other := range []store.RunState{{Iteration: 1, Length: 2}, {Iteration: 2, Length: 1}} {
		if err := mayAccept(j, &other); !errors.Is(err, run.ErrMoved) {
			t.Errorf("%+v: %v", other, err)
		}
	}
	for i := range abi.MaxPendingUpdates {
		add(store.Entry{Kind: store.KindSignalAccepted, Name: abi.UpdatePrefix + "x", Target: fmt.Sprint(i)})
	}
	st.Length = store.Seq(j.Len())
	if err := busy(translate(mayAccept(j, &st))); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	add(store.Entry{Kind: store.KindSignalWait, Handle: 1, Name: abi.UpdatePrefix + "x"})
	add(store.Entry{Kind: store.KindUpdateReply, Handle: 1})
	st.Length = store.Seq(j.Len())
	if err := mayAccept(j, &st); err != nil {
		t.Error("one was answered:", err)
	}
	if _, err := j.Append(store.Entry{Kind: store.KindUpdateReply, Handle: 1}, 1); !errors.Is(err, journal.ErrIllegal) {
		t.Error("a second answer:", err)
	}
}
