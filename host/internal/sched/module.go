package sched

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// loadedModule is a compiled module with what its description says.
type loadedModule struct {
	once        sync.Once
	err         error
	compiled    engine.Module
	entry       string
	command     bool // the entry point is _start
	bodiesEvent bool
	steps       []string
	queries     map[string][]string // by workflow
	stepExport  bool
}

// module gives a compiled module, compiling it if this process has not.
func (s *Scheduler) module(ctx context.Context, d store.Digest) (*loadedModule, error) {
	s.mu.Lock()
	m := s.modules[d]
	if m == nil {
		m = &loadedModule{}
		s.modules[d] = m
	}
	s.mu.Unlock()
	m.once.Do(func() { m.err = m.load(ctx, s, d) })
	if m.err != nil { // the next one tries again
		s.mu.Lock()
		if s.modules[d] == m {
			delete(s.modules, d)
		}
		s.mu.Unlock()
	}
	return m, m.err
}

func (m *loadedModule) load(ctx context.Context, s *Scheduler, d store.Digest) error {
	wasm, err := s.cfg.Store.Modules().Get(ctx, d)
	if err != nil {
		return err
	}
	info, err := s.cfg.Store.Modules().Info(ctx, d)
	if err != nil {
		return err
	}
	if m.compiled, err = s.cfg.Engine.Compile(ctx, wasm); err != nil {
		return err
	}
	return m.describe(info.DescriptionJSON)
}

func (m *loadedModule) describe(text []byte) error {
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

func (m *loadedModule) close() {
	if m.compiled != nil {
		_ = m.compiled.Close(context.Background()) // memory only
	}
}

// handlerError says whether a step may name a handler.
func (s *Scheduler) handlerError(run store.RunState, g store.Grants, mod *loadedModule, handler string) error {
	name, isHost := strings.CutPrefix(handler, abi.HandlerPrefix)
	if !isHost {
		if !mod.stepExport || len(mod.steps) > 0 && !slices.Contains(mod.steps, handler) {
			return abi.Errorf(abi.UnknownHandler, "the module has no step function %q", handler)
		}
		return nil
	}
	if s.handler(name) == nil {
		return abi.Errorf(abi.UnknownHandler, "no handler %q is registered in this host", handler)
	}
	if !slices.Contains(g.Steps, name) && !slices.Contains(g.Steps, "*") {
		return abi.Errorf(abi.Denied, "%s@%d is not allowed to call %q: upload it with that step allowed",
			run.Workflow, run.Version, handler)
	}
	return nil
}

// maxGrants bounds the versions whose grants are remembered: those of the runs of a busy hour.
const maxGrants = 1000

type versionKey struct {
	ns       store.NamespaceID
	workflow string
	number   uint32
}

// grants gives what a version may do: nothing, if there is no such version. A version never changes, so that one read is
// enough.
func (s *Scheduler) grants(ns store.NamespaceID, workflow string, number uint32) (store.Grants, error) {
	key := versionKey{ns, workflow, number}
	s.mu.Lock()
	g, ok := s.granted[key]
	s.mu.Unlock()
	if ok {
		return g, nil
	}
	v, err := s.cfg.Store.Modules().Version(s.ctx, ns, workflow, number)
	if errors.Is(err, store.ErrNotFound) {
		return g, nil
	}
	if err != nil {
		return g, fmt.Errorf("grants of %s@%d: %w", workflow, number, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.granted) >= maxGrants || s.granted == nil {
		s.granted = map[versionKey]store.Grants{}
	}
	s.granted[key] = v.Grants
	return v.Grants, nil
}

// Describe compiles a module, runs its start-up once, and asks for its description; nil if it has none.
func (s *Scheduler) Describe(ctx context.Context, wasm []byte) ([]byte, error) {
	compiled, err := s.cfg.Engine.Compile(ctx, wasm)
	if err != nil {
		return nil, err
	}
	defer func() { _ = compiled.Close(ctx) }() // memory only
	m := &loadedModule{compiled: compiled}
	if err := m.describe(nil); err != nil {
		return nil, err
	}
	if err := s.slots.acquire(ctx); err != nil {
		return nil, err
	}
	defer s.slots.release()
	h := newStepGuest(s, m, journal.Started{}, nil, nil)
	if !compiled.HasExport(abi.ExportDescribe) {
		inst, err := compiled.Instantiate(ctx)
		if err == nil {
			inst.Release(ctx)
		}
		return nil, err
	}
	if _, err := h.call(ctx, abi.ExportDescribe); err != nil {
		return nil, fmt.Errorf("workflow_describe: %w", err)
	}
	return h.Machine.Outcome().Result, nil
}

// HoldVersions keeps versions from being deleted until release is called: between choosing one for a run and the
// run's being durable.
func (s *Scheduler) HoldVersions() (release func()) {
	s.versions.RLock()
	return s.versions.RUnlock
}

// InUseError says that a version is not deleted because runs need it.
type InUseError struct {
	Workflow string
	Version  uint32
	Runs     int    // how many, ended ones that are not deleted included
	Example  string // id of one
}

// Error names the version and one of the runs.
func (e *InUseError) Error() string {
	return fmt.Sprintf("%s@%d is in use by %d runs, one of which is %q; delete them first", e.Workflow, e.Version,
		e.Runs, e.Example)
}

// DeleteVersion deletes a version that no run has, with its module if no other version has it. Ended runs count
// too until they are deleted, since they may be retried and replayed. It looks at all runs of the workflow.
func (s *Scheduler) DeleteVersion(ctx context.Context, workflow string, number uint32) error {
	if err := s.usable(); err != nil {
		return err
	}
	s.versions.Lock()
	defer s.versions.Unlock()
	v, err := s.cfg.Store.Modules().Version(ctx, 0, workflow, number)
	if err != nil {
		return err
	}
	used := &InUseError{Workflow: workflow, Version: number}
	for st, err := range s.cfg.Store.Runs(ctx, store.Query{Workflow: workflow}) {
		if err != nil {
			return err
		}
		if st.Version == number {
			used.Runs++
			used.Example = st.Run.ID
		}
	}
	if used.Runs > 0 {
		return used
	}
	if err := s.cfg.Store.Modules().DeleteVersion(ctx, 0, workflow, number); err != nil {
		return err
	}
	if _, err := s.cfg.Store.Modules().Info(ctx, v.Module); err == nil {
		return nil // another version has it
	}
	s.mu.Lock()
	m := s.modules[v.Module]
	delete(s.modules, v.Module)
	s.mu.Unlock()
	if m != nil {
		m.once.Do(func() {})
		m.close()
	}
	return nil
}
