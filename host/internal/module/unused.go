package module

import (
	"context"

	"github.com/wfhost/wfhost/store"
)

// exampleOf bounds the runs of a workflow among which one of a version is looked for, to be named.
const exampleOf = store.MaxLooks

// Unused returns a *InUseError if a version has runs. The caller holds the versions, so that no run gets it meanwhile.
func Unused(ctx context.Context, s store.Store, ns store.NamespaceID, workflow string, number uint32) error {
	runs, err := s.CountOf(ctx, ns, workflow, number)
	if err != nil || runs.Total() == 0 {
		return err
	}
	used := &InUseError{Workflow: workflow, Version: number, Runs: runs.Total()}
	q := store.Query{Namespace: ns, Workflow: workflow, Oldest: true} // what is to be deleted is old
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
