package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/archive"
)

// move exports a run in order to move it.
func move(t *testing.T, h *host.Host, id string) []byte {
	t.Helper()
	var b bytes.Buffer
	do(t, h.Export(ctx, id, &b, host.ExportOptions{Move: true}))
	return b.Bytes()
}

func adopt(t *testing.T, h *hosttest.Host, file []byte) host.Run {
	t.Helper()
	r, err := h.Import(ctx, bytes.NewReader(file), host.ImportOptions{Adopt: true})
	do(t, err)
	h.Settle()
	return r
}

func get(t *testing.T, h *hosttest.Host, id string) host.Run {
	t.Helper()
	r, err := h.Get(ctx, id)
	do(t, err)
	return r
}

// TestMove moves a run that sleeps for a month to another host, where it ends as it would have ended here.
func TestMove(t *testing.T) {
	u := upgradesOf(t, "v1")
	u.start("order", "a", "b")
	u.Advance(10 * day)
	before := get(t, u.Host, "a")
	file := move(t, u.Host.Host, "a")
	if r := get(t, u.Host, "a"); r.Status != host.Paused || r.Aside != "moved" || !r.Wake.IsZero() {
		t.Errorf("%+v", r)
	}
	for name, again := range map[string][]byte{"moved": move(t, u.Host.Host, "a"), "exported": export(t, u.Host.Host, "a")} {
		if !bytes.Equal(file, again) {
			t.Errorf("what is %s again is another file", name)
		}
	}

	other := hosttest.New(t, hosttest.WithStart(hosttest.Epoch.Add(10*day+time.Hour)))
	_, err := other.Upload(ctx, "order", code(t, "added")) // it has another version under that number
	do(t, err)
	r := adopt(t, other, file)
	if r.ID != "a" || r.Version != 2 || r.Existed || r.Imported.IsZero() || r.Created != before.Created {
		t.Errorf("%+v", r)
	}
	if v, err := other.Workflows().Version(ctx, "order", 0); err != nil || v.Number != 1 || v.Imported {
		t.Errorf("the latest version is %+v, %v", v, err)
	}
	if v, err := other.Workflows().Version(ctx, "order", 2); err != nil || !v.Imported || len(v.Steps)+len(v.HTTP)+len(v.Secrets) > 0 {
		t.Errorf("the imported version is %+v, %v", v, err)
	}
	r = get(t, other, "a")
	if r.Status != host.Sleeping || r.Wake != before.Wake || r.Entries != before.Entries+2 {
		t.Errorf("%+v, before %+v", r, before)
	}
	if again := adopt(t, other, file); !again.Existed {
		t.Errorf("%+v", again)
	}
	other.Reopen()
	u.Advance(60 * day) // nothing happens to it here
	if r := get(t, u.Host, "a"); r.Aside != "moved" || r.Entries != before.Entries+1 {
		t.Errorf("%+v", r)
	}
	r = other.Finish("a")
	want, err := u.ResultRaw(ctx, "b")
	do(t, err)
	got, err := other.ResultRaw(ctx, "a")
	if err != nil || string(got) != string(want) || r.Ended != get(t, u.Host, "b").Ended {
		t.Errorf("%+v %s, %v; the one that stayed: %+v %s", r, got, err, get(t, u.Host, "b"), want)
	}
	do(t, other.Replay(ctx, "a"))
	if again := adopt(t, other, file); !again.Existed || again.Status != host.Completed {
		t.Errorf("%+v", again)
	}
	if _, err := u.Import(ctx, bytes.NewReader(file), host.ImportOptions{Adopt: true}); !errors.Is(err, host.ErrConflict) ||
		!strings.Contains(err.Error(), "wfhost unpause a --moved") {
		t.Error(err)
	}
}

// second is another host with the same module and handlers.
func (p *prims) second(opts ...hosttest.Option) *prims {
	p.t.Helper()
	q := newPrims(p.t, opts...)
	q.Clock.Set(p.Clock.Now())
	return q
}

