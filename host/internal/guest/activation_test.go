package guest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// scripted is an engine whose guests are functions.
type scripted struct {
	engine.Engine
	live atomic.Int32 // instances
	call func(export string, h engine.Host) (int32, error)
	slow bool // to compile takes until its context ends
	mu   sync.Mutex
	made []weak.Pointer[scriptedInstance]
}

type scriptedModule struct {
	engine.Module
	e *scripted
}

type scriptedInstance struct {
	engine.Instance
	e *scripted
}

func (e *scripted) Trim(context.Context) (closed, left int) { return 0, 0 }

func (e *scripted) Compile(ctx context.Context, _ engine.Source) (engine.Module, error) {
	if e.slow {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return &scriptedModule{e: e}, nil
}

func (m *scriptedModule) HasExport(name string) bool {
	return name == abi.ExportRun || name == abi.ExportStep
}
func (m *scriptedModule) Overhead() int64             { return 0 }
func (m *scriptedModule) Bytes() int64                { return 0 }
func (m *scriptedModule) Close(context.Context) error { return nil }
func (m *scriptedModule) Instantiate(context.Context) (engine.Instance, error) {
	m.e.live.Add(1)
	i := &scriptedInstance{e: m.e}
	m.e.mu.Lock()
	m.e.made = append(m.e.made, weak.Make(i))
	m.e.mu.Unlock()
	return i, nil
}

func (i *scriptedInstance) Call(_ context.Context, export string, h engine.Host) (int32, error) {
	return i.e.call(export, h)
}
func (i *scriptedInstance) AllowFork()                    {}
func (i *scriptedInstance) Fork(engine.Host) bool         { return false }
func (i *scriptedInstance) Freeze() (engine.Frozen, bool) { return nil, false }
func (i *scriptedInstance) Thaw(engine.Frozen) bool       { return false }
func (i *scriptedInstance) Resident() int64               { return 1 << 20 }
func (i *scriptedInstance) Fuel() int64                   { return 0 }
func (i *scriptedInstance) Size() int64                   { return 1 << 20 }
func (i *scriptedInstance) Release(context.Context) int64 {
	i.e.live.Add(-1)
	return i.Resident()
}

// paper is an Events that records events.
type paper struct {
	events chan run.Event
}

func (p *paper) Guest(_ *run.Lease, ev run.Event)    { p.events <- ev }
func (p *paper) Ready(l *run.Lease)                  { p.events <- run.GuestReady{Lease: l} }
func (p *paper) Inside(_ store.RunKey, ev run.Event) { p.events <- ev }

func (p *paper) next(t *testing.T) run.Event {
	t.Helper()
	synctest.Wait()
	select {
	case ev := <-p.events:
		return ev
	default:
		t.Fatal("no event")
		return nil
	}
}

func reviewRunner(t *testing.T, e *scripted, cfg Config) (*Runner, store.Digest) {
	t.Helper()
	s := memstore.New().Open()
	d, err := s.Modules().Put(t.Context(), []byte("wasm"), store.ModuleInfo{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Store, cfg.Engine, cfg.Clock = s, e, clock.System()
	cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	cfg.Random, cfg.Handled = func([]byte) {}, func(string) bool { return true }
	cfg.MaxSegmentCPU, cfg.MaxHostCalls, cfg.MaxFuel, cfg.Linger = time.Minute, 1000, 1<<40, time.Minute
	return NewRunner(cfg), d
}

func newReviewRun(t *testing.T, d store.Digest) (*run.Run, *run.Lease) {
	t.Helper()
	key := store.RunKey{Namespace: 1, ID: "r"}
	r := run.New(key, run.Config{Active: true})
	fx := r.Apply(1000, run.Start{New: run.NewRun{Key: key, Workflow: "w", Version: 1, Module: d, Seed: make([]byte, 32)}})
	if fx.Err != nil || fx.Activate == nil {
		t.Fatal(fx.Err, fx.Activate)
	}
	return r, fx.Activate
}

// TestNoLogOfAnUnlentRun: a guest is parked with an incomplete log line, and its host is drained. The guest does not
// write to its run, which is no longer lent to it.
func TestNoLogOfAnUnlentRun(t *testing.T) { synctest.Test(t, testNoLogOfAnUnlentRun) }

func testNoLogOfAnUnlentRun(t *testing.T) {
	e := &scripted{call: func(_ string, h engine.Host) (int32, error) {
		n, err := h.Step("s", abi.HandlerPrefix+"x", nil, nil)
		if err != nil || n < 0 {
			return 1, err
		}
		h.Output(1, []byte("one, "))
		if _, err := h.Await([]int64{n}); err != nil {
			return 0, err
		}
		h.Output(1, []byte("two\n"))
		return 0, nil
	}}
	r, d := reviewRunner(t, e, Config{MaxInstances: 1, GuestBytes: 1 << 30, ParkBytes: 1 << 30})
	defer r.Close()
	if _, err := r.cfg.Store.Modules().AddVersions(t.Context(), []store.VersionSpec{{Namespace: 1, Workflow: "w", Module: d,
		Grants: store.Grants{Steps: []string{"*"}}}}); err != nil {
		t.Fatal(err)
	}
	of, lease := newReviewRun(t, d)
	events := &paper{events: make(chan run.Event, 10)}
	ended := make(chan struct{})
	now := time.Now().UnixMilli()
	r.Activate(lease, Woken, events, func() { close(ended) })
	var start []*run.Attempt
	act := lease.Guest.(*Activation)
	stepped := func(ev run.Event) {
		fx := of.Apply(now, ev)
		start = append(start, fx.Start...)
		for _, o := range fx.Orders {
			act.Order(o.Order)
		}
	}
	stepped(events.next(t)) // ready
	stepped(events.next(t)) // waits: parked
	if len(start) != 1 {
		t.Fatal("attempts:", len(start))
	}
	other := r.admission.NewPlace(1)
	if err := other.Enter(t.Context(), Woken, nil); err != nil { // somebody else computes
		t.Fatal(err)
	}
	of.Prepare(now)
	stepped(run.AttemptEnds{Attempt: start[0], Outcome: run.StepOutcome{Data: []byte("1")}}) // resumes, without a place
	synctest.Wait()                                                                          // it waits for one
	if of.Lent() {
		t.Fatal("it is lent")
	}
	r.Drain()
	<-ended
	defer func() { <-time.After(time.Second) }() // the goroutine waits for more work for a while
	c := of.Prepare(now)
	if c != nil && len(c.Logs) > 0 {
		t.Errorf("a guest that was not lent its run has written %+v", c.Logs)
	}
}

// TestNoInstanceWhileAnAttemptRuns: the run of a guest that has given its instance up does not keep the instance while an attempt is
// in flight.
func TestNoInstanceWhileAnAttemptRuns(t *testing.T) {
	synctest.Test(t, testNoInstanceWhileAnAttemptRuns)
}

func testNoInstanceWhileAnAttemptRuns(t *testing.T) {
	e := &scripted{call: func(_ string, h engine.Host) (int32, error) {
		n, err := h.Step("s", abi.HandlerPrefix+"x", nil, nil)
		if err != nil || n < 0 {
			return 1, err
		}
		_, err = h.Await([]int64{n})
		return 0, err
	}}
	r, d := reviewRunner(t, e, Config{MaxInstances: 1, GuestBytes: 1 << 30, ParkBytes: 1 << 30})
	defer r.Close()
	if _, err := r.cfg.Store.Modules().AddVersions(t.Context(), []store.VersionSpec{{Namespace: 1, Workflow: "w", Module: d,
		Grants: store.Grants{Steps: []string{"*"}}}}); err != nil {
		t.Fatal(err)
	}
	of, lease := newReviewRun(t, d)
	events, ended := &paper{events: make(chan run.Event, 10)}, make(chan struct{})
	r.Activate(lease, Woken, events, func() { close(ended) })
	act, now, started := lease.Guest.(*Activation), time.Now().UnixMilli(), 0
	stepped := func(ev run.Event) {
		fx := of.Apply(now, ev)
		started += len(fx.Start)
		for _, o := range fx.Orders {
			act.Order(o.Order)
		}
	}
	stepped(events.next(t)) // ready
	stepped(events.next(t)) // waits: parked
	stepped(run.Evict{Lease: lease})
	<-ended
	<-time.After(time.Second) // the goroutine waits a while for more to do
	runtime.GC()
	if len(of.Attempts()) != 1 || started != 1 || len(e.made) != 1 {
		t.Fatalf("%d attempts, %d started, %d instances", len(of.Attempts()), started, len(e.made))
	}
	if e.made[0].Value() != nil {
		t.Error("the instance is still in memory")
	}
	runtime.KeepAlive(lease)
}

// TestHaltOfRefused: an activation that a closed runner refuses may be halted before its run gets the refusal.
func TestHaltOfRefused(t *testing.T) {
	r, d := reviewRunner(t, &scripted{}, Config{MaxInstances: 1, GuestBytes: 1 << 30})
	r.Close()
	_, lease := newReviewRun(t, d)
	r.Activate(lease, Woken, &paper{events: make(chan run.Event, 10)}, func() {})
	lease.Guest.(*Activation).Halt(errors.New("the partition was lost"))
}

// TestFetchingBodiesCount: step functions that wait for a request keep their instances, which count. Closing a host
// while it compiles a module is not a fault: three faults would make the run stuck.
func TestCloseWhileCompiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := reviewRunner(t, &scripted{slow: true}, Config{MaxInstances: 1, GuestBytes: 1 << 30})
		_, l := newReviewRun(t, d)
		events, done := &paper{events: make(chan run.Event, 16)}, make(chan struct{})
		r.Activate(l, Woken, events, func() { close(done) })
		synctest.Wait()
		r.Close()
		<-done
		if ev, ok := events.next(t).(run.GuestEnds); !ok || ev.End.Fault != nil || !ev.End.Evicted {
			t.Errorf("it ended with %+v", ev)
		}
		<-time.After(time.Second) // as above
	})
}

