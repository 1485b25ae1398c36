package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/store"
)

// script is a guest written as a function.
type script func(h engine.Host) (int32, error)

// scripted is an engine with one guest.
type scripted struct {
	engine.Engine
	engine.Module
	engine.Instance
	call script
	bad  error // of Instantiate
}

func (e *scripted) Compile(context.Context, engine.Source) (engine.Module, error) { return e, nil }
func (e *scripted) Trim(context.Context) (closed, left int)                       { return 0, 0 }
func (e *scripted) Close(context.Context) error                                   { return nil }
func (e *scripted) HasExport(name string) bool                                    { return name == abi.ExportRun }
func (e *scripted) Bytes() int64                                                  { return 0 }
func (e *scripted) Overhead() int64                                               { return 0 }
func (e *scripted) Hash() [32]byte                                                { return [32]byte{1} }
func (e *scripted) Release(context.Context) int64                                 { return 0 }

func (e *scripted) Instantiate(context.Context) (engine.Instance, error) { return e, e.bad }

func (e *scripted) Call(_ context.Context, _ string, h engine.Host) (int32, error) { return e.call(h) }

// world is the environment of a Checker: one run and one module.
type world struct {
	t       *testing.T
	engine  *scripted
	mod     *module.Module
	state   store.RunState
	entries []store.Entry
	bad     error // of reading the run
	closed  error // of Begin
	gone    error // of Module
}

func (w *world) Begin(ctx context.Context) (context.Context, func(), error) {
	return ctx, func() {}, w.closed
}
func (w *world) Module(store.Digest) (*module.Module, error) { return w.mod, w.gone }

func (w *world) Place(*module.Module, store.NamespaceID, string) *admission.Place {
	return admission.New(1, 1<<30, 0).NewPlace(1)
}

func (w *world) State(context.Context, store.RunKey) (store.RunState, error) { return w.state, w.bad }
func (w *world) Run(context.Context, store.RunKey) (store.RunState, []store.Entry, error) {
	return w.state, w.entries, w.bad
}

func newWorld(t *testing.T, call script, entries ...store.Entry) *world {
	t.Helper()
	w := &world{t: t, engine: &scripted{call: call}}
	var err error
	w.mod, err = module.Compile(t.Context(), w.engine, engine.Bytes(nil))
	if err != nil {
		t.Fatal(err)
	}
	var j journal.Journal
	started := journal.Started{RunID: "r", Workflow: "w", Version: 1, Seed: make([]byte, 32)}
	for i, e := range append([]store.Entry{started.Entry([]byte("input"))}, entries...) {
		if _, err := j.Append(e, int64(1000+i)); err != nil {
			t.Fatal(err)
		}
	}
	w.entries = j.All()
	w.state = store.RunState{Run: store.RunKey{ID: "r"}, Workflow: "w", Version: 1, Status: store.Sleeping, Length: store.Seq(j.Len()),
		JournalBytes: j.Bytes()}
	if end := j.Ended(); end != store.KindInvalid {
		w.state.Status = end.Status()
	}
	return w
}

func (w *world) checker() *Checker {
	return New(Config{Guests: w, Store: w, Journals: admission.NewJournals(1<<20, nil), MaxFuel: 1000 * engine.FuelGrant, MaxSegmentCPU: time.Minute, MaxHostCalls: 1000})
}

var (
	activated = store.Entry{Kind: store.KindActivated}
	nap       = store.Entry{Kind: store.KindSleep, Handle: 1, Name: "nap", DueUnixMs: 1501, HasDue: true}
	woken     = store.Entry{Kind: store.KindTimer, Handle: 1, Skipped: true}
	step      = store.Entry{Kind: store.KindStep, Handle: 2, Name: "pay", Target: "host/pay", Input: []byte("1"), Consumed: 1}
	paid      = store.Entry{Kind: store.KindStepResult, Handle: 2, Data: []byte("ok")}
	completed = store.Entry{Kind: store.KindCompleted}
	failed    = store.Entry{Kind: store.KindFailed, Data: []byte("{}")}
)

