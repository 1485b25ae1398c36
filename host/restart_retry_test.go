package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// mend uploads a version of the program in which the operation "mended" succeeds.
func (g *restarts) mend() {
	g.t.Helper()
	module := hosttest.Build(g.t, "testdata/restarts")
	better := bytes.Replace(module, []byte("mended: no "), []byte("mended: yes"), 1)
	if bytes.Equal(module, better) {
		g.t.Fatal("the module has no text to replace")
	}
	_, err := g.UploadAll(ctx, "", better, host.OnlyWorkflows("program"), host.AllowStep("*"))
	do(g.t, err)
}

// TestRetryOfARestartWithTimers retries a restarted run that failed by itself after timers had fired in its own part:
// it sees the same times as before, and is not stuck.
func TestRetryOfARestartWithTimers(t *testing.T) {
	for _, timer := range []doing{{Do: "timer", Name: "t", MS: 1000}, {Do: "timer", Name: "t", MS: 700, ID: "ticks"}} {
		for _, crash := range []bool{false, true} {
			g := newRestarts(t)
			g.begin("r", doing{Do: "sleep", Name: "first", MS: 1}, timer, doing{Do: "sleep", Name: "nap", MS: 3000},
				doing{Do: "fail", Name: "no", Fails: true})
			g.Advance(4 * time.Second)
			g.again("r", "copy", "first")
			g.Advance(4 * time.Second)
			g.Advance(time.Hour)
			do(t, g.Retry(ctx, "copy", 0))
			if crash {
				g.Crash()
			}
			if r := g.Finish("copy"); r.Status != host.Failed {
				t.Errorf("%+v, crash %v: %s %s", timer, crash, r.Status, r.Reason)
			}
		}
	}
}

// TestSleepAfterARetryTakesItsTime has a run, and a restart of it, fail by themselves, and retries both under a
// mended version an hour later: new sleeps last their full duration, whatever deliveries the runs had not yet taken.
func TestSleepAfterARetryTakesItsTime(t *testing.T) {
	race := func(ms int) doing {
		return doing{Do: "race", Name: "race", Ops: []doing{{Do: "sleep", Name: "s1", MS: 1000}, {Do: "sleep", Name: "s2", MS: ms}}}
	}
	for name, before := range map[string][]doing{
		"timer":           {{Do: "sleep", Name: "first", MS: 1}, {Do: "timer", Name: "t", MS: 1000}, {Do: "sleep", Name: "nap", MS: 3000}},
		"loser withdrawn": {{Do: "sleep", Name: "first", MS: 1}, race(9_000_000)},
		"loser delivered": {{Do: "sleep", Name: "first", MS: 1}, race(1000)},
		"nothing":         {{Do: "call", Name: "first"}},
	} {
		for _, restart := range []bool{false, true} {
			for _, crash := range []bool{false, true} {
				g := newRestarts(t)
				g.begin("r", append(before, doing{Do: "mended", Name: "m", MS: 1_800_000, Fails: true})...)
				g.Advance(4 * time.Second)
				id := "r"
				if restart {
					g.again("r", "copy", "first")
					g.Advance(4 * time.Second)
					id = "copy"
				}
				g.Advance(time.Hour)
				g.mend()
				if crash {
					g.Crash()
				}
				began := g.Clock.Now()
				do(t, g.Retry(ctx, id, 2))
				r := g.Finish(id)
				if r.Status != host.Completed || r.Ended.Sub(began) < 30*time.Minute {
					t.Errorf("%s, restart %v, crash %v: %s %s after %v", name, restart, crash, r.Status, r.Reason, r.Ended.Sub(began))
				}
			}
		}
	}
}

// TestRetryOfAStuckRestart retries a restarted run, stuck under a version that does not fit, under one that fits.
func TestRetryOfAStuckRestart(t *testing.T) {
	for _, crash := range []bool{false, true} {
		g := newRestarts(t)
		g.begin("r", doing{Do: "sleep", Name: "first", MS: 1}, doing{Do: "timer", Name: "t", MS: 1000},
			doing{Do: "sleep", Name: "nap", MS: 3000}, doing{Do: "mended", Name: "m", MS: 1_800_000, Fails: true})
		g.Advance(4 * time.Second)
		g.again("r", "copy", "first")
		g.Advance(4 * time.Second)
		_, err := g.Upload(ctx, "program", versioned(`"2"`))
		do(t, err)
		g.mend()
		do(t, g.Retry(ctx, "copy", 2))
		want(t, g.Finish("copy").Status, host.Stuck)
		g.Advance(time.Hour)
		if crash {
			g.Crash()
		}
		began := g.Clock.Now()
		do(t, g.Retry(ctx, "copy", 3))
		if r := g.Finish("copy"); r.Status != host.Completed || r.Ended.Sub(began) < 30*time.Minute {
			t.Errorf("crash %v: %s %s after %v", crash, r.Status, r.Reason, r.Ended.Sub(began))
		}
	}
}

