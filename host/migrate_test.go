package host_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
)

// upgrades is a host with versions of the workflows of testdata/upgrade.
type upgrades struct {
	*hosttest.Host
	t       *testing.T
	numbers map[string]uint32 // of the versions
}

func upgradesOf(t *testing.T, names ...string) *upgrades {
	u := &upgrades{hosttest.New(t), t, map[string]uint32{}}
	u.add(names...)
	return u
}

func code(t *testing.T, name string) []byte { return hosttest.Build(t, "testdata/upgrade/"+name) }

func (u *upgrades) add(names ...string) {
	u.t.Helper()
	for _, n := range names {
		v, err := u.Upload(ctx, "order", code(u.t, n))
		do(u.t, err)
		u.numbers[n] = v.Number
	}
}

func (u *upgrades) start(workflow string, ids ...string) {
	u.t.Helper()
	for _, id := range ids {
		_, err := u.Start(ctx, workflow, "x", host.WithRunID(id))
		do(u.t, err)
	}
	u.Settle()
}

// reports collects reports by run.
func reports(into map[string]host.RunCheck) func(host.RunCheck) error {
	return func(c host.RunCheck) error {
		into[c.RunID] = c
		return nil
	}
}

// check checks the live runs of a workflow against a version, and returns the outcomes.
func (u *upgrades) check(workflow, name string, opts host.CheckOptions) (map[string]host.RunCheck, host.CheckSummary) {
	u.t.Helper()
	of := map[string]host.RunCheck{}
	opts.Each = reports(of)
	sum, err := u.Workflows().Check(ctx, workflow, code(u.t, name), opts)
	do(u.t, err)
	return of, sum
}

func (u *upgrades) migrate(workflow, name string, opts host.MigrateOptions) (map[string]host.RunCheck, host.CheckSummary) {
	u.t.Helper()
	of := map[string]host.RunCheck{}
	opts.To, opts.Each = u.numbers[name], reports(of)
	sum, err := u.Workflows().Migrate(ctx, workflow, opts)
	do(u.t, err)
	return of, sum
}

func (u *upgrades) outcome(c host.RunCheck, want host.CheckOutcome, text string) {
	u.t.Helper()
	if c.Outcome != want || !strings.Contains(c.Reason+strings.Join(c.Notes, "; "), text) {
		u.t.Errorf("%s, want %q with %q: %+v", c.RunID, want, text, c)
	}
}

// ended lets a run complete, and checks its result and its end time.
func (u *upgrades) ended(id, result string, after time.Duration) {
	u.t.Helper()
	r := u.Finish(id)
	got, err := u.ResultRaw(ctx, id)
	if err != nil || string(got) != result || r.Ended.Sub(hosttest.Epoch) != after {
		u.t.Errorf("%s: %s %s after %v, %v; want %s after %v", id, r.Status, got, r.Ended.Sub(hosttest.Epoch), err, result, after)
	}
}

func (u *upgrades) version(id, name string) host.Run {
	u.t.Helper()
	r, err := u.Get(ctx, id)
	do(u.t, err)
	if r.Version != u.numbers[name] {
		u.t.Errorf("%s has version %d (%s %s), want %d, %s", id, r.Version, r.Status, r.Reason, u.numbers[name], name)
	}
	return r
}

