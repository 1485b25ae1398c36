package host_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
)

func TestKilledInABody(t *testing.T) {
	entered, leave := make(chan struct{}, 9), make(chan struct{})
	var mu sync.Mutex
	var attempts []host.Step
	l := newLab(t, hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "gate", func(ctx context.Context, _ string) (string, error) {
			mu.Lock()
			attempts = append(attempts, host.StepInfo(ctx))
			first := len(attempts) == 1
			mu.Unlock()
			entered <- struct{}{}
			if first {
				<-leave
			}
			return "done", nil
		})
	}))
	id := l.begin("call", request{Handler: "host/gate"})
	<-entered
	l.Kill()
	close(leave)
	l.Reopen()
	want(t, l.Finish(id).Status, host.Completed)
	mu.Lock()
	defer mu.Unlock()
	if len(attempts) != 2 || attempts[1].Attempt != 2 || attempts[0].IdempotencyKey != attempts[1].IdempotencyKey {
		t.Fatalf("%+v", attempts)
	}
}

func TestAtMostOnceAfterCrash(t *testing.T) {
	entered, leave := make(chan struct{}, 9), make(chan struct{})
	l := newLab(t, hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "gate", func(context.Context, string) (string, error) {
			entered <- struct{}{}
			<-leave
			return "done", nil
		})
	}))
	id := l.begin("call", request{Handler: "host/gate", Catch: true, Options: map[string]any{"at_most_once": true}})
	<-entered
	l.Kill()
	close(leave)
	l.Reopen()
	l.Finish(id)
	got, err := host.Result[string](ctx, l.Host.Host, id)
	if err != nil || !strings.HasPrefix(got, "STEP_FAILED unknown 1") || len(entered) != 0 {
		t.Fatal(got, err)
	}
}

func TestStepTimeouts(t *testing.T) {
	l := newLab(t)
	for kind, expect := range map[string]string{
		"spin":  "timeout 2 the attempt ran over the step's timeout of 300ms",
		"block": "error 2 deadlock: the step's body waits for something that can never come",
		"panic": "trap 2 panic: body panics",
		"fatal": "error 1 no way",
	} {
		want(t, run[string](l, "hang", kind), expect)
	}
}

func TestHandlerThatIgnoresItsContext(t *testing.T) {
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	l := newLab(t, hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "stubborn", func(context.Context, string) (string, error) {
			entered <- struct{}{}
			<-leave
			return "too late", nil
		})
	}))
	id := l.begin("call", request{Handler: "host/stubborn", Catch: true, Options: map[string]any{"attempts": 1, "timeout": "1m"}})
	<-entered
	l.Clock.Advance(time.Minute)
	l.Settle()
	got, err := host.Result[string](ctx, l.Host.Host, id)
	if err != nil || !strings.HasPrefix(got, "STEP_FAILED timeout 1") {
		t.Fatal(got, err)
	}
	close(leave)
}

func TestCancelWhileAsleep(t *testing.T) {
	l := newLab(t)
	id := l.begin("until", int64(time.Hour/time.Millisecond))
	l.Settle()
	if _, err := l.Cancel(ctx, id); err != nil {
		t.Fatal(err)
	}
	r, err := l.Get(ctx, id)
	if err != nil || r.Status != host.Cancelled {
		t.Fatalf("%+v %v", r, err)
	}
	if next, ok := l.Settle(); ok && next.Before(hosttest.Epoch.Add(time.Hour)) {
		t.Fatalf("a wake is left at %v", next)
	}
	timers, err := collect(l.Timers(ctx, hosttest.Epoch.Add(48*time.Hour)))
	if err != nil || len(timers) != 0 {
		t.Fatal(timers, err)
	}
	before := len(l.kinds(id))
	l.Advance(2 * time.Hour)
	want(t, len(l.kinds(id)), before)
}

