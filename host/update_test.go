package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

type item struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// newUpdates is newPrims with the workflows of testdata/updates.
func newUpdates(t *testing.T, opts ...hosttest.Option) *prims {
	p := newPrims(t, opts...)
	if _, err := p.Upload(ctx, "", hosttest.Build(t, "testdata/updates"), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	return p
}

// update sends an update that is answered without the clock moving.
func (p *prims) update(id, name string, input any, opts ...host.UpdateOption) string {
	p.t.Helper()
	u, err := p.Update(ctx, id, name, input, opts...)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(u.Result)
}

// accepted sends an update and does not wait for its answer.
func (p *prims) accepted(id, name, updateID string, input any) {
	p.t.Helper()
	u, err := p.Update(ctx, id, name, input, host.WithUpdateID(updateID), host.UntilAccepted())
	if err != nil || u.Status == host.UpdateFailed {
		p.t.Fatal(u, err)
	}
	p.Settle()
}

// answer returns the answer to an update, or its error as text.
func (p *prims) answer(id, name, updateID string) string {
	p.t.Helper()
	u, err := p.UpdateResult(ctx, id, name, updateID, false)
	if err != nil {
		return err.Error()
	}
	return string(u.Status) + " " + string(u.Result)
}

func (p *prims) query(id, name string) string {
	p.t.Helper()
	b, err := p.Query(ctx, id, name, nil)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestUpdate(t *testing.T) {
	p := newUpdates(t)
	id := p.begin("cart", nil)
	want(t, p.update(id, "add", item{"pen", 3}), "3")
	want(t, p.update(id, "add", item{"ink", 4}), "7")
	want(t, strings.Join(p.mails, ","), "pen,ink")
	want(t, p.query(id, "names"), `"pen,ink"`)
	p.signal(id, "done", "")
	want(t, result[string](p, id), "pen,ink,done")
}

// TestUpdateReason checks what a run reports as its wait: not its updates, which can be received all the time.
func TestUpdateReason(t *testing.T) {
	p := newUpdates(t)
	_, err := p.Start(ctx, "cart", nil, host.WithRunID("c"))
	do(t, err)
	p.Settle()
	for range 2 { // before an update, and after one, whose wait is then the newest
		if r, err := p.Get(ctx, "c"); err != nil || r.Reason != "signal_wait done" {
			t.Errorf("%q, %v", r.Reason, err)
		}
		p.update("c", "say", "hello")
		p.Settle()
	}
}

// TestUpdateRefused refuses updates, and records nothing of them.
func TestUpdateRefused(t *testing.T) {
	p := newUpdates(t)
	id := p.begin("cart", nil)
	want(t, p.update(id, "add", item{"pen", 8}), "8")
	p.Settle()
	before := entries(p.Host, id)
	refused := func(what, says string, is error) {
		t.Helper()
		_, err := p.Update(ctx, id, what, item{"ink", 3})
		u, ok := errors.AsType[*host.UpdateError](err)
		if is == nil && (!ok || !u.Refused) || is != nil && !errors.Is(err, is) || !strings.Contains(err.Error(), says) {
			t.Errorf("update %q: %v, want %q", what, err, says)
		}
	}
	refused("add", "11 things are too many", nil)
	refused("keep", "input of update", nil)
	refused("missing", "has no handler for update", nil)
	refused("other", "has no such update", host.ErrNotFound)
	refused("", "must have 1 to 256 bytes", host.ErrInvalid)
	refused(strings.Repeat("x", 250), "must have 1 to 244 bytes, got 250", host.ErrInvalid)
	_, err := p.Update(ctx, id, "keep", "x")
	if u, ok := errors.AsType[*host.UpdateError](err); !ok || !u.Refused || !strings.Contains(err.Error(), "belongs to the workflow") {
		t.Error("a validator that sleeps:", err)
	}
	_, err = p.Update(ctx, id, "add", item{"ink", 0})
	refusedBySchema(t, err, `input of update "add"`, host.SchemaFault{Pointer: "/count", Message: "minimum: got 0, want 1"})
	_, err = p.Update(ctx, "nobody", "add", item{"ink", 1})
	if !errors.Is(err, host.ErrNotFound) {
		t.Error("of a run that is not there:", err)
	}
	if err := p.Signal(ctx, id, "host/update/add", item{"ink", 1}); !errors.Is(err, host.ErrInvalid) {
		t.Error("an update that is sent as a signal:", err)
	}
	p.Settle()
	want(t, entries(p.Host, id), before)
}

// TestUpdateFails returns the error of a handler, and the same one for a repetition.
func TestUpdateFails(t *testing.T) {
	p := newUpdates(t)
	id := p.begin("cart", nil)
	_, err := p.Update(ctx, id, "fail", "x", host.WithUpdateID("1"))
	u, ok := errors.AsType[*host.UpdateError](err)
	if !ok || u.Refused || u.Update.Failure.Message != "cannot do it" {
		t.Fatal(err)
	}
	_, err = p.Update(ctx, id, "large", 1)
	if err == nil || !strings.Contains(err.Error(), `answer to update "large" has 1048578 bytes, the limit is 1048576`) {
		t.Error(err)
	}
	p.Crash()
	_, again := p.Update(ctx, id, "fail", "x", host.WithUpdateID("1"))
	want(t, again.Error(), `update "fail" of run "`+id+`" failed: cannot do it`)
	p.signal(id, "done", "")
	want(t, result[string](p, id), "done")
}

// TestUpdateIsIdempotent performs an update once and returns its answer for every request with its id, across crashes
// and after the end.
func TestUpdateIsIdempotent(t *testing.T) {
	p := newUpdates(t)
	id := p.begin("cart", nil)
	add := func() string { return p.update(id, "add", item{"pen", 3}, host.WithUpdateID("1")) }
	want(t, add(), "3")
	want(t, add(), "3")
	_, err := p.Update(ctx, id, "add", item{"ink", 3}, host.WithUpdateID("1"))
	if !errors.Is(err, host.ErrConflict) {
		t.Error("the same id with another input:", err)
	}
	p.accepted(id, "slow", "1", "a") // a different update, since its name differs
	p.Crash()
	want(t, add(), "3")
	want(t, p.answer(id, "slow", "1"), "accepted ")
	p.Advance(24 * time.Hour)
	want(t, p.answer(id, "slow", "1"), `completed "slept"`)
	p.signal(id, "done", "")
	want(t, result[string](p, id), "pen,a,done")
	p.Crash()
	want(t, add(), "3")
	want(t, p.answer(id, "slow", "1"), `completed "slept"`)
	if _, err := p.UpdateResult(ctx, id, "slow", "2", true); !errors.Is(err, host.ErrNotFound) {
		t.Error("one that was never accepted:", err)
	}
	if _, err := p.Update(ctx, id, "slow", "b"); !errors.Is(err, host.ErrTerminal) {
		t.Error("after the end:", err)
	}
	want(t, strings.Join(p.mails, ","), "pen")
}

// TestUpdateWaits has the sender wait while time passes, and while the host crashes.
func TestUpdateWaits(t *testing.T) {
	p := newUpdates(t)
	id := p.begin("cart", nil)
	short, cancel := context.WithCancel(ctx)
	got := make(chan error, 1)
	go func() {
		u, err := p.Update(short, id, "slow", "a", host.WithUpdateID("1"))
		if u.Status != host.UpdateAccepted {
			err = errors.Join(err, errors.New("its status is "+string(u.Status)))
		}
		got <- err
	}()
	for p.answer(id, "slow", "1") != "accepted " {
		p.Settle()
	}
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "status") {
		t.Fatal(err)
	}
	p.Crash()
	p.Settle()
	done := make(chan string, 1)
	go func() {
		u, err := p.UpdateResult(ctx, id, "slow", "1", true)
		if err != nil {
			u.Result = []byte(err.Error())
		}
		done <- string(u.Result)
	}()
	p.Advance(24 * time.Hour)
	want(t, <-done, `"slept"`)
}

// TestUpdateAndEnd fails, with a sentence, updates that a run has accepted but not answered when it ends.
func TestUpdateAndEnd(t *testing.T) {
	for how, end := range map[string]func(*prims, string){
		"completed":      func(p *prims, id string) { p.signal(id, "done", "") },
		"was terminated": func(p *prims, id string) { do(t, p.Terminate(ctx, id)) },
		"was cancelled": func(p *prims, id string) {
			_, err := p.Cancel(ctx, id)
			do(t, err)
		},
	} {
		p := newUpdates(t)
		id := p.begin("cart", nil)
		p.accepted(id, "slow", "1", "a")
		end(p, id)
		p.Settle()
		said := "update \"slow\" of run \"" + id + "\" failed: the run " + how + " before it had answered the update"
		want(t, p.answer(id, "slow", "1"), said)
		_, err := p.Update(ctx, id, "slow", "a", host.WithUpdateID("1"))
		want(t, err.Error(), said)
		p.Crash()
		want(t, p.answer(id, "slow", "1"), said)
	}
	p := newUpdates(t)
	id := p.begin("cart", nil)
	p.accepted(id, "slow", "1", "a")
	p.signal(id, "done", "patiently")
	want(t, p.answer(id, "slow", "1"), "accepted ")
	p.Advance(24 * time.Hour)
	want(t, p.answer(id, "slow", "1"), `completed "slept"`)
	want(t, result[string](p, id), "a,done")
}

// TestUpdateBeforeItIsHandled refuses an update for which the workflow has no handler yet, and accepts it once there
// is one.
func TestUpdateBeforeItIsHandled(t *testing.T) {
	p := newUpdates(t)
	id := p.begin("late", nil)
	_, err := p.Update(ctx, id, "set", "x")
	if u, ok := errors.AsType[*host.UpdateError](err); !ok || !u.Refused {
		t.Fatal(err)
	}
	p.Advance(24 * time.Hour)
	want(t, p.update(id, "set", "x"), `"set x"`)
	want(t, result[string](p, id), "x")
}

// TestUpdateContinues: when the run continues as new, updates that were taken but not answered fail, updates that
// were not taken are carried over, and the answers of all iterations stay known.
func TestUpdateContinues(t *testing.T) {
	p := newUpdates(t)
	id := p.begin("again", 0)
	want(t, p.update(id, "which", false, host.WithUpdateID("early")), "0")
	p.accepted(id, "which", "taken", true)
	p.signal(id, "next", "")
	lost := `update "which" of run "` + id + `" failed: the run continued as new before it had answered the update`
	check := func() {
		t.Helper()
		want(t, p.answer(id, "which", "early"), "completed 0")
		want(t, p.answer(id, "which", "taken"), lost)
		want(t, p.update(id, "which", false, host.WithUpdateID("early")), "0")
	}
	check()
	p.signal(id, "begin", "")
	want(t, p.update(id, "which", false, host.WithUpdateID("second")), "1")
	p.signal(id, "next", "")
	p.Crash()
	check()
	want(t, p.answer(id, "which", "second"), "completed 1")
	want(t, p.update(id, "which", false, host.WithUpdateID("third")), "2")
	p.signal(id, "next", "end")
	want(t, result[int](p, id), 2)
	check()
	want(t, p.answer(id, "which", "third"), "completed 2")
}

// TestQueryOfEnded queries runs that ended in each way.
func TestQueryOfEnded(t *testing.T) {
	p := newUpdates(t)
	completed, terminated, failed, panicked := p.begin("cart", nil), p.begin("cart", nil), p.begin("fails", nil), p.begin("panics", nil)
	p.update(completed, "add", item{"pen", 1})
	p.signal(completed, "done", "")
	p.update(terminated, "add", item{"ink", 1})
	do(t, p.Terminate(ctx, terminated))
	p.fails = 1
	p.signal(failed, "go", "")
	p.Settle()
	for range 2 {
		want(t, p.status(completed), host.Completed)
		want(t, p.status(terminated), host.Terminated)
		want(t, p.status(failed), host.Failed)
		want(t, p.status(panicked), host.Failed)
		want(t, p.query(completed, "names"), `"pen,done"`)
		want(t, p.query(terminated, "names"), `"ink"`)
		want(t, p.query(failed, "said"), `"that"`)
		want(t, p.query(panicked, "said"), `"before"`)
		p.Crash()
	}
	do(t, p.Delete(ctx, completed))
	if _, err := p.Query(ctx, completed, "names", nil); !errors.Is(err, host.ErrNotFound) {
		t.Error("of a run that was deleted:", err)
	}
}
