package memstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"slices"

	"github.com/wfhost/wfhost/store"
)

type modules struct{ s *Store }

func (m modules) Put(_ context.Context, wasm []byte, info store.ModuleInfo) (store.Digest, error) {
	if err := m.s.lock(); err != nil {
		return store.Digest{}, err
	}
	defer m.s.d.mu.Unlock()
	d := store.Digest(sha256.Sum256(wasm))
	m.s.d.modules[d] = module{bytes.Clone(wasm), info}
	return d, nil
}

func (m modules) get(d store.Digest) (module, error) {
	if err := m.s.lock(); err != nil {
		return module{}, err
	}
	defer m.s.d.mu.Unlock()
	mod, ok := m.s.d.modules[d]
	if !ok {
		return mod, fmt.Errorf("module %s: %w", d, store.ErrNotFound)
	}
	return mod, nil
}

func (m modules) Get(_ context.Context, d store.Digest) ([]byte, error) {
	mod, err := m.get(d)
	return mod.wasm, err
}

func (m modules) Info(_ context.Context, d store.Digest) (store.ModuleInfo, error) {
	mod, err := m.get(d)
	return mod.info, err
}

func (m modules) AddVersions(_ context.Context, specs []store.VersionSpec) ([]store.Version, error) {
	if err := m.s.change(); err != nil {
		return nil, err
	}
	defer m.s.d.mu.Unlock()
	var out []store.Version
	for _, spec := range specs {
		if _, ok := m.s.d.modules[spec.Module]; !ok {
			return nil, fmt.Errorf("module %s: %w", spec.Module, store.ErrNotFound)
		}
	}
	for _, spec := range specs {
		var latest store.Version
		var number uint32
		for _, v := range m.s.d.versions {
			if v.Namespace != spec.Namespace || v.Workflow != spec.Workflow {
				continue
			}
			latest = v
			if !v.Imported && !v.Deleted {
				number = v.Number
			}
		}
		if err := spec.Check(number); err != nil {
			return nil, err
		}
		next, added := spec.Next(latest)
		if added {
			m.s.d.versions = slices.DeleteFunc(m.s.d.versions, func(v store.Version) bool { // the newest one was kept for its number only
				return v.Deleted && v.Namespace == next.Namespace && v.Workflow == next.Workflow
			})
			m.s.d.versions = append(m.s.d.versions, next)
		}
		out = append(out, next)
	}
	return out, nil
}

func (m modules) Version(_ context.Context, ns store.NamespaceID, workflow string, number uint32) (store.Version, error) {
	if err := m.s.lock(); err != nil {
		return store.Version{}, err
	}
	defer m.s.d.mu.Unlock()
	var found store.Version
	for _, v := range m.s.d.versions {
		if v.Namespace == ns && v.Workflow == workflow && (number == 0 && !v.Imported || v.Number == number) && !v.Deleted {
			found = v
		}
	}
	if found.Number == 0 {
		return found, store.VersionNotFound(workflow, number)
	}
	return found, nil
}

func (m modules) Versions(_ context.Context, ns store.NamespaceID, workflow string) iter.Seq2[store.Version, error] {
	return func(yield func(store.Version, error) bool) {
		if err := m.s.lock(); err != nil {
			yield(store.Version{}, err)
			return
		}
		versions := slices.DeleteFunc(slices.Clone(m.s.d.versions), func(v store.Version) bool {
			return v.Deleted || v.Namespace != ns || workflow != "" && v.Workflow != workflow
		})
		m.s.d.mu.Unlock()
		slices.SortStableFunc(versions, func(a, b store.Version) int { return cmp.Compare(a.Workflow, b.Workflow) })
		for _, v := range versions {
			if !yield(v, nil) {
				return
			}
		}
	}
}

func (m modules) DeleteVersion(_ context.Context, ns store.NamespaceID, workflow string, number uint32) error {
	if err := m.s.change(); err != nil {
		return err
	}
	defer m.s.d.mu.Unlock()
	i := slices.IndexFunc(m.s.d.versions, func(v store.Version) bool {
		return !v.Deleted && v.Namespace == ns && v.Workflow == workflow && v.Number == number
	})
	if i < 0 {
		return store.VersionNotFound(workflow, number)
	}
	d := m.s.d.versions[i].Module
	if slices.ContainsFunc(m.s.d.versions[i+1:], func(v store.Version) bool { return v.Namespace == ns && v.Workflow == workflow }) {
		m.s.d.versions = slices.Delete(m.s.d.versions, i, i+1)
	} else {
		m.s.d.versions[i].Deleted = true // the newest version, whose number must not be reused
	}
	if !m.used(d) {
		delete(m.s.d.modules, d)
	}
	return nil
}

// Newest returns the newest version of a workflow with a module.
func (m modules) Newest(_ context.Context, ns store.NamespaceID, workflow string, module store.Digest) (store.Version, error) {
	var found store.Version
	if err := m.s.lock(); err != nil {
		return found, err
	}
	defer m.s.d.mu.Unlock()
	for _, v := range m.s.d.versions {
		if v.Namespace == ns && v.Workflow == workflow && v.Module == module && !v.Deleted {
			found = v
		}
	}
	if found.Number == 0 {
		return found, store.NewestNotFound(workflow, module)
	}
	return found, nil
}

// Count returns the number of versions of a namespace.
func (m modules) Count(_ context.Context, ns store.NamespaceID) (n int64, err error) {
	if err := m.s.lock(); err != nil {
		return 0, err
	}
	defer m.s.d.mu.Unlock()
	for _, v := range m.s.d.versions {
		if v.Namespace == ns && !v.Deleted {
			n++
		}
	}
	return n, nil
}

// used reports whether a version has a module. The data is locked.
func (m modules) used(d store.Digest) bool {
	return slices.ContainsFunc(m.s.d.versions, func(v store.Version) bool { return !v.Deleted && v.Module == d })
}

func (m modules) Unused(_ context.Context, limit int) (list []store.Digest, err error) {
	if err := m.s.lock(); err != nil {
		return nil, err
	}
	defer m.s.d.mu.Unlock()
	for d := range m.s.d.modules {
		if !m.used(d) && len(list) < limit {
			list = append(list, d)
		}
	}
	return list, nil
}

func (m modules) DeleteUnused(_ context.Context, of []store.Digest) (deleted []store.Digest, err error) {
	if err := m.s.lock(); err != nil {
		return nil, err
	}
	defer m.s.d.mu.Unlock()
	for _, d := range of {
		if _, ok := m.s.d.modules[d]; ok && !m.used(d) {
			delete(m.s.d.modules, d)
			deleted = append(deleted, d)
		}
	}
	return deleted, nil
}
