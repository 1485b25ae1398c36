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
func (f *findings) retry() {
	f.t.Helper()
	do(f.t, f.Retry(ctx, "r", 0))
}

// TestFinding07_RetryKeepsSignals retries a run that got a signal between the failures of two steps, and one before it is
// retried for the second time.
func TestFinding07_RetryKeepsSignals(t *testing.T) {
	f := newFindings(t)
	f.fails.Store(3)
	f.begin("bothfail", 0)
	f.Advance(30 * time.Minute)
	do(t, f.Signal(ctx, "r", "approved", "yes"))
	f.ends("r", host.Failed)
	f.fails.Store(3) // as before
	f.retry()
	f.ends("r", host.Failed)
	f.retry()
	f.finish("r", "abyes")
	f.Restart()
	do(t, f.Replay(ctx, "r"))
}

// TestFinding07_RetryWithOpenChild retries a run whose child was asked to end with it, or was left alone.
func TestFinding07_RetryWithOpenChild(t *testing.T) {
	for end, want := range map[string]string{"abandon": "child slept", "cancel": "cancelled", "terminate": "terminated"} {
		for _, wait := range []time.Duration{time.Minute, 2 * time.Hour} { // the abandoned child lives, or has ended
			f := newFindings(t)
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

// TestFinding07_RetryParentOfFailedChild retries a parent before and after its child.
func TestFinding07_RetryParentOfFailedChild(t *testing.T) {
	for _, childFirst := range []bool{true, false} {
		f := newFindings(t)
		f.fails.Store(1)
		f.begin("kidfails", 0)
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
		f.retry() // the child has failed, and says so again
		f.ends("r", host.Failed)
		do(t, f.Retry(ctx, kid, 0))
		f.Settle()
		f.retry()
		f.finish("r", "a")
	}
}

// TestFinding07_RetryKeepsTokens retries a run with a token that its workflow chose, and one that was made.
func TestFinding07_RetryKeepsTokens(t *testing.T) {
	f := newFindings(t)
	f.fails.Store(2)
	f.begin("hooks", "invoice-4711")
	for range 2 {
		f.ends("r", host.Failed)
		if _, err := f.DeliverHook(ctx, "invoice-4711", []byte(`"x"`)); !errors.Is(err, host.ErrNotFound) {
			t.Error(err) // it is not the ended run's
		}
		f.retry()
	}
	f.Settle()
	r := f.is("r", host.Waiting)
	for _, token := range []string{"invoice-4711", r.Attributes["token"]} {
		_, err := f.DeliverHook(ctx, token, []byte(`"`+token[:3]+`"`))
		do(t, err)
	}
	f.finish("r", "inv"+r.Attributes["token"][:3])
	f.Settle()
	if _, err := f.Start(ctx, "hooks", "invoice-4711", host.WithRunID("next")); err != nil { // it was given up
		t.Fatal(err)
	}
	f.Settle()
	_, err := f.DeliverHook(ctx, "invoice-4711", []byte(`"x"`))
	do(t, err)
}

// TestFinding07_RetryAfterCompensation refuses to retry a run that has undone what it did, and says what can be done.
func TestFinding07_RetryAfterCompensation(t *testing.T) {
	f := newFindings(t)
	f.fails.Store(1)
	f.begin("undoes", 0)
	f.ends("r", host.Failed)
	before := journalOf(t, f, "r")
	err := f.Retry(ctx, "r", 0)
	if !errors.Is(err, host.ErrConflict) || !strings.Contains(err.Error(), `restart the run from "charge"`) ||
		!strings.Contains(err.Error(), `"unbook"`) {
		t.Error(err)
	}
	if after := journalOf(t, f, "r"); !slices.Equal(before, after) {
		t.Errorf("%q, before the refusal %q", after, before)
	}
	_, err = f.Host.Host.Restart(ctx, "r", "again", "charge") // as it says
	do(t, err)
	f.finish("again", "charge")
	if got := f.noted(); !slices.Equal(got, []string{"book", "unbook"}) {
		t.Error(got)
	}
}

// journalOf returns the kinds and names of a run's entries.
func journalOf(t *testing.T, f *findings, id string) (list []string) {
	t.Helper()
	for e, err := range f.Journal(ctx, id, 0) {
		do(t, err)
		list = append(list, e.Kind.String()+" "+e.Name)
	}
	return list
}

// TestFinding07_RetryAfterNothing retries a run that has slept and shown something after its failure: neither is in the
// way.
func TestFinding07_RetryAfterNothing(t *testing.T) {
	f := newFindings(t)
	f.fails.Store(1)
	f.begin("apologises", 0)
	f.ends("r", host.Failed)
	f.retry()
	f.finish("r", "a")
	do(t, f.Replay(ctx, "r"))
}

// TestFinding08_RetryWhileTold retries a run while the handler of a step that it has cancelled goes on. What the handler
// returns in the end is nobody's.
func TestFinding08_RetryWhileTold(t *testing.T) {
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
