package pebblestore

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// namespaceCounter is the key of the newest id of a namespace, u32be. Namespaces are never deleted, so it is also the
// number of namespaces.
var namespaceCounter = store.GlobalKey(0, store.TableMeta, []byte("namespace"))

func namespaceKey(name string) []byte { return store.GlobalKey(0, store.TableNamespace, []byte(name)) }

// Namespace returns the id of a durable namespace. If create is set, it waits for a concurrent creation.
func (s *Store) Namespace(_ context.Context, name string, create bool) (store.NamespaceID, error) {
	end, err := s.begin()
	if err != nil {
		return 0, err
	}
	defer end()
	if name == store.DefaultNamespace {
		return 0, nil
	}
	v, err := s.durable(namespaceKey(name))
	switch {
	case err != nil:
		return 0, err
	case v != nil:
		ns, err := store.DecodeNamespace(v)
		return ns.ID, err
	case !create:
		return 0, fmt.Errorf("namespace %q: %w", name, store.ErrNotFound)
	}
	return s.createNamespace(name)
}

// createNamespace creates a namespace. It holds the lock until the namespace is durable, so that callers that find it
// can rely on it.
func (s *Store) createNamespace(name string) (store.NamespaceID, error) {
	if err := abi.CheckNamespace(name); err != nil {
		return 0, err
	}
	end, err := s.beginWrite()
	if err != nil {
		return 0, err
	}
	defer end()
	s.settings.Lock()
	defer s.settings.Unlock()
	if v, err := s.durable(namespaceKey(name)); err != nil || v != nil { // created meanwhile
		if err != nil {
			return 0, err
		}
		ns, err := store.DecodeNamespace(v)
		return ns.ID, err
	}
	v, err := s.get(namespaceCounter)
	if err != nil {
		return 0, err
	}
	ns := store.Namespace{ID: 1, Name: name}
	if v != nil {
		if len(v) != 4 || binary.BigEndian.Uint32(v) == math.MaxUint32 {
			return 0, fmt.Errorf("%w: newest namespace %x", store.ErrCorrupt, v)
		}
		ns.ID = store.NamespaceID(binary.BigEndian.Uint32(v)) + 1
	}
	if err := store.CheckNamespaces(int(ns.ID) - 1); err != nil { // namespaces are never deleted
		return 0, err
	}
	if s.nowMs != nil {
		ns.CreatedUnixMs = s.nowMs()
	}
	b := s.db.NewBatch()
	defer s.drop(b)
	_ = b.Set(namespaceCounter, binary.BigEndian.AppendUint32(nil, uint32(ns.ID)), nil)
	_ = b.Set(namespaceKey(name), store.AppendNamespace(nil, &ns), nil)
	settle := s.settling.begin(namespaceKey(name), nil)
	if err := s.sync(b, nil); err != nil {
		return ns.ID, err
	}
	settle()
	return ns.ID, nil
}

// Namespaces lists the namespaces that are durable when it begins.
func (s *Store) Namespaces(context.Context) iter.Seq2[store.Namespace, error] {
	return func(yield func(store.Namespace, error) bool) {
		list, err := s.namespaces()
		for _, ns := range list {
			if !yield(ns, nil) {
				return
			}
		}
		if err != nil {
			yield(store.Namespace{}, err)
		}
	}
}

func (s *Store) namespaces() ([]store.Namespace, error) {
	end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	s.settings.RLock()
	defer s.settings.RUnlock()
	list := []store.Namespace{{Name: store.DefaultNamespace}}
	prefix := namespaceKey("")
	err = s.scan(prefix, store.PrefixEnd(prefix), func(_, v []byte) (bool, error) {
		ns, err := store.DecodeNamespace(v)
		list = append(list, ns)
		return true, err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b store.Namespace) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}
