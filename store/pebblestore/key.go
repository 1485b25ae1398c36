package pebblestore

import (
	"context"

	"github.com/wfhost/wfhost/store"
)

// Keys returns the keys with which payloads were encoded.
func (s *Store) Keys(context.Context) ([]store.Key, error) {
	end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	s.spaces.RLock()
	defer s.spaces.RUnlock()
	return s.keys()
}

func (s *Store) keys() (list []store.Key, err error) {
	prefix := store.GlobalKey(0, store.TableKey, nil)
	err = s.scan(prefix, store.PrefixEnd(prefix), func(_, v []byte) (bool, error) {
		k, err := store.DecodeKey(v)
		list = append(list, k)
		return true, err
	})
	return list, err
}

// AddKey stores a key.
func (s *Store) AddKey(_ context.Context, k store.Key) error {
	if err := store.CheckKey(&k); err != nil {
		return err
	}
	end, err := s.beginWrite()
	if err != nil {
		return err
	}
	defer end()
	s.spaces.Lock()
	defer s.spaces.Unlock()
	key := store.GlobalKey(0, store.TableKey, []byte(k.ID))
	old, err := s.get(key)
	if err != nil || old != nil {
		return err
	}
	b := s.db.NewBatch()
	defer s.drop(b)
	_ = b.Set(key, store.AppendKey(nil, &k), nil)
	return s.sync(b, nil)
}
