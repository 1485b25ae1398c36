// Package module holds the compiled modules of a process: their descriptions, how much memory an instance of each
// takes, and the grants of their versions. A module that no guest has used for some time is unloaded from memory, and
// is loaded from the engine's cache when a guest needs it again.
//
// If the host has a command for it, modules are compiled in a separate process: see Compiler.
package module

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
)

// Module is a module with its description. Its code is in memory while it has an instance, and for some time after
// that. The exported fields are set before a caller gets the Module, and do not change.
type Module struct {
	Entry       string // the export that runs the workflow
	Command     bool   // the entry is _start
	BodiesEvent bool   // bodies wait for the events descriptor, as goroutines do
	CanThaw     bool   // a frozen guest can be thawed
	Describes   bool   // it exports a function that describes it

	load  func() (engine.Module, error)
	after func() // called after an instance was released, with no lock held; may be nil

	mu     sync.Mutex    // guards the fields below; held while loading; never held together with Cache.mu
	known  bool          // the fields above and below are set
	loaded engine.Module // nil while the code is not in memory
	users  int           // instances, and calls of Instantiate in progress
	used   bool          // used since the last sweep
	idle   int           // consecutive sweeps without use
	ended  bool          // unloaded with its last user, and never loaded again

	steps      []string
	queries    map[string][]string // by workflow
	stepExport bool
	bytes      atomic.Int64 // estimate of what an instance holds: a moving average
	least      atomic.Int64 // what a new instance holds beside its memory; 0 until compiled
}

// Compile compiles a module outside of any cache and without a description. The caller closes it.
func Compile(ctx context.Context, e engine.Engine, s engine.Source) (*Module, error) {
	m := &Module{load: func() (engine.Module, error) { return e.Compile(ctx, s) }}
	return m, m.know(nil)
}

// know loads and describes the module if no earlier call did.
func (m *Module) know(description func() ([]byte, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known {
		return nil
	}
	if err := m.loadLocked(); err != nil {
		return err
	}
	if description != nil {
		text, err := description()
		if err == nil {
			err = m.describe(text)
		}
		if err != nil {
			_, _ = m.unloadLocked()
			return err
		}
	}
	m.known = true
	return nil
}

// errEnded reports that the module was deleted or the host closed.
var errEnded = errors.New("the module is no longer there")

// loadLocked loads the code into memory unless it is there; the first load also reads the exports. The caller holds
// mu.
func (m *Module) loadLocked() error {
	m.used, m.idle = true, 0
	if m.loaded != nil {
		return nil
	}
	if m.ended {
		return errEnded
	}
	loaded, err := m.load()
	if err != nil {
		return err
	}
	m.loaded = loaded
	if m.known {
		return nil
	}
	for _, name := range []string{abi.ExportRun, abi.ExportRunShort, abi.ExportStart} {
		if loaded.HasExport(name) {
			m.Entry = name
			break
		}
	}
	m.Command = m.Entry == abi.ExportStart
	m.stepExport = loaded.HasExport(abi.ExportStep)
	m.CanThaw = loaded.HasExport(abi.ExportThaw)
	m.Describes = loaded.HasExport(abi.ExportDescribe)
	m.least.Store(loaded.Overhead())
	return nil
}

// unloadLocked frees the code unless an instance uses it, and returns its bytes. The caller holds mu.
func (m *Module) unloadLocked() (bytes int64, ok bool) {
	if m.loaded == nil || m.users > 0 {
		return 0, false
	}
	bytes = m.loaded.Bytes()
	_ = m.loaded.Close(context.Background()) // frees memory only
	m.loaded = nil
	return bytes, true
}

// Instantiate returns an instance, which the caller gives back by Release. It loads the module if it is not in
// memory.
func (m *Module) Instantiate(ctx context.Context) (engine.Instance, error) {
	m.mu.Lock()
	err := m.loadLocked()
	loaded := m.loaded
	if err == nil {
		m.users++
	}
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	inst, err := loaded.Instantiate(ctx)
	if err != nil {
		m.leave()
		return nil, err
	}
	return inst, nil
}

// Release gives an instance back and updates the estimate of what an instance holds.
func (m *Module) Release(inst engine.Instance) {
	m.measured(inst.Release(context.Background()))
	m.leave()
}

// leave removes a user.
func (m *Module) leave() {
	m.mu.Lock()
	m.users--
	m.used, m.idle = true, 0
	if m.ended {
		_, _ = m.unloadLocked()
	}
	m.mu.Unlock()
	if m.after != nil {
		m.after()
	}
}

// Close unloads the code as soon as no instance uses it. The module is not loaded again.
func (m *Module) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	_, _ = m.unloadLocked()
}

// Describe sets the description of a module that is in no cache.
func (m *Module) Describe(text []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.describe(text)
}

// describe parses the description unless it is empty. The caller holds mu.
func (m *Module) describe(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	var d abi.Description
	if err := json.Unmarshal(text, &d); err != nil {
		return fmt.Errorf("the module's description: %w", err)
	}
	m.BodiesEvent, m.steps, m.queries = d.Bodies == abi.BodiesEvent, d.Steps, map[string][]string{}
	for _, w := range d.Workflows {
		m.queries[w.Name] = w.Queries
	}
	return nil
}

// HasStep reports whether the module has a step function of that name. A module that exports step functions and does
// not list them accepts every name.
func (m *Module) HasStep(name string) bool {
	return m.stepExport && (m.steps == nil || slices.Contains(m.steps, name))
}

// Queries returns the names of the queries that a workflow answers; none if the description does not list them.
func (m *Module) Queries(workflow string) []string { return m.queries[workflow] }

// usualBytes is the estimate for an instance of a module whose instances were not measured.
const usualBytes = 1 << 20

// Resident returns an estimate of the bytes that an instance of the module holds, including what the engine keeps for
// it: a moving average over the released instances. Before the first release it is usualBytes or, if that is more,
// the overhead that the engine computes from the module's tables.
func (m *Module) Resident() int64 {
	if n := m.bytes.Load(); n > 0 {
		return n
	}
	return max(usualBytes, m.least.Load())
}

// measured adds a measured instance to the moving average.
func (m *Module) measured(bytes int64) {
	if old := m.bytes.Load(); old > 0 {
		bytes = (3*old + bytes) / 4
	}
	m.bytes.Store(bytes)
}
