package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// TestLogOfAnIteration logs more than 64 KiB in one iteration, and little in each of its activations.
func TestLogOfAnIteration(t *testing.T) {
	f := newMixed(t)
	const n = 150
	f.begin("lines", n)
	for i := range 3 { // a restart in between does not repeat the log
		f.Advance(50 * time.Minute)
		if i < 2 {
			f.Reopen()
		}
	}
	f.finish("r", "done")
	lines, err := f.Logs(ctx, "r", 0, 1000)
	if err != nil || len(lines) != n {
		t.Fatalf("%d lines of %d, %v", len(lines), n, err)
	}
	for i, l := range lines {
		if !strings.HasPrefix(l.Text, fmt.Sprint("line ", i, " ")) {
			t.Fatalf("line %d is %.20q", i, l.Text)
		}
	}
}

// TestLogOfAnActivation logs endlessly: 64 KiB are kept.
func TestLogOfAnActivation(t *testing.T) {
	m := wasmgen.New(1).I64(0).Set(0).While().Get(0).I64(100_000).NotLess().Break().
		I32(1).Text(strings.Repeat("x", 99)).Call(abi.FnLog).Drop().Count(0, 1).EndWhile().I32(0)
	h := handmade(t, m)
	h.Finish("r")
	lines, err := h.Logs(ctx, "r", 0, 10_000)
	if n := len(lines) * 100; err != nil || n > abi.MaxLogBytes || n < abi.MaxLogBytes-100 {
		t.Error(n, err)
	}
}

// TestTimersOfARun sends many signals to a sleeping run: it has one timer.
func TestTimersOfARun(t *testing.T) {
	f := newMixed(t)
	f.begin("nap", 20_000)
	f.Settle()
	before := f.Stats().Timers
	for i := range 2000 {
		do(t, f.Signal(ctx, "r", "x", i))
	}
	f.Settle()
	if n := f.Stats().Timers; before != 1 || n != 1 {
		t.Errorf("%d timers, %d after the signals", before, n)
	}
	f.finish("r", "slept")
	if n := f.Stats().Timers; n != 0 {
		t.Errorf("%d timers after its end", n)
	}
}

// late registers a handler.
func late(h *host.Host, name string) {
	host.HandleStep(h, name, func(_ context.Context, in string) (string, error) { return name, nil })
}

// TestMissingHandler makes steps whose handlers are not registered: the run waits, and says for which, until they
// are.
func TestMissingHandler(t *testing.T) {
	registered := map[string]bool{}
	f := newMixed(t, hosttest.WithHandlers(func(h *host.Host) {
		for name := range registered {
			late(h, name)
		}
	}))
	waits := func(name string) {
		t.Helper()
		for range 2 { // it stays so across a restart, and does not block the host
			f.Advance(time.Hour)
			if r := f.is("r", host.Waiting); r.Reason != `handler "host/`+name+`" is not registered here` {
				t.Error(r.Reason)
			}
			f.Reopen()
		}
		f.Settle()
	}
	f.begin("steps", []string{"note", "one", "two", "three"})
	waits("one")
	late(f.Host.Host, "one") // while the host runs
	registered["one"] = true
	f.Settle()
	waits("two")
	registered["two"] = true
	f.Reopen() // before it runs
	f.Settle()
	waits("three")
	late(f.Host.Host, "three")
	f.finish("r", "note one two three")
}

