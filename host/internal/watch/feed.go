package watch

import "github.com/wfhost/wfhost/store"

// Feed gathers the runs of a namespace of which something has become durable, each once, until they are taken.
type Feed struct {
	w     *Watchers
	space store.NamespaceID
	limit int
	c     chan struct{}

	ids   []string // in the order of their first change since they were taken
	known map[string]bool
	lost  bool // there were more than limit
}

// Feed begins a feed of a namespace, until its Stop. It holds at most limit runs that were not taken.
func (w *Watchers) Feed(space store.NamespaceID, limit int) *Feed {
	f := &Feed{w: w, space: space, limit: limit, c: make(chan struct{}, 1), known: map[string]bool{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.feeds[space] == nil {
		w.feeds[space] = map[*Feed]bool{}
	}
	w.feeds[space][f] = true
	return f
}

// Changed receives when there is something to take. It may receive at other times, too.
func (f *Feed) Changed() <-chan struct{} { return f.c }

// Take returns the ids of the runs that have changed since they were taken last, those first that changed first. It reports false
// if there were more than the limit: then some are missing, and the feed gathers nothing any more.
func (f *Feed) Take() (ids []string, complete bool) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	ids, f.ids = f.ids, nil
	clear(f.known)
	return ids, !f.lost
}

// Stop ends the feed.
func (f *Feed) Stop() {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	delete(f.w.feeds[f.space], f)
	if len(f.w.feeds[f.space]) == 0 {
		delete(f.w.feeds, f.space)
	}
}

func (f *Feed) addLocked(id string) {
	switch {
	case f.known[id] || f.lost:
		return
	case len(f.ids) == f.limit:
		f.lost = true
	default:
		f.known[id] = true
		f.ids = append(f.ids, id)
	}
	f.wake()
}

func (f *Feed) wake() {
	select {
	case f.c <- struct{}{}:
	default: // it has not looked since it was told last
	}
}
