package pebblestore

import (
	"sync"

	"github.com/wfhost/wfhost/store"
)

// maxLatest bounds the workflows whose latest versions are remembered: some 200 bytes each.
const maxLatest = 4096

// latest remembers the latest version of workflows, which every start asks for. The record may stand in one block with the
// bytes of a module, and reading it anew would read these, too.
type latest struct {
	mu      sync.Mutex // nothing is locked while it is held
	of      map[workflowKey]store.Version
	changes uint64 // how often versions have changed
}

type workflowKey struct {
	ns   store.NamespaceID
	name string
}

// get returns the latest version of a workflow, if that is known, and what put has to be given otherwise.
func (l *latest) get(ns store.NamespaceID, workflow string) (v store.Version, ok bool, changes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok = l.of[workflowKey{ns, workflow}]
	return v, ok, l.changes
}

// put remembers what was read since get, unless versions have changed meanwhile.
func (l *latest) put(v store.Version, changes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changes != changes {
		return
	}
	if l.of == nil || len(l.of) >= maxLatest {
		l.of = map[workflowKey]store.Version{}
	}
	l.of[workflowKey{v.Namespace, v.Workflow}] = v
}

// changed forgets everything, after versions have changed.
func (l *latest) changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of = nil
	l.changes++
}