// TestPositionsInARestart restarts a run from after a loop that ends when its journal is long. Failed attempts made
// the journal longer, but are not copied: the new run's loop still ends after the same number of steps.
func TestPositionsInARestart(t *testing.T) {
	g := newRestarts(t)
	var mu sync.Mutex
	tries := map[string]int{}
	host.HandleStep(g.Host.Host, "flaky", func(ctx context.Context, _ string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		key := host.StepInfo(ctx).IdempotencyKey
		tries[key]++
		if tries[key] == 1 {
			return "", errors.New("not yet")
		}
		return "x", nil
	})
	g.breaks("ship")
	g.begin("r", doing{Do: "many", Name: "m", ID: "host/flaky"}, doing{Do: "call", Name: "flush"}, doing{Do: "call", Name: "ship", Fails: true})
	want(t, g.Finish("r").Status, host.Failed)
	for _, id := range []string{"r", "copy"} {
		g.again(id, id+"-again", "ship")
		if r := g.Finish(id + "-again"); r.Status != host.Failed {
			t.Fatalf("a restart of %s: %s %s", id, r.Status, r.Reason)
		}
		if id == "r" {
			g.again("r", "copy", "flush")
			want(t, g.Finish("copy").Status, host.Failed)
		}
		do(t, g.Replay(ctx, id+"-again"))
	}
}

// TestRestartKeepsAWithdrawnChild restarts a run from after a child that it withdrew: the new run is valid and can be
// moved.
func TestRestartKeepsAWithdrawnChild(t *testing.T) {
	for _, end := range []string{"cancel", "abandon", "terminate"} {
		g := newRestarts(t)
		g.begin("r", doing{Do: "within", Name: "w", MS: 1000, Ops: []doing{{Do: "child", Name: "kid", MS: 100_000, Undo: end}}},
			doing{Do: "call", Name: "ship"}, doing{Do: "sleep", Name: "z", MS: 1000})
		g.Finish("r")
		do(t, g.Replay(ctx, "r"))
		g.again("r", "copy", "ship")
		g.Settle()
		var b bytes.Buffer
		do(t, g.Export(ctx, "copy", &b, host.ExportOptions{}))
		do(t, g.Replay(ctx, "copy"))
		other := newRestarts(t)
		if _, err := other.Import(ctx, &b, host.ImportOptions{Adopt: true, Force: true}); err != nil {
			t.Errorf("%s: %v", end, err)
		}
		g.Finish("copy")
		if err := g.Replay(ctx, "copy"); err != nil {
			t.Errorf("%s: %v", end, err)
		}
	}
}

// TestRetryOfARestartWithAFailedChild retries a restarted run whose kept child has failed. Only the run that started
// the child can ask for its outcome again, so the refusal says from where to restart.
func TestRetryOfARestartWithAFailedChild(t *testing.T) {
	g := newRestarts(t)
	g.breaks("kid's")
	g.begin("r", doing{Do: "group", Name: "g", Fails: true, Ops: []doing{{Do: "child", Name: "kid", MS: 5000}, {Do: "then", Name: "main",
		Ops: []doing{{Do: "sleep", Name: "begun", MS: 1000}, {Do: "sleep", Name: "long", MS: 100_000}}}}})
	g.Advance(10 * time.Second)
	g.again("r", "copy", "long")
	g.Advance(time.Second)
	want(t, g.Finish("copy").Status, host.Failed)
	err := g.Retry(ctx, "copy", 0)
	if !errors.Is(err, host.ErrConflict) || !strings.Contains(err.Error(), `restart the run from "kid"`) {
		t.Error(err)
	}
	g.breaks()
	g.again("copy", "better", "kid")
	if r := g.Finish("better"); r.Status != host.Completed {
		t.Error(r.Status, r.Reason)
	}
}

