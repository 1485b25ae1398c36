package module

import (
	"context"

	"github.com/wfhost/wfhost/store"
)

// exampleOf bounds how many runs of the workflow Unused scans for an example.
const exampleOf = store.MaxLooks

// Unused returns an *InUseError if a version has runs. The caller holds the lock of Versions, so that no new run gets
// the version.
func Unused(ctx context.Context, s store.Store, ns store.NamespaceID, workflow string, number uint32) error {
	runs, err := s.CountOf(ctx, ns, workflow, number)
	if err != nil || runs.Total() == 0 {
		return err
	}
	used := &InUseError{Workflow: workflow, Version: number, Runs: runs.Total()}
	q := store.Query{Namespace: ns, Workflow: workflow, Oldest: true} // deleted versions are mostly old, and so are their runs
	for st, err := range store.Runs(ctx, s, q, exampleOf) {
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
