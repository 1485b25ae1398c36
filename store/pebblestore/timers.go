package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// Timers returns a page of runs by their deadlines. It merges the wake indexes of all partitions, which hold the wakes
// of all namespaces and kinds, so each iterator seeks past the other wakes.
func (s *Store) Timers(ctx context.Context, q store.TimerQuery) (page store.Page, err error) {
	end, err := s.begin()
	if err != nil {
		return page, err
	}
	defer end()
	m := &wakes{s: s, q: &q}
	defer m.close()
	for p := range store.PartitionID(store.Partitions) {
		if err := m.open(p); err != nil {
			return page, err
		}
	}
	limit := store.PageLimit(q.Limit)
	at, held := q.After, 0
	for {
		x := m.first()
		switch {
		case x == nil:
			return page, m.err
		case len(page.Runs) == limit || m.looks >= store.MaxLooks || held >= store.MaxPageBytes:
			if next := (store.Position{UnixMs: x.at.UnixMs}); at == nil || at.UnixMs < next.UnixMs {
				at = &next // the next page begins with x
			}
			page.Next = at
			return page, ctx.Err()
		case !x.own:
			m.skip(x)
			continue
		}
		here := x.at
		at = &here
		st, err := s.state(store.RunKey{Namespace: q.Namespace, ID: here.ID})
		switch {
		case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrCorrupt): // it is unknown whether the run still waits for this
		case err != nil:
			return page, err
		case q.Matches(&st) && max(st.WakeUnixMs, 0) == here.UnixMs:
			page.Runs = append(page.Runs, st)
			held += st.Bytes()
		}
		m.move(x, x.it.Next())
	}
}

// wakes iterates over the wake indexes of all partitions.
type wakes struct {
	s       *Store
	q       *store.TimerQuery
	sources []wakeSource
	looks   int
	err     error
}

type wakeSource struct {
	p   store.PartitionID
	it  *pebble.Iterator
	ok  bool
	own bool           // positioned on a wake of a run of the namespace
	at  store.Position // position of the wake; for another wake, the first instant at which own wakes may follow, without an id
}

func (m *wakes) open(p store.PartitionID) error {
	prefix := store.AppendPrefix(nil, 0, p, store.TableWake)
	mark := &m.s.marks[p]
	mark.mu.RLock()
	lower := mark.lower(prefix)
	mark.mu.RUnlock()
	if after := m.q.After; after != nil {
		key := store.WakeIndexKey(p, m.key(*after))
		if after.ID != "" {
			key = append(key, 0)
		}
		lower = later(lower, key)
	}
	until := uint64(max(m.q.UntilMs, 0)) + 1
	bounds := &pebble.IterOptions{LowerBound: lower, UpperBound: binary.BigEndian.AppendUint64(prefix, until)}
	x := wakeSource{p: p}
	var err error
	if len(m.sources) == 0 {
		x.it, err = m.s.db.NewIter(bounds)
	} else {
		x.it, err = m.sources[0].it.Clone(pebble.CloneOptions{IterOptions: bounds})
	}
	if err != nil {
		return err
	}
	m.sources = append(m.sources, x)
	last := &m.sources[len(m.sources)-1]
	m.move(last, x.it.First())
	return nil
}

// key returns the wake of a run at an instant.
func (m *wakes) key(at store.Position) store.WakeKey {
	return store.WakeKey{UnixMs: at.UnixMs, Key: store.RunKey{Namespace: m.q.Namespace, ID: at.ID}}
}

// move records the position of a source.
func (m *wakes) move(x *wakeSource, ok bool) {
	m.looks++
	x.ok = ok
	if !ok {
		m.err = firstError(m.err, x.it.Error())
		return
	}
	w, err := store.ParseWakeIndexKey(x.it.Key())
	if err != nil {
		m.err, x.ok = firstError(m.err, err), false
		return
	}
	x.own = w.Kind == store.WakeRun && w.Key.Namespace == m.q.Namespace
	x.at = store.Position{UnixMs: w.UnixMs}
	if x.own {
		x.at.ID = w.Key.ID
	} else if m.q.Namespace != store.NamespaceID(0) && w.Compare(m.key(x.at)) > 0 { // after the own wakes of its instant
		x.at.UnixMs++
	}
}

// skip moves a source from another wake to the first position where an own wake may be.
func (m *wakes) skip(x *wakeSource) {
	key := store.WakeIndexKey(x.p, m.key(x.at))
	if m.q.Namespace == store.NamespaceID(0) { // other wakes of an instant come first, see FORMAT.md
		key = append(key, 1)
	}
	m.move(x, x.it.SeekGE(key))
}

// first returns the source with the smallest position, nil at the end or after an error.
func (m *wakes) first() *wakeSource {
	if m.err != nil {
		return nil
	}
	var best *wakeSource
	for i := range m.sources {
		if x := &m.sources[i]; x.ok && (best == nil || x.at.Compare(best.at) < 0) {
			best = x
		}
	}
	return best
}

func (m *wakes) close() {
	w := &m.s.walked
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks += m.looks
	for i := range m.sources {
		w.stats.Merge(m.sources[i].it.Stats())
		_ = m.sources[i].it.Close() // move has recorded read errors
	}
}
