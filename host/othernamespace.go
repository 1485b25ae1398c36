package host

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"

	"github.com/wfhost/wfhost/store"
)

// ElsewhereError is the ErrConflict of a request to continue a run in a namespace while another namespace of the host
// has that run. Its text does not name the other namespace: callers with rights in one namespace need not know of
// others. Show Detail only to callers who may read the namespace Namespace.
type ElsewhereError struct {
	RunID     string
	Namespace string // the namespace that has the run
	Adopted   bool   // the run was moved to it; otherwise the run lives there without a move
}

// Error says that another namespace has the run, without naming it.
func (e *ElsewhereError) Error() string { return e.in("another namespace") }

// Detail says which namespace has the run.
func (e *ElsewhereError) Detail() string { return e.in(fmt.Sprintf("namespace %q", e.Namespace)) }

func (e *ElsewhereError) in(namespace string) string {
	if e.Adopted {
		return fmt.Sprintf("run %q was adopted in %s of this host, where it acts, or has acted", e.RunID, namespace)
	}
	return fmt.Sprintf("run %q lives in %s of this host: export it from there with --move", e.RunID, namespace)
}

// Unwrap returns ErrConflict.
func (e *ElsewhereError) Unwrap() error { return ErrConflict }

// actingLocks is how many locks the ids of runs share. With this many, an import seldom waits while elsewhere reads a
// state in each namespace for another run.
const actingLocks = 64

// acting holds the locks for runs that are imported to continue here.
type acting [actingLocks]sync.Mutex

// of returns the lock of an id. The caller holds it from the check that the run acts in no other namespace until it
// is durable that the run acts in this one. It is taken before all other locks, and only one of these locks is held
// at a time.
func (a *acting) of(id string) *sync.Mutex {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never an error
	return &a[h.Sum32()%actingLocks]
}

// elsewhere returns an ElsewhereError if a run that a caller wants to continue here lives in another namespace of
// this host, or was adopted there since the move. It does so with Force as well: each of the two runs would take the
// other's messages for its own. A caller that depends on the answer holds the id's lock of s.h.importing.acting until
// the run is stored.
//
// It reads a state in each namespace, since there is no index of runs by id alone.
func (s *nsRef) elsewhere(ctx context.Context, id, incarnation, move string) error {
	for ns, err := range s.h.store.Namespaces(ctx) {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if ns.Name == s.title() {
			continue
		}
		st, err := s.h.store.State(ctx, store.RunKey{Namespace: ns.ID, ID: id})
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		switch {
		case st.Incarnation.String() != incarnation || st.Aside == store.AsideCopy:
		case st.Import == move:
			return &ElsewhereError{RunID: id, Namespace: ns.Name, Adopted: true}
		case st.Aside == store.NotAside && !st.Status.Terminal() && !st.Deleted:
			return &ElsewhereError{RunID: id, Namespace: ns.Name}
		}
	}
	return nil
}
