package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// walked counts the work of lists, for tests of the bounds.
type walked struct {
	mu    sync.Mutex
	looks int // entries of indexes looked at
	stats pebble.IteratorStats
}

// List returns a page of runs. It merges the entries of one index over all partitions, and reads the durable state of
// each run.
func (s *Store) List(ctx context.Context, q store.Query) (page store.Page, err error) {
	end, err := s.begin()
	if err != nil {
		return page, err
	}
	defer end()
	q.Statuses = store.Distinct(q.Statuses)
	lists := s.choose(&q)
	if len(lists) == 0 {
		return page, nil
	}
	m := &merge{s: s, oldest: q.Oldest}
	defer m.close()
	for p := range store.PartitionID(store.Partitions) {
		for _, list := range lists {
			if err := m.open(list(p), &q); err != nil {
				return page, err
			}
		}
	}
	limit := store.PageLimit(q.Limit)
	var at store.Position
	for looks, held := 0, 0; ; looks++ {
		next, ok, err := m.next()
		if err != nil || !ok {
			return page, err
		}
		if len(page.Runs) == limit || looks == store.MaxLooks || held >= store.MaxPageBytes {
			page.Next = &at
			return page, ctx.Err()
		}
		at = next
		st, err := s.state(store.RunKey{Namespace: q.Namespace, ID: at.ID})
		switch {
		case errors.Is(err, store.ErrNotFound):
		case errors.Is(err, store.ErrCorrupt): // one damaged run does not hide other runs
			page.Runs = append(page.Runs, store.Unreadable(store.RunKey{Namespace: q.Namespace, ID: at.ID}, at, err))
		case err != nil:
			return page, err
		case st.CreatedUnixMs == at.UnixMs && q.Matches(&st): // if a new run has replaced the entry's run, its position differs
			page.Runs = append(page.Runs, st)
			held += st.Bytes()
		}
	}
}

// choose returns the key prefixes of the lists to read for a query: among the lists that together hold all its runs,
// the ones with the fewest entries. It returns none if there is no such run.
func (s *Store) choose(q *store.Query) []func(store.PartitionID) []byte {
	var total, workflow, statuses, both int64
	s.tallies.mu.Lock()
	for of, n := range s.tallies.runs {
		if of.ns != q.Namespace {
			continue
		}
		total += n.Total()
		statuses += n.Of(q.Statuses)
		if q.Workflow == "" || of.workflow == q.Workflow {
			workflow += n.Total()
			both += n.Of(q.Statuses)
		}
	}
	s.tallies.mu.Unlock()
	least := min(workflow, statuses)
	switch {
	case both == 0:
		return nil
	case len(q.Attributes) > 0 && least > store.MaxLooks: // the number of runs with an attribute is unknown
		return []func(store.PartitionID) []byte{func(p store.PartitionID) []byte {
			return store.AttributeTable(q.Namespace, p, q.Attributes[0])
		}}
	case least*2 > total: // most runs would be looked at anyway
		return []func(store.PartitionID) []byte{func(p store.PartitionID) []byte {
			return store.AppendPrefix(nil, q.Namespace, p, store.TableRuns)
		}}
	case workflow <= statuses:
		return []func(store.PartitionID) []byte{func(p store.PartitionID) []byte {
			return store.WorkflowTable(q.Namespace, p, q.Workflow)
		}}
	}
	return statusLists(q)
}

// statusLists returns the lists of the statuses of a query.
func statusLists(q *store.Query) (lists []func(store.PartitionID) []byte) {
	busy := false
	for _, st := range q.Statuses {
		switch {
		case !st.Busy():
			lists = append(lists, func(p store.PartitionID) []byte { return store.StatusTable(q.Namespace, p, st) })
		case !busy:
			busy = true
			lists = append(lists, func(p store.PartitionID) []byte { return store.BusyTable(p, q.Namespace) })
		}
	}
	return lists
}

// merge iterates over several lists in the order of positions. All of its iterators share the snapshot of the first
// one.
type merge struct {
	s       *Store
	oldest  bool
	sources []source
	last    []byte // the key suffix that next returned last
	cur     int    // 1 plus the source of last; next advances it first
	looks   int
	stats   pebble.IteratorStats
}

// source is one list.
type source struct {
	it     *pebble.Iterator
	prefix int    // length of its key prefix
	rest   []byte // the current key without its prefix; nil at the end
}

// open adds a list, positioned where the page begins.
func (m *merge) open(list []byte, q *store.Query) error {
	n := len(list)
	lower, upper := slices.Clip(list), store.PrefixEnd(list)
	if q.CreatedFrom != nil {
		lower = store.AppendTime(slices.Clip(list), *q.CreatedFrom)
	}
	if q.CreatedBefore != nil {
		upper = store.AppendTime(slices.Clip(list), *q.CreatedBefore)
	}
	if q.After != nil {
		after := store.AppendPosition(slices.Clip(list), *q.After)
		if q.Oldest {
			lower = later(lower, append(after, 0))
		} else if bytes.Compare(after, upper) < 0 {
			upper = after
		}
	}
	if bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	return m.add(source{prefix: n}, &pebble.IterOptions{LowerBound: lower, UpperBound: upper})
}

func later(a, b []byte) []byte {
	if bytes.Compare(a, b) < 0 {
		return b
	}
	return a
}

// add opens the iterator of a source.
func (m *merge) add(x source, bounds *pebble.IterOptions) (err error) {
	if len(m.sources) == 0 {
		x.it, err = m.s.db.NewIter(bounds)
	} else {
		x.it, err = m.sources[0].it.Clone(pebble.CloneOptions{IterOptions: bounds})
	}
	if err != nil {
		return err
	}
	if m.oldest {
		x.it.First()
	} else {
		x.it.Last()
	}
	x.stand()
	m.sources = append(m.sources, x)
	return nil
}

func (x *source) stand() {
	x.rest = nil
	if x.it.Valid() {
		x.rest = x.it.Key()[x.prefix:]
	}
}

// next returns the next position, false at the end. A run that is in two lists is returned once.
func (m *merge) next() (store.Position, bool, error) {
	for {
		if m.cur > 0 {
			x := &m.sources[m.cur-1]
			if m.oldest {
				x.it.Next()
			} else {
				x.it.Prev()
			}
			x.stand()
		}
		m.cur = 0
		for i := range m.sources {
			x := &m.sources[i]
			if x.rest == nil {
				if err := x.it.Error(); err != nil {
					return store.Position{}, false, err
				}
				continue
			}
			if m.cur == 0 || (bytes.Compare(x.rest, m.sources[m.cur-1].rest) < 0) == m.oldest {
				m.cur = i + 1
			}
		}
		if m.cur == 0 {
			return store.Position{}, false, nil
		}
		m.looks++
		if rest := m.sources[m.cur-1].rest; !bytes.Equal(rest, m.last) {
			m.last = append(m.last[:0], rest...)
			at, err := store.ParseListKey(rest)
			return at, err == nil, err
		}
	}
}

func (m *merge) close() {
	for i := range m.sources {
		m.stats.Merge(m.sources[i].it.Stats())
		_ = m.sources[i].it.Close() // next has returned read errors
	}
	w := &m.s.walked
	w.mu.Lock()
	w.looks += m.looks
	w.stats.Merge(m.stats)
	w.mu.Unlock()
}
