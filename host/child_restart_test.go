package host_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// kid is an input of the workflow "parent".
type kid struct {
	Workflow string
	Version  string
	SleepMs  int
	Input    int
}

// TestChildrenOfRunsWithOneID starts several runs with children under the same id, one after the other.
func TestChildrenOfRunsWithOneID(t *testing.T) {
	f := newMixed(t)
	in := kid{Workflow: "nap", Input: 60_000}
	for _, conflict := range []host.ConflictPolicy{host.ConflictReplace, host.ConflictReplace, host.ConflictTerminate} {
		f.begin("parent", in, host.OnConflict(conflict))
		f.finish("r", "slept")
	}
	f.begin("parent", in, host.OnConflict(host.ConflictTerminate))
	f.Advance(time.Second) // its child sleeps when it is replaced
	f.begin("parent", in, host.OnConflict(host.ConflictTerminate))
	f.finish("r", "slept")
	for range 2 {
		do(t, f.Delete(ctx, "r"))
		f.Advance(31 * 24 * time.Hour)
		f.begin("parent", in)
		f.finish("r", "slept")
	}
	f.Reopen()
	f.begin("parent", in, host.OnConflict(host.ConflictReplace))
	f.finish("r", "slept")
}

// TestRestartAfterContinue restarts a run that continued as new from one of its steps: its random numbers are the
// ones of the repeated iteration.
func TestRestartAfterContinue(t *testing.T) {
	f := newMixed(t)
	f.fails.Store(1)
	f.begin("iterate", 2)
	f.ends("r", host.Failed)
	_, err := f.Host.Host.Restart(ctx, "r", "r2", "a")
	do(t, err)
	f.ends("r2", host.Completed)
	if a, b := naps(t, f, "r"), naps(t, f, "r2"); a != b || a == "" {
		t.Errorf("%q, in the copy %q", a, b)
	}
	do(t, f.Replay(ctx, "r2"))
	_, err = f.Host.Host.Restart(ctx, "r", "r3", "") // from the beginning of the iteration
	do(t, err)
	f.ends("r3", host.Completed)
	if a, b := naps(t, f, "r"), naps(t, f, "r3"); a != b {
		t.Errorf("%q, in the copy from the beginning %q", a, b)
	}
}

// TestRestartAfterChild restarts a run from a call after a child: the copy has the child of the original run, and is
// valid.
func TestRestartAfterChild(t *testing.T) {
	m := wasmgen.New(1)
	m.Pages = 2
	m.Text("kid").Text("nap").Text(`"1ms"`).I32(0).I32(0).Call(abi.FnChildStart).Set(0)
	m.I32(32).Get(0).Store64().I32(32).I32(1).Call(abi.FnAwait).Drop()
	m.Text("after").I64(1).Call(abi.FnSleep).Drop()
	h := hosttest.New(t)
	for name, wasm := range map[string][]byte{"w": m.I32(0).Export(abi.ExportRun).Bytes(), "nap": napModule()} {
		_, err := h.Upload(ctx, name, wasm)
		do(t, err)
	}
	_, err := h.Start(ctx, "w", nil, host.WithRunID("r"))
	do(t, err)
	want(t, h.Finish("r").Status, host.Completed)
	_, err = h.Host.Restart(ctx, "r", "again", "after")
	do(t, err)
	want(t, h.Finish("again").Status, host.Completed)
	for _, id := range []string{"r", "again"} {
		do(t, h.Replay(ctx, id))
	}
	kids := 0
	for r, err := range h.Runs(ctx, host.Query{}) {
		do(t, err)
		if r.Parent != "" {
			kids++
		}
	}
	want(t, kids, 1)
}

// naps returns the name of the run's sleep.
func naps(t *testing.T, f *mixed, id string) (name string) {
	t.Helper()
	for e, err := range f.Journal(ctx, id, 0) {
		do(t, err)
		if e.Kind == store.KindSleep {
			name = e.Name
		}
	}
	return name
}

// TestRestartAfterCancel restarts a run from a step that it made because of a cancel.
func TestRestartAfterCancel(t *testing.T) {
	f := newMixed(t)
	f.fails.Store(1)
	f.begin("gentle", 3_600_000)
	f.Settle()
	_, err := f.Cancel(ctx, "r")
	do(t, err)
	f.Finish("r")
	_, err = f.Host.Host.Restart(ctx, "r", "r2", "clean up")
	do(t, err)
	f.ends("r2", host.Cancelled)
	if n := f.tries.Load(); n != 2 {
		t.Errorf("%d attempts", n)
	}
	do(t, f.Replay(ctx, "r2"))
}

// versioned is a workflow that completes with a text.
func versioned(text string) []byte {
	return wasmgen.New(0).Text(text).Call(abi.FnComplete).Drop().I32(0).Export(abi.ExportRun).Bytes()
}

// TestVersionOfChild uploads another version of a child's workflow between the starts of the parent and the child.
func TestVersionOfChild(t *testing.T) {
	f := newMixed(t) // nap@1, in the same module as the parent
	_, err := f.Upload(ctx, "other", versioned(`"other 1"`))
	do(t, err)
	in := kid{SleepMs: 60_000, Input: 1}
	want := map[string]string{}
	for workflow, versions := range map[string][]string{"nap": {"", "latest", "1"}, "other": {"", "1"}} {
		for _, v := range versions {
			id := workflow + "-" + v
			in.Workflow, in.Version = workflow, v
			_, err := f.Start(ctx, "parent", in, host.WithRunID(id))
			do(t, err)
			want[id] = map[string]string{"nap-": "slept", "nap-latest": "new nap", "nap-1": "slept", "other-": "other 2",
				"other-1": "other 1"}[id]
		}
	}
	f.Settle()
	for name, text := range map[string]string{"nap": `"new nap"`, "other": `"other 2"`} {
		_, err := f.Upload(ctx, name, versioned(text))
		do(t, err)
	}
	for id, result := range want {
		f.finish(id, result)
	}
}

