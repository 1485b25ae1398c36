package runtime

import (
	"sync"

	"github.com/wfhost/wfhost/store"
)

// Watchers holds the watchers of runs and the feeds of namespaces. It is safe for concurrent use.
type Watchers struct {
	mu   sync.Mutex // guards all fields below; no callback runs and no other lock is taken while it is held
	runs map[store.RunKey]map[chan struct{}]interest
	// feeds holds the watchers of all runs of a namespace.
	feeds map[store.NamespaceID]map[*Feed]bool
}

// interest is the kind of change that a watcher wants.
type interest uint8

const (
	changes interest = iota
	ends
)

// newWatchers returns Watchers without any watcher.
func newWatchers() *Watchers {
	return &Watchers{runs: map[store.RunKey]map[chan struct{}]interest{}, feeds: map[store.NamespaceID]map[*Feed]bool{}}
}

// Watch returns a channel that receives after a durable change of the run, until stop is called. Changes are
// coalesced until the channel is read.
func (w *Watchers) Watch(key store.RunKey) (changed <-chan struct{}, stop func()) {
	return w.watch(key, changes)
}

// WatchEnd returns a channel that receives when it is durable that the run has ended, waits for a person, or is gone,
// until stop is called. It may also receive at other times.
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

// Changed notifies the watchers of a run and the feeds of its namespace. Watchers of the run's end are notified only
// if it is at rest.
func (w *Watchers) Changed(key store.RunKey, atRest bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tell(w.runs[key], atRest)
	for f := range w.feeds[key.Namespace] {
		f.addLocked(key.ID)
	}
}

// ChangedAll notifies all watchers and feeds.
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
		default: // the reader has not consumed the last notice yet
		}
	}
}
