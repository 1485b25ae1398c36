// Package module keeps the compiled modules of a process: what their descriptions say, how much memory an instance of each takes,
// and what the versions made of them may do. A module that no guest has used for a while leaves memory, and comes back from the
// engine's cache when one does.
//
// Modules are compiled in a process of their own, if the host has a command for it: see Compiler.
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

// Module is a module with what its description says. Its code is in memory while it has an instance, and for a while after
// that. Entry, Command, BodiesEvent and CanThaw are set by the time that a caller gets the Module, and do not change.
type Module struct {
	Entry       string // the export that is the workflow
	Command     bool   // the entry is _start
	BodiesEvent bool   // bodies wait for the events descriptor, as goroutines do
	CanThaw     bool   // a guest that was frozen goes on
	Describes   bool   // it has a description to be asked for

	load  func() (engine.Module, error)
	after func() // called when an instance was released, with no lock held; nil is legal

	mu     sync.Mutex    // guards what follows; it is held while the module is loaded, and before Cache.mu is never taken
	known  bool          // the fields above and below are set
	loaded engine.Module // nil while the code is not in memory
	users  int           // instances, and calls of Instantiate
	used   bool          // since the last look
	idle   int           // looks since it was used
	ended  bool          // it is closed when its last user is gone, and not loaded again

	steps      []string
	queries    map[string][]string // by workflow
	stepExport bool
	bytes      atomic.Int64 // what an instance holds, about: the newest ones count most
	least      atomic.Int64 // what a new instance holds beside its memory; 0 until it is compiled
}

// Compile compiles a module that no cache keeps, and of which nothing is described yet. The caller closes it.
func Compile(ctx context.Context, e engine.Engine, s engine.Source) (*Module, error) {
	m := &Module{load: func() (engine.Module, error) { return e.Compile(ctx, s) }}
	return m, m.know(nil)
}

// know loads the module if nothing is known of it yet.
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

// errEnded says that a module was deleted, or the host closed.
var errEnded = errors.New("the module is no longer there")

// loadLocked brings the code into memory if it is not there.
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

// unloadLocked takes the code out of memory, which no instance uses, and returns how much that was.
func (m *Module) unloadLocked() (bytes int64, ok bool) {
	if m.loaded == nil || m.users > 0 {
		return 0, false
	}
	bytes = m.loaded.Bytes()
	_ = m.loaded.Close(context.Background()) // memory only
	m.loaded = nil
	return bytes, true
}

// Instantiate returns an instance, which is to be given back by Release. The module is loaded first if it is not in memory.
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

// Release gives an instance back, and remembers what it held.
func (m *Module) Release(inst engine.Instance) {
	m.held(inst.Release(context.Background()))
	m.leave()
}

// leave ends a use.
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

// Close takes the code out of memory when no instance uses it any more. The module is not loaded again.
func (m *Module) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	_, _ = m.unloadLocked()
}

// Describe takes the description of a module that no cache keeps.
func (m *Module) Describe(text []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.describe(text)
}

// describe reads the description, if the module has one.
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

// HasStep reports whether the module has a step function of that name. One that has no list of them has all.
func (m *Module) HasStep(name string) bool {
	return m.stepExport && (m.steps == nil || slices.Contains(m.steps, name))
}

// Queries returns the names of the queries that a workflow answers, none if it does not say.
func (m *Module) Queries(workflow string) []string { return m.queries[workflow] }

// usualBytes is what an instance holds of which nothing is known yet, about.
const usualBytes = 1 << 20

// Resident returns what an instance of the module holds, about: what those held that were given back, the newest ones most,
// with all that the engine has of them. Before that, it is a guess at the memory, and what the module says of its tables.
func (m *Module) Resident() int64 {
	if n := m.bytes.Load(); n > 0 {
		return n
	}
	return max(usualBytes, m.least.Load())
}

// held remembers what an instance held.
func (m *Module) held(bytes int64) {
	if old := m.bytes.Load(); old > 0 {
		bytes = (3*old + bytes) / 4
	}
	m.bytes.Store(bytes)
}
