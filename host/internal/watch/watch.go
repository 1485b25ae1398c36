// Package watch tells those who watch runs that something of these has become durable.
package watch

import (
	"sync"

	"github.com/wfhost/wfhost/store"
)

// Watchers are those who watch, by run. They are safe for concurrent use.
type Watchers struct {
	mu   sync.Mutex // guards what follows; nothing is called, and nothing else is locked, while it is held
	runs map[store.RunKey]map[chan struct{}]interest
	// feeds are those who watch all runs of a namespace.
	feeds map[store.NamespaceID]map[*Feed]bool
}

// interest is what is told to one who watches.
type interest uint8

const (
	changes interest = iota
	ends
)

// New returns Watchers that watch nothing yet.
func New() *Watchers {
	return &Watchers{runs: map[store.RunKey]map[chan struct{}]interest{}, feeds: map[store.NamespaceID]map[*Feed]bool{}}
}

// Watch returns a channel that receives whenever something of the run became durable, until stop is called.
func (w *Watchers) Watch(key store.RunKey) (changed <-chan struct{}, stop func()) {
	return w.watch(key, changes)
}

// WatchEnd returns a channel that receives when it became durable that the run has ended, waits for a person, or is gone, until
// stop is called. It may receive at other times, too.
func (w *Watchers) WatchEnd(key store.RunKey) (ended <-chan struct{}, stop func()) {
	return w.watch(key, ends)
}

func (w *Watchers) watch(key store.RunKey, what interest) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs[key] == nil {
		w.runs[key] = map[chan struct{}]interest{}
	}
	w.runs[key][c] = what
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.runs[key], c)
		if len(w.runs[key]) == 0 {
			delete(w.runs, key)
		}
	}
}

// Changed tells those that watch a run, and those that wait for its end if it has come to rest.
func (w *Watchers) Changed(key store.RunKey, atRest bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tell(w.runs[key], atRest)
	for f := range w.feeds[key.Namespace] {
		f.addLocked(key.ID)
	}
}

// ChangedAll tells all of them.
func (w *Watchers) ChangedAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, set := range w.runs {
		tell(set, true)
	}
	for _, set := range w.feeds {
		for f := range set {
			f.wake()
		}
	}
}

func tell(set map[chan struct{}]interest, atRest bool) {
	for c, what := range set {
		if what == ends && !atRest {
			continue
		}
		select {
		case c <- struct{}{}:
		default: // it has not looked since it was told last
		}
	}
}
