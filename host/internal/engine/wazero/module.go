package wazero

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/artifact"
	"github.com/wfhost/wfhost/host/internal/engine/calls"
	"github.com/wfhost/wfhost/host/internal/engine/linear"
	"github.com/wfhost/wfhost/host/internal/wasm/instrument"
)

type module struct {
	machine   *machine
	digest    [sha256.Size]byte // of the original module
	compiled  wazero.CompiledModule
	rewritten instrument.Module // Wasm is nil
	bytes     int64             // without the image and the code
	code      *sharedCode

	closed atomic.Bool
	mu     sync.Mutex // guards image and rewritten.Data
	image  *image     // nil until the first instance, and for modules whose instances cannot be reused
}

func (m *module) HasExport(name string) bool {
	_, ok := m.compiled.ExportedFunctions()[name]
	return ok
}

// sharedCode is the machine code of modules that differ only in their data. The engine holds it in memory once.
type sharedCode struct {
	name  string
	bytes int64
	users atomic.Int64 // modules that are not closed; changed under machine.mu
}

// codeOf returns the code of a file and counts the caller as a user until leaveCode.
func (m *machine) codeOf(f artifact.File) *sharedCode {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.codes[f.Name]
	if c == nil {
		c = &sharedCode{name: f.Name, bytes: f.Bytes}
		m.codes[f.Name] = c
	}
	c.users.Add(1)
	return c
}

func (m *machine) leaveCode(c *sharedCode) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.users.Add(-1) == 0 {
		delete(m.codes, c.name)
	}
}

func (m *module) Close(ctx context.Context) error {
	if !m.closed.Swap(true) {
		m.machine.leaveCode(m.code)
	}
	m.machine.closeAll(ctx, m.machine.pool.Drop(m))
	m.mu.Lock()
	im := m.image
	m.mu.Unlock()
	if im != nil {
		m.machine.models.Keep(im.memory, im.id)
		im.memory.Close()
	}
	return m.compiled.Close(ctx)
}

// Bytes estimates what the module takes. Code that several modules share is divided among them.
func (m *module) Bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	bytes := m.bytes + m.code.bytes/max(m.code.users.Load(), 1)
	if m.image != nil {
		bytes += int64(m.image.memory.Size())
	}
	return bytes
}

// anonymous modules can be instantiated several times. initialize calls their start functions.
var anonymous = wazero.NewModuleConfig().WithName("").WithStartFunctions()

// Instantiate returns a pooled instance, a new instance on the module's image, or, if the module's instances cannot
// be reused, an instance made without an image.
func (m *module) Instantiate(ctx context.Context) (engine.Instance, error) {
	if m.rewritten.Refusal != "" || m.machine.cfg.Reset == linear.ResetNone {
		return m.fresh(ctx)
	}
	if in, ok := m.machine.pool.Take(m); ok {
		return in, nil
	}
	im, err := m.baseline(ctx)
	if err != nil {
		return nil, err
	}
	mem := &memory{Memory: linear.New(im.memory), image: im}
	a := &activation{Context: ctx, host: calls.NewStartHost(ctx)}
	mod, err := m.machine.rt.InstantiateModule(experimental.WithMemoryAllocator(a, mem), m.compiled, anonymous)
	if err != nil {
		mem.Free()
		return nil, a.explain(ctx, err, engine.TrapInit)
	}
	in := &instance{m: m, mod: mod, memory: mem, functions: map[string]function{}}
	in.findGlobals()
	in.findHeap()
	in.restoreGlobals()
	return in, nil
}

// baseline returns the image, which the first caller makes. A failure is not cached.
func (m *module) baseline(ctx context.Context) (*image, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.image != nil {
		return m.image, nil
	}
	in, err := m.fresh(ctx)
	if err != nil {
		return nil, err
	}
	defer in.close(ctx)
	m.image = newImage(in, m.machine.cfg.Reset)
	m.rewritten.Data = nil // the image includes it
	return m.image, nil
}

// fresh makes an instance without an image and runs its start-up.
func (m *module) fresh(ctx context.Context) (*instance, error) {
	in := &instance{m: m, functions: map[string]function{}}
	a := &activation{Context: ctx, in: in, host: calls.NewStartHost(ctx)}
	var err error
	in.mod, err = m.machine.rt.InstantiateModule(withFirst(a), m.compiled, anonymous)
	if err != nil {
		return nil, a.explain(ctx, err, engine.TrapInit)
	}
	in.findGlobals()
	in.findHeap()
	if err := in.initialize(a); err != nil {
		in.close(ctx)
		return nil, a.explain(ctx, err, engine.TrapInit)
	}
	return in, nil
}

// initialize performs what instantiation did before the module was rewritten (data segments and the start function),
// and calls _initialize.
func (in *instance) initialize(a *activation) error {
	for _, s := range in.m.rewritten.Data {
		if !in.mod.Memory().Write(s.Offset, s.Bytes) {
			return outsideOfMemory(s, in.mod.Memory().Size())
		}
	}
	for _, name := range []string{in.m.rewritten.Start, abi.ExportInitialize} {
		if fn := in.mod.ExportedFunction(name); name != "" && fn != nil {
			if _, err := fn.Call(a); err != nil {
				return err
			}
		}
	}
	return nil
}
