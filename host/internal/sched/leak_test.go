package sched_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/wazero"
	"github.com/wfhost/wfhost/host/internal/sched"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// leakyEngine copies the memory of a body's instance, when the body has ended, over that of the workflow that waits
// for it: what a body must never do.
type leakyEngine struct {
	engine.Engine
	leak bool

	mu    sync.Mutex
	alive []*leakyInstance
}

type leakyModule struct {
	engine.Module
	e *leakyEngine
}

type leakyInstance struct {
	engine.Instance
	e *leakyEngine
}

func (i *leakyInstance) memory() []byte { return i.Instance.(interface{ Memory() []byte }).Memory() }

func (e *leakyEngine) Compile(ctx context.Context, wasm []byte) (engine.Module, error) {
	m, err := e.Engine.Compile(ctx, wasm)
	return leakyModule{m, e}, err
}

func (m leakyModule) Instantiate(ctx context.Context) (engine.Instance, error) {
	in, err := m.Module.Instantiate(ctx)
	if err != nil {
		return nil, err
	}
	i := &leakyInstance{in, m.e}
	m.e.mu.Lock()
	defer m.e.mu.Unlock()
	m.e.alive = append(m.e.alive, i)
	return i, nil
}

func (i *leakyInstance) Release(ctx context.Context) {
	i.e.mu.Lock()
	defer i.e.mu.Unlock()
	if i.e.leak && len(i.e.alive) == 2 && i.e.alive[1] == i {
		copy(i.e.alive[0].memory(), i.memory())
	}
	for n, other := range i.e.alive {
		if other == i {
			i.e.alive = append(i.e.alive[:n:n], i.e.alive[n+1:]...)
		}
	}
	i.Instance.Release(ctx)
}

// bodyWorkflow gives a workflow whose only step writes a number into memory, and which sleeps after it.
func bodyWorkflow() []byte {
	m := wasmgen.New(1)
	m.Text("charge").I32(0).I32(0).Call(abi.FnStepBegin).Set(0)
	m.Get(0).IfZero64().I32(100).I64(1).Store64().I32(0).Text("done").Call(abi.FnStepEnd).End()
	m.I32(200).Get(0).Store64().I32(200).I32(1).Call(abi.FnAwait).Drop()
	m.Text("nap").I64(1000).Call(abi.FnSleep).Drop()
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

// differences runs the workflow to its end, replays it, and gives at how many points the memory differed.
func differences(t *testing.T, leak bool) (diffs, points int) {
	t.Helper()
	ctx := t.Context()
	inner, err := wazero.New(ctx, wazero.Config{})
	if err != nil {
		t.Fatal(err)
	}
	st := memstore.New().Open()
	var mu sync.Mutex
	seen := map[uint64][32]byte{}
	fake := clock.NewFake(time.Unix(1_800_000_000, 0))
	s, err := sched.New(ctx, sched.Config{Store: st, Engine: &leakyEngine{Engine: inner, leak: leak}, Clock: fake,
		Logger: slog.New(slog.DiscardHandler), Random: func([]byte) {}, Linger: time.Hour, StartLinger: time.Minute,
		Activations: 4, ParkBytes: 1 << 30, CPU: time.Minute, HostCalls: 1000,
		OnWait: func(_ store.RunKey, n uint64, hash func() [32]byte) {
			mu.Lock()
			defer mu.Unlock()
			h := hash()
			points++
			if old, ok := seen[n]; ok && old != h {
				diffs++
			}
			seen[n] = h
		}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	run, stop := context.WithCancel(ctx)
	go func() { done <- s.Run(run) }()
	defer func() {
		stop()
		s.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	d, err := st.Modules().Put(ctx, bodyWorkflow(), store.ModuleInfo{})
	if err != nil {
		t.Fatal(err)
	}
	key := store.RunKey{ID: "r"}
	if _, _, err := s.Start(ctx, sched.NewRun{Key: key, Workflow: "w", Version: 1, Module: d}); err != nil {
		t.Fatal(err)
	}
	for {
		next, ok, err := s.WaitIdle(ctx)
		if err != nil {
			t.Fatal(err)
		}
		state, err := s.State(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		if state.Status == store.Completed {
			break
		}
		if ok {
			fake.Set(time.UnixMilli(next))
		}
	}
	if err := s.Replay(ctx, key); err != nil {
		t.Fatal(err)
	}
	return diffs, points
}

// TestLeakedBodyIsSeen shows that comparing memories between live run and replay notices a body that leaks into its
// workflow, and that none does.
func TestLeakedBodyIsSeen(t *testing.T) {
	diffs, points := differences(t, false)
	if diffs != 0 || points < 5 {
		t.Fatalf("%d differences at %d points", diffs, points)
	}
	if diffs, points = differences(t, true); diffs == 0 {
		t.Fatalf("a body that leaks was not noticed at %d points", points)
	}
}
