package journal

import (
	"errors"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// TestAside sets a run aside whose sleep and deadline come due in the meantime: nothing is appended until it comes
// back, and then all of it is.
func TestAside(t *testing.T) {
	moved, adopted := store.Entry{Kind: store.KindMoved, Target: "m"}, store.Entry{Kind: store.KindAdopted, Target: "m"}
	begin := func() *Journal {
		return with(t, Started{RunID: "r", DeadlineUnixMs: 9000},
			store.Entry{Kind: store.KindSleep, Handle: 1, Name: "nap", DueUnixMs: 2000, HasDue: true}, moved)
	}
	j := begin()
	if j.Aside() != store.AsideMoved || j.Move() != "m" {
		t.Error(j.Aside(), j.Move())
	}
	if n, err := j.Skip("", 99_000); n != 0 || !errors.Is(err, ErrAside) {
		t.Error(n, err)
	}
	for _, e := range []store.Entry{{Kind: store.KindSignalAccepted, Name: "s"}, {Kind: store.KindPaused}, {Kind: store.KindCancelled},
		{Kind: store.KindTimer, Handle: 1}, {Kind: store.KindCompleted}, {Kind: store.KindRetried, Ref: 1}} {
		if _, err := j.Append(e, 99_000); !errors.Is(err, ErrAside) || j.Len() != 4 {
			t.Errorf("%s: %v, %d entries", e.Kind, err, j.Len())
		}
	}
	for _, e := range []store.Entry{moved, {Kind: store.KindAdopted, Target: "another"}, {Kind: store.KindAdopted},
		{Kind: store.KindAdopted, Target: "m", Handle: 1}} {
		if _, err := j.Append(e, 99_000); !errors.Is(err, ErrIllegal) {
			t.Errorf("%+v: %v", e, err)
		}
	}
	again := &Journal{}
	for _, e := range j.All() {
		if err := again.Load(e); err != nil {
			t.Fatal(err)
		}
	}
	if again.Aside() != store.AsideMoved || again.Move() != "m" {
		t.Error("a journal that is loaded has forgotten the move")
	}
	if _, err := j.Append(adopted, 3000); err != nil || j.Aside() != store.NotAside || j.Move() != "" {
		t.Error(err, j.Aside())
	}
	if err := j.FireDue(3000); err != nil || !j.Handle(1).Resolved {
		t.Error("what came due is forgotten", err)
	}
	for _, e := range []store.Entry{{Kind: store.KindMoved}, adopted} {
		if _, err := j.Append(e, 3000); !errors.Is(err, ErrIllegal) {
			t.Errorf("%+v: %v", e, err)
		}
	}
	if _, err := j.Append(store.Entry{Kind: store.KindAdopted}, 3000); err != nil { // it was not moved
		t.Error(err)
	}
	gone := begin()
	if _, err := gone.Append(store.Entry{Kind: store.KindTerminated}, 3000); err != nil || gone.Aside() != store.AsideMoved {
		t.Error(err)
	}
	frozen := with(t, Started{RunID: "r"})
	frozen.Freeze()
	for _, e := range []store.Entry{moved, {Kind: store.KindAdopted}, {Kind: store.KindTerminated}} {
		if _, err := frozen.Append(e, 3000); !errors.Is(err, ErrAside) {
			t.Errorf("%+v: %v", e, err)
		}
	}
}