// TestCheck replays sleepers against versions that fit and versions that do not, and changes nothing.
func TestCheck(t *testing.T) {
	u := upgradesOf(t, "v1")
	u.start("order", "a", "b")
	u.start("desk", "d")
	do(t, u.Signal(ctx, "d", "note", "hi"))
	u.Settle()
	commits := u.Stats().Commits
	for _, c := range []struct {
		workflow, name string
		outcome        host.CheckOutcome
		text           string
	}{
		{"order", "v1", host.CheckCompatible, ""},
		{"order", "marked", host.CheckCompatible, ""},
		{"order", "tuned", host.CheckCompatible, ""},
		{"order", "added", host.CheckDiverges, `diverges at entry 4: the journal has sleep "packing", the workflow did body "audit"`},
		{"order", "fails", host.CheckDiverges, `diverges at entry 4: the journal has sleep "packing", the workflow did`},
		{"order", "returns", host.CheckDiverges, `diverges at entry 4: the journal has sleep "packing", the workflow did its return`},
		{"desk", "tuned", host.CheckCompatible, ""},
		{"desk", "added", host.CheckCompatible, ""},
		{"desk", "loops", host.CheckDiverges, `diverges at entry 2: the journal has signal_wait "note", the workflow did its return`},
	} {
		of, sum := u.check(c.workflow, c.name, host.CheckOptions{})
		n := map[string]int64{"order": 2, "desk": 1}[c.workflow]
		if sum.Runs != n || int64(len(of)) != n || sum.Fits() != (c.outcome == host.CheckCompatible) || sum.Workflow != c.workflow {
			t.Errorf("%s against %s: %+v %+v", c.workflow, c.name, sum, of)
		}
		for id, r := range of {
			run, err := u.Get(ctx, id)
			do(t, err)
			if u.outcome(r, c.outcome, c.text); r.Version != 1 || r.Entries != run.Entries || r.Status != host.Sleeping {
				t.Errorf("%+v of %+v", r, run)
			}
		}
	}
	if n := u.Stats().Commits; n != commits {
		t.Errorf("checks made %d commits", n-commits)
	}
	if versions, err := u.Workflows().LiveVersions(ctx, "order"); err != nil || len(versions) != 1 {
		t.Errorf("checks left versions: %+v, %v", versions, err)
	}
	u.ended("a", `"v1 v1"`, 30*day)
}

// TestCheckEnded also replays runs that ended within a period.
func TestCheckEnded(t *testing.T) {
	u := upgradesOf(t, "v1")
	u.start("order", "old")
	u.Advance(20 * day)
	u.start("order", "young")
	u.Advance(20 * day) // the old run ended ten days ago, the young one is live
	for ended, want := range map[time.Duration]string{0: "young", 9 * day: "young", 11 * day: "old young"} {
		of, _ := u.check("order", "added", host.CheckOptions{Ended: ended})
		var ids []string
		for id, c := range of {
			ids = append(ids, id)
			u.outcome(c, host.CheckDiverges, "audit")
		}
		slices.Sort(ids)
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("ended within %v: %s, want %s", ended, got, want)
		}
		of, sum := u.check("order", "marked", host.CheckOptions{Ended: ended})
		if !sum.Fits() {
			t.Errorf("%+v", of)
		}
	}
}

