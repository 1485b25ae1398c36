package pebblestore

import (
	"bytes"
	"context"

	"github.com/wfhost/wfhost/store"
)

// Ended returns ended or deleted runs.
func (s *Store) Ended(_ context.Context, q store.EndedQuery) (list []store.Position, err error) {
	end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	lower, upper := q.Range()
	if bytes.Compare(lower, upper) >= 0 {
		return nil, nil
	}
	err = s.scan(lower, upper, func(k, _ []byte) (bool, error) {
		if len(list) >= q.Limit {
			return false, nil
		}
		at, err := store.ParseEndedKey(k)
		list = append(list, at)
		return true, err
	})
	return list, err
}

// SetRetention sets or removes a retention.
func (s *Store) SetRetention(_ context.Context, r store.Retention) error {
	end, err := s.beginWrite()
	if err != nil {
		return err
	}
	defer end()
	s.settings.Lock()
	defer s.settings.Unlock()
	key := store.RetentionKey(r.Namespace, r.Workflow)
	old, err := s.get(key)
	if err != nil || old == nil && r.None() {
		return err
	}
	b := s.db.NewBatch()
	defer s.drop(b)
	if r.None() {
		_ = b.Delete(key, nil)
		return s.sync(b, nil)
	}
	list, err := s.retentions()
	if err == nil {
		err = store.CheckRetentions(list, &r)
	}
	if err != nil {
		return err
	}
	_ = b.Set(key, store.AppendRetention(nil, &r), nil)
	return s.sync(b, nil)
}

// Retentions returns the durable retentions.
func (s *Store) Retentions(context.Context) ([]store.Retention, error) {
	end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	s.settings.RLock()
	defer s.settings.RUnlock()
	return s.retentions()
}

func (s *Store) retentions() (list []store.Retention, err error) {
	prefix := store.GlobalKey(0, store.TableRetention, nil)
	err = s.scan(prefix, store.PrefixEnd(prefix), func(_, v []byte) (bool, error) {
		r, err := store.DecodeRetention(v)
		list = append(list, r)
		return true, err
	})
	return list, err
}
