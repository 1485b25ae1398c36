package host_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

type childPlan struct {
	Child   string
	Sleep   int
	OnEnd   string
	Timeout int
	ID      string
}

func TestChildren(t *testing.T) {
	p := newPrims(t)
	ok := p.begin("parent", childPlan{Child: "child", Sleep: 60, OnEnd: "cancel"}, host.WithRunID("p1"))
	p.Crash()
	text := result[string](p, ok)
	id, rest, _ := strings.Cut(text, " ")
	if rest != "child slept" || !strings.HasPrefix(id, "p1.") {
		t.Fatal(text)
	}
	r, err := p.Get(ctx, id)
	if err != nil || r.Parent != "p1" || r.Attributes["kind"] != "child" || string(r.Memo) != `{"of":"a <parent> & co"}` || r.Status != host.Completed {
		t.Fatalf("%+v %v", r, err)
	}
	for plan, part := range map[childPlan]string{
		{Child: "child", Sleep: 13, OnEnd: "cancel"}:                 "failed: child \"the child\"",
		{Child: "nobody", OnEnd: "cancel"}:                           "not found",
		{Child: "child", Sleep: 60, OnEnd: "cancel", ID: "p1"}:       "exists",
		{Child: "child", Sleep: 60, OnEnd: "cancel", Timeout: 5}:     "within the time",
		{Child: "child", Sleep: 60, OnEnd: "cancel", ID: "not ok"}:   "refused: ",
		{Child: "child", Sleep: 60, OnEnd: "sometimes", ID: "fine"}:  "refused: ",
		{Child: "bad name!", Sleep: 60, OnEnd: "cancel", ID: "fine"}: "refused: ",
	} {
		if text := result[string](p, p.begin("parent", plan)); !strings.Contains(text, part) {
			t.Errorf("%+v: %s", plan, text)
		}
	}
}

// TestCancelCascade ends a parent in different ways while its child sleeps.
func TestCancelCascade(t *testing.T) {
	for onEnd, status := range map[string]host.Status{"cancel": host.Cancelled, "terminate": host.Terminated, "abandon": host.Sleeping} {
		for name, end := range map[string]func(*prims, string){
			"cancelled":  func(p *prims, id string) { _, _ = p.Cancel(ctx, id) },
			"terminated": func(p *prims, id string) { _ = p.Terminate(ctx, id) },
		} {
			p := newPrims(t)
			id := p.begin("parent", childPlan{Child: "child", Sleep: 3600, OnEnd: onEnd, ID: "kid"})
			want(t, p.status("kid"), host.Sleeping)
			end(p, id)
			p.Settle()
			if got := p.status("kid"); got != status {
				t.Errorf("parent %s, on_end %s: the child is %s", name, onEnd, got)
			}
		}
	}
	p := newPrims(t) // the parent completes without waiting for its child
	id := p.begin("parent", childPlan{Child: "child", Sleep: -1, OnEnd: "cancel", ID: "kid"})
	want(t, result[string](p, id), "kid")
	p.Settle()
	want(t, p.status("kid"), host.Cancelled)
}

func TestChildIsCancelled(t *testing.T) {
	p := newPrims(t)
	id := p.begin("parent", childPlan{Child: "child", Sleep: 3600, OnEnd: "cancel", ID: "kid"})
	if _, err := p.Cancel(ctx, "kid"); err != nil {
		t.Fatal(err)
	}
	if text := result[string](p, id); !strings.HasPrefix(text, "cancelled: ") {
		t.Fatal(text)
	}
}

func TestChildDepth(t *testing.T) {
	p := newPrims(t)
	want(t, result[int](p, p.begin("deep", 0)), 16)
}

