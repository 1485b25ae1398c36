package host

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"

	"github.com/wfhost/wfhost/store"
)

// ElsewhereError is the ErrConflict of a run that is to continue in a namespace while another one of the host has it. Its
// text does not name the other one: who may act in a namespace need not know which others there are. Show Detail to
// those who may read the namespace Namespace.
type ElsewhereError struct {
	RunID     string
	Namespace string // that has the run
	Adopted   bool   // it was moved there; otherwise it lives there, and was not moved
}

// Error says that another namespace has the run, and not which.
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

// actingLocks is how many locks the ids of runs share, so that a caller who imports one run seldom waits for the look for
// another one, which reads a state in each namespace.
const actingLocks = 64

// acting is the locks of runs that are to continue here.
type acting [actingLocks]sync.Mutex

// of returns the lock of an id. It is held from the look whether such a run acts in another namespace until it is
// durable that it acts in this one. It is taken before any other lock, and only one of them is held at a time.
func (a *acting) of(id string) *sync.Mutex {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never an error
	return &a[h.Sum32()%actingLocks]
}

// elsewhere returns an ElsewhereError if a run that is to continue here lives in another namespace of this host, or was
// adopted there since the move. Force does not change that: each of the two would take messages to the other one for
// its own. A caller that depends on the answer holds the id's lock of s.h.importing.acting until the run is stored.
//
// It reads a state in each namespace, since runs are found by their namespace and id, and by no id alone.
func (s *scope) elsewhere(ctx context.Context, id, incarnation, move string) error {
	for ns, err := range s.h.store.Namespaces(ctx) {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if ns.Name == s.Name() {
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
