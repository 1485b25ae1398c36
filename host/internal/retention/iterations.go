package retention

import (
	"context"
	"sync"

	"github.com/wfhost/wfhost/store"
)

// freshMs is how long retentions that were read hold for iterations, unless they are changed here: another host may share the
// store.
const freshMs = 60 * 1000

// Iterations says for how long runs that live keep the journals of earlier iterations. Its methods may be called concurrently.
type Iterations struct {
	read      func(context.Context) ([]store.Retention, error)
	otherwise store.Retention

	mu     sync.Mutex
	rules  map[store.NamespaceID]*rules // nil: they must be read
	readMs int64
}

// NewIterations returns what reads retentions by a function. otherwise is that of workflows for which there is none.
func NewIterations(read func(context.Context) ([]store.Retention, error), otherwise store.Retention) *Iterations {
	return &Iterations{read: read, otherwise: otherwise}
}

// Of returns what holds for the runs of a workflow. It must not be changed.
func (i *Iterations) Of(ctx context.Context, ns store.NamespaceID, workflow string, nowMs int64) (*store.Retention, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.rules == nil || nowMs-i.readMs >= freshMs || nowMs < i.readMs {
		list, err := i.read(ctx)
		if err != nil {
			return nil, err
		}
		i.rules, i.readMs = rulesOf(list, i.otherwise), nowMs
	}
	if of := i.rules[ns]; of != nil {
		return of.of(workflow), nil
	}
	return &i.otherwise, nil
}

// Changed says that the retentions of the store are others.
func (i *Iterations) Changed() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rules = nil
}
