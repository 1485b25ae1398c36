package memstore

import (
	"context"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/store"
)

// SealKeys returns the keys with which payloads were encoded.
func (s *Store) SealKeys(context.Context) ([]store.SealKey, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.d.mu.Unlock()
	return slices.Clone(s.d.keys), nil
}

// AddSealKey stores a key.
func (s *Store) AddSealKey(_ context.Context, k store.SealKey) error {
	if err := store.CheckSealKey(&k); err != nil {
		return err
	}
	if err := s.change(); err != nil {
		return err
	}
	defer s.d.mu.Unlock()
	i, found := slices.BinarySearchFunc(s.d.keys, k.ID, func(k store.SealKey, id string) int { return strings.Compare(k.ID, id) })
	if !found {
		s.d.keys = slices.Insert(s.d.keys, i, k)
	}
	return nil
}