// TestDeniedHandler makes a step that the version's grants do not allow, whether or not its handler is registered.
func TestDeniedHandler(t *testing.T) {
	f := newMixed(t)
	_, err := f.Upload(ctx, "", hosttest.Build(t, "testdata/mixed"), host.AllowStep("note"))
	do(t, err)
	for name, code := range map[string]string{"flaky": "not allowed to call", "nobody": "no handler"} {
		f.begin("steps", []string{"note", name}, host.OnConflict(host.ConflictReplace))
		f.ends("r", host.Failed)
		if _, err := f.ResultRaw(ctx, "r"); err == nil || !strings.Contains(err.Error(), code) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestControlOfAWaitingRun performs operator actions on a run that waits for a handler.
func TestControlOfAWaitingRun(t *testing.T) {
	f := newMixed(t)
	for name, act := range map[string]func(id string) error{
		"cancel":    func(id string) error { _, err := f.Cancel(ctx, id); return err },
		"terminate": func(id string) error { return f.Terminate(ctx, id) },
		"pause":     func(id string) error { _, err := f.Pause(ctx, id); return err },
		"signal":    func(id string) error { return f.Signal(ctx, id, "x", nil) },
		"timeout":   func(string) error { f.Advance(2 * time.Hour); return nil },
	} {
		_, err := f.Start(ctx, "steps", []string{name}, host.WithRunID(name), host.WithTimeout(time.Hour))
		do(t, err)
		f.Settle()
		f.is(name, host.Waiting)
		do(t, act(name))
		f.Settle()
		r, err := f.Get(ctx, name)
		want := map[string]host.Status{"cancel": host.Cancelled, "terminate": host.Terminated, "pause": host.Paused,
			"signal": host.Waiting, "timeout": host.Failed}[name]
		if err != nil || r.Status != want {
			t.Errorf("%s: %s %v", name, r.Status, err)
		}
		late(f.Host.Host, name)
		f.Settle()
	}
	_, err := f.Unpause(ctx, "pause")
	if !errors.Is(err, host.ErrTerminal) && err != nil { // its deadline may have passed
		t.Error(err)
	}
	f.Advance(2 * time.Hour)
	for r, err := range f.Runs(ctx, host.Query{}) {
		if err != nil || !r.Status.Terminal() {
			t.Error(r.ID, r.Status, err)
		}
	}
}

// TestDrain cancels Run's context during an attempt that must not be repeated: Run returns when the attempt has ended
// and its result is durable.
func TestDrain(t *testing.T) {
	n := newHandlers(t)
	data := memstore.New()
	m := wasmgen.New(0).Text("once").Text("host/stubborn").Text("null").Text(`{"at_most_once":true}`).I32(16).I32(64).
		Call(abi.FnStepDo).Drop().Text("later").I64(3_600_000).Call(abi.FnSleep).Drop().I32(0).Export(abi.ExportRun)
	h, err := host.Open(ctx, host.Config{Store: data.Open(), Drain: time.Minute, StartLinger: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	n.register(h)
	own, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- h.Run(own) }()
	_, err = h.Upload(ctx, "w", m.Bytes(), host.AllowStep("*"))
	do(t, err)
	_, err = h.Start(ctx, "w", nil, host.WithRunID("r"))
	do(t, err)
	<-n.begun
	stop()
	select {
	case err := <-done:
		t.Fatalf("Run returned while the attempt goes on: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	n.close()
	soon(t, "Run", func() { do(t, <-done) })
	if got := has(t, h, "r", store.KindStepResult); got != 1 {
		t.Errorf("%d results are durable", got)
	}
	entries := has(t, h, "r", store.KindSleep)
	do(t, h.Signal(ctx, "r", "x", nil)) // which is accepted, and activates nothing
	_, err = h.Start(ctx, "w", nil, host.WithRunID("r2"))
	do(t, err)
	_, _, err = h.WaitIdle(ctx)
	do(t, err)
	if r, err := h.Get(ctx, "r2"); err != nil || r.Status != host.Queued || !r.Started.IsZero() || h.Stats().Instances != 0 {
		t.Errorf("after Run has returned: %s, started %v, %v", r.Status, r.Started, err)
	}
	if got := has(t, h, "r", store.KindSleep); got != entries {
		t.Error("a run went on after Run had returned")
	}
	do(t, h.Close())
}

// TestDrainEnds cancels Run's context during an attempt that takes longer than Run may wait.
func TestDrainEnds(t *testing.T) {
	n := newHandlers(t)
	h, err := host.Open(ctx, host.Config{Store: memstore.New().Open(), Drain: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	n.register(h)
	own, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- h.Run(own) }()
	m := wasmgen.New(0).Text("s").Text("host/stubborn").Text("null").Text("").I32(16).I32(64).Call(abi.FnStepDo).Drop()
	_, err = h.Upload(ctx, "w", m.I32(0).Export(abi.ExportRun).Bytes(), host.AllowStep("*"))
	do(t, err)
	_, err = h.Start(ctx, "w", nil, host.WithRunID("r"))
	do(t, err)
	<-n.begun
	stop()
	soon(t, "Run", func() { do(t, <-done) })
	soon(t, "Close", func() { do(t, h.Close()) })
}

// TestManyRunsWaitForAHandler has more runs with deadlines wait for a handler than are kept in memory. They do not
// block the host.
func TestManyRunsWaitForAHandler(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	f := newMixed(t)
	const runs = 100
	large := strings.Repeat("x", abi.MaxPayloadBytes-100)
	for i := range runs {
		_, err := f.Start(ctx, "steps", []string{"nobody", large}, host.WithRunID(fmt.Sprint("r", i)), host.WithTimeout(time.Hour))
		do(t, err)
	}
	f.Settle() // fails if the host does not settle
	f.Advance(59 * time.Minute)
	for i := range runs {
		f.is(fmt.Sprint("r", i), host.Waiting)
	}
	f.Advance(time.Minute)
	for i := range runs {
		f.is(fmt.Sprint("r", i), host.Failed)
	}
}