// trapped is what the journal records for a workflow that trapped.
const trapped = `{"code":"STEP_FAILED","kind":"trap"}  `

// naps is a guest that sleeps, pays an amount, and then calls end.
func naps(amount string, end script) script {
	return func(h engine.Host) (int32, error) {
		for _, call := range []func() (int64, error){
			func() (int64, error) { return h.Sleep("nap", 500) },
			func() (int64, error) { return h.Await([]int64{1}) },
			func() (int64, error) { return h.Step("pay", "host/pay", []byte(amount), nil) },
			func() (int64, error) { return h.Await([]int64{2}) },
		} {
			if _, err := call(); err != nil {
				return 0, err
			}
		}
		return end(h)
	}
}

func returns(engine.Host) (int32, error) { return 0, nil }

// TestRun checks what each end of a replay means.
func TestRun(t *testing.T) {
	traps := func(engine.Host) (int32, error) { return 0, &engine.Trap{Message: "unreachable"} }
	fails := func(h engine.Host) (int32, error) { h.Fail([]byte(strings.Repeat("no", 1000))); return 1, nil }
	exits := func(engine.Host) (int32, error) { return 3, nil }
	again := func(h engine.Host) (int32, error) { return 0, h.ContinueAsNew(nil, nil) }
	polls := func(h engine.Host) (int32, error) { _, err := h.WaitEvent(-1); return 0, err }
	refuelled := 0
	loops := func(h engine.Host) (int32, error) {
		for ; ; refuelled++ {
			if err := h.Refuel(); err != nil {
				return 0, err
			}
		}
	}
	calls := func(h engine.Host) (int32, error) {
		for {
			if err := h.Enter(); err != nil {
				return 0, err
			}
		}
	}
	for i, c := range []struct {
		guest   script
		entries []store.Entry
		want    string
	}{
		{naps("1", returns), nil, "compatible: it has not begun"},
		{naps("1", returns), []store.Entry{activated}, "compatible: the workflow goes on with a call of its own"},
		{naps("1", returns), []store.Entry{activated, nap}, "compatible"},
		{naps("1", returns), []store.Entry{activated, nap, woken}, "compatible: the workflow goes on with a call of its own"},
		{naps("1", returns), []store.Entry{activated, nap, woken, step}, "compatible"},
		{naps("2", returns), []store.Entry{activated, nap, woken, step},
			`diverges at 4: step "pay" by "host/pay" with an input of 1 bytes | it with another input of 1 bytes`},
		{naps("2", returns), []store.Entry{activated, nap, woken, step, paid},
			`compatible: the workflow returns; entry 4: the input of step "pay" by "host/pay" has changed`},
		{naps("1", polls), []store.Entry{activated, nap, woken, step, paid}, "compatible"},
		{naps("1", polls), []store.Entry{activated, nap, woken, step, paid, completed},
			"compatible: the run has completed, and the workflow waits"},
		{returns, []store.Entry{activated, nap}, `diverges at 2: sleep "nap" | its return`},
		{traps, []store.Entry{activated, nap}, `diverges at 2: sleep "nap" | break down: unreachable`},
		{traps, []store.Entry{activated}, `diverges at 2: no end | break down: unreachable`},
		{naps("1", traps), []store.Entry{activated, nap, woken, step, paid, failed}, "compatible"},
		{naps("1", traps), []store.Entry{activated, nap, woken, step, paid, completed}, `diverges at 6: completed | break down: unreachable`},
		{naps("1", returns), []store.Entry{activated, nap, woken, step, paid, completed}, "compatible"},
		{naps("1", fails), []store.Entry{activated, nap, woken, step, paid}, "diverges at 6: no end | fail: " + strings.Repeat("no", 250)},
		{naps("1", exits), []store.Entry{activated, nap, woken, step, paid}, "diverges at 6: no end | fail: it returned 3"},
		{naps("1", again), []store.Entry{activated, nap, woken, step, paid}, "compatible: the workflow goes on with a call of its own"},
		{func(h engine.Host) (int32, error) { _, err := h.Reply(0, 0, nil); return 0, err }, []store.Entry{activated}, "diverges at 2: no end | fail: " +
			`query_reply was refused: {"code":"STEP_FAILED","message":"query_reply was called outside of a query","kind":"trap"}`},
		{loops, []store.Entry{activated}, "not checked: not replayed to its end: the replay computed too long, the limit is about 50ms"},
		{calls, []store.Entry{activated}, "not checked: not replayed to its end: the replay computed too long, the limit is about 50ms"},
		{func(engine.Host) (int32, error) { return 0, errors.New("the machine is ill") }, []store.Entry{activated},
			"not checked: the machine is ill"},
	} {
		w := newWorld(t, c.guest, c.entries...)
		r, err := w.checker().Run(t.Context(), w.state.Run, w.mod, 10*sliceFuel)
		got := "compatible"
		switch r.Outcome {
		case Diverges:
			got = fmt.Sprintf("diverges at %d: %s | %s", r.Seq, r.Want, r.Got)
		case NotChecked:
			got = "not checked: " + r.Reason
		case Compatible:
			if len(r.Notes) > 0 {
				got += ": " + strings.Join(r.Notes, "; ")
			}
		}
		if err != nil || got != c.want || r.State.Length != w.state.Length {
			t.Errorf("%d: %v, got\n%s, want\n%s", i, err, got, c.want)
		}
	}
	if most := 10 * guest.GrantsPerSlice; refuelled < most || refuelled > most+guest.GrantsPerSlice {
		t.Errorf("a replay that loops was granted fuel %d times, its limit is %d grants", refuelled, most)
	}
}

