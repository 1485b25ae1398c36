package host

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// Namespace is a part of a host with workflows and runs of its own. It has all methods that Host has for them; Host's
// methods act on the namespace "default". Run ids and tokens of hooks are separate in each namespace. A child belongs
// to the namespace of its parent. Handlers of steps, the limits in Config and the store belong to the host and are
// shared.
//
// A namespace is created by the first upload to it, or by Host.SetQuota. Until then its other methods return
// ErrNotFound. It is safe for concurrent use, and need not be closed.
type Namespace struct{ scope }

// NamespaceInfo describes a namespace.
type NamespaceInfo struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created,omitzero"` // zero for the default namespace
	Quota   Quota     `json:"quota"`            // as Namespace.Quota returns it
	Usage   Usage     `json:"usage"`
}

// scope is the common part of Host and Namespace.
type scope struct{ nsRef }

// nsRef refers to a namespace of a host. Host, Namespace and the groups of methods, such as Schedules, embed it.
type nsRef struct {
	h    *Host
	name string // empty = the default namespace
	// number is the namespace's id plus 1; 0 until the namespace is known to exist.
	number atomic.Uint64
}

func (s *nsRef) init(h *Host, name string) {
	s.h = h
	if name == store.DefaultNamespace {
		name = ""
	}
	s.name = name
	if name == "" {
		s.number.Store(1)
	}
}

// Namespace returns a namespace by its name: 1 to 63 of a-z 0-9 -, beginning and ending with a letter or digit, else
// ErrInvalid. Both "default" and the empty name are the namespace of Host's own methods. It creates nothing, and the
// namespace need not exist.
func (h *Host) Namespace(ctx context.Context, name string) (*Namespace, error) {
	if name != "" {
		if err := abi.CheckNamespace(name); err != nil {
			return nil, translate(err)
		}
	}
	n := &Namespace{}
	n.init(h, name)
	if _, err := n.id(ctx, false); err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, translate(err)
	}
	return n, nil
}

// Namespaces lists the existing namespaces by name, including the default one.
func (h *Host) Namespaces(ctx context.Context) ([]NamespaceInfo, error) {
	var list []NamespaceInfo
	for ns, err := range h.store.Namespaces(ctx) {
		if err != nil {
			return nil, translate(err)
		}
		info := NamespaceInfo{Name: ns.Name, Quota: quotaOf(h.quotas.Of(ns.ID))}
		info.Usage, err = h.usageOf(ctx, ns.ID)
		if err != nil {
			return nil, err
		}
		if ns.CreatedUnixMs != 0 {
			info.Created = abi.TimeOf(ns.CreatedUnixMs)
		}
		list = append(list, info)
	}
	return list, nil
}

// Shared reports whether a namespace besides the default one exists or has existed since Open. It reads nothing from
// the store: a namespace that another host on the same store creates counts once it is used here.
func (h *Host) Shared() bool { return h.several.Load() }

// id returns the namespace's id. If it does not exist, id creates it, or returns store.ErrNotFound.
func (s *nsRef) id(ctx context.Context, create bool) (store.NamespaceID, error) {
	if n := s.number.Load(); n != 0 {
		return store.NamespaceID(n - 1), nil
	}
	id, err := s.h.store.Namespace(ctx, s.name, create)
	if errors.Is(err, store.ErrTooLarge) {
		return 0, &joined{err, ErrLimit}
	}
	if err != nil {
		return 0, err
	}
	s.h.knowNamespace(id, s.name)
	s.number.Store(uint64(id) + 1)
	return id, nil
}

// openNamespaces checks whether a namespace besides the default one exists.
func (h *Host) openNamespaces(ctx context.Context) error {
	for ns, err := range h.store.Namespaces(ctx) {
		if err != nil {
			return err
		}
		if h.knowNamespace(ns.ID, ns.Name); h.several.Load() {
			break
		}
	}
	return nil
}

// knowNamespace remembers a namespace.
func (h *Host) knowNamespace(id store.NamespaceID, name string) {
	h.names.Store(id, name)
	if id != 0 {
		h.several.Store(true)
	}
}

// key returns the key of a run, or store.ErrNotFound if the namespace does not exist.
func (s *nsRef) key(ctx context.Context, run string) (store.RunKey, error) {
	ns, err := s.id(ctx, false)
	return store.RunKey{Namespace: ns, ID: run}, err
}

// nameOf returns the name of a namespace by its id, empty for the default one. It reads the registry at most once per
// namespace.
func (h *Host) nameOf(id store.NamespaceID) string {
	if id == 0 {
		return ""
	}
	if name, ok := h.names.Load(id); ok {
		return name.(string) //nolint:forcetypeassert // it holds nothing else
	}
	for ns, err := range h.store.Namespaces(context.Background()) {
		if err != nil {
			break
		}
		h.knowNamespace(ns.ID, ns.Name)
	}
	if name, ok := h.names.Load(id); ok {
		return name.(string) //nolint:forcetypeassert // likewise
	}
	return fmt.Sprintf("#%d", id) // the registry cannot be read
}
