package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// SetQuota sets or removes a quota.
func (s *Store) SetQuota(_ context.Context, q store.Quota) error {
	if err := s.change(); err != nil {
		return err
	}
	defer s.d.mu.Unlock()
	i, found := slices.BinarySearchFunc(s.d.quotas, q, func(a, b store.Quota) int { return cmp.Compare(a.Namespace, b.Namespace) })
	list := slices.Clone(s.d.quotas)
	if found {
		list = slices.Delete(list, i, i+1)
	}
	if !q.None() {
		if err := store.CheckQuotas(len(list)); err != nil {
			return err
		}
		list = slices.Insert(list, i, q)
	}
	s.d.quotas = list
	return nil
}

// Quotas returns all quotas.
func (s *Store) Quotas(context.Context) ([]store.Quota, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.d.mu.Unlock()
	return slices.Clone(s.d.quotas), nil
}

// Used returns the usage of a namespace.
func (s *Store) Used(_ context.Context, ns store.NamespaceID) (u store.Usage, err error) {
	if err := s.lock(); err != nil {
		return u, err
	}
	defer s.d.mu.Unlock()
	return s.d.used[ns], nil
}

// count adds n times the usage of a run to its namespace, if the run exists.
func (d *Data) count(key store.RunKey, n int64) {
	r := d.runs[key]
	if r == nil || r.state.Deleted {
		return
	}
	u := d.used[key.Namespace]
	u.Bytes += n * r.state.UsageBytes()
	if !r.state.Status.Terminal() {
		u.Runs += n
	}
	d.used[key.Namespace] = u
}
