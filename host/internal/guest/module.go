package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Module is a compiled module with what its description says.
type Module struct {
	once        sync.Once
	err         error
	compiled    engine.Module
	entry       string
	command     bool // the entry point is _start
	bodiesEvent bool
	steps       []string
	queries     map[string][]string // by workflow
	stepExport  bool
	bytes       atomic.Int64 // what an instance holds, about: the newest ones count most
}

// usualBytes is what an instance holds of which nothing is known yet, about.
const usualBytes = 1 << 20

// resident returns what an instance of the module holds, about.
func (m *Module) resident() int64 {
	if n := m.bytes.Load(); n > 0 {
		return n
	}
	return usualBytes
}

// held remembers what an instance held.
func (m *Module) held(bytes int64) {
	if old := m.bytes.Load(); old > 0 {
		bytes = (3*old + bytes) / 4
	}
	m.bytes.Store(bytes)
}

// expected returns what an instance of a module holds, about, of which nothing may be known yet.
func (r *Runner) expected(d store.Digest) int64 {
	r.modules.mu.Lock()
	defer r.modules.mu.Unlock()
	if m := r.modules.loaded[d]; m != nil {
		return m.resident()
	}
	return usualBytes
}

// modules are those that this process has compiled, and the grants of versions that were asked for.
type modules struct {
	mu      sync.Mutex
	loaded  map[store.Digest]*Module
	granted map[versionKey]store.Grants
}

// module returns a compiled module, compiling it if this process has not.
func (r *Runner) module(ctx context.Context, d store.Digest) (*Module, error) {
	ms := &r.modules
	ms.mu.Lock()
	m := ms.loaded[d]
	if m == nil {
		if ms.loaded == nil {
			ms.loaded = map[store.Digest]*Module{}
		}
		m = &Module{}
		ms.loaded[d] = m
	}
	ms.mu.Unlock()
	m.once.Do(func() { m.err = m.load(ctx, r, d) })
	if m.err != nil { // the next one tries again
		ms.mu.Lock()
		if ms.loaded[d] == m {
			delete(ms.loaded, d)
		}
		ms.mu.Unlock()
	}
	return m, m.err
}

func (m *Module) load(ctx context.Context, r *Runner, d store.Digest) error {
	wasm, err := r.cfg.Store.Modules().Get(ctx, d)
	if err != nil {
		return err
	}
	info, err := r.cfg.Store.Modules().Info(ctx, d)
	if err != nil {
		return err
	}
	if m.compiled, err = r.cfg.Engine.Compile(ctx, wasm); err != nil {
		return err
	}
	return m.describe(info.DescriptionJSON)
}

func (m *Module) describe(text []byte) error {
	for _, name := range []string{abi.ExportRun, abi.ExportRunShort, abi.ExportStart} {
		if m.compiled.HasExport(name) {
			m.entry = name
			break
		}
	}
	m.command = m.entry == abi.ExportStart
	m.stepExport = m.compiled.HasExport(abi.ExportStep)
	if len(text) == 0 {
		return nil
	}
	var d abi.Description
	if err := json.Unmarshal(text, &d); err != nil {
		return fmt.Errorf("the module's description: %w", err)
	}
	m.bodiesEvent, m.steps, m.queries = d.Bodies == abi.BodiesEvent, d.Steps, map[string][]string{}
	for _, w := range d.Workflows {
		m.queries[w.Name] = w.Queries
	}
	return nil
}

func (m *Module) close() {
	if m.compiled != nil {
		_ = m.compiled.Close(context.Background()) // memory only
	}
}

func (ms *modules) close() {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, m := range ms.loaded {
		m.close()
	}
	ms.loaded = nil
}

// Forget closes a module that is not needed any more.
func (r *Runner) Forget(d store.Digest) {
	r.modules.mu.Lock()
	m := r.modules.loaded[d]
	delete(r.modules.loaded, d)
	r.modules.mu.Unlock()
	if m != nil {
		m.once.Do(func() {})
		m.close()
	}
}

// handlerError returns an *abi.Error if a step may not name a handler. One that is granted and not registered here is
// waited for: the host may be restarted with it.
func (r *Runner) handlerError(run *store.RunState, g store.Grants, mod *Module, handler string) error {
	name, isHost := strings.CutPrefix(handler, abi.HandlerPrefix)
	if !isHost {
		if !mod.stepExport || len(mod.steps) > 0 && !slices.Contains(mod.steps, handler) {
			return abi.Errorf(abi.UnknownHandler, "the module has no step function %q", handler)
		}
		return nil
	}
	if slices.Contains(g.Steps, name) || slices.Contains(g.Steps, "*") {
		return nil
	}
	if !r.cfg.Handled(name) {
		return abi.Errorf(abi.UnknownHandler, "no handler %q is registered in this host, and %s@%d is not allowed to call it",
			handler, run.Workflow, run.Version)
	}
	return abi.Errorf(abi.Denied, "%s@%d is not allowed to call %q: upload it with that step allowed",
		run.Workflow, run.Version, handler)
}

// maxGrants bounds the versions whose grants are remembered: those of the runs of a busy hour.
const maxGrants = 1000

type versionKey struct {
	ns       store.NamespaceID
	workflow string
	number   uint32
}

// grants returns what a version may do: nothing, if there is no such version. A version never changes, so that one read
// is enough.
func (r *Runner) grants(ctx context.Context, ns store.NamespaceID, workflow string, number uint32) (store.Grants, error) {
	key := versionKey{ns, workflow, number}
	ms := &r.modules
	ms.mu.Lock()
	g, ok := ms.granted[key]
	ms.mu.Unlock()
	if ok {
		return g, nil
	}
	v, err := r.cfg.Store.Modules().Version(ctx, ns, workflow, number)
	if errors.Is(err, store.ErrNotFound) {
		return g, nil
	}
	if err != nil {
		return g, fmt.Errorf("grants of %s@%d: %w", workflow, number, err)
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if len(ms.granted) >= maxGrants || ms.granted == nil {
		ms.granted = map[versionKey]store.Grants{}
	}
	ms.granted[key] = v.Grants
	return v.Grants, nil
}

// Describe compiles a module, runs its start-up once, and asks for its description; nil if it has none. ctx ends the
// start-up, too.
func (r *Runner) Describe(ctx context.Context, wasm []byte) ([]byte, error) {
	end, err := r.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	ctx, cancel := r.with(ctx)
	defer cancel()
	compiled, err := r.cfg.Engine.Compile(ctx, wasm)
	if err != nil {
		return nil, err
	}
	defer func() { _ = compiled.Close(context.WithoutCancel(ctx)) }() // memory only
	m := &Module{compiled: compiled}
	if err := m.describe(nil); err != nil {
		return nil, err
	}
	p := r.room.newPlace(m.resident())
	if err := p.enter(ctx, starting, nil); err != nil {
		return nil, context.Cause(ctx)
	}
	defer p.leave()
	g := r.newStepGuest(m, journal.Started{}, store.RunKey{}, nil, nil)
	if !compiled.HasExport(abi.ExportDescribe) {
		inst, err := compiled.Instantiate(ctx)
		if err == nil {
			inst.Release(ctx)
		}
		return nil, err
	}
	if _, err := g.call(ctx, abi.ExportDescribe); err != nil {
		return nil, fmt.Errorf("workflow_describe: %w", err)
	}
	return g.Outcome().Result, nil
}

// with returns a context that ends with ctx, or with the runner.
func (r *Runner) with(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
