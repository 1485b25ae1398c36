package guest

import (
	"context"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/calls"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/store"
)

// Prepare compiles a module, runs its start-up once, and returns its description; nil if it has none. The error is
// admission.ErrUploadsFull if too many uploads wait. The module is in no cache of the runner; the caller closes it.
func (r *Runner) Prepare(ctx context.Context, wasm []byte) (*module.Module, []byte, error) {
	ctx, end, err := r.Begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	leave, err := r.uploads.Take(ctx, int64(len(wasm)))
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	m, err := module.Compile(ctx, r.cfg.Engine, engine.Bytes(wasm))
	if err != nil {
		return nil, nil, err
	}
	description, err := r.describe(calls.Admitting(ctx), m)
	if err == nil {
		err = m.Describe(description)
	}
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	return m, description, nil
}

func (r *Runner) describe(ctx context.Context, m *module.Module) ([]byte, error) {
	g := r.newStepGuest(m, journal.Started{}, store.RunKey{}, nil, nil)
	g.Limits.Grants = Grants(r.cfg.MaxFuel / 10) // the same budget as a start-up
	if !m.Describes {
		inst, err := m.Instantiate(ctx)
		if err == nil {
			m.Release(inst)
		}
		return nil, err
	}
	if _, err := g.call(ctx, abi.ExportDescribe); err != nil {
		return nil, fmt.Errorf("workflow_describe: %w", err)
	}
	return g.Outcome().Result, nil
}

// Begin registers work that runs a guest, until end is called. The context ends with ctx, or when the runner is
// closed.
func (r *Runner) Begin(ctx context.Context) (of context.Context, end func(), err error) {
	done, err := r.begin()
	if err != nil {
		return ctx, nil, err
	}
	of, cancel := r.with(ctx)
	return of, func() {
		cancel()
		done()
	}, nil
}

// Place returns a place for an instance of a module that replays a run of a workflow.
func (r *Runner) Place(m *module.Module, ns store.NamespaceID, workflow string) *admission.Place {
	return r.admission.NewPlace(m.Resident()).Of(uint32(ns), workflow, "")
}

// Module returns a module of the store.
func (r *Runner) Module(d store.Digest) (*module.Module, error) { return r.modules.Get(d) }
