package module

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// fakeEngine compiles any bytes, and counts what is open.
type fakeEngine struct {
	engine.Engine
	fails         error
	overhead      int64
	opened, close int
	trimmed       int
	forgot        int
	gave, idle    int // instances that Trim closes and leaves

	mu sync.Mutex // guards what may be counted by many
}

type fakeModule struct {
	engine.Module
	e      *fakeEngine
	closed atomic.Bool
}

func (e *fakeEngine) Compile(ctx context.Context, s engine.Source) (engine.Module, error) {
	if _, err := s.Read(ctx); err != nil {
		return nil, err
	}
	if e.fails != nil {
		return nil, e.fails
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opened++
	return &fakeModule{e: e}, nil
}

func (e *fakeEngine) Forget(context.Context, [32]byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgot++
	return nil
}

func (e *fakeEngine) Trim(context.Context) (closed, left int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.trimmed++
	return e.gave, e.idle
}

// fakeInstance panics if its module was closed before it.
type fakeInstance struct {
	engine.Instance
	m *fakeModule
}

func (m *fakeModule) Instantiate(context.Context) (engine.Instance, error) {
	if m.closed.Load() {
		panic("an instance of a closed module")
	}
	return &fakeInstance{m: m}, m.e.fails
}

func (i *fakeInstance) Release(context.Context) int64 {
	if i.m.closed.Load() {
		panic("a module was closed under its instance")
	}
	return 1
}

func (m *fakeModule) Bytes() int64 { return 100 }

func (m *fakeModule) HasExport(name string) bool {
	return name == abi.ExportStart || name == abi.ExportStep
}

func (m *fakeModule) Overhead() int64 { return m.e.overhead }

func (m *fakeModule) Close(context.Context) error {
	m.closed.Store(true)
	m.e.mu.Lock()
	defer m.e.mu.Unlock()
	m.e.close++
	return nil
}

const description = `{"bodies":"event","steps":["charge"],"workflows":[{"name":"order","queries":["state"]}]}`

func TestCache(t *testing.T) {
	ctx := context.Background()
	s := memstore.New().Open()
	e := &fakeEngine{}
	c := NewCache(e, s, clock.System(), Limits{Bytes: 1 << 40})
	if _, err := c.Get(store.Digest{1}); !errors.Is(err, store.ErrNotFound) {
		t.Fatal("a module that is not there:", err)
	}
	d, err := s.Modules().Put(ctx, []byte("wasm"), store.ModuleInfo{DescriptionJSON: []byte(description)})
	if err != nil {
		t.Fatal(err)
	}
	e.fails = errors.New("it does not compile")
	if _, err := c.Get(d); !errors.Is(err, e.fails) {
		t.Fatal(err)
	}
	e.fails = nil
	m, err := c.Get(d) // which tries again
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Get(d); err != nil || again != m || e.opened != 1 {
		t.Error("it was compiled again:", err)
	}
	if m.Entry != abi.ExportStart || !m.Command || !m.BodiesEvent || !m.HasStep("charge") || m.HasStep("refund") ||
		len(m.Queries("order")) != 1 || m.Queries("other") != nil {
		t.Errorf("%+v", m)
	}
	c.Forget(d)
	c.Forget(d)
	if e.close != 1 || e.forgot != 2 {
		t.Error("closed", e.close, "times, forgotten", e.forgot)
	}
	if _, err := c.Get(d); err != nil || e.opened != 2 {
		t.Error(err)
	}
	c.Close()
	if e.close != 2 {
		t.Error("closed", e.close, "times")
	}
	bad, err := s.Modules().Put(ctx, []byte("other"), store.ModuleInfo{DescriptionJSON: []byte("{")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(bad); err == nil {
		t.Error("a description that is no JSON was taken")
	}
}

// TestResident estimates the memory of instances, with the greatest weight on the newest ones.
func TestResident(t *testing.T) {
	ctx := context.Background()
	s := memstore.New().Open()
	c := NewCache(&fakeEngine{}, s, clock.System(), Limits{Bytes: 1 << 40})
	d, err := s.Modules().Put(ctx, []byte("wasm"), store.ModuleInfo{})
	if err != nil {
		t.Fatal(err)
	}
	if n := c.Resident(d); n != usualBytes {
		t.Error("of an unknown one:", n)
	}
	m, err := c.Get(d)
	if err != nil {
		t.Fatal(err)
	}
	if n := c.Resident(d); n != usualBytes {
		t.Error("of a new one:", n)
	}
	m2, err := Compile(ctx, &fakeEngine{overhead: 5 << 20}, engine.Bytes(nil))
	if err != nil || m2.Resident() != 5<<20 {
		t.Error("of one with large tables:", m2.Resident(), err)
	}
	m.measured(4 << 20)
	if n := c.Resident(d); n != 4<<20 {
		t.Error("after the first one:", n)
	}
	for range 100 {
		m.measured(2 << 20)
	}
	if n := m.Resident(); n < 2<<20 || n > 2<<20+100 {
		t.Error("after many:", n)
	}
	if !m.HasStep("anything") {
		t.Error("a module without a list of steps has all")
	}
	if err := m.Describe([]byte(`{"steps":[]}`)); err != nil || m.HasStep("anything") {
		t.Error("a module with an empty list of steps has none:", err)
	}
}

func TestGrants(t *testing.T) {
	ctx := context.Background()
	s := memstore.New().Open()
	c := NewCache(&fakeEngine{}, s, clock.System(), Limits{Bytes: 1 << 40})
	d, err := s.Modules().Put(ctx, []byte("wasm"), store.ModuleInfo{})
	if err != nil {
		t.Fatal(err)
	}
	if g, err := c.Grants(ctx, 1, "order", 1); err != nil || len(g.Steps) > 0 {
		t.Error("of a version that is not there:", g, err)
	}
	if len(c.granted) > 0 {
		t.Error("what is not there is remembered, and may come")
	}
	if _, err := s.Modules().AddVersions(ctx, []store.VersionSpec{{Namespace: 1, Workflow: "order", Module: d,
		Grants: store.Grants{Steps: []string{"mail"}}}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if g, err := c.Grants(ctx, 1, "order", 1); err != nil || len(g.Steps) != 1 {
			t.Error(g, err)
		}
		_ = s.Close() // the second time, it is not read
	}
	if _, err := c.Grants(ctx, 1, "order", 2); err == nil {
		t.Error("a store that cannot be read grants nothing, and says so")
	}
	for i := range 3 * maxGrants {
		c.granted[versionKey{number: uint32(i)}] = store.Grants{}
	}
	c.store = memstore.New().Open()
	d, _ = c.store.Modules().Put(ctx, []byte("wasm"), store.ModuleInfo{})
	if _, err := c.store.Modules().AddVersions(ctx, []store.VersionSpec{{Namespace: 1, Workflow: "order", Module: d}}); err != nil {
		t.Fatal(err)
	}
	delete(c.granted, versionKey{1, "order", 1})
	if _, err := c.Grants(ctx, 1, "order", 1); err != nil || len(c.granted) != 1 {
		t.Error(err, len(c.granted))
	}
}

// TestPatience has a module that cannot be loaded for a while: this does not fail a step.
func TestPatience(t *testing.T) {
	ctx := t.Context()
	s := memstore.New().Open()
	e := &fakeEngine{}
	d, err := s.Modules().Put(ctx, []byte("wasm"), store.ModuleInfo{DescriptionJSON: []byte(description)})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("there is no memory for it")
	for _, good := range []int{0, 1, 2, 99} { // from which try on
		fake := clock.NewFake(time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC))
		begun := fake.Now()
		tries := &turns{Engine: e, good: good, err: broken}
		c := NewCache(tries, s, &impatient{fake}, Limits{Bytes: 1 << 40, Idle: time.Second / 4})
		_, err := c.GetPatiently(ctx, d)
		waited := []time.Duration{0, time.Second, 9 * time.Second, 9 * time.Second}[min(good, 3)]
		if took := fake.Now().Sub(begun); took != waited || (err == nil) != (good < 99) || err != nil && !errors.Is(err, broken) {
			t.Errorf("good at try %d: %v after %v, want %v", good, err, took, waited)
		}
		c.Close()
	}
	own, cancel := context.WithCancelCause(ctx)
	gone := errors.New("nobody waits")
	cancel(gone)
	c := NewCache(&turns{Engine: e, good: 99, err: broken}, s, clock.NewFake(time.Unix(0, 0)), Limits{Bytes: 1 << 40})
	defer c.Close()
	if _, err := c.GetPatiently(own, d); !errors.Is(err, broken) && !errors.Is(err, gone) {
		t.Error(err)
	}
}

// turns is an engine that fails at first.
type turns struct {
	engine.Engine
	n, good int
	err     error
}

func (e *turns) Compile(ctx context.Context, s engine.Source) (engine.Module, error) {
	e.n++
	if e.n <= e.good {
		return nil, e.err
	}
	return e.Engine.Compile(ctx, s)
}

// impatient is a clock that jumps to the deadline of any timer of a second or more.
type impatient struct{ *clock.Fake }

func (c *impatient) NewTimer(d time.Duration) clock.Timer {
	t := c.Fake.NewTimer(d)
	if d >= time.Second {
		c.Set(c.Now().Add(d))
	}
	return t
}
