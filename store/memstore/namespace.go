package memstore

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// Namespace returns the id of a namespace.
func (s *Store) Namespace(_ context.Context, name string, create bool) (store.NamespaceID, error) {
	if err := s.lock(); err != nil {
		return 0, err
	}
	defer s.d.mu.Unlock()
	if name == store.DefaultNamespace {
		return 0, nil
	}
	if id, ok := s.d.spaceIDs[name]; ok {
		return id, nil
	}
	if !create {
		return 0, fmt.Errorf("namespace %q: %w", name, store.ErrNotFound)
	}
	s.d.settings++
	if err := abi.CheckNamespace(name); err != nil {
		return 0, err
	}
	if err := store.CheckNamespaces(len(s.d.spaces)); err != nil {
		return 0, err
	}
	ns := store.Namespace{ID: store.NamespaceID(len(s.d.spaces) + 1), Name: name}
	if s.d.NowMs != nil {
		ns.CreatedUnixMs = s.d.NowMs()
	}
	s.d.spaces, s.d.spaceIDs[name] = append(s.d.spaces, ns), ns.ID
	return ns.ID, nil
}

// Namespaces lists the namespaces.
func (s *Store) Namespaces(context.Context) iter.Seq2[store.Namespace, error] {
	return func(yield func(store.Namespace, error) bool) {
		if err := s.lock(); err != nil {
			yield(store.Namespace{}, err)
			return
		}
		list := append([]store.Namespace{{Name: store.DefaultNamespace}}, s.d.spaces...)
		s.d.mu.Unlock()
		slices.SortFunc(list, func(a, b store.Namespace) int { return strings.Compare(a.Name, b.Name) })
		for _, ns := range list {
			if !yield(ns, nil) {
				return
			}
		}
	}
}
