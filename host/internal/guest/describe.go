package guest

import (
	"context"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/budget"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/store"
)

// Describe compiles a module, runs its start-up once, and asks for its description; nil if it has none. ctx ends the
// start-up, too. ErrFull of admission says that too many uploads wait.
func (r *Runner) Describe(ctx context.Context, wasm []byte) ([]byte, error) {
	end, err := r.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	ctx, cancel := r.with(ctx)
	defer cancel()
	leave, err := r.uploads.Take(ctx, int64(len(wasm)))
	if err != nil {
		return nil, err
	}
	defer leave()
	m, err := module.Compile(ctx, r.cfg.Engine, engine.Bytes(wasm))
	if err != nil {
		return nil, err
	}
	defer m.Close()
	g := r.newStepGuest(m, journal.Started{}, store.RunKey{}, nil, nil)
	g.Limits.Slices = budget.Slices(r.cfg.Fuel / 10) // as the start-up has
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
