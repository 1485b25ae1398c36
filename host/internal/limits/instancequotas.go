package limits

import (
	"sync"

	"github.com/wfhost/wfhost/store"
)

// InstanceQuotas counts the computing guests of each namespace. An admission calls it with its own lock held.
type InstanceQuotas struct {
	mu        sync.Mutex
	limits    perNamespace
	computing map[uint32]int64
}

// all sets the limit of the namespaces without their own.
func (i *InstanceQuotas) all(limit int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.limits.otherwise = limit
}

// set sets or removes the limit of a namespace.
func (i *InstanceQuotas) set(x *store.Quota, limit int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.limits.set(x, limit)
}

// Full reports whether a namespace has as many computing guests as it may.
func (i *InstanceQuotas) Full(namespace uint32) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	limit := i.limits.of(namespace)
	return limit > 0 && i.computing[namespace] >= limit
}

// Add adds n, which may be negative, to the computing guests of a namespace.
func (i *InstanceQuotas) Add(namespace uint32, n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.computing == nil {
		i.computing = map[uint32]int64{}
	}
	i.computing[namespace] += int64(n)
	if i.computing[namespace] == 0 {
		delete(i.computing, namespace)
	}
}

// Computing returns the number of computing guests of a namespace.
func (i *InstanceQuotas) Computing(ns store.NamespaceID) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return int(i.computing[uint32(ns)])
}