// TestChildCrashes kills the host at every commit of a parent and its child, before and after the commit.
func TestChildCrashes(t *testing.T) {
	p := newPrims(t)
	p.Finish(p.begin("parent", childPlan{Child: "child", Sleep: 60, OnEnd: "cancel", ID: "warm"}))
	for n := range 12 {
		for _, after := range []bool{false, true} {
			id := fmt.Sprintf("kid-%d-%v", n, after)
			parent, err := p.Start(ctx, "parent", childPlan{Child: "child", Sleep: 60, OnEnd: "cancel", ID: id}, host.WithStartIn(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			p.Settle()
			p.CrashAt(n, after)
			p.Advance(2 * time.Minute)
			if p.Crashed() {
				p.Kill()
				p.Reopen()
			} else {
				p.CrashAt(1<<30, false)
			}
			want(t, result[string](p, parent.ID), id+" child slept")
			want(t, p.status(id), host.Completed)
			starts := 0
			for e, err := range p.Journal(ctx, id, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Kind.String() == "sleep" {
					starts++
				}
			}
			want(t, starts, 1)
		}
	}
}

// shrinking is a workflow that continues as new with an input that is one byte shorter, until the input is empty.
func shrinking() []byte {
	m := wasmgen.New(1)
	m.Pages = 4
	m.I32(65536).I32(65536).Call(abi.FnInput).Set(0)
	m.Get(0).IfZero64().Text("done").Call(abi.FnComplete).Drop().I32(0).Op(0x0f).End()
	m.I32(65536).Get(0).Op(0xa7).I32(1).Op(0x6b).I32(0).I32(0).Call(abi.FnContinueAsNew) // length - 1
	return m.I32(1).Export(abi.ExportRun).Bytes()
}

func TestTenThousandIterations(t *testing.T) {
	p := newPrims(t)
	n := 10_000
	if testing.Short() {
		n = 200
	}
	if _, err := p.Upload(ctx, "shrinking", shrinking()); err != nil {
		t.Fatal(err)
	}
	r, err := p.StartRaw(ctx, "shrinking", make([]byte, n))
	if err != nil {
		t.Fatal(err)
	}
	r = p.Finish(r.ID)
	if b, err := p.ResultRaw(ctx, r.ID); err != nil || string(b) != "done" || r.Iteration != uint32(n) || r.Entries != 3 {
		t.Fatalf("%q %v %+v", b, err, r)
	}
}

// chatty is a workflow that emits until it is refused, then continues as new, and completes.
func chatty() []byte {
	m := wasmgen.New(1)
	m.I32(0).I32(0).Call(abi.FnInput).IfZero64()
	m.Op(0x03, 0x40).Text("t").I32(0).I32(0).Call(abi.FnEmit).Set(0).Get(0).I64(0).Op(0x59, 0x0d, 0x00, 0x0b) // while it answers 0 or more
	m.I32(16).Get(0).Store64().I32(16).I32(8).I32(0).I32(0).Call(abi.FnContinueAsNew).End()
	m.I32(0).I32(0).Call(abi.FnInput).Drop().I32(16).I32(8).Call(abi.FnInput).Drop()
	m.I32(16).I32(8).Call(abi.FnComplete).Drop()
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

// TestFullJournal fills a journal with calls: a tenth is reserved for deliveries, and continuing as new still works.
func TestFullJournal(t *testing.T) {
	var log strings.Builder
	p := newPrims(t, hosttest.WithConfig(func(c *host.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }))
	if _, err := p.Upload(ctx, "chatty", chatty()); err != nil {
		t.Fatal(err)
	}
	id := p.begin("chatty", nil)
	r := p.Finish(id)
	b, err := p.ResultRaw(ctx, id)
	if err != nil || len(b) != 8 || int64(binary.LittleEndian.Uint64(b)) != abi.Limit.Neg() {
		t.Fatal(b, err)
	}
	if want := uint64(abi.MaxEntries - abi.MaxEntries/abi.DeliveryReserveShare - 2); r.Iteration != 1 || r.Output+1 < want || r.Output > want {
		t.Fatalf("%+v, want %d chunks", r, want)
	}
	p.Stop()
	if !strings.Contains(log.String(), "journal has become long") {
		t.Fatalf("no warning: %s", log.String())
	}
}

func TestContinueAsNew(t *testing.T) {
	p := newPrims(t)
	n := 40
	if testing.Short() {
		n = 5
	}
	id := p.begin("counter", n)
	want(t, result[int](p, id), n)
	r, err := p.Get(ctx, id)
	if err != nil || r.Iteration != uint32(n) || r.Entries > 10 {
		t.Fatalf("%+v %v", r, err)
	}
}

// TestContinueKeeps carries signals, output and attributes over to the next iteration, with restarts on the way.
func TestContinueKeeps(t *testing.T) {
	p := newPrims(t)
	id := p.begin("collect", map[string]any{"Left": 4}, host.WithAttributes(map[string]string{"a": "b"}), host.WithSignal("go", "1"))
	p.signal(id, "go", "2", host.WithIdempotencyKey("two"))
	p.Crash()
	p.signal(id, "go", "2", host.WithIdempotencyKey("two")) // known in the next iteration too
	p.signal(id, "go", "3")
	p.signal(id, "go", "4")
	want(t, result[string](p, id), "1,2,3,4")
	r, err := p.Get(ctx, id)
	if err != nil || r.Iteration != 4 || r.Attributes["a"] != "b" || r.Output != 4 {
		t.Fatalf("%+v %v", r, err)
	}
	var out []string
	for c, err := range p.Output(ctx, id, "progress", 0) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(c.Data))
	}
	want(t, fmt.Sprint(out), "[4 3 2 1]")
}

func TestContinueCrashes(t *testing.T) {
	p := newPrims(t)
	for n := range 10 {
		for _, after := range []bool{false, true} {
			id := fmt.Sprintf("c-%d-%v", n, after)
			if _, err := p.Start(ctx, "counter", 3, host.WithRunID(id), host.WithStartIn(time.Second)); err != nil {
				t.Fatal(err)
			}
			p.Settle()
			p.CrashAt(n, after)
			p.Advance(time.Minute)
			if p.Crashed() {
				p.Kill()
				p.Reopen()
			} else {
				p.CrashAt(1<<30, false)
			}
			want(t, result[int](p, id), 3)
		}
	}
}

func TestQueries(t *testing.T) {
	p := newPrims(t)
	id := p.begin("counter", 5)
	ask := func(name string, input any) (string, error) {
		b, err := p.Query(ctx, id, name, input)
		return string(b), err
	}
	before := p.Commits()
	if got, err := ask("count", 10); err != nil || got != "15" {
		t.Fatal(got, err)
	}
	var q *host.QueryError
	if _, err := ask("fail", 0); !errors.As(err, &q) || !strings.Contains(err.Error(), "not today") {
		t.Fatal(err)
	}
	if _, err := ask("sleep", 0); !errors.As(err, &q) || !strings.Contains(err.Error(), "body or a query") && !strings.Contains(err.Error(), "NOT_HERE") && !strings.Contains(err.Error(), "belongs to the workflow") {
		t.Fatal(err)
	}
	if _, err := ask("nothing", 0); !errors.Is(err, host.ErrNotFound) || !strings.Contains(err.Error(), "count") {
		t.Fatal(err)
	}
	if _, err := ask("count", "text"); !errors.As(err, &q) {
		t.Fatal(err)
	}
	want(t, p.Commits(), before) // nothing was written
	p.Advance(3 * time.Second)
	if got, err := ask("count", 0); err != nil || got != "2" {
		t.Fatal(got, err)
	}
	want(t, result[int](p, id), 5)
	if got, err := ask("count", 1); err != nil || got != "1" { // at the end of its last iteration, with none left
		t.Fatal(got, err)
	}
	other := p.begin("receive", 1)
	if _, err := p.Query(ctx, other, "x", nil); !errors.As(err, &q) {
		t.Fatal(err)
	}
	if _, err := p.Query(ctx, "nobody", "x", nil); !errors.Is(err, host.ErrNotFound) {
		t.Fatal(err)
	}
}

// TestQueryOnTheWayToTheEnd queries a run that has received what it waited for, but has not ended yet.
func TestQueryOnTheWayToTheEnd(t *testing.T) {
	h := hosttest.New(t)
	_, err := h.Upload(ctx, "collector", hosttest.Build(t, "testdata/collector"))
	do(t, err)
	_, err = h.Start(ctx, "collector", nil, host.WithRunID("r"))
	do(t, err)
	h.Settle()
	_, err = h.Pause(ctx, "r")
	do(t, err)
	do(t, h.Signal(ctx, "r", "s", -1))
	if n, err := h.Query(ctx, "r", "n", nil); err != nil || string(n) != "0" { // it is paused where it waits
		t.Error(string(n), err)
	}
	_, err = h.Unpause(ctx, "r")
	do(t, err)
	h.Settle()
	if n, err := h.Query(ctx, "r", "n", nil); err != nil || string(n) != "0" {
		t.Error(string(n), err)
	}
}

// TestContinueDropsWhatIsOpen continues as new with an open child, hook and sleep: the child is cancelled, and the
// next iteration can claim the token.
func TestContinueDropsWhatIsOpen(t *testing.T) {
	p := newPrims(t)
	m := wasmgen.New(1)
	m.Text("h").Text("a-chosen-token").I32(0).I32(0).Call(abi.FnHookStart).Set(0)
	m.I32(16).Get(0).Store64().I32(16).I32(1).Call(abi.FnAwait).Drop()
	m.I32(0).I32(0).Call(abi.FnInput).IfZero64()
	m.Text("kid").Text("nap").Text("1d").Text(`{"id":"kid"}`).Call(abi.FnChildStart).Drop()
	m.Text("never").I64(86_400_000).Call(abi.FnSleepStart).Drop()
	m.Text("short").I64(1000).Call(abi.FnSleep).Drop()
	m.Text("again").I32(0).I32(0).Call(abi.FnContinueAsNew).End()
	m.I32(32).Get(0).I32(64).I32(64).Call(abi.FnResult).Store64() // the token's length, or the refusal
	m.I32(32).I32(8).Call(abi.FnComplete).Drop()
	for name, wasm := range map[string][]byte{"open": m.I32(0).Export(abi.ExportRun).Bytes(), "nap": napModule()} {
		if _, err := p.Upload(ctx, name, wasm); err != nil {
			t.Fatal(err)
		}
	}
	id := p.begin("open", nil)
	want(t, p.status("kid"), host.Sleeping)
	r := p.Finish(id)
	b, err := p.ResultRaw(ctx, id)
	if err != nil || r.Iteration != 1 || int64(binary.LittleEndian.Uint64(b)) != int64(len("a-chosen-token")) {
		t.Fatal(b, err, r)
	}
	p.Settle()
	want(t, p.status("kid"), host.Cancelled)
	if timers, err := collect(p.Timers(ctx, p.Clock.Now().Add(1000*time.Hour))); err != nil || len(timers) != 0 {
		t.Fatalf("something of the old iteration is left: %v %v", timers, err)
	}
}