// TestMovedRunStaysAside does everything to a moved run that can be done to a run: it has no effect, also after
// restarts, until the run is taken back.
func TestMovedRunStaysAside(t *testing.T) {
	p := newPrims(t)
	id := p.begin("patient", 60)
	p.Settle()
	entries := get(t, p.Host, id).Entries
	move(t, p.Host.Host, id)
	p.Crash()
	p.Advance(time.Hour)
	for what, err := range map[string]error{
		"signal": p.Signal(ctx, id, "go", "x"),
		"pause":  failing(p.Pause(ctx, id)), "unpause": failing(p.Unpause(ctx, id)), "cancel": failing(p.Cancel(ctx, id)),
		"wake": failing(p.Wake(ctx, id, "")), "retry": p.Retry(ctx, id, 0), "delete": p.Delete(ctx, id),
	} {
		if !errors.Is(err, host.ErrConflict) && what != "wake" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if r := get(t, p.Host, id); r.Aside != "moved" || r.Status != host.Paused || r.Entries != entries+1 {
		t.Errorf("%+v", r)
	}
	if changed, err := p.TakeBack(ctx, id); err != nil || !changed {
		t.Error(changed, err)
	}
	if changed, err := p.TakeBack(ctx, id); err != nil || changed {
		t.Error(changed, err)
	}
	p.Settle()
	if got := result[string](p, id); got != "timeout" {
		t.Error(got)
	}
	do(t, p.Replay(ctx, id))

	gone := p.begin("patient", 60)
	p.Settle()
	move(t, p.Host.Host, gone)
	do(t, p.Terminate(ctx, gone))
	do(t, p.Delete(ctx, gone))
}

func failing[T any](_ T, err error) error { return err }

func deliver(h *hosttest.Host, token string) error {
	_, err := h.Hooks().Deliver(ctx, token, []byte(`"by hook"`))
	return err
}

// TestKilledBetweenExportAndImport kills the first host after the run was set aside: it can be exported again.
func TestKilledBetweenExportAndImport(t *testing.T) {
	for after, want := range map[bool]string{false: "", true: "moved"} {
		p := newPrims(t)
		id := p.begin("patient", 60)
		p.Settle()
		p.CrashAt(0, after)
		var cut bytes.Buffer
		if err := p.Export(ctx, id, &cut, host.ExportOptions{Move: true}); err == nil || cut.Len() > 0 {
			t.Errorf("%d bytes are given out before the run is set aside, %v", cut.Len(), err)
		}
		p.Reopen()
		p.Settle()
		if r := get(t, p.Host, id); r.Aside != want {
			t.Errorf("%+v, want %q", r, want)
		}
		file := move(t, p.Host.Host, id)
		q := p.second()
		adopt(t, q.Host, file)
		do(t, q.Signal(ctx, id, "go", "there"))
		q.Settle()
		if got := result[string](q, id); got != "there" {
			t.Error(got)
		}
	}
}

// TestCrashInAnImport kills the second host at each of its commits. The run exists or not, and the import is
// repeated.
func TestCrashInAnImport(t *testing.T) {
	p := newPrims(t)
	id := p.begin("output", 3)
	p.Settle()
	p.Advance(90 * time.Second)
	file := move(t, p.Host.Host, id)
	for n := 0; ; n++ {
		crashed := false
		for _, after := range []bool{false, true} {
			q := hosttest.New(t)
			q.Clock.Set(p.Clock.Now())
			q.CrashAt(n, after)
			_, err := q.Import(ctx, bytes.NewReader(file), host.ImportOptions{Adopt: true})
			if n > 0 && err != nil && !q.Crashed() {
				t.Fatal(err)
			}
			if err == nil {
				q.Settle()
			}
			crashed = crashed || q.Crashed()
			q.Reopen()
			r := adopt(t, q, file)
			if wasThere := n > 0 || after && crashed; r.Existed != wasThere {
				t.Errorf("commit %d, after %v: %+v", n, after, r)
			}
			if r := q.Finish(id); r.Status != host.Completed || r.Output != 3 {
				t.Errorf("commit %d, after %v: %+v", n, after, r)
			}
			do(t, q.Replay(ctx, id))
		}
		if !crashed {
			if n == 0 {
				t.Error("there was no commit")
			}
			return
		}
	}
}

// TestImportedOutput continues the indices of log and output across iterations.
func TestImportedOutput(t *testing.T) {
	p := newPrims(t)
	id := p.begin("collect", map[string]any{"Left": 4})
	say := func(h *prims, text string) {
		t.Helper()
		do(t, h.Signal(ctx, id, "go", text))
		h.Settle()
	}
	p.Settle()
	say(p, "a")
	say(p, "b")
	q := p.second()
	adopt(t, q.Host, move(t, p.Host.Host, id))
	q.Reopen()
	say(q, "c")
	r := p.second()
	adopt(t, r.Host, move(t, q.Host.Host, id))
	say(r, "d")
	if got := result[string](r, id); got != "a,b,c,d" {
		t.Error(got)
	}
	var indices []uint64
	for c, err := range r.Output(ctx, id, "", 0) {
		do(t, err)
		indices = append(indices, c.Index)
	}
	if len(indices) != 4 || indices[3] != 3 {
		t.Error(indices)
	}
	last := get(t, r.Host, id)
	if whole := archived(t, export(t, r.Host.Host, id)).Run(); whole.Iteration != 4 || last.Iteration != 4 || last.Output != 4 {
		t.Errorf("%+v %+v", whole, last)
	}
}

// TestImportedHooks claims the chosen token, and still knows the generated one. A token that another run holds makes
// the import fail.
func TestImportedHooks(t *testing.T) {
	p := newPrims(t)
	id := p.begin("hooked", "my-own-chosen-token-0123456789")
	p.Settle()
	file := move(t, p.Host.Host, id)
	if err := deliver(p.Host, "my-own-chosen-token-0123456789"); err == nil {
		t.Error("the run takes a delivery where it was moved from")
	}
	q := p.second()
	_ = q.begin("hooked", "my-own-chosen-token-0123456789")
	q.Settle()
	if _, err := q.Import(ctx, bytes.NewReader(file), host.ImportOptions{Adopt: true}); !errors.Is(err, host.ErrConflict) ||
		!strings.Contains(err.Error(), "which run") {
		t.Error(err)
	}
	r := p.second()
	adopt(t, r.Host, file)
	r.Crash()
	r.Settle()
	do(t, deliver(r.Host, "my-own-chosen-token-0123456789"))
	r.Settle()
	if got := result[string](r, id); got != "by hook" {
		t.Error(got)
	}
}

// TestImportThatContinues imports a run that continues as new at once. Both happen in one commit, which does not
// write the imported part again.
func TestImportThatContinues(t *testing.T) {
	p := newPrims(t)
	id := p.begin("counter", 3)
	file := move(t, p.Host.Host, id)
	q := p.second()
	q.Clock.Set(p.Clock.Now().Add(time.Hour))
	adopt(t, q.Host, file)
	if got := result[int](q, id); got != 3 {
		t.Error(got)
	}
	if r := get(t, q.Host, id); r.Iteration != 3 {
		t.Errorf("%+v", r)
	}
}

// TestImportedParent imports a run that claims a parent in another namespace. That run is not notified.
func TestImportedParent(t *testing.T) {
	p := newPrims(t)
	p.begin("parent", childPlan{Child: "child", Sleep: 3600, OnEnd: "cancel", ID: "kid"}, host.WithRunID("victim"))
	of, err := archive.Read(bytes.NewReader(export(t, p.Host.Host, "kid")))
	do(t, err)
	l := &liar{Source: withModule{wasm: of.Module}, run: *of}
	l.run.State.Run.ID, l.run.State.LogRecords, l.run.State.LogLines = "evil", 0, 0
	lied(&l.run.Entries[0], `"run_id":"kid"`, `"run_id":"evil"`)
	var b bytes.Buffer
	do(t, archive.Write(ctx, &b, l, l.run.State.Run, true, false))
	n, err := p.Namespace(ctx, "team")
	do(t, err)
	_, err = n.Import(ctx, &b, host.ImportOptions{Adopt: true, Force: true})
	do(t, err)
	p.Settle()
	_, err = n.Wake(ctx, "evil", "")
	do(t, err)
	p.Settle()
	if r, err := n.Get(ctx, "evil"); err != nil || r.Status != host.Completed || r.Parent != "victim" {
		t.Errorf("%+v, %v", r, err)
	}
	if r := get(t, p.Host, "victim"); r.Status != host.Waiting {
		t.Errorf("%+v", r)
	}
}

// TestActsInOneNamespace adopts one move into two namespaces of a host, takes it back after it was adopted, and does
// both at the same time: only one succeeds.
func TestActsInOneNamespace(t *testing.T) {
	p := newPrims(t)
	into := func(name string) *host.Namespace {
		n, err := p.Namespace(ctx, name)
		do(t, err)
		return n
	}
	adopts := func(n *host.Namespace, file []byte) error {
		_, err := n.Import(ctx, bytes.NewReader(file), host.ImportOptions{Adopt: true, Force: true})
		return err
	}
	refused := func(err error) {
		t.Helper()
		if !errors.Is(err, host.ErrConflict) || !strings.Contains(fmt.Sprint(err), "namespace") {
			t.Error(err)
		}
	}
	one, two := into("one"), into("two")
	id := p.begin("patient", 60)
	file := move(t, p.Host.Host, id)
	do(t, adopts(one, file))
	_, err := p.TakeBack(ctx, id)
	refused(err)
	refused(adopts(two, file))
	p.Settle()
	do(t, one.Terminate(ctx, id))
	p.Settle()
	refused(adopts(two, file)) // it has acted
	do(t, one.Delete(ctx, id))
	_, err = p.TakeBack(ctx, id)
	refused(err)

	id = p.begin("patient", 60)
	file = move(t, p.Host.Host, id)
	var wg sync.WaitGroup
	var done atomic.Int32
	for _, act := range []func() error{func() error { return adopts(one, file) }, func() error { return adopts(two, file) },
		func() error { _, err := p.TakeBack(ctx, id); return err }} {
		wg.Go(func() {
			if err := act(); err == nil {
				done.Add(1)
			} else if !errors.Is(err, host.ErrConflict) && !errors.Is(err, host.ErrBusy) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := done.Load(); n != 1 {
		t.Errorf("it acts in %d namespaces", n)
	}
}

// TestMoveToAnotherNamespace moves a run with a hook to another namespace of the store. Both runs claim and release the token.
func TestMoveToAnotherNamespace(t *testing.T) {
	p := newPrims(t)
	const token = "my-own-chosen-token-0123456789"
	id := p.begin("hooked", token)
	n, err := p.Namespace(ctx, "team")
	do(t, err)
	file := export(t, p.Host.Host, id)
	if _, err := n.Import(ctx, bytes.NewReader(file), host.ImportOptions{Adopt: true, Force: true}); !errors.Is(err,
		host.ErrConflict) || !strings.Contains(err.Error(), "lives in another namespace") {
		t.Error(err)
	}
	file = move(t, p.Host.Host, id)
	_, err = n.Import(ctx, bytes.NewReader(file), host.ImportOptions{Adopt: true})
	do(t, err)
	p.Settle()
	do(t, p.Terminate(ctx, id))
	p.Settle()
	_, err = n.Hooks().Deliver(ctx, token, []byte(`"by hook"`))
	do(t, err)
	p.Settle()
	if got, err := host.Result[string](ctx, n, id); err != nil || got != "by hook" {
		t.Error(got, err)
	}
	for _, start := range []func(context.Context, string, any, ...host.StartOption) (host.Run, error){n.Start, p.Start} {
		r, err := start(ctx, "hooked", token, host.WithRunID("next"), host.WithVersion(1)) // both have given the token up
		if p.Settle(); err != nil || r.ID != "next" {
			t.Error(err)
		}
	}
	for _, get := range []func(context.Context, string) (host.Run, error){n.Get, p.Get} {
		if r, err := get(ctx, "next"); err != nil || r.Status != host.Waiting {
			t.Errorf("%+v, %v", r, err)
		}
	}
}
