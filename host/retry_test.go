package host_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
)

// retry retries the run "r".
func (f *mixed) retry() {
	f.t.Helper()
	do(f.t, f.Retry(ctx, "r", 0))
}

// TestRetryKeepsSignals retries a run that got one signal between the failures of two steps, and another one before
// the second retry.
func TestRetryKeepsSignals(t *testing.T) {
	f := newMixed(t)
	f.fails.Store(3)
	f.begin("bothfail", 0)
	f.Advance(30 * time.Minute)
	do(t, f.Signal(ctx, "r", "approved", "yes"))
	f.ends("r", host.Failed)
	ended := func() time.Time {
		t.Helper()
		r, err := f.Get(ctx, "r")
		do(t, err)
		return r.Ended
	}
	if ended().IsZero() {
		t.Error("a run that has failed has not ended")
	}
	f.fails.Store(3) // as before
	f.retry()
	if at := ended(); !at.IsZero() {
		t.Error("a run that goes on has ended at", at)
	}
	f.ends("r", host.Failed)
	f.retry()
	f.finish("r", "abyes")
	f.Reopen()
	do(t, f.Replay(ctx, "r"))
}

// TestRetryWithOpenChild retries a run whose child was set to end with it, or was abandoned.
func TestRetryWithOpenChild(t *testing.T) {
	for end, want := range map[string]string{"abandon": "child slept", "cancel": "cancelled", "terminate": "terminated"} {
		for _, wait := range []time.Duration{time.Minute, 2 * time.Hour} { // the abandoned child lives, or has ended
			f := newMixed(t)
			f.fails.Store(1)
			f.begin("openchild", end)
			f.Advance(wait)
			f.is("r", host.Failed)
			f.retry()
			if end == "abandon" {
				f.finish("r", want)
				continue
			}
			f.ends("r", host.Failed)
			if _, err := f.ResultRaw(ctx, "r"); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", end, err)
			}
		}
	}
}

// TestRetryParentOfFailedChild retries a parent before and after its child.
func TestRetryParentOfFailedChild(t *testing.T) {
	for _, childFirst := range []bool{true, false} {
		f := newMixed(t)
		f.fails.Store(1)
		f.begin("kidfails", "flaky")
		f.ends("r", host.Failed)
		var kid string
		for r, err := range f.Runs(ctx, host.Query{Workflow: "flaky"}) {
			do(t, err)
			kid = r.ID
		}
		if childFirst {
			do(t, f.Retry(ctx, kid, 0))
			f.Settle()
			f.retry()
			f.finish("r", "a")
			continue
		}
		f.retry() // the child is still failed, and reports that again
		f.ends("r", host.Failed)
		do(t, f.Retry(ctx, kid, 0))
		f.Settle()
		f.retry()
		f.finish("r", "a")
	}
}

// TestRetriedChildLives retries a child and then its parent, while the child sleeps: the parent gets the child's new
// outcome, although it already got its failure.
func TestRetriedChildLives(t *testing.T) {
	f := newMixed(t)
	f.fails.Store(1)
	f.begin("kidfails", "latekid")
	f.ends("r", host.Failed)
	for r, err := range f.Runs(ctx, host.Query{Workflow: "latekid"}) {
		do(t, err)
		do(t, f.Retry(ctx, r.ID, 0))
	}
	f.Settle()
	f.retry()
	f.finish("r", "a")
}

// TestRetryStartsRefusedChild retries a parent whose child could not be started because its workflow was missing:
// while it is still missing, and after it was uploaded.
func TestRetryStartsRefusedChild(t *testing.T) {
	f := newMixed(t)
	f.begin("parent", kid{Workflow: "later"})
	for range 2 {
		f.ends("r", host.Failed)
		if _, err := f.ResultRaw(ctx, "r"); err == nil || !strings.Contains(err.Error(), `workflow "later": not found`) {
			t.Error(err)
		}
		f.retry()
	}
	f.ends("r", host.Failed)
	_, err := f.Upload(ctx, "later", versioned(`"later"`))
	do(t, err)
	f.retry()
	f.Crash()
	f.finish("r", "later")
	do(t, f.Replay(ctx, "r"))
	n := 0
	for _, err := range f.Runs(ctx, host.Query{Workflow: "later"}) {
		do(t, err)
		n++
	}
	if n != 1 {
		t.Errorf("%d children", n)
	}
}

// TestRetryBesideRefusedChild fails a parent before it learns that its child cannot be started.
func TestRetryBesideRefusedChild(t *testing.T) {
	f, s := faultyHost(t)
	f.fails.Store(1)
	s.failing("read version of later", 1)
	f.begin("openkid", "later")
	f.Settle()
	f.is("r", host.Failed)
	f.Advance(time.Minute)
	_, err := f.Upload(ctx, "later", versioned(`"later"`))
	do(t, err)
	f.retry()
	f.finish("r", "later")
}

// TestRetryDoesNotRepeatChild retries a parent whose failed child was deleted, before and after its id is free: the
// child is not started again.
func TestRetryDoesNotRepeatChild(t *testing.T) {
	f := newMixed(t)
	f.fails.Store(1)
	f.begin("kidfails", "flaky")
	f.ends("r", host.Failed)
	for r, err := range f.Runs(ctx, host.Query{Workflow: "flaky"}) {
		do(t, err)
		do(t, f.Delete(ctx, r.ID))
	}
	for _, wait := range []time.Duration{0, 31 * 24 * time.Hour} {
		f.Advance(wait)
		f.retry()
		f.ends("r", host.Failed)
		if _, err := f.ResultRaw(ctx, "r"); err == nil || !strings.Contains(err.Error(), "any more") {
			t.Error(err)
		}
	}
	if n := f.tries.Load(); n != 1 {
		t.Errorf("the step of the child was made %d times", n)
	}
}

