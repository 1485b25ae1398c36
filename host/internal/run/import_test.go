package run_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

var there = store.RunKey{Namespace: 3, ID: "r"}

// came is a run that began elsewhere, with more entries.
func came(t *testing.T, change func(*journal.Started), entries ...store.Entry) *journal.Journal {
	t.Helper()
	s := journal.Started{RunID: "r", Workflow: "w", Version: 7, Incarnation: strings.Repeat("ab", 16), Seed: make([]byte, 32),
		Schedule: "nightly", NominalMs: 5, Attributes: map[string]string{"k": "v"},
		Parent: &journal.Parent{Namespace: 9, RunID: "p", Incarnation: make([]byte, 16), Depth: 1}}
	if change != nil {
		change(&s)
	}
	j := &journal.Journal{}
	for _, e := range append([]store.Entry{s.Entry([]byte("1")), {Kind: store.KindActivated}}, entries...) {
		if _, err := j.Append(e, 1000); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

func importing(j *journal.Journal) *run.Import {
	return &run.Import{ID: "id", UnixMs: 5000, Entries: j.All(), LogLines: 1, Logs: []store.LogLine{{Text: "line"}},
		Earlier: []store.IterationEnd{{Append: []store.Entry{{Kind: store.KindStarted, UnixMs: 10, Input: []byte("0")}}}}}
}

// begin steps an import.
func begin(t *testing.T, r *run.Run, i *run.Import) *run.Effects {
	t.Helper()
	return r.Apply(5000, run.Start{New: run.NewRun{Key: there, Workflow: "w", Version: 2, Import: i}})
}

// fresh returns an imported run with its first commit.
func fresh(t *testing.T, i *run.Import) (*run.Run, *store.RunCommit) {
	t.Helper()
	r := run.New(there, run.Config{})
	if fx := begin(t, r, i); fx.Err != nil || !fx.Answer.Created {
		t.Fatal(fx.Err)
	}
	return r, r.Prepare(5000)
}

var move = store.Entry{Kind: store.KindMoved, Target: "id"}

// TestImport commits everything that was imported, and repeats no messages of the past; only the chosen token is
// claimed.
func TestImport(t *testing.T) {
	hook := store.Entry{Kind: store.KindHook, Handle: 1, Name: "h", Target: "token", Data: []byte("token")}
	j := came(t, nil, hook, store.Entry{Kind: store.KindHookReady, Handle: 1, Data: []byte("token")},
		store.Entry{Kind: store.KindSignalSend, Handle: 2, Name: "s", Target: "q"}, store.Entry{Kind: store.KindSignalSent, Handle: 2},
		store.Entry{Kind: store.KindEmit, Name: "t", Input: []byte("chunk")}, move)
	i := importing(j)
	i.Output = []store.Chunk{{Topic: "t", Data: []byte("chunk")}}
	r, c := fresh(t, i)
	if !c.Create || len(c.Append) != j.Len()+1 || c.Append[j.Len()].Kind != store.KindAdopted || len(c.Earlier) != 1 || len(c.Logs) != 1 ||
		len(c.Output) != 1 {
		t.Errorf("%+v", c)
	}
	if len(c.Outbox) != 1 || c.Outbox[0].Kind != store.CommandHookClaim || c.Outbox[0].To != (store.RunKey{Namespace: 3, ID: "token"}) {
		t.Errorf("it says %+v", c.Outbox)
	}
	st := c.State
	if st.Version != 2 || st.CreatedUnixMs != 10 || st.Import != "id" || st.ImportUnixMs != 5000 || st.Aside != 0 || st.Parent != "p" ||
		st.Schedule != "nightly" || st.NominalUnixMs != 5 || st.LogRecords != 1 || st.Status != store.Queued || st.StoredBytes == 0 ||
		st.InputDigest != run.InputDigest([]byte("0")) || st.Incarnation.String() != strings.Repeat("ab", 16) {
		t.Errorf("%+v", st)
	}
	if fx := begin(t, r, i); fx.Err != nil || fx.Answer.Created {
		t.Error("it comes twice", fx.Err)
	}
	r.Apply(6000, run.Terminate{})
	for _, cmd := range r.Prepare(6000).Outbox { // they are of its own namespace
		if cmd.To.Namespace != 3 {
			t.Errorf("%+v", cmd)
		}
	}
	another := importing(j)
	another.ID = "another"
	for _, i := range []*run.Import{another, {ID: "id", Copy: true}} {
		if fx := begin(t, r, i); !errors.Is(fx.Err, store.ErrExists) {
			t.Error(fx.Err)
		}
	}
	r.Apply(6000, run.Delete{})
	if fx := begin(t, r, another); fx.Err != nil && !errors.Is(fx.Err, store.ErrExists) || !fx.Again && fx.Err == nil {
		t.Error(fx.Err)
	}
	r.Prepare(6000)
	if fx := begin(t, r, another); !errors.Is(fx.Err, store.ErrExists) || !strings.Contains(fx.Err.Error(), "was deleted here") {
		t.Error(fx.Err)
	}
	late := run.Start{New: run.NewRun{Key: there, Workflow: "w", Import: another}}
	if fx := r.Apply(6000+store.DefaultIDsMs, late); fx.Err != nil || !fx.Answer.Created {
		t.Error(fx.Err)
	}
	if fx := begin(t, run.New(there, run.Config{}), &run.Import{ID: "id"}); fx.Err == nil {
		t.Error("a run without entries begins")
	}
	bad := importing(j)
	bad.Entries = bad.Entries[1:]
	if fx := begin(t, run.New(there, run.Config{}), bad); !errors.Is(fx.Err, store.ErrCorrupt) {
		t.Error(fx.Err)
	}
}

// TestImportedAsItWas imports runs that are held: they stay so.
func TestImportedAsItWas(t *testing.T) {
	end := came(t, nil, store.Entry{Kind: store.KindCompleted, Data: []byte("2")})
	for name, c := range map[string]struct {
		i       *run.Import
		change  func(*run.Import)
		status  store.Status
		entries int
	}{
		"ended":  {importing(end), func(*run.Import) {}, store.Completed, 3},
		"copy":   {importing(came(t, nil)), func(i *run.Import) { i.Copy = true }, store.Paused, 2},
		"paused": {importing(came(t, nil)), func(i *run.Import) { i.Paused = true }, store.Paused, 4},
		"was paused": {importing(came(t, nil, store.Entry{Kind: store.KindPaused})), func(i *run.Import) { i.Paused = true },
			store.Paused, 4},
		"stuck": {importing(came(t, nil)), func(i *run.Import) { i.Stuck = "poison" }, store.Stuck, 3},
	} {
		c.change(c.i)
		r, commit := fresh(t, c.i)
		if commit.State.Status != c.status || len(commit.Append) != c.entries || commit.State.WakeUnixMs != store.NoWake ||
			len(commit.Outbox) > 0 {
			t.Errorf("%s: %+v, %+v", name, commit.State, commit.Outbox)
		}
		again, err := run.Load(commit.State, commit.Append, run.Config{Active: true})
		if err != nil {
			t.Fatal(err)
		}
		if fx := again.Apply(9000, run.Due{}); fx.Err != nil || fx.Activate != nil || again.Prepare(9000) != nil {
			t.Errorf("%s: something happens to it", name)
		}
		if name != "copy" {
			continue
		}
		for _, ev := range []run.Event{run.Signal{Name: "s"}, run.Pause{}, run.Unpause{}, run.Cancel{}, run.Terminate{}} {
			if fx := r.Apply(9000, ev); !errors.Is(fx.Err, run.ErrAside) {
				t.Errorf("%T: %v", ev, fx.Err)
			}
		}
		if fx := r.Apply(9000, run.Amend{Make: run.Move("m")}); fx.Err == nil {
			t.Error("a copy is moved")
		}
		if fx := begin(t, r, importing(end)); !errors.Is(fx.Err, store.ErrExists) {
			t.Error("a copy is adopted", fx.Err)
		}
		if fx := r.Apply(9000, run.Delete{}); fx.Err != nil {
			t.Error(fx.Err)
		}
		if c := r.Prepare(9000); c == nil || !c.Delete || c.State.Deleted {
			t.Errorf("%+v", c)
		}
	}
}

// TestMoved sets runs aside, and takes them back.
func TestMoved(t *testing.T) {
	r, _ := fresh(t, importing(came(t, nil)))
	if fx := r.Apply(6000, run.Amend{Make: (*run.Record).TakeBack}); fx.Err != nil || fx.Answer.Changed {
		t.Error("a run that is here is taken back", fx.Err)
	}
	for i, want := range []bool{true, false} {
		if fx := r.Apply(6000, run.Amend{Make: run.Move("m")}); fx.Err != nil || fx.Answer.Changed != want {
			t.Error(i, fx.Err)
		}
	}
	c := r.Prepare(6000)
	if c.State.Aside != store.AsideMoved || c.State.Status != store.Paused || c.State.WakeUnixMs != store.NoWake {
		t.Errorf("%+v", c.State)
	}
	i := importing(came(t, nil, move))
	i.ID = "m"
	if fx := begin(t, r, i); !errors.Is(fx.Err, store.ErrExists) || !strings.Contains(fx.Err.Error(), "--moved") {
		t.Error(fx.Err)
	}
	if fx := r.Apply(6000, run.Amend{Make: (*run.Record).TakeBack}); fx.Err != nil || !fx.Answer.Changed {
		t.Error(fx.Err)
	}
	if c := r.Prepare(6000); c.State.Aside != store.NotAside || c.State.Status != store.Queued {
		t.Errorf("%+v", c.State)
	}
	if fx := r.Apply(6000, run.Terminate{}); fx.Err != nil {
		t.Error(fx.Err)
	}
	if fx := r.Apply(6000, run.Amend{Make: run.Move("m")}); fx.Err != nil || fx.Answer.Changed {
		t.Error("an ended run is set aside", fx.Err)
	}
	for _, call := range []store.Entry{{Kind: store.KindChild, Handle: 1, Name: "c", Target: "w", Data: []byte("kid")},
		{Kind: store.KindSignalSend, Handle: 1, Name: "s", Target: "q"}, {Kind: store.KindHook, Handle: 1, Name: "h", Target: "t"}} {
		r, _ := fresh(t, importing(came(t, nil, call)))
		if fx := r.Apply(6000, run.Amend{Make: run.Move("m")}); fx.Err == nil || r.State().Aside != store.NotAside {
			t.Errorf("a run is moved while a %s is open", call.Kind)
		}
	}
}

// TestCheckOfWhatCame refuses an entry 0 that no host would write.
func TestCheckOfWhatCame(t *testing.T) {
	if err := run.CheckImported(came(t, nil)); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*journal.Started){
		"id": func(s *journal.Started) { s.RunID = "a b" }, "workflow": func(s *journal.Started) { s.Workflow = "" },
		"incarnation": func(s *journal.Started) { s.Incarnation = "ab" }, "seed": func(s *journal.Started) { s.Seed = nil },
		"salt": func(s *journal.Started) { s.ChildSalt = "\x00" }, "schedule": func(s *journal.Started) { s.Schedule = "\x00" },
		"parent": func(s *journal.Started) { s.Parent.RunID = "" }, "depth": func(s *journal.Started) { s.Parent.Depth = -1 },
		"long salt": func(s *journal.Started) { s.ChildSalt = strings.Repeat("ab", 8) },
		"parent's":  func(s *journal.Started) { s.Parent.Incarnation = []byte("short") },
		"attribute": func(s *journal.Started) { s.Attributes = map[string]string{"\x00": ""} },
		"attributes": func(s *journal.Started) {
			for i := range 100 {
				s.Attributes[strings.Repeat("k", i+1)] = ""
			}
		},
	} {
		if err := run.CheckImported(came(t, change)); err == nil {
			t.Errorf("%s is not refused", name)
		}
	}
	hook := store.Entry{Kind: store.KindHook, Handle: 1, Name: "h", Target: "x", Data: []byte("another")}
	if err := run.CheckImported(came(t, nil, hook)); err == nil {
		t.Error("a token is not refused")
	}
}