// TestRetryOfARestartWithAWithdrawnChild retries a restarted run in which a kept step failed and therefore a kept
// child was withdrawn. Only the run that started the child can ask for its outcome again.
func TestRetryOfARestartWithAWithdrawnChild(t *testing.T) {
	g := newRestarts(t)
	g.breaks("A")
	g.begin("r", doing{Do: "late", Name: "z", MS: 1000, Fails: true, Ops: []doing{{Do: "group", Name: "g", Ops: []doing{
		{Do: "child", Name: "kid", MS: 100_000},
		{Do: "then", Name: "main", Ops: []doing{{Do: "sleep", Name: "begun", MS: 1000}, {Do: "call", Name: "A"}}}}}}})
	want(t, g.Finish("r").Status, host.Failed)
	g.again("r", "copy", "z")
	want(t, g.Finish("copy").Status, host.Failed)
	g.breaks()
	for id, may := range map[string]bool{"r": true, "copy": false} {
		err := g.Retry(ctx, id, 0)
		g.Advance(time.Hour)
		if (err == nil) != may {
			t.Errorf("retry of %q: %v", id, err)
		}
		do(t, g.Replay(ctx, id))
	}
}

// TestRestartOfAStuckRunChecksItsVersion restarts a run that a retry has moved to a version that does not fit: the
// plan says so.
func TestRestartOfAStuckRunChecksItsVersion(t *testing.T) {
	g := newRestarts(t)
	_, err := g.Upload(ctx, "program", versioned(`"2"`))
	do(t, err)
	g.breaks("ship")
	_, err = g.Start(ctx, "program", []doing{{Do: "call", Name: "a"}, {Do: "call", Name: "ship", Fails: true}}, host.WithRunID("r"),
		host.WithVersion(1))
	do(t, err)
	g.Finish("r")
	g.breaks()
	do(t, g.Retry(ctx, "r", 2))
	want(t, g.Finish("r").Status, host.Stuck)
	if _, err := g.RestartWith(ctx, "r", host.RestartOptions{From: "ship", NewID: "c"}); err == nil ||
		!strings.Contains(err.Error(), "version 2 of program does not fit") {
		t.Error(err)
	}
	_, err = g.RestartWith(ctx, "r", host.RestartOptions{From: "ship", NewID: "d", Version: 1})
	do(t, err)
	want(t, g.Finish("d").Status, host.Completed)
}

// exports checks that a run can be exported and imported.
func (g *restarts) exports(id string) {
	g.t.Helper()
	var b bytes.Buffer
	do(g.t, g.Export(ctx, id, &b, host.ExportOptions{}))
	if _, err := host.ReadArchive(bytes.NewReader(b.Bytes())); err != nil {
		g.t.Errorf("%s: %v", id, err)
	}
	ns, err := g.Namespace(ctx, "elsewhere-"+id)
	do(g.t, err)
	if _, err := ns.Import(ctx, bytes.NewReader(b.Bytes()), host.ImportOptions{}); err != nil {
		g.t.Errorf("%s: %v", id, err)
	}
}

// TestExportOfARestartOfALaterIteration exports runs that begin with a later iteration of a run that had output
// before.
func TestExportOfARestartOfALaterIteration(t *testing.T) {
	g := newRestarts(t)
	g.begin("r", doing{Do: "emit", Name: "e"}, doing{Do: "continue"}, doing{Do: "call", Name: "c"}, doing{Do: "emit", Name: "f"},
		doing{Do: "sleep", Name: "s", MS: 1000})
	g.Finish("r")
	g.exports("r")
	one := uint32(1)
	for i, o := range []host.RestartOptions{{From: "c"}, {From: "s"}, {Iteration: &one}} {
		o.NewID = fmt.Sprint("copy", i)
		_, err := g.RestartWith(ctx, "r", o)
		do(t, err)
		g.Finish(o.NewID)
		do(t, g.Replay(ctx, o.NewID))
		g.exports(o.NewID)
	}
}

// TestExportOfARestartBehindVoidOutput exports a restart of a run whose retry voided output.
func TestExportOfARestartBehindVoidOutput(t *testing.T) {
	g := newRestarts(t)
	g.breaks("a")
	g.begin("r", doing{Do: "call", Name: "a"}, doing{Do: "emit", Name: "e"}, doing{Do: "fail", Name: "no", Fails: true})
	g.Finish("r")
	g.breaks()
	do(t, g.Retry(ctx, "r", 0))
	g.Finish("r")
	g.exports("r")
	g.again("r", "copy", "last") // the attribute behind the output
	g.Finish("copy")
	do(t, g.Replay(ctx, "copy"))
	g.exports("copy")
}
