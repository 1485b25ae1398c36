package retention

import (
	"context"
	"sync"

	"github.com/wfhost/wfhost/store"
)

// freshMs is how long Iterations uses retentions that it has read, unless Changed is called. Another host may change them.
const freshMs = 60 * 1000

// Iterations says how long live runs keep the journals of earlier iterations. Its methods may be called concurrently.
type Iterations struct {
	read      func(context.Context) ([]store.Retention, error)
	otherwise store.Retention

	mu     sync.Mutex
	rules  map[store.NamespaceID]*rules // nil: they must be read
	readMs int64
}

// NewIterations returns Iterations that call read for the retentions. otherwise applies to workflows without one.
func NewIterations(read func(context.Context) ([]store.Retention, error), otherwise store.Retention) *Iterations {
	return &Iterations{read: read, otherwise: otherwise}
}

// Of returns the retention of a workflow. The caller must not change it.
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

// Changed makes the next Of read the retentions again.
func (i *Iterations) Changed() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rules = nil
}