// TestRetryKeepsTokens retries a run with a chosen token, and one with a generated token.
func TestRetryKeepsTokens(t *testing.T) {
	f := newMixed(t)
	f.fails.Store(2)
	f.begin("hooks", "invoice-4711")
	for range 2 {
		f.ends("r", host.Failed)
		if _, err := f.Hooks().Deliver(ctx, "invoice-4711", []byte(`"x"`)); !errors.Is(err, host.ErrNotFound) {
			t.Error(err) // it is not the ended run's
		}
		f.retry()
	}
	f.Settle()
	r := f.is("r", host.Waiting)
	for _, token := range []string{"invoice-4711", r.Attributes["token"]} {
		_, err := f.Hooks().Deliver(ctx, token, []byte(`"`+token[:3]+`"`))
		do(t, err)
	}
	f.finish("r", "inv"+r.Attributes["token"][:3])
	f.Settle()
	if _, err := f.Start(ctx, "hooks", "invoice-4711", host.WithRunID("next")); err != nil { // it was given up
		t.Fatal(err)
	}
	f.Settle()
	_, err := f.Hooks().Deliver(ctx, "invoice-4711", []byte(`"x"`))
	do(t, err)
}

// TestRetryAfterCompensation refuses to retry a run that has compensated its steps, and recommends a restart.
func TestRetryAfterCompensation(t *testing.T) {
	f := newMixed(t)
	f.fails.Store(1)
	f.begin("undoes", 0)
	f.ends("r", host.Failed)
	before := journalOf(t, f, "r")
	err := f.Retry(ctx, "r", 0)
	if !errors.Is(err, host.ErrConflict) || !strings.Contains(err.Error(), `restart the run from "book"`) ||
		!strings.Contains(err.Error(), `"unbook"`) {
		t.Error(err)
	}
	if after := journalOf(t, f, "r"); !slices.Equal(before, after) {
		t.Errorf("%q, before the refusal %q", after, before)
	}
	_, err = f.Host.Host.Restart(ctx, "r", "", "charge")
	if !errors.Is(err, host.ErrConflict) { // what "book" did is undone
		t.Error(err)
	}
	_, err = f.Host.Host.Restart(ctx, "r", "again", "book") // as it says
	do(t, err)
	f.finish("again", "charge")
	if got := f.noted(); !slices.Equal(got, []string{"book", "unbook", "book"}) {
		t.Error(got)
	}
}

// journalOf returns the kinds and names of a run's entries.
func journalOf(t *testing.T, f *mixed, id string) (list []string) {
	t.Helper()
	for e, err := range f.Journal(ctx, id, 0) {
		do(t, err)
		list = append(list, e.Kind.String()+" "+e.Name)
	}
	return list
}

// TestRetryAfterNothing retries a run that slept and emitted output after its failure: neither prevents the retry.
func TestRetryAfterNothing(t *testing.T) {
	f := newMixed(t)
	f.fails.Store(1)
	f.begin("apologises", 0)
	f.ends("r", host.Failed)
	f.retry()
	f.finish("r", "a")
	do(t, f.Replay(ctx, "r"))
}

// TestRetryWhileTold retries a run while the handler of a cancelled step is still running. The handler's late result
// is dropped.
func TestRetryWhileTold(t *testing.T) {
	fake := clock.NewFake(hosttest.Epoch)
	k := newClocked(t, fake, fake)
	k.fails.Store(2)
	_, err := k.Start(ctx, "toldfail", 0, host.WithRunID("r"))
	do(t, err)
	until(t, k.Host, "r", func(r host.Run) bool { return r.Status == host.Failed })
	do(t, k.Retry(ctx, "r", 0))
	k.close()
	if got, err := host.Result[string](ctx, k.Host, "r"); got != "b" || err != nil {
		t.Error(got, err)
	}
	k.settle()
	var kinds []store.Kind
	for e, err := range k.Journal(ctx, "r", 0) {
		do(t, err)
		kinds = append(kinds, e.Kind)
	}
	end, retried := slices.Index(kinds, store.KindFailed), slices.Index(kinds, store.KindRetried)
	if retried != end+1 { // with the late result between them
		t.Error(kinds)
	}
	do(t, k.Replay(ctx, "r"))
}

// TestRetryBesideOnlyAttempt fails and retries a run while a handler performs an at-most-once step: the handler is
// not called again, and the step fails.
func TestRetryBesideOnlyAttempt(t *testing.T) {
	fake := clock.NewFake(hosttest.Epoch)
	k := newClocked(t, fake, fake)
	k.fails.Store(1)
	_, err := k.Start(ctx, "once", 0, host.WithRunID("r"))
	do(t, err)
	until(t, k.Host, "r", func(r host.Run) bool { return r.Status == host.Failed })
	k.begun <- struct{}{} // for the next attempt of the step that has failed
	do(t, k.Retry(ctx, "r", 0))
	r := until(t, k.Host, "r", func(r host.Run) bool { return r.Status != host.Queued && r.Status != host.Running })
	k.close()
	got, err := host.Result[string](ctx, k.Host, "r")
	if err != nil || !strings.HasPrefix(got, "b, ") || !strings.Contains(got, "nobody knows") || len(k.begun) > 0 {
		t.Errorf("%s, %q, %v, %d more attempts", r.Status, got, err, len(k.begun))
	}
}
