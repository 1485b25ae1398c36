package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// Ended returns ended or deleted runs.
func (s *Store) Ended(_ context.Context, q store.EndedQuery) (list []store.Position, err error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.d.mu.Unlock()
	for key, r := range s.d.runs {
		at := store.Position{UnixMs: max(r.state.RetainedUnixMs(), 0), ID: key.ID}
		if q.Deleted {
			at.UnixMs = max(r.state.UpdatedUnixMs, 0)
		}
		selected := r.state.Deleted == q.Deleted && (q.Deleted || r.state.Status.Terminal())
		if selected && key.Namespace == q.Namespace && key.Partition() == q.Partition && at.UnixMs <= q.UntilMs &&
			at.Compare(q.After) > 0 {
			list = append(list, at)
		}
	}
	slices.SortFunc(list, store.Position.Compare)
	return list[:min(len(list), q.Limit)], nil
}

// SetRetention sets or removes a retention.
func (s *Store) SetRetention(_ context.Context, r store.Retention) error {
	if err := s.change(); err != nil {
		return err
	}
	defer s.d.mu.Unlock()
	i, found := slices.BinarySearchFunc(s.d.retentions, r, func(a, b store.Retention) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Workflow, b.Workflow))
	})
	list := slices.Clone(s.d.retentions)
	if found {
		list = slices.Delete(list, i, i+1)
	}
	if !r.None() {
		if err := store.CheckRetentions(list, &r); err != nil {
			return err
		}
		list = slices.Insert(list, i, r)
	}
	s.d.retentions = list
	return nil
}

// Retentions returns all retentions.
func (s *Store) Retentions(context.Context) ([]store.Retention, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.d.mu.Unlock()
	return slices.Clone(s.d.retentions), nil
}
