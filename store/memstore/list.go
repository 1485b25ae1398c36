package memstore

import (
	"context"
	"maps"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// List returns a page of runs.
func (s *Store) List(_ context.Context, q store.Query) (store.Page, error) {
	q.Statuses = store.Distinct(q.Statuses)
	return s.page(q.Limit, func(st *store.RunState) (store.Position, bool) {
		at := store.Position{UnixMs: st.CreatedUnixMs, ID: st.Run.ID}
		return at, q.Matches(st) && q.Beyond(at)
	}, !q.Oldest)
}

// Timers returns a page of the runs that wait for a deadline.
func (s *Store) Timers(_ context.Context, q store.TimerQuery) (store.Page, error) {
	return s.page(q.Limit, func(st *store.RunState) (store.Position, bool) {
		at := store.Position{UnixMs: max(st.WakeUnixMs, 0), ID: st.Run.ID}
		return at, q.Matches(st) && (q.After == nil || at.Compare(*q.After) > 0)
	}, false)
}

// page returns the first runs that choose selects, in the order of their positions.
func (s *Store) page(limit int, choose func(*store.RunState) (store.Position, bool), falling bool) (page store.Page, err error) {
	if err := s.lock(); err != nil {
		return page, err
	}
	defer s.d.mu.Unlock()
	type listed struct {
		at  store.Position
		run *run
	}
	var list []listed
	for _, r := range s.d.runs {
		if at, ok := choose(&r.state); ok {
			list = append(list, listed{at, r})
		}
	}
	slices.SortFunc(list, func(a, b listed) int {
		if falling {
			return b.at.Compare(a.at)
		}
		return a.at.Compare(b.at)
	})
	fitting := list[:min(store.PageLimit(limit), len(list))]
	fitting = fitting[:store.Fitting(fitting, func(p *listed) int { return p.run.state.Bytes() })]
	for _, p := range fitting {
		page.Runs = append(page.Runs, p.run.state)
	}
	if n := len(fitting); n < len(list) {
		page.Next = &list[n-1].at
	}
	return page, nil
}

// Counts returns the number of runs of each version in a namespace.
func (s *Store) Counts(_ context.Context, ns store.NamespaceID) ([]store.Count, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.d.mu.Unlock()
	type kind struct {
		workflow string
		version  uint32
	}
	counts := map[kind]store.Count{}
	for _, r := range s.d.runs {
		if st := &r.state; st.Run.Namespace == ns && !st.Deleted {
			k := kind{st.Workflow, st.Version}
			c := counts[k]
			c.Workflow, c.Version = k.workflow, k.version
			c.Runs.Add(st.Status, 1)
			counts[k] = c
		}
	}
	return slices.SortedFunc(maps.Values(counts), store.CompareCounts), nil
}

// Tallies returns the number of runs of each namespace.
func (s *Store) Tallies(context.Context) (map[store.NamespaceID]store.Tally, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.d.mu.Unlock()
	all := map[store.NamespaceID]store.Tally{}
	for _, r := range s.d.runs {
		if st := &r.state; !st.Deleted {
			n := all[st.Run.Namespace]
			n.Add(st.Status, 1)
			all[st.Run.Namespace] = n
		}
	}
	return all, nil
}

// CountOf returns the number of runs of a version of a workflow.
func (s *Store) CountOf(_ context.Context, ns store.NamespaceID, workflow string, version uint32) (n store.Tally, err error) {
	if err := s.lock(); err != nil {
		return n, err
	}
	defer s.d.mu.Unlock()
	for _, r := range s.d.runs {
		if st := &r.state; st.Run.Namespace == ns && !st.Deleted && st.Workflow == workflow && st.Version == version {
			n.Add(st.Status, 1)
		}
	}
	return n, nil
}
