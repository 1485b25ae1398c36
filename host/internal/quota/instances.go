package quota

import (
	"sync"

	"github.com/wfhost/wfhost/store"
)

// Instances counts the guests of each namespace that compute. An admission calls it while it is locked.
type Instances struct {
	mu        sync.Mutex
	otherwise int64            // limit where none is set; 0: none
	limits    map[uint32]int64 // that were set
	computing map[uint32]int64
}

// set sets the limit of a namespace, or removes it.
func (i *Instances) set(x *store.Quota) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.limits == nil {
		i.limits = map[uint32]int64{}
	}
	i.limits[uint32(x.Namespace)] = x.Instances
	if x.None() {
		delete(i.limits, uint32(x.Namespace))
	}
}

// Full reports whether no more guests of a namespace may compute.
func (i *Instances) Full(namespace uint32) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	limit, ok := i.limits[namespace]
	if !ok {
		limit = i.otherwise
	}
	return limit > 0 && i.computing[namespace] >= limit
}

// Add counts n more guests of a namespace.
func (i *Instances) Add(namespace uint32, n int) {
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

// Computing returns how many guests of a namespace compute.
func (i *Instances) Computing(ns store.NamespaceID) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return int(i.computing[uint32(ns)])
}
