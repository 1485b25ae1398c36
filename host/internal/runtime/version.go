package runtime

import (
	"context"
	"fmt"

	"github.com/wfhost/wfhost/store"
)

// HoldVersions keeps versions from being deleted until release is called: between choosing one for a run and the
// run's being durable.
func (rt *Runtime) HoldVersions() (release func()) {
	rt.versions.RLock()
	return rt.versions.RUnlock
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
func (rt *Runtime) DeleteVersion(ctx context.Context, ns store.NamespaceID, workflow string, number uint32) error {
	if err := rt.usable(); err != nil {
		return err
	}
	rt.versions.Lock()
	defer rt.versions.Unlock()
	modules := rt.cfg.Store.Modules()
	v, err := modules.Version(ctx, ns, workflow, number)
	if err != nil {
		return err
	}
	used := &InUseError{Workflow: workflow, Version: number}
	for st, err := range rt.cfg.Store.Runs(ctx, store.Query{Namespace: ns, Workflow: workflow}) {
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
	if err := modules.DeleteVersion(ctx, ns, workflow, number); err != nil {
		return err
	}
	if _, err := modules.Info(ctx, v.Module); err == nil {
		return nil // another version has it
	}
	rt.guests.Forget(v.Module)
	return nil
}