// TestNotes names the first changed inputs.
func TestNotes(t *testing.T) {
	var entries []store.Entry
	const steps = 15
	for i := range int64(steps) {
		entries = append(entries, store.Entry{Kind: store.KindStep, Handle: i + 1, Name: fmt.Sprint("s", i), Target: "host/x", Input: []byte("1"),
			Consumed: uint64(i)}, store.Entry{Kind: store.KindStepResult, Handle: i + 1})
	}
	w := newWorld(t, func(h engine.Host) (int32, error) {
		for i := range int64(steps) {
			if _, err := h.Step(fmt.Sprint("s", i), "host/x", []byte("2"), nil); err != nil {
				return 0, err
			}
			if _, err := h.Await([]int64{i + 1}); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}, append([]store.Entry{activated}, entries...)...)
	r, err := w.checker().Run(t.Context(), w.state.Run, w.mod, engine.FuelGrant)
	if err != nil || len(r.Notes) != maxNotes+2 || r.Notes[maxNotes+1] != "and 5 more" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestRunOfWhatCannotBeRead reports damaged journals, and returns errors that do not concern a single run.
func TestRunOfWhatCannotBeRead(t *testing.T) {
	ill := errors.New("ill")
	for i, c := range []struct {
		change func(w *world)
		reason string // of a report
		err    error
	}{
		{func(w *world) { w.entries[2].Seq = 7 }, "entry 7 stands where entry 2 should", nil},
		{func(w *world) { w.entries = nil }, "its journal is empty", nil},
		{func(w *world) { w.state.Deleted = true }, "", store.ErrNotFound},
		{func(w *world) { w.bad = store.ErrNotFound }, "", store.ErrNotFound},
		{func(w *world) { w.bad = fmt.Errorf("%w: x", store.ErrCorrupt) }, "x", nil},
		{func(w *world) { w.bad = ill }, "", ill},
		{func(w *world) { w.closed = ill }, "", ill},
		{func(w *world) { w.engine.bad = ill }, "ill", nil},
	} {
		w := newWorld(t, naps("1", returns), activated, nap)
		c.change(w)
		r, err := w.checker().Run(t.Context(), w.state.Run, w.mod, engine.FuelGrant)
		if !errors.Is(err, c.err) || err == nil && (r.Outcome != NotChecked || !strings.Contains(r.Reason, c.reason)) || r.State.Run.ID != "r" && err == nil {
			t.Errorf("%d: %+v, %v", i, r, err)
		}
	}
	w := newWorld(t, naps("1", returns), activated, nap)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ill)
	if _, err := w.checker().Run(ctx, w.state.Run, w.mod, engine.FuelGrant); !errors.Is(err, ill) {
		t.Error(err)
	}
}

// retried is a retry that voids nothing; with a module, it changes the version.
func retried(module string) store.Entry {
	return store.Entry{Kind: store.KindRetried, Ref: 3, Target: module, Options: []byte(`{"void":[]}`)}
}

// TestMemoryOfEntries: a journal of many small entries counts the memory of its entries, which is far more than their
// encoding.
func TestMemoryOfEntries(t *testing.T) {
	const entries = 1000
	list := []store.Entry{activated}
	for i := range entries {
		list = append(list, store.Entry{Kind: store.KindStep, Handle: int64(i + 1), Name: "pay", Target: "host/pay"})
	}
	w := newWorld(t, returns, list...)
	c := w.checker()
	if _, err := c.Run(t.Context(), store.RunKey{ID: "r"}, w.mod, 1<<20); err != nil {
		t.Fatal(err)
	}
	if peak, want := c.cfg.Journals.Peak(), admission.JournalSize(w.state.JournalBytes, len(w.entries)); peak != want || c.cfg.Journals.Bytes() != 0 {
		t.Errorf("%d bytes were counted and %d are, want %d and 0", peak, c.cfg.Journals.Bytes(), want)
	}
}

// TestVerify is strict from the last entry on that changed the run's version.
func TestVerify(t *testing.T) {
	migrated := store.Entry{Kind: store.KindMigrated, Target: "m", Options: []byte(`{"from":1,"to":2}`)}
	later := nap
	later.DueUnixMs = 9000
	stays := func(h engine.Host) (int32, error) { _, err := h.WaitEvent(1e18); return 0, err }
	polls := func(h engine.Host) (int32, error) { // nobody can ask it for its stacks
		_, err := h.Poll(engine.Poll{HasClock: true, TimeoutNs: 1e18})
		return 0, err
	}
	traps := func(engine.Host) (int32, error) {
		return 0, &engine.Trap{Message: "unreachable", Kind: engine.TrapGuest}
	}
	exits := func(engine.Host) (int32, error) { return 3, nil }
	completes := func(h engine.Host) (int32, error) { h.Complete([]byte("yes")); return 0, nil }
	fails := func(h engine.Host) (int32, error) { h.Fail([]byte(`{"code":"TIMEOUT","message":"no"}`)); return 1, nil }
	asked := func(h engine.Host) (int32, error) { // waits for an event that cannot come, and fails when it is asked for its stacks
		_, err := h.WaitEvent(-1)
		if err == nil {
			h.Fail([]byte(`{"code":"STEP_FAILED","message":"stacks"}`))
		}
		return 1, err
	}
	told := func(h engine.Host) (int32, error) { // receives a cancel, and then does the same as asked
		if _, err := h.CancelPolicy(abi.CancelCooperative); err != nil {
			return 0, err
		}
		if e, err := h.WaitEvent(-1); err != nil || e != abi.PackEvent(abi.EventCancel, 0) {
			return 0, fmt.Errorf("event %d, %w", e, err)
		}
		return asked(h)
	}
	done := []store.Entry{activated, nap, woken, step, paid}
	slept := store.Entry{Kind: store.KindSleep, Handle: 3, Name: "again", DueUnixMs: 9000, HasDue: true, Consumed: 2}
	ended := func(kind store.Kind, data string) []store.Entry {
		return append(slices.Clone(done), store.Entry{Kind: kind, Data: []byte(data)})
	}
	cancelled := func(data string) []store.Entry {
		policy := store.Entry{Kind: store.KindCancelPolicy, Code: abi.CancelCooperative, Consumed: 2}
		return append(slices.Clone(done), policy, store.Entry{Kind: store.KindCancel}, store.Entry{Kind: store.KindCancelled, Data: []byte(data)})
	}
	down := func(engine.Host) (int32, error) { return 0, errors.New("down") }
	for i, c := range []struct {
		guest   script
		entries []store.Entry
		want    string
	}{
		{naps("1", returns), nil, ""},
		{naps("1", returns), []store.Entry{activated, later}, "until"},
		{naps("1", returns), []store.Entry{activated, later, migrated}, ""},
		{naps("1", returns), []store.Entry{activated, migrated, later}, "until"},
		{naps("1", returns), []store.Entry{activated, later, retried("m")}, ""},
		{naps("1", returns), []store.Entry{activated, later, retried("")}, "until"},
		{naps("2", stays), []store.Entry{activated, nap, woken, step, paid}, "another input"},
		{naps("2", stays), []store.Entry{activated, nap, woken, step, paid, migrated}, ""},
		{naps("2", stays), []store.Entry{activated, nap, woken, migrated, step, paid}, "another input"},
		{naps("1", down), []store.Entry{activated, nap, woken, migrated, step, paid, failed}, "down"},
		{naps("1", down), []store.Entry{activated, nap, woken, migrated, step, paid}, "down"},
		{naps("1", completes), ended(store.KindCompleted, "yes"), ""},
		{naps("1", completes), ended(store.KindCompleted, "yez"), "has completed with 3 bytes, the workflow did it with 3 other bytes"},
		{naps("1", completes), ended(store.KindCompleted, ""), "has completed with 0 bytes, the workflow did its return, completed with 3 bytes"},
		{naps("1", completes), ended(store.KindFailed, trapped), "failed with 38 bytes, the workflow did its return, completed with 3 bytes"},
		{naps("1", completes), ended(store.KindTerminated, ""), ""},
		{naps("1", completes), ended(store.KindCancelled, ""), ""},
		{naps("1", polls), ended(store.KindCompleted, ""), "the workflow did a wait for something that has not happened"},
		{naps("1", polls), ended(store.KindFailed, trapped), "the workflow did a wait for something that has not happened"},
		{naps("1", polls), ended(store.KindFailed, `{"code":"LIMIT","kind":"journal","message":"full"}`), ""},
		{naps("1", polls), ended(store.KindFailed, `{"code":"TIMEOUT","kind":"timeout","message":"late"}`), "a wait for something"},
		{naps("1", polls), ended(store.KindFailed, `{"code":"STEP_FAILED","kind":"deadlock","message":"stacks"}`), ""},
		{naps("1", polls), ended(store.KindTerminated, ""), ""},
		{naps("1", asked), ended(store.KindFailed, `{"code":"STEP_FAILED","message":"stacks"}`), ""},
		{naps("1", asked), ended(store.KindFailed, `{"code":"STEP_FAILED","message":"other"}`), "its return, failed with 41 bytes"},
		{naps("1", told), cancelled(`{"code":"STEP_FAILED","message":"stacks"}`), ""},
		{naps("1", told), cancelled(`{"code":"STEP_FAILED","message":"other"}`), "its return, cancelled with 41 bytes"},
		{naps("1", told), cancelled(""), ""}, // and when it did not end by itself
		{naps("1", naps("1", returns)), ended(store.KindCompleted, ""), "a call that the journal does not have"},
		{naps("1", traps), ended(store.KindFailed, trapped), ""},
		{naps("1", traps), ended(store.KindFailed, `{"code":"STEP_FAILED","kind":"memory","message":""}`), "break down: unreachable"},
		{naps("1", traps), ended(store.KindCompleted, ""), "break down: unreachable"},
		{naps("1", traps), ended(store.KindTerminated, ""), ""},
		{naps("1", traps), append(slices.Clone(done), slept, ended(store.KindFailed, trapped)[5]), `has sleep "again"`},
		{naps("1", fails), ended(store.KindFailed, `{"code":"TIMEOUT","message":"no"}`), ""},
		{naps("1", fails), ended(store.KindFailed, `{"code":"TIMEOUT","message":"nn"}`), "it with 33 other bytes"},
		{naps("1", fails), ended(store.KindCompleted, ""), "has completed with 0 bytes, the workflow did its return, failed with 33 bytes"},
		{naps("1", fails), done, ""},
		{naps("1", exits), ended(store.KindFailed, `{"code":"STEP_FAILED","message":"bad (the workflow returned 3)"}`), ""},
		{naps("1", exits), ended(store.KindFailed, `{"code":"STEP_FAILED","message":"bad (the workflow returned 2)"}`), "its return, failed with"},
		{naps("1", returns), []store.Entry{activated, nap, woken, migrated, step, paid, completed}, ""},
		{returns, []store.Entry{activated, nap, migrated}, "its return"},
	} {
		w := newWorld(t, c.guest, c.entries...)
		saw := 0
		k := w.checker()
		k.cfg.OnWait = func(_ store.RunKey, _ uint32, _ uint64, hash func() [32]byte) {
			if hash() == [32]byte{1} {
				saw++
			}
		}
		err := k.Verify(t.Context(), w.state.Run)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d: %v, want %q", i, err, c.want)
		}
		if len(c.entries) > 3 && saw == 0 {
			t.Errorf("%d: nobody saw a wait", i)
		}
	}
	ill := errors.New("ill")
	for i, change := range []func(w *world){func(w *world) { w.bad = ill }, func(w *world) { w.closed = ill }, func(w *world) { w.gone = ill }} {
		w := newWorld(t, naps("1", returns), activated, nap)
		change(w)
		if err := w.checker().Verify(t.Context(), w.state.Run); !errors.Is(err, ill) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// TestPlayer covers what a player does outside of workflow calls.
func TestPlayer(t *testing.T) {
	w := newWorld(t, func(h engine.Host) (int32, error) {
		p := make([]byte, 3)
		if n := h.Stdin(p) + h.Stdin(p) + h.Stdin(p); n != 5 {
			return 0, fmt.Errorf("%d bytes of input", n)
		}
		if _, code := h.Fetch(nil); code != abi.NotHere.Neg() {
			return 0, fmt.Errorf("fetch answers %d", code)
		}
		if code := h.Log(0, []byte("a line")); code != 0 {
			return 0, fmt.Errorf("log answers %d", code)
		}
		if r, err := h.WaitEvent(0); r != 0 || err != nil { // only looking
			return 0, fmt.Errorf("a clock that is due answers %d, %w", r, err)
		}
		if _, err := h.Sleep("nap", 500); err != nil {
			return 0, err
		}
		if e, err := h.WaitEvent(-1); e != abi.PackEvent(abi.EventResolved, 1) || err != nil {
			return 0, fmt.Errorf("event %d, %w", e, err)
		}
		_, err := h.Poll(engine.Poll{HasClock: true, TimeoutNs: 1e12})
		return 0, err
	}, activated, nap, woken)
	k := w.checker()
	if m, err := k.Module(store.Digest{}); m != w.mod || err != nil {
		t.Error(m, err)
	}
	if r, err := k.Run(t.Context(), w.state.Run, w.mod, engine.FuelGrant); err != nil || r.Outcome != Compatible || len(r.Notes) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
