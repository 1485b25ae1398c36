package runtime

import "github.com/wfhost/wfhost/store"

// Feed collects the ids of a namespace's runs that had a durable change, each once, until Take.
type Feed struct {
	w     *Watchers
	space store.NamespaceID
	limit int
	c     chan struct{}

	ids   []string // in the order of their first change since the last Take
	known map[string]bool
	lost  bool // more than limit runs changed
}

// Feed starts a feed of a namespace, which runs until its Stop. It holds at most limit runs between two calls of
// Take.
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

// Changed returns a channel that receives when Take has ids, or when the feed has lost some. It may also receive at
// other times.
func (f *Feed) Changed() <-chan struct{} { return f.c }

// Take returns the ids of the runs that have changed since the last Take, in the order of their first change. It
// returns false if more runs than the limit have changed: then ids are missing, and the feed collects no more.
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
	default: // the reader has not consumed the last notice yet
	}
}