// TestCheckOfHostileModules stops modules that compute forever, and refuses invalid ones.
func TestCheckOfHostileModules(t *testing.T) {
	u := upgradesOf(t, "v1")
	u.start("order", "a")
	of, sum := u.check("order", "loops", host.CheckOptions{CPU: 200 * time.Millisecond})
	u.outcome(of["a"], host.CheckNotChecked, "the replay computed too long, the limit is about 200ms")
	if sum.Fits() || sum.NotChecked != 1 {
		t.Errorf("%+v", sum)
	}
	for _, c := range []struct {
		workflow string
		wasm     []byte
		opts     host.CheckOptions
		want     error
	}{
		{"order", []byte("no module"), host.CheckOptions{}, host.ErrRejected},
		{"order", listing("text", "other"), host.CheckOptions{}, host.ErrInvalid},
		{"other", listing("text", "other"), host.CheckOptions{}, host.ErrNotFound},
		{"", code(t, "v1"), host.CheckOptions{}, host.ErrInvalid}, // it lists four
		{"order", code(t, "v1"), host.CheckOptions{CPU: -1}, host.ErrInvalid},
		{"order", code(t, "v1"), host.CheckOptions{CPU: time.Hour}, host.ErrInvalid},
		{"order", code(t, "v1"), host.CheckOptions{Parallel: 17}, host.ErrInvalid},
		{"order", code(t, "v1"), host.CheckOptions{Ended: -1}, host.ErrInvalid},
	} {
		if _, err := u.Workflows().Check(ctx, c.workflow, c.wasm, c.opts); !errors.Is(err, c.want) {
			t.Errorf("%s, %+v: %v, want %v", c.workflow, c.opts, err, c.want)
		}
	}
	enough := errors.New("enough")
	if _, err := u.Workflows().Check(ctx, "order", code(t, "v1"), host.CheckOptions{Each: func(host.RunCheck) error { return enough }}); !errors.Is(err, enough) {
		t.Errorf("Each does not end the check: %v", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := u.Workflows().Check(gone, "order", code(t, "v1"), host.CheckOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone: %v", err)
	}
}

// TestMigrate migrates sleepers to a version that fits, restarts and crashes the host, and lets the runs complete.
func TestMigrate(t *testing.T) {
	u := upgradesOf(t, "v1", "marked", "added", "tuned")
	u.start("order", "a", "b", "young") // by the newest version, tuned
	for _, id := range []string{"c", "d"} {
		_, err := u.Start(ctx, "order", "x", host.WithRunID(id), host.WithVersion(1))
		do(t, err)
	}
	u.Advance(10 * day)
	of, sum := u.migrate("order", "added", host.MigrateOptions{})
	if sum.Migrated != 0 || sum.Diverging != 5 || sum.Fits() {
		t.Errorf("to a version that does not fit: %+v", sum)
	}
	u.outcome(of["c"], host.CheckDiverges, "audit")
	u.version("c", "v1")
	of, sum = u.migrate("order", "marked", host.MigrateOptions{From: 1, DryRun: true})
	if u.outcome(of["c"], host.CheckCompatible, ""); sum.Compatible != 2 || sum.Migrated != 0 || sum.Version == 0 {
		t.Errorf("of a dry run: %+v", sum)
	}
	u.version("c", "v1")
	of, sum = u.migrate("order", "marked", host.MigrateOptions{From: 1})
	if sum.Migrated != 2 || sum.Runs != 2 || !sum.Fits() || of["c"].Version != 1 {
		t.Errorf("%+v %+v", sum, of)
	}
	u.version("a", "tuned")
	u.Settle()
	if r := u.version("c", "marked"); r.Status != host.Sleeping || !r.Wake.Equal(hosttest.Epoch.Add(30*day)) {
		t.Errorf("after the migration: %+v", r)
	}
	// Migrate again: a migrated run, an unmigrated one, a missing one, and a run of another workflow.
	u.start("desk", "desk")
	of, sum = u.migrate("order", "marked", host.MigrateOptions{Runs: []string{"c", "a", "none", "desk"}})
	u.outcome(of["c"], host.CheckUnchanged, "")
	u.outcome(of["a"], host.CheckMigrated, "")
	u.outcome(of["none"], host.CheckNotChecked, "no such run")
	u.outcome(of["desk"], host.CheckNotChecked, `a run of workflow "desk"`)
	if sum.Runs != 4 || sum.Fits() {
		t.Errorf("%+v", sum)
	}
	u.Crash()
	u.Advance(day)
	u.Reopen()
	u.version("d", "marked")
	u.ended("a", `"tuned marked"`, 40*day) // the recorded sleep keeps its duration
	u.ended("b", `"tuned tuned"`, 40*day)
	u.ended("c", `"v1 marked"`, 30*day)
	u.ended("d", `"v1 marked"`, 30*day)
	for e, err := range u.Journal(ctx, "c", 0) {
		do(t, err)
		if e.Kind == store.KindMigrated && (e.Target == "" || string(e.Options) != `{"from":1,"to":2}`) {
			t.Errorf("%+v", e)
		}
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		do(t, u.Replay(ctx, id))
	}
	do(t, u.Delete(ctx, "c"))
	do(t, u.Delete(ctx, "d"))
	do(t, u.Workflows().DeleteVersion(ctx, "order", 1)) // its last run has left
}

// TestMigrateRefuses lists the calls of Migrate that are refused.
func TestMigrateRefuses(t *testing.T) {
	u := upgradesOf(t, "v1")
	for _, c := range []struct {
		workflow string
		opts     host.MigrateOptions
		want     error
	}{
		{"order", host.MigrateOptions{}, host.ErrInvalid},
		{"order", host.MigrateOptions{To: 2}, host.ErrNotFound},
		{"none", host.MigrateOptions{To: 1}, host.ErrNotFound},
		{"order", host.MigrateOptions{To: 1, Parallel: -1}, host.ErrInvalid},
		{"order", host.MigrateOptions{To: 1, Runs: []string{"a\x00b"}}, host.ErrInvalid},
	} {
		if _, err := u.Workflows().Migrate(ctx, c.workflow, c.opts); !errors.Is(err, c.want) {
			t.Errorf("%s, %+v: %v, want %v", c.workflow, c.opts, err, c.want)
		}
	}
}

// TestMigrateTwiceAndBack migrates a run that sleeps for a month twice, and back, each time after a crash.
func TestMigrateTwiceAndBack(t *testing.T) {
	u := upgradesOf(t, "v1")
	u.start("order", "a")
	u.add("marked", "tuned")
	for i, name := range []string{"marked", "tuned", "v1", "marked"} {
		u.Advance(5 * day)
		of, _ := u.migrate("order", name, host.MigrateOptions{})
		u.outcome(of["a"], host.CheckMigrated, "")
		if i%2 == 0 {
			u.Crash()
		}
		u.version("a", name)
	}
	u.ended("a", `"v1 marked"`, 30*day)
	do(t, u.Replay(ctx, "a"))
	// A run that has used a feature of the newer version cannot go back.
	_, err := u.Start(ctx, "order", "x", host.WithRunID("new"), host.WithVersion(u.numbers["marked"]))
	do(t, err)
	u.Settle()
	of, _ := u.migrate("order", "v1", host.MigrateOptions{})
	u.outcome(of["new"], host.CheckDiverges, `the journal has version "check the address", the workflow did sleep "packing"`)
	u.version("new", "marked")
}

// TestMigrateStuck retries a run under code that does not fit, which makes it stuck, and migrates it to code that
// fits.
func TestMigrateStuck(t *testing.T) {
	u := upgradesOf(t, "broken", "added", "marked")
	_, err := u.Start(ctx, "order", "x", host.WithRunID("a"), host.WithVersion(1))
	do(t, err)
	u.Advance(40 * day)
	if r := u.version("a", "broken"); r.Status != host.Failed || r.Help != "" {
		t.Fatalf("%+v", r)
	}
	do(t, u.Retry(ctx, "a", 2))
	u.Settle()
	r := u.version("a", "added")
	if r.Status != host.Stuck || !strings.Contains(r.Help, "wfhost check FOLDER --workflow order") {
		t.Fatalf("%+v", r)
	}
	of, sum := u.check("order", "broken", host.CheckOptions{})
	u.outcome(of["a"], host.CheckCompatible, "")
	of, _ = u.check("order", "added", host.CheckOptions{})
	u.outcome(of["a"], host.CheckDiverges, "audit")
	if c := of["a"]; c.Status != host.Stuck || !strings.Contains(r.Reason, c.Journal) || !strings.Contains(r.Reason, c.Workflow) {
		t.Errorf("the report says something else than the run: %+v, %s", c, r.Reason)
	}
	of, sum = u.migrate("order", "marked", host.MigrateOptions{})
	if u.outcome(of["a"], host.CheckMigrated, ""); sum.Migrated != 1 {
		t.Errorf("%+v", sum)
	}
	u.ended("a", `"broken marked"`, 40*day)
	if r := u.version("a", "marked"); r.Help != "" {
		t.Errorf("%+v", r)
	}
	do(t, u.Replay(ctx, "a"))
}

// TestMigrateNap migrates a guest that is kept in memory while it sleeps: it wakes at another time than the one that
// it waits for.
func TestMigrateNap(t *testing.T) {
	for _, restart := range []bool{false, true} {
		u := upgradesOf(t, "v1", "tuned", "awaits")
		for _, id := range []string{"a", "b"} {
			_, err := u.Start(ctx, "nap", "x", host.WithRunID(id), host.WithVersion(1))
			do(t, err)
		}
		u.Advance(day)
		of, _ := u.migrate("nap", "tuned", host.MigrateOptions{Runs: []string{"a"}})
		u.outcome(of["a"], host.CheckMigrated, "")
		_, err := u.Pause(ctx, "b")
		do(t, err)
		of, _ = u.migrate("nap", "awaits", host.MigrateOptions{Runs: []string{"b"}})
		u.outcome(of["b"], host.CheckMigrated, "goes on with a call of its own")
		if restart {
			u.Crash()
		}
		u.Advance(60 * day) // past the clocks of both
		_, err = u.Unpause(ctx, "b")
		do(t, err)
		u.ended("a", `"tuned"`, 40*day)
		do(t, u.Signal(ctx, "b", "note", "hi"))
		u.ended("b", `"awaits hi"`, 61*day)
		do(t, u.Replay(ctx, "a"))
		do(t, u.Replay(ctx, "b"))
	}
}

// TestMigrateBusy migrates desks while notes arrive: each result has all notes of its desk, in order.
func TestMigrateBusy(t *testing.T) {
	u := upgradesOf(t, "v1", "tuned")
	const desks = 12
	for i := range desks {
		_, err := u.Start(ctx, "desk", "x", host.WithRunID(fmt.Sprint("desk-", i)), host.WithVersion(1))
		do(t, err)
	}
	var wg sync.WaitGroup
	for i := range desks {
		wg.Go(func() {
			for n := range 3 {
				if err := u.Signal(ctx, fmt.Sprint("desk-", i), "note", fmt.Sprint(n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	of := map[string]host.RunCheck{}
	for range 5 {
		sum, err := u.Workflows().Migrate(ctx, "desk", host.MigrateOptions{To: 2, Each: reports(of), Parallel: 3})
		do(t, err)
		if sum.Diverging > 0 {
			t.Fatalf("%+v", of)
		}
	}
	wg.Wait()
	_, sum := u.migrate("desk", "tuned", host.MigrateOptions{})
	if !sum.Fits() {
		t.Fatalf("%+v", sum)
	}
	for i := range desks {
		id := fmt.Sprint("desk-", i)
		u.Finish(id)
		got, err := u.ResultRaw(ctx, id)
		if err != nil || string(got) != `"tuned 0 1 2 tuned"` {
			t.Errorf("%s: %s %v", id, got, err)
		}
		do(t, u.Replay(ctx, id))
	}
}

// TestMigrateCrashes kills the host at each commit of a migration, before and after the commit.
func TestMigrateCrashes(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := range 100 {
			u := upgradesOf(t, "v1", "marked")
			for _, id := range []string{"a", "b"} {
				_, err := u.Start(ctx, "order", "x", host.WithRunID(id), host.WithVersion(1))
				do(t, err)
			}
			u.Settle()
			u.CrashAt(n, after)
			told := map[string]host.RunCheck{}
			_, err := u.Workflows().Migrate(ctx, "order", host.MigrateOptions{To: 2, Each: reports(told)})
			u.Settle()
			crashed := u.Crashed()
			if !crashed {
				u.CrashAt(1<<30, false)
			}
			if !crashed && err != nil {
				t.Fatal(err)
			}
			u.Reopen()
			for id, c := range told {
				if c.Outcome == host.CheckMigrated {
					u.version(id, "marked") // what was said is durable
				}
			}
			_, sum := u.migrate("order", "marked", host.MigrateOptions{})
			if !sum.Fits() || sum.Runs != 2 {
				t.Fatalf("%+v", sum)
			}
			for _, id := range []string{"a", "b"} {
				u.ended(id, `"v1 marked"`, 30*day)
				do(t, u.Replay(ctx, id))
			}
			u.Stop()
			if !crashed {
				break
			}
		}
	}
}

// TestMigrateRestart restarts a migrated run from a step. The copied part keeps the version that the workflow saw at
// that time; the rest runs under the run's current version.
func TestMigrateRestart(t *testing.T) {
	u := upgradesOf(t, "v1", "tuned")
	for _, name := range []string{"v1", "tuned"} {
		_, err := u.Upload(ctx, "told", code(t, name))
		do(t, err)
	}
	_, err := u.Start(ctx, "told", "x", host.WithRunID("a"), host.WithVersion(1))
	do(t, err)
	u.Settle()
	_, sum := u.migrate("told", "tuned", host.MigrateOptions{})
	if sum.Migrated != 1 {
		t.Fatalf("%+v", sum)
	}
	do(t, u.Workflows().DeleteVersion(ctx, "told", 1))
	u.Finish("a")
	for _, from := range []string{"a", "b", "c"} { // restarts of restarts, too
		to := string(from[0] + 1)
		_, err := u.Restart(ctx, from, to, "last")
		do(t, err)
		u.Crash()
		r := u.Finish(to)
		got, err := u.ResultRaw(ctx, to)
		if want := `"version 1 of  at -62135596800000: v1 tuned"`; err != nil || string(got) != want || r.Version != 2 {
			t.Errorf("%s: version %d, %s %s, %v, want %s", to, r.Version, r.Reason, got, err, want)
		}
		do(t, u.Replay(ctx, to))
		c, err := u.ReplayArchive(ctx, archived(t, export(t, u.Host.Host, to)), host.ReplayOptions{})
		if err != nil || c.Outcome != host.CheckCompatible {
			t.Errorf("%s as a file: %+v %v", to, c, err)
		}
	}
	// A restart from the beginning runs under the current version.
	_, err = u.Restart(ctx, "a", "new", "")
	do(t, err)
	u.Finish("new")
	if got, err := u.ResultRaw(ctx, "new"); err != nil || string(got) != `"version 2 of  at -62135596800000: tuned tuned"` {
		t.Errorf("%s %v", got, err)
	}
}

// TestMigrateGoesOn: later iterations and children of a migrated run use the version to which it was migrated.
func TestMigrateGoesOn(t *testing.T) {
	u := upgradesOf(t, "v1", "tuned")
	_, err := u.Start(ctx, "ticks", 2, host.WithRunID("a"), host.WithVersion(1))
	do(t, err)
	u.Advance(36 * time.Hour)
	of, _ := u.migrate("ticks", "tuned", host.MigrateOptions{})
	if u.outcome(of["a"], host.CheckMigrated, ""); of["a"].Iteration != 1 {
		t.Errorf("%+v", of["a"])
	}
	u.ended("a", `"tuned tuned"`, 43*day) // under the new version, the child sleeps for 40 days
	if r := u.version("a", "tuned"); r.Iteration != 2 {
		t.Errorf("%+v", r)
	}
}

// paying is a module that calls a handler to pay, and completes with a text.
func paying(text string) []byte {
	m := wasmgen.New(0)
	m.Text("pay").Text("host/pay").I32(0).I32(0).I32(0).I32(0).Call(abi.FnStepStart).Drop().I32(0).I32(0).Call(abi.FnAwait).Drop()
	return m.Text(text).Call(abi.FnComplete).Drop().I32(0).Export(abi.ExportRun).Bytes()
}

// TestMigrateBesideAnAttempt migrates a run during an attempt of its step: the attempt is not repeated, and its
// outcome is recorded.
func TestMigrateBesideAnAttempt(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	var made atomic.Int32
	h := hosttest.New(t, hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "pay", func(context.Context, string) (string, error) {
			made.Add(1)
			close(begun)
			<-release
			return "paid", nil
		})
	}))
	for _, text := range []string{`"one"`, `"two"`} {
		_, err := h.Upload(ctx, "w", paying(text), host.AllowStep("pay"))
		do(t, err)
	}
	_, err := h.StartRaw(ctx, "w", nil, host.WithRunID("a"), host.WithVersion(1))
	do(t, err)
	select {
	case <-begun:
	case <-time.After(time.Minute):
		t.Fatal("no attempt begins")
	}
	sum, err := h.Workflows().Migrate(ctx, "w", host.MigrateOptions{To: 2})
	if err != nil || sum.Migrated != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	close(release)
	h.Finish("a")
	if got, err := h.ResultRaw(ctx, "a"); err != nil || string(got) != `"two"` || made.Load() != 1 {
		t.Errorf("%s, %v, %d attempts", got, err, made.Load())
	}
	do(t, h.Replay(ctx, "a"))
}

// TestChecksAtATime refuses a third concurrent check in one namespace, and a ninth overall.
func TestChecksAtATime(t *testing.T) {
	h := hosttest.New(t)
	var wg sync.WaitGroup
	release := make(chan struct{})
	var releaseOnce sync.Once
	defer func() { releaseOnce.Do(func() { close(release) }); wg.Wait() }()
	names := []string{"a", "b", "c", "d", "e"}
	for i, name := range names {
		ns, err := h.Namespace(ctx, name)
		do(t, err)
		_, err = ns.Upload(ctx, "nap", napModule())
		do(t, err)
		_, err = ns.StartRaw(ctx, "nap", []byte("1h"), host.WithRunID("r"))
		do(t, err)
		h.Settle()
		if i == len(names)-1 {
			break
		}
		for range 2 {
			began := make(chan struct{})
			wg.Go(func() {
				_, err := ns.Workflows().Check(ctx, "nap", napModule(), host.CheckOptions{Each: func(host.RunCheck) error {
					close(began)
					<-release
					return nil
				}})
				if err != nil {
					t.Error(err)
				}
			})
			<-began
		}
		if _, err := ns.Workflows().Migrate(ctx, "nap", host.MigrateOptions{To: 1}); !errors.Is(err, host.ErrBusy) {
			t.Errorf("a third one of %s: %v", name, err)
		}
	}
	last, err := h.Namespace(ctx, "e")
	do(t, err)
	if _, err := last.Workflows().Check(ctx, "nap", napModule(), host.CheckOptions{}); !errors.Is(err, host.ErrBusy) {
		t.Errorf("a ninth one: %v", err)
	}
	releaseOnce.Do(func() { close(release) })
	wg.Wait()
	if sum, err := last.Workflows().Check(ctx, "nap", napModule(), host.CheckOptions{}); err != nil || sum.Compatible != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// TestCheckData checks the runs in data that is not open, also in encrypted data.
func TestCheckData(t *testing.T) {
	ring := func(secret byte) host.Codec {
		r, err := host.ParseKeyring([]byte("k1 " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{secret}, 32))))
		do(t, err)
		return r
	}
	for _, codec := range []host.Codec{nil, ring(1)} {
		dir := t.TempDir()
		cfg := host.Config{Dir: dir, Codec: codec, Interpreter: true}
		h, err := host.Open(ctx, cfg)
		do(t, err)
		_, err = h.Upload(ctx, "nap", napModule())
		do(t, err)
		_, err = h.StartRaw(ctx, "nap", []byte("1h"), host.WithRunID("r"))
		do(t, err)
		running, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- h.Run(running) }()
		_, _, err = h.WaitIdle(ctx)
		do(t, err)
		check := func(codec host.Codec, namespace string) (host.CheckSummary, error) {
			return host.CheckData(ctx, dir, host.Config{Codec: codec, Interpreter: true}, namespace, "nap", napModule(), host.CheckOptions{})
		}
		if _, err := check(codec, ""); !errors.Is(err, host.ErrLocked) {
			t.Errorf("while a host has it: %v", err)
		}
		stop()
		do(t, <-done)
		do(t, h.Close())
		if sum, err := check(codec, ""); err != nil || sum.Compatible != 1 || !sum.Fits() {
			t.Errorf("%+v, %v", sum, err)
		}
		if codec != nil {
			for _, wrong := range []host.Codec{nil, ring(2)} {
				if _, err := check(wrong, ""); !errors.Is(err, host.ErrKey) {
					t.Errorf("with another key: %v", err)
				}
			}
		}
		if _, err := check(codec, "other"); !errors.Is(err, host.ErrNotFound) {
			t.Errorf("of a namespace that is not there: %v", err)
		}
	}
	if _, err := host.CheckData(ctx, t.TempDir(), host.Config{}, "", "nap", napModule(), host.CheckOptions{}); !errors.Is(err, host.ErrNotFound) {
		t.Errorf("of no data: %v", err)
	}
}