func TestIllegalTransitions(t *testing.T) {
	l := newLab(t)
	id := l.begin("zeros", 1)
	l.Finish(id)
	for name, f := range map[string]func() error{
		"cancel":    func() error { _, err := l.Cancel(ctx, id); return err },
		"terminate": func() error { return l.Terminate(ctx, id) },
		"wake":      func() error { _, err := l.Wake(ctx, id, ""); return err },
	} {
		if err := f(); !errors.Is(err, host.ErrTerminal) {
			t.Errorf("%s of a completed run: %v", name, err)
		}
		r, _ := l.Get(ctx, id)
		want(t, r.Status, host.Completed)
	}
	id = l.begin("until", 3_600_000)
	if err := l.Terminate(ctx, id); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Cancel(ctx, id); !errors.Is(err, host.ErrTerminal) {
		t.Error(err)
	}
	var re *host.RunError
	if _, err := l.ResultRaw(ctx, id); !errors.As(err, &re) || re.Status != host.Terminated {
		t.Error(err)
	}
}

func TestStartTwice(t *testing.T) {
	l := newLab(t)
	var wg sync.WaitGroup
	existed := make([]bool, 50)
	for i := range existed {
		wg.Go(func() {
			input := any(3_600_000)
			r, err := l.Start(ctx, "until", input, host.WithRunID("one"))
			if err != nil {
				t.Error(err)
			}
			existed[i] = r.Existed
		})
	}
	wg.Wait()
	want(t, len(slices.DeleteFunc(existed, func(b bool) bool { return b })), 1)
	if _, err := l.Start(ctx, "until", 1, host.WithRunID("one")); !errors.Is(err, host.ErrConflict) {
		t.Error(err)
	}
	if _, err := l.Start(ctx, "zeros", 3_600_000, host.WithRunID("one")); !errors.Is(err, host.ErrConflict) && !errors.Is(err, host.ErrNotFound) {
		t.Error(err)
	}
	if _, err := l.StartRaw(ctx, "until", []byte(" 3600000 "), host.WithRunID("one")); err != nil {
		t.Error("white space makes another input:", err)
	}
}