// TestVersionOfRetriedChild uploads a parent's module again with other grants: its child gets the newest version of
// that module.
func TestVersionOfRetriedChild(t *testing.T) {
	f := newMixed(t)
	_, err := f.Upload(ctx, "", hosttest.Build(t, "testdata/mixed"), host.AllowStep("note"))
	do(t, err)
	_, err = f.Upload(ctx, "nap", versioned(`"new nap"`))
	do(t, err)
	f.begin("parent", kid{Workflow: "nap"})
	f.finish("r", "slept")
	for r, err := range f.Runs(ctx, host.Query{Workflow: "nap"}) {
		do(t, err)
		if r.Version != 2 {
			t.Errorf("the child has version %d", r.Version)
		}
	}
}

// TestChildOfAnIteration starts a child in the commit with which its parent continues as new under another version:
// the child has the parent's previous version.
func TestChildOfAnIteration(t *testing.T) {
	f := newMixed(t)
	f.begin("leaves", 0)
	f.Settle()
	for _, name := range []string{"nap", "leaves"} {
		_, err := f.Upload(ctx, name, versioned(`"new `+name+`"`))
		do(t, err)
	}
	f.finish("r", "new leaves")
	f.finish("kid", "slept")
}

// TestRestartBeforeWithdraw restarts a run from a step. After that step the original withdrew a wait, and the next
// wait got the signal.
func TestRestartBeforeWithdraw(t *testing.T) {
	f := newMixed(t)
	f.begin("rebinds", 0)
	f.Settle()
	_, err := f.Pause(ctx, "r")
	do(t, err)
	f.Advance(2 * time.Minute)
	do(t, f.Signal(ctx, "r", "a", "A")) // after the sleep ended, so that the workflow cannot see it earlier
	_, err = f.Unpause(ctx, "r")
	do(t, err)
	f.finish("r", "Ax")
	_, err = f.Host.Host.Restart(ctx, "r", "r2", "x")
	do(t, err)
	f.finish("r2", "Ax")
	do(t, f.Replay(ctx, "r2"))
}

// faultyHost is a test host whose store fails on demand.
func faultyHost(t *testing.T, opts ...hosttest.Option) (*mixed, *faulty) {
	t.Helper()
	data, s := memstore.New(), &faulty{}
	return newMixed(t, append(opts, hosttest.WithStore(func() store.Store {
		s.Store = data.Open()
		return s
	}))...), s
}

// TestFailedCommandIsRepeated fails the operations that start a child: the child starts later, and no caller sees an
// error.
func TestFailedCommandIsRepeated(t *testing.T) {
	f, s := faultyHost(t)
	_, err := f.Upload(ctx, "other", versioned(`"other"`))
	do(t, err)
	for _, op := range []string{"read version of other", "read run", "read inbox"} {
		f.begin("parent", kid{Workflow: "other", SleepMs: 1000}, host.OnConflict(host.ConflictReplace))
		f.Settle()
		left, began := s.failing(op, 3), f.Clock.Now()
		f.finish("r", "other")
		if took := f.Clock.Now().Sub(began); left.Load() > 0 || took > 10*time.Second {
			t.Errorf("%s: %v, %d left", op, took, left.Load())
		}
	}
}

// TestFailedCommandBlocksNoOthers has a command fail repeatedly: commands for other runs are carried out, and so is
// this one once its cause is gone.
func TestFailedCommandBlocksNoOthers(t *testing.T) {
	f, s := faultyHost(t)
	for _, name := range []string{"bad", "good"} {
		_, err := f.Upload(ctx, name, versioned(`"`+name+`"`))
		do(t, err)
	}
	left := s.failing("read version of bad", 1<<40)
	const runs = 300 // so that all partitions have commands of both kinds
	for i := range runs {
		_, err := f.Start(ctx, "parent", kid{Workflow: "bad"}, host.WithRunID(fmt.Sprint("bad", i)))
		do(t, err)
		_, err = f.Start(ctx, "parent", kid{Workflow: "good"}, host.WithRunID(fmt.Sprint("good", i)))
		do(t, err)
	}
	f.Advance(5 * time.Second)
	for i := range runs {
		f.is(fmt.Sprint("good", i), host.Completed)
		f.is(fmt.Sprint("bad", i), host.Waiting)
	}
	left.Store(0)
	f.Advance(5 * time.Second)
	for i := range runs {
		f.is(fmt.Sprint("bad", i), host.Completed)
	}
}

// TestRollBack runs a release that cannot read a run, as after a rollback. It writes nothing about the run, and a
// release that can read the run continues it.
func TestRollBack(t *testing.T) {
	f, s := faultyHost(t)
	f.begin("nap", 3_600_000)
	f.Settle()
	before := f.is("r", host.Sleeping)
	s.set(func(op string) error {
		if op == "read run" {
			return fmt.Errorf("entry 3: %w", store.ErrVersion)
		}
		return nil
	})
	f.Reopen()
	f.Advance(2 * time.Hour)
	if err := f.Signal(ctx, "r", "x", nil); !errors.Is(err, host.ErrVersion) {
		t.Error(err)
	}
	if err := f.Terminate(ctx, "r"); !errors.Is(err, host.ErrVersion) {
		t.Error(err)
	}
	f.Advance(2 * time.Hour)
	if r := f.is("r", host.Sleeping); r.Updated != before.Updated || r.Entries != before.Entries {
		t.Errorf("%+v, before %+v", r, before)
	}
	s.set(nil)
	f.Reopen()
	f.finish("r", "slept")
}
