package runtime

import (
	"context"
	"slices"
	"sync"

	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/store"
)

// Versions are those of workflows. One is kept for as long as there are runs of it.
type Versions struct {
	life   *life
	store  store.Store
	guests *guest.Runner

	// mu is held for reading by whoever chooses a version, until the run that has it is durable, and for writing while one is
	// deleted. Other locks are taken meanwhile; nobody who holds one of these waits for it.
	mu sync.RWMutex
}

// Hold keeps versions from being deleted until release is called: between choosing one for a run and the
// run's being durable.
func (v *Versions) Hold() (release func()) {
	v.mu.RLock()
	return v.mu.RUnlock
}

// Prepare compiles a module, runs its start-up once, and asks for its description. The caller closes the module.
func (v *Versions) Prepare(ctx context.Context, b []byte) (*module.Module, []byte, error) {
	return v.guests.Prepare(ctx, b)
}

// Delete deletes a version that no run has, with its module if no other version has it. Ended runs count
// too until they are deleted, since they may be retried and replayed.
func (v *Versions) Delete(ctx context.Context, ns store.NamespaceID, workflow string, number uint32) error {
	if err := v.life.usable(); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	modules := v.store.Modules()
	version, err := modules.Version(ctx, ns, workflow, number)
	if err != nil {
		return err
	}
	if err := v.unused(ctx, ns, workflow, number); err != nil {
		return err
	}
	if err := modules.DeleteVersion(ctx, ns, workflow, number); err != nil {
		return err
	}
	if _, err := modules.Info(ctx, version.Module); err != nil { // no other version has it
		v.guests.Forget(version.Module)
	}
	return nil
}

// exampleOf bounds the runs of a workflow among which one of a version is looked for, to be named.
const exampleOf = store.MaxLooks

// unused returns a *module.InUseError if a version has runs. The versions are locked, so that no run gets it meanwhile.
func (v *Versions) unused(ctx context.Context, ns store.NamespaceID, workflow string, number uint32) error {
	counts, err := v.store.Counts(ctx, ns)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(counts, func(c store.Count) bool { return c.Workflow == workflow && c.Version == number })
	if i < 0 {
		return nil
	}
	used := &module.InUseError{Workflow: workflow, Version: number, Runs: counts[i].Runs.Total()}
	q := store.Query{Namespace: ns, Workflow: workflow, Oldest: true} // what is to be deleted is old
	for st, err := range store.Runs(ctx, v.store, q, exampleOf) {
		if err != nil {
			return err
		}
		if st.Version == number {
			used.Example = st.Run.ID
			break
		}
	}
	return used
}