func TestUnknownIDsAndBadInput(t *testing.T) {
	l := newLab(t)
	for name, err := range map[string]error{
		"get": func() error { _, err := l.Get(ctx, "nope"); return err }(), "cancel": func() error { _, err := l.Cancel(ctx, "nope"); return err }(),
		"start":    func() error { _, err := l.Start(ctx, "nope", nil); return err }(),
		"version":  func() error { _, err := l.Start(ctx, "zeros", 1, host.WithVersion(9)); return err }(),
		"result":   func() error { _, err := l.ResultRaw(ctx, "nope"); return err }(),
		"logs":     func() error { _, err := l.Logs(ctx, "nope", 0, 1); return err }(),
		"workflow": func() error { _, err := l.Workflows().Version(ctx, "nope", 0); return err }(),
	} {
		if !errors.Is(err, host.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"id":       func() error { _, err := l.Start(ctx, "zeros", 1, host.WithRunID("a b")); return err }(),
		"workflow": func() error { _, err := l.Start(ctx, "a/b", 1); return err }(),
		"input":    func() error { _, err := l.Start(ctx, "zeros", func() {}); return err }(),
	} {
		if !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := l.StartRaw(ctx, "zeros", make([]byte, 2<<20)); !errors.Is(err, host.ErrLimit) {
		t.Error(err)
	}
}

func TestVersions(t *testing.T) {
	l := newLab(t)
	v1, err := l.Upload(ctx, "s01", hosttest.Build(t, "testdata/s01"))
	if err != nil {
		t.Fatal(err)
	}
	old := l.begin("s01", 2*24*3_600_000)
	l.Settle()
	v2, err := l.Upload(ctx, "s01", hosttest.Build(t, "testdata/v2"))
	if err != nil || v2.Number != v1.Number+1 || !v2.New {
		t.Fatal(v2, err)
	}
	if again, err := l.Upload(ctx, "s01", hosttest.Build(t, "testdata/v2")); err != nil || again.New || again.Number != v2.Number {
		t.Fatal(again, err)
	}
	next := l.begin("s01", 1000)
	l.Finish(next)
	l.Finish(old)
	a, err1 := host.Result[string](ctx, l.Host.Host, old)
	b, err2 := host.Result[string](ctx, l.Host.Host, next)
	if a != "ab" || b != "v2" || err1 != nil || err2 != nil {
		t.Fatal(a, b, err1, err2)
	}
}

func TestDeleteVersion(t *testing.T) {
	l := newLab(t)
	upload := func(name, dir string) uint32 {
		t.Helper()
		v, err := l.Upload(ctx, name, hosttest.Build(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		return v.Number
	}
	v1 := upload("s01", "testdata/s01")
	id := l.begin("s01", 1000)
	l.Settle()
	var conflict *host.RunError
	for _, when := range []string{"asleep", "ended"} {
		err := l.Workflows().DeleteVersion(ctx, "s01", v1)
		if !errors.Is(err, host.ErrConflict) || !strings.Contains(err.Error(), id) || errors.As(err, &conflict) {
			t.Fatalf("while its run is %s: %v", when, err)
		}
		l.Finish(id)
	}
	want(t, run[string](l, "s01", 5), "ab") // and it is still there
	v2 := upload("s01", "testdata/v2")
	if err := l.Workflows().DeleteVersion(ctx, "s01", v2); err != nil {
		t.Fatal(err)
	}
	if err := l.Workflows().DeleteVersion(ctx, "s01", v2); !errors.Is(err, host.ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := l.Start(ctx, "s01", 1, host.WithVersion(v2)); !errors.Is(err, host.ErrNotFound) {
		t.Fatal(err)
	}
	if err := l.Workflows().DeleteVersion(ctx, "s01", 0); !errors.Is(err, host.ErrInvalid) {
		t.Fatal(err)
	}
	versions, err := l.Workflows().LiveVersions(ctx, "s01")
	if err != nil || len(versions) != 1 || versions[0].Number != v1 || versions[0].Live != 0 {
		t.Fatal(versions, err)
	}
	want(t, run[string](l, "s01", 6), "ab") // the latest is the first again
	want(t, upload("s01", "testdata/v2"), v2+1)
}

func TestClockAndRandom(t *testing.T) {
	l := newLab(t)
	a := l.begin("clock", 0)
	l.Settle()
	l.Crash()
	b := l.begin("clock", 0)
	l.Finish(a)
	l.Finish(b)
	x, _ := host.Result[[]string](ctx, l.Host.Host, a)
	y, _ := host.Result[[]string](ctx, l.Host.Host, b)
	if len(x) != 4 || x[1] == y[1] || x[3] == y[3] || x[1] == x[3] || x[0] != "2026-01-05T08:00:00Z" || x[2] != "2026-01-05T09:00:00Z" {
		t.Fatal(x, y)
	}
}

func TestEndlessLoop(t *testing.T) {
	l := newLab(t, hosttest.WithConfig(func(c *host.Config) { c.MaxFuel = 200_000_000 }))
	bad := l.begin("loop", 0)
	good := l.begin("zeros", 10)
	want(t, l.Finish(good).Status, host.Completed)
	want(t, l.Finish(bad).Status, host.Failed)
	if _, err := l.ResultRaw(ctx, bad); err == nil || !strings.Contains(err.Error(), "the limit is about 200ms") {
		t.Fatal(err)
	}
}

// TestReplayOfAnEndlessLoop: a run that computes forever, live or terminated, is valid, and its replay ends.
func TestReplayOfAnEndlessLoop(t *testing.T) {
	m := wasmgen.New(0)
	m.Text("nap").I64(1000).Call(abi.FnSleep).Drop()
	l := handmade(t, m.While().EndWhile().I32(0), hosttest.WithConfig(func(c *host.Config) { c.MaxFuel, c.MaxInstances = 1e12, 4 }))
	const ended, live = "ended", "r"
	_, err := l.StartRaw(ctx, "w", nil, host.WithRunID(ended))
	do(t, err)
	next, _ := l.Settle()
	l.Clock.Set(next)
	for l.Stats().Instances < 2 { // both compute
		runtime.Gosched()
	}
	do(t, l.Terminate(ctx, ended))
	l.Kill()
	h, err := host.Open(ctx, host.Config{Store: l.OpenStore(), Dir: l.Dir(), Clock: l.Clock, MaxFuel: 200_000_000, Partitions: []int{}})
	do(t, err)
	defer func() { _ = h.Close() }()
	for _, id := range []string{ended, live} {
		if err := h.Replay(ctx, id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestDeadlockAndPanicAreShown(t *testing.T) {
	l := newLab(t)
	for name, parts := range map[string][]string{"deadlock": {"can never come", "main.go:", "goroutine"}, "panic": {"panic: as it must", "main.go:"}} {
		id := l.begin(name, 0)
		want(t, l.Finish(id).Status, host.Failed)
		var re *host.RunError
		_, err := l.ResultRaw(ctx, id)
		if !errors.As(err, &re) {
			t.Fatal(err)
		}
		for _, part := range parts {
			if !strings.Contains(string(re.JSON), part) {
				t.Errorf("%s: %s misses %q", name, re.JSON, part)
			}
		}
	}
}

func TestWakeSkipsSleeps(t *testing.T) {
	l := newLab(t)
	id := l.begin("until", int64(240*time.Hour/time.Millisecond))
	l.Settle()
	if n, err := l.Wake(ctx, id, "other"); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := l.Wake(ctx, id, "until"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	want(t, l.Finish(id).Status, host.Completed)
	want(t, l.Clock.Now(), hosttest.Epoch)
}

func TestUploadRefused(t *testing.T) {
	l := newLab(t)
	var re *host.RejectError
	if _, err := l.Upload(ctx, "x", []byte("hello")); !errors.As(err, &re) || !errors.Is(err, host.ErrRejected) {
		t.Fatal(err)
	}
	if _, err := l.Upload(ctx, "nobody", hosttest.Build(t, "testdata/s01")); err == nil || !strings.Contains(err.Error(), `"nobody"`) {
		t.Fatal(err)
	}
}

// TestCommits counts group commits, each with one fsync: k sequential steps cost k + 1, a wake without a step 1, a
// wake with one step 2.
func TestCommits(t *testing.T) {
	for _, k := range []int{0, 1, 2, 5} {
		l := newLab(t)
		warm := l.begin("count", 1)
		l.Finish(warm)
		from := l.Commits()
		id := l.begin("count", k)
		l.Finish(id)
		want(t, l.Commits()-from, k+1)
	}
	l := newLab(t)
	id := l.begin("iterate", 2) // step, sleep, step, sleep
	l.Settle()
	from := l.Commits()
	l.Advance(3 * time.Second)
	want(t, l.Commits()-from, 2)
	from = l.Commits()
	l.Advance(3 * time.Second)
	want(t, l.Commits()-from, 1)
	want(t, l.Finish(id).Status, host.Completed)
}

func TestListWhileRunsChange(t *testing.T) {
	l := newLab(t)
	for i := range 30 {
		l.begin("until", 1000*i, host.WithRunID(fmt.Sprintf("r%02d", i)))
	}
	l.Settle()
	var ids []string
	for q := (host.Query{Limit: 7}); ; {
		page, err := l.RunPage(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Runs {
			ids = append(ids, r.ID)
		}
		q.Cursor = page.Next
		if q.Cursor == "" {
			break
		}
		l.Advance(4 * time.Second)
	}
	want(t, len(ids), 30)
	slices.Sort(ids)
	want(t, len(slices.Compact(ids)), 30)
	for r, err := range l.Runs(ctx, host.Query{Workflow: "until", Status: host.Completed}) {
		if err != nil || r.Status != host.Completed {
			t.Fatal(r, err)
		}
	}
}

// repoint changes the module of a stored run without the host, as an in-place upgrade would.
func repoint(l *lab, id string, module store.Digest, status host.Status) {
	l.t.Helper()
	s := l.OpenStore()
	st, err := s.State(ctx, store.RunKey{ID: id})
	if err != nil {
		l.t.Fatal(err)
	}
	p, err := s.Acquire(ctx, st.Run.Partition(), "test", 0)
	if err != nil {
		l.t.Fatal(err)
	}
	st.Module, st.Status, st.Reason, st.WakeUnixMs = module, status, "", l.Clock.Now().UnixMilli()
	if err := p.Commit(ctx, []store.RunCommit{{Run: st.Run, Expect: st.Length, State: st}}); err != nil {
		l.t.Fatal(err)
	}
}

func TestChangedOrderIsStuck(t *testing.T) {
	l := newLab(t)
	v1, err := l.Upload(ctx, "s01", hosttest.Build(t, "testdata/s01"))
	if err != nil {
		t.Fatal(err)
	}
	id := l.begin("s01", 3_600_000)
	l.Settle()
	v2, err := l.Upload(ctx, "s01", hosttest.Build(t, "testdata/v2"))
	if err != nil {
		t.Fatal(err)
	}
	before := l.kinds(id)
	l.Kill()
	repoint(l, id, v2.Module, host.Queued)
	l.Reopen()
	l.Settle()
	r, err := l.Get(ctx, id)
	if err != nil || r.Status != host.Stuck || !strings.Contains(r.Reason, `body "a"`) || !strings.Contains(r.Reason, `sleep "nap"`) {
		t.Fatalf("%+v %v", r, err)
	}
	if !slices.Equal(before, l.kinds(id)) {
		t.Fatal("the journal of a stuck run was changed")
	}
	if _, err := l.ResultRaw(ctx, id); !errors.Is(err, host.ErrMismatch) {
		t.Fatal(err)
	}
	if err := l.Replay(ctx, id); !errors.Is(err, host.ErrMismatch) {
		t.Fatal(err)
	}
	l.Kill()
	repoint(l, id, v1.Module, host.Queued)
	l.Reopen()
	want(t, l.Finish(id).Status, host.Completed)
	if err := l.Replay(ctx, id); err != nil {
		t.Fatal(err)
	}
}

func TestHandlerMissingAfterRestart(t *testing.T) {
	entered := make(chan struct{}, 9)
	registered := true
	gate := func(h *host.Host, wait bool) {
		host.HandleStep(h, "gate", func(ctx context.Context, _ string) (string, error) {
			entered <- struct{}{}
			if wait {
				<-ctx.Done()
			}
			return "done", ctx.Err()
		})
	}
	l := newLab(t, hosttest.WithHandlers(func(h *host.Host) {
		if registered {
			gate(h, true)
		}
	}))
	id := l.begin("call", request{Handler: "host/gate"})
	<-entered
	registered = false
	for range 2 { // it waits across restarts and does not keep the host busy
		l.Kill()
		l.Reopen()
		l.Settle()
		r, err := l.Get(ctx, id)
		if err != nil || r.Status != host.Waiting || r.Reason != `handler "host/gate" is not registered here` {
			t.Fatalf("%+v %v", r, err)
		}
	}
	gate(l.Host.Host, false)
	want(t, l.Finish(id).Status, host.Completed)
}

func TestStoreFailureIsLoud(t *testing.T) {
	l := newLab(t)
	l.CrashAt(1, false)
	if _, err := l.Start(ctx, "iterate", 3); err == nil {
		l.Advance(time.Hour)
	}
	if _, err := l.Start(ctx, "iterate", 3); !errors.Is(err, host.ErrStoreFailed) {
		t.Fatal(err)
	}
}

func TestGrants(t *testing.T) {
	l := newLab(t)
	wasm := napModule()
	v, err := l.Upload(ctx, "granted", wasm, host.AllowStep("b", "a", "b"), host.AllowHTTP("api.example.com"),
		host.AllowSecret("KEY", "api.example.com", "Authorization"))
	if err != nil || fmt.Sprint(v.Steps, v.HTTP, v.Secrets) != "[a b] [api.example.com] [KEY=api.example.com,Authorization]" {
		t.Fatalf("%+v %v", v, err)
	}
	// Without grants, the next version has the same ones. A grant replaces only grants of its own kind.
	again, err := l.Upload(ctx, "granted", wasm)
	if err != nil || again.New {
		t.Fatalf("%+v %v", again, err)
	}
	fewer, err := l.Upload(ctx, "granted", wasm, host.AllowStep())
	if err != nil || fewer.Number != 2 || len(fewer.Steps) != 0 || len(fewer.HTTP) != 1 || len(fewer.Secrets) != 1 {
		t.Fatalf("%+v %v", fewer, err)
	}
	for name, opt := range map[string]host.UploadOption{
		"pattern": host.AllowHTTP("ftp://x"), "secret": host.AllowSecret("", "api.example.com", "X"),
		"secret's pattern": host.AllowSecret("A", "a b", "X"), "text": host.AllowSecretText("nonsense"),
	} {
		if _, err := l.Upload(ctx, "granted", wasm, opt); !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// collect returns what a list holds.
func collect[T any](list iter.Seq2[T, error]) (all []T, err error) {
	for x, err := range list {
		if err != nil {
			return all, err
		}
		all = append(all, x)
	}
	return all, nil
}
