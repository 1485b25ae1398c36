package guest

import (
	"context"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/store"
)

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
	m, err := module.Compile(ctx, r.cfg.Engine, engine.Bytes(wasm))
	if err != nil {
		return nil, err
	}
	defer m.Close()
	p := r.room.NewPlace(m.Resident())
	if err := p.Enter(ctx, admission.Starting, nil); err != nil {
		return nil, context.Cause(ctx)
	}
	defer p.Leave()
	g := r.newStepGuest(m, journal.Started{}, store.RunKey{}, nil, nil)
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
