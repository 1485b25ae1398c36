// Package module keeps the compiled modules of a process: what their descriptions say, what an instance of each holds, and
// what the versions that are made of them may do.
package module

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
)

// Module is a compiled module with what its description says.
type Module struct {
	engine.Module
	Entry       string // the export that is the workflow
	Command     bool   // the entry is _start
	BodiesEvent bool   // bodies wait for the events descriptor, as goroutines do
	CanThaw     bool   // a guest that was frozen goes on

	once       sync.Once
	err        error
	steps      []string
	queries    map[string][]string // by workflow
	stepExport bool
	bytes      atomic.Int64 // what an instance holds, about: the newest ones count most
	least      atomic.Int64 // what a new instance holds beside its memory; 0 until it is compiled
}

// Compile compiles a module that no cache keeps, and of which nothing is described yet. The caller closes it.
func Compile(ctx context.Context, e engine.Engine, wasm []byte) (*Module, error) {
	m := &Module{}
	return m, m.compile(ctx, e, wasm)
}

func (m *Module) compile(ctx context.Context, e engine.Engine, wasm []byte) (err error) {
	if m.Module, err = e.Compile(ctx, wasm); err != nil {
		return err
	}
	for _, name := range []string{abi.ExportRun, abi.ExportRunShort, abi.ExportStart} {
		if m.HasExport(name) {
			m.Entry = name
			break
		}
	}
	m.Command = m.Entry == abi.ExportStart
	m.stepExport = m.HasExport(abi.ExportStep)
	m.CanThaw = m.HasExport(abi.ExportThaw)
	m.least.Store(m.Overhead())
	return nil
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

// HasStep reports whether the module has a step function of that name. One that lists none has all.
func (m *Module) HasStep(name string) bool {
	return m.stepExport && (len(m.steps) == 0 || slices.Contains(m.steps, name))
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

// Held remembers what an instance held.
func (m *Module) Held(bytes int64) {
	if old := m.bytes.Load(); old > 0 {
		bytes = (3*old + bytes) / 4
	}
	m.bytes.Store(bytes)
}

func (m *Module) close() {
	if m.Module != nil {
		_ = m.Module.Close(context.Background()) // memory only
	}
}
