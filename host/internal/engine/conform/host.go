package conform

import (
	"context"
	"errors"
	"testing"

	"github.com/wfhost/wfhost/host/internal/engine"
)

// host answers a guest. The modules here make no calls that it does not implement.
type host struct {
	engine.Host
	limit     int // grants of fuel
	grants    int
	worked    int64
	calls     int
	completed []byte
	said      []byte
	await     func() (int64, error)
	events    []int64 // answers to wait_event; freeze freezes
	stepEnd   error
}

func newHost() *host { return &host{limit: 1000} }

// Reasons for stopping a guest.
var (
	errFuel   = errors.New("no fuel")
	errEvents = errors.New("there are no more events")
)

// freeze is an event that freezes the guest.
const freeze = -1

func (h *host) Enter() error       { h.calls++; return nil }
func (h *host) Work(n int64) error { h.worked += n; return nil }
func (h *host) Refuel() error {
	h.grants++
	if h.grants > h.limit {
		return errFuel
	}
	return nil
}
func (h *host) Now() int64                    { return 1_700_000_000_123 }
func (h *host) WallNs() int64                 { return 5 }
func (h *host) MonoNs() int64                 { return 7 }
func (h *host) Input() []byte                 { return []byte("the input") }
func (h *host) Log(int32, []byte) int64       { return 0 }
func (h *host) Complete(b []byte) int64       { h.completed = b; return 0 }
func (h *host) Output(_ uint32, p []byte)     { h.said = append(h.said, p...) }
func (h *host) Explain(message string) string { return string(h.said) + message }
func (h *host) Await([]int64) (int64, error)  { return h.await() }
func (h *host) StepEnd(int32, []byte) error   { return h.stepEnd }
func (h *host) Random(p []byte) {
	for i := range p {
		p[i] = byte(i) ^ 0x5a
	}
}

func (h *host) WaitEvent(int64) (int64, error) {
	if len(h.events) == 0 {
		return 0, errEvents
	}
	n := h.events[0]
	h.events = h.events[1:]
	if n == freeze {
		return 0, engine.ErrFreeze
	}
	return n, nil
}

// module compiles a module.
func module(t *testing.T, e engine.Engine, wasm []byte) engine.Module {
	t.Helper()
	m, err := e.Compile(context.Background(), engine.Bytes(wasm))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	return m
}

// instance makes an instance of a module.
func instance(t *testing.T, m engine.Module) engine.Instance {
	t.Helper()
	in, err := m.Instantiate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// run compiles a module and calls its entry point.
func run(t *testing.T, e engine.Engine, wasm []byte, h *host) (int32, error) {
	t.Helper()
	ctx := context.Background()
	m, err := e.Compile(ctx, engine.Bytes(wasm))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close(ctx) }()
	in := instance(t, m)
	defer in.Release(ctx)
	return in.Call(ctx, "workflow_run", h)
}
