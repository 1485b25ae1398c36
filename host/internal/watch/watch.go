// Package watch tells those who watch runs that something of these has become durable.
package watch

import (
	"sync"

	"github.com/wfhost/wfhost/store"
)

// Watchers are those who watch, by run. They are safe for concurrent use.
type Watchers struct {
	mu   sync.Mutex // guards what follows; nothing is called, and nothing else is locked, while it is held
	runs map[store.RunKey]map[chan struct{}]struct{}
}

// New returns Watchers that watch nothing yet.
func New() *Watchers { return &Watchers{runs: map[store.RunKey]map[chan struct{}]struct{}{}} }

// Watch returns a channel that receives whenever something of the run became durable, until stop is called.
func (w *Watchers) Watch(key store.RunKey) (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs[key] == nil {
		w.runs[key] = map[chan struct{}]struct{}{}
	}
	w.runs[key][c] = struct{}{}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.runs[key], c)
		if len(w.runs[key]) == 0 {
			delete(w.runs, key)
		}
	}
}

// Changed tells those that watch a run.
func (w *Watchers) Changed(key store.RunKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tell(w.runs[key])
}

// ChangedAll tells all of them.
func (w *Watchers) ChangedAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, set := range w.runs {
		tell(set)
	}
}

func tell(set map[chan struct{}]struct{}) {
	for c := range set {
		select {
		case c <- struct{}{}:
		default: // it has not looked since it was told last
		}
	}
}
