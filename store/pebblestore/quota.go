package pebblestore

import (
	"context"

	"github.com/wfhost/wfhost/store"
)

// SetQuota sets or removes a quota.
func (s *Store) SetQuota(_ context.Context, q store.Quota) error {
	end, err := s.beginWrite()
	if err != nil {
		return err
	}
	defer end()
	s.settings.Lock()
	defer s.settings.Unlock()
	key := store.QuotaKey(q.Namespace)
	old, err := s.get(key)
	if err != nil || old == nil && q.None() {
		return err
	}
	b := s.db.NewBatch()
	defer s.drop(b)
	if old == nil {
		list, err := s.quotas()
		if err != nil {
			return err
		}
		if err := store.CheckQuotas(len(list)); err != nil {
			return err
		}
	}
	if q.None() {
		_ = b.Delete(key, nil)
	} else {
		_ = b.Set(key, store.AppendQuota(nil, &q), nil)
	}
	return s.sync(b, nil)
}

// Quotas returns the durable quotas.
func (s *Store) Quotas(context.Context) ([]store.Quota, error) {
	end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	s.settings.RLock()
	defer s.settings.RUnlock()
	return s.quotas()
}

func (s *Store) quotas() (list []store.Quota, err error) {
	prefix := store.GlobalKey(0, store.TableQuota, nil)
	err = s.scan(prefix, store.PrefixEnd(prefix), func(_, v []byte) (bool, error) {
		q, err := store.DecodeQuota(v)
		list = append(list, q)
		return true, err
	})
	return list, err
}
