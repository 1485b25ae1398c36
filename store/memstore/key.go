package memstore

import (
	"context"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/store"
)

// Keys returns the keys with which payloads were encoded.
func (s *Store) Keys(context.Context) ([]store.Key, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.d.mu.Unlock()
	return slices.Clone(s.d.keys), nil
}

// AddKey stores a key.
func (s *Store) AddKey(_ context.Context, k store.Key) error {
	if err := store.CheckKey(&k); err != nil {
		return err
	}
	if err := s.lock(); err != nil {
		return err
	}
	defer s.d.mu.Unlock()
	i, found := slices.BinarySearchFunc(s.d.keys, k.ID, func(k store.Key, id string) int { return strings.Compare(k.ID, id) })
	if !found {
		s.d.keys = slices.Insert(s.d.keys, i, k)
	}
	return nil
}