func TestFetchingBodiesCount(t *testing.T) { synctest.Test(t, testFetchingBodiesCount) }

func testFetchingBodiesCount(t *testing.T) {
	const n = 64
	release := make(chan struct{})
	var fetching atomic.Int32
	e := &scripted{call: func(_ string, h engine.Host) (int32, error) {
		h.Fetch([]byte("x"))
		return 0, nil
	}}
	r, d := reviewRunner(t, e, Config{MaxInstances: 2, GuestBytes: 4 << 20, Fetch: func(ctx context.Context, _ store.Grants,
		_ store.RunKey, _ []byte) ([]byte, error) {
		fetching.Add(1)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil, nil
	}})
	defer r.Close()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			a := &run.Attempt{Try: run.Try{Run: run.AttemptSubject{Module: d, Workflow: "w"}, Name: "s", Target: "fn", Number: 1,
				Options: abi.StepOptions{TimeoutMs: 60_000, Attempts: 1}}}
			r.Perform(t.Context(), a, &paper{events: make(chan run.Event, 10)}, func() {})
		})
	}
	synctest.Wait()
	counted, _, _ := r.Usage()
	if live := e.live.Load(); int64(live)<<20 > 4<<20 {
		t.Errorf("%d instances live and take %d MiB, %d of them fetch; the limit is 4 MiB, admission counts %d instances",
			live, live, fetching.Load(), counted)
	}
	close(release)
	wg.Wait()
}
