package host_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
)

// group is a program that performs an operation beside a nap and the step "ship".
func group(beside doing) doing {
	return doing{Do: "group", Name: "g", Fails: true, Ops: []doing{beside, {Do: "then", Name: "main", Ops: []doing{
		{Do: "sleep", Name: "begun", MS: 1000}, {Do: "call", Name: "ship"}}}}}
}

// TestRestartOfAChildThatWasWithdrawnLater restarts runs that cancelled a child when the step "ship" failed. The
// cancel came after the point of the restart, so the plan is refused if it would keep the child as running.
func TestRestartOfAChildThatWasWithdrawnLater(t *testing.T) {
	for end, text := range map[string]string{"cancel": "was cancelled since", "terminate": "was terminated since", "abandon": "is still running"} {
		g := newRestarts(t)
		g.breaks("ship")
		g.begin("r", group(doing{Do: "child", Name: "kid", MS: 100_000, Undo: end}))
		g.Advance(time.Second)
		if r, err := g.Get(ctx, "r"); err != nil || r.Status != host.Failed {
			t.Fatalf("%s: %s, %v", end, r.Status, err)
		}
		g.breaks()
		g.refused("r", host.RestartOptions{From: "ship"}, `its child "kid"`, text)
		g.again("r", "again", "kid")
		if got := g.ends("again"); got != "g=kid's,done" {
			t.Errorf("%s: %s", end, got)
		}
	}
}

// TestRestartOfAChildWithAnIDOfItsOwn restarts a run from its child, whose chosen id stays taken while the first
// child exists, and for some time after that. The plan says so until the new run can start the child.
func TestRestartOfAChildWithAnIDOfItsOwn(t *testing.T) {
	g := newRestarts(t)
	g.begin("r", doing{Do: "start", Name: "kid", ID: "kid-of-all", MS: 10, Undo: "abandon"}, doing{Do: "child", Name: "own", MS: 10})
	g.Advance(time.Second)
	notes := func(id, text string) {
		t.Helper()
		for _, from := range []string{"", "kid"} {
			plan, err := g.PlanRestart(ctx, id, host.RestartOptions{From: from})
			do(t, err)
			want(t, plan.Refused, "")
			for _, c := range plan.Repeated {
				if c.Kind == "child" {
					want(t, c.Note, map[string]string{"kid": text}[c.Name])
				}
			}
		}
	}
	notes("r", "it fails: the id kid-of-all is taken")
	g.again("r", "copy", "own") // the first run has started its kid
	want(t, g.ends("copy"), "kid=started own=kid's")
	notes("copy", "it fails: the id kid-of-all is taken")
	do(t, g.Delete(ctx, "kid-of-all"))
	notes("r", "it fails: the id kid-of-all is taken")
	g.Clock.Advance(31 * 24 * time.Hour)
	g.Settle()
	notes("r", "")
	g.again("r", "again", "kid")
	if _, err := g.Get(ctx, "kid-of-all"); err != nil {
		t.Error("the child was not started again:", err)
	}
}

// TestRestartOfAStepThatWasCancelledLater restarts runs that cancelled a step when the step "ship" failed: one that
// waited for its next attempt, and one with an attempt in progress. Both steps are repeated.
func TestRestartOfAStepThatWasCancelledLater(t *testing.T) {
	for _, name := range []string{"flaky", "slow"} {
		g := newRestarts(t)
		tries := 0
		host.HandleStep(g.Host.Host, "flaky", func(context.Context, string) (string, error) {
			tries++
			if tries == 1 {
				return "", host.RetryAfter(errors.New("not yet"), time.Minute)
			}
			return "flaky", nil
		})
		host.HandleStep(g.Host.Host, "slow", func(ctx context.Context, _ string) (string, error) {
			tries++
			if tries == 1 {
				<-ctx.Done()
				return "", host.Fatal(context.Cause(ctx))
			}
			return "slow", nil
		})
		g.breaks("ship")
		_, err := g.Start(ctx, "program", []doing{group(doing{Do: "handler", Name: name, ID: "host/" + name})}, host.WithRunID("r"))
		do(t, err)
		until(t, g.Host.Host, "r", func(host.Run) bool { return has(t, g.Host.Host, "r", store.KindSleep) == 1 })
		g.Clock.Advance(time.Second)
		until(t, g.Host.Host, "r", func(r host.Run) bool { return r.Status == host.Failed })
		g.breaks()
		g.again("r", "again", "ship")
		if got := g.ends("again"); got != "g="+name+",done" || tries != 2 {
			t.Errorf("%s: %s, %d attempts", name, got, tries)
		}
	}
}

// TestRestartsAtOnceTakeATokenOnce makes two concurrent restarts from after a hook, and one beside a retry: only one
// of the runs gets the token.
func TestRestartsAtOnceTakeATokenOnce(t *testing.T) {
	g := newRestarts(t)
	g.breaks("ship")
	g.begin("r", doing{Do: "hook", Name: "h", Token: "of-all-runs", MS: 10}, doing{Do: "call", Name: "ship", Fails: true},
		doing{Do: "signal", Name: "h", MS: 1_000_000})
	g.Advance(time.Second)
	g.breaks()
	for i := range 20 {
		ids := []string{fmt.Sprint("a", i), fmt.Sprint("b", i)}
		made := make(chan error, len(ids))
		for _, id := range ids {
			go func() {
				_, err := g.RestartWith(ctx, "r", host.RestartOptions{NewID: id, From: "ship"})
				made <- err
			}()
		}
		first, second := <-made, <-made
		if (first == nil) == (second == nil) || !errors.Is(cmp.Or(first, second), host.ErrConflict) {
			t.Fatalf("%v and %v", first, second)
		}
		g.Settle()
		for _, id := range ids {
			if err := g.Terminate(ctx, id); err != nil && !errors.Is(err, host.ErrNotFound) {
				t.Fatal(err)
			}
		}
		g.Settle()
	}
}

// TestRestartOfARunThatUsesItsID restarts a run whose kept step has the run's id in its input: the new run can be
// replayed and moved.
func TestRestartOfARunThatUsesItsID(t *testing.T) {
	g := newRestarts(t)
	g.breaks("ship")
	g.begin("r", doing{Do: "own", Name: "own"}, doing{Do: "call", Name: "ship", Fails: true}, doing{Do: "sleep", Name: "rest", MS: 1000})
	g.breaks()
	g.again("r", "again", "ship")
	do(t, g.Replay(ctx, "again"))
	var moved bytes.Buffer
	do(t, g.Export(ctx, "again", &moved, host.ExportOptions{Move: true}))
	ns, err := g.Namespace(ctx, "elsewhere")
	do(t, err)
	if _, err := ns.Import(ctx, &moved, host.ImportOptions{Adopt: true}); err != nil {
		t.Fatal(err)
	}
	g.Advance(time.Second)
	if r, err := ns.Get(ctx, "again"); err != nil || r.Status != host.Completed {
		t.Errorf("%s %s, %v", r.Status, r.Reason, err)
	}
}
