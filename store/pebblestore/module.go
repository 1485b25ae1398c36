package pebblestore

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// Modules returns the module store.
func (s *Store) Modules() store.ModuleStore { return modules{s} }

type modules struct{ s *Store }

// wasmKey returns the key of a module's bytes. It differs from the key of a blob with the same content, which runs may
// need after the module is deleted.
func wasmKey(d store.Digest) []byte { return store.GlobalKey(0, store.TableWasm, d[:]) }

// Put stores a module's bytes and info. Until the module has a version, it is listed as unused.
func (m modules) Put(_ context.Context, wasm []byte, info store.ModuleInfo) (store.Digest, error) {
	d := store.Digest(sha256.Sum256(wasm))
	end, err := m.s.beginWrite()
	if err != nil {
		return d, err
	}
	defer end()
	b := m.s.db.NewBatch()
	defer m.s.drop(b)
	_ = b.Set(wasmKey(d), wasm, nil)
	_ = b.Set(store.GlobalKey(0, store.TableModule, d[:]), store.AppendModuleInfo(nil, &info), nil)
	_ = b.Set(store.GlobalKey(0, store.TableUnused, d[:]), nil, nil)
	return d, m.s.sync(b, nil)
}

// Get reads a module's bytes.
func (m modules) Get(ctx context.Context, d store.Digest) ([]byte, error) {
	if _, err := m.Info(ctx, d); err != nil {
		return nil, err
	}
	end, err := m.s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	v, err := m.s.get(wasmKey(d))
	switch {
	case err != nil:
		return nil, err
	case v == nil: // an earlier release stored it as a blob
		return m.s.blob(d[:])
	case sha256.Sum256(v) != d:
		return nil, fmt.Errorf("%w: module %s is damaged", store.ErrCorrupt, d)
	}
	return v, nil
}

// Info reads the info of a module.
func (m modules) Info(_ context.Context, d store.Digest) (store.ModuleInfo, error) {
	end, err := m.s.begin()
	if err != nil {
		return store.ModuleInfo{}, err
	}
	defer end()
	return m.info(d)
}

func (m modules) info(d store.Digest) (store.ModuleInfo, error) {
	v, err := m.s.get(store.GlobalKey(0, store.TableModule, d[:]))
	if err != nil {
		return store.ModuleInfo{}, err
	}
	if v == nil {
		return store.ModuleInfo{}, fmt.Errorf("module %s: %w", d, store.ErrNotFound)
	}
	return store.DecodeModuleInfo(v)
}

// AddVersions adds versions of workflows in one batch. A module's bytes and info are written and deleted together, so
// the info shows whether the module exists.
func (m modules) AddVersions(_ context.Context, specs []store.VersionSpec) ([]store.Version, error) {
	end, err := m.s.beginWrite()
	if err != nil {
		return nil, err
	}
	defer end()
	m.s.versions.Lock()
	defer m.s.versions.Unlock()
	b := m.s.db.NewBatch()
	defer m.s.drop(b)
	var out, more []store.Version
	uses := map[store.Digest]uint64{}
	for _, spec := range specs {
		if _, err := m.info(spec.Module); err != nil {
			return nil, err
		}
		last, _, err := m.last(spec.Namespace, spec.Workflow, func(*store.Version) bool { return true })
		if err != nil {
			return nil, err
		}
		if spec.After != nil {
			latest, _, err := m.last(spec.Namespace, spec.Workflow, func(v *store.Version) bool { return !v.Imported && !v.Deleted })
			if err == nil {
				err = spec.Check(latest.Number)
			}
			if err != nil {
				return nil, err
			}
		}
		next, added := spec.Next(last)
		uses[spec.Module] += 0
		if added {
			uses[spec.Module]++
			more = append(more, next)
			_ = b.Set(store.VersionKey(spec.Namespace, spec.Workflow, next.Number), store.AppendVersion(nil, &next), nil)
		}
		if added && last.Deleted { // the next version has a greater number
			_ = b.Delete(store.VersionKey(spec.Namespace, spec.Workflow, last.Number), nil)
		}
		out = append(out, next)
	}
	if err := m.use(b, uses); err != nil {
		return nil, err
	}
	if len(more) == 0 { // only the list of unused modules changes, which need not be durable
		return out, m.s.apply(b)
	}
	if err := m.s.sync(b, nil); err != nil {
		return out, err
	}
	for i := range more {
		m.s.newest.added(&more[i])
	}
	return out, nil
}

// last reads the version of a workflow with the highest number for which want is true; zero if there is none. It also
// returns how many records it has read.
func (m modules) last(ns store.NamespaceID, workflow string, want func(*store.Version) bool) (v store.Version, read int,
	err error) {
	prefix := store.VersionKey(ns, workflow, 0)
	it, err := m.s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: store.PrefixEnd(prefix)})
	if err != nil {
		return v, 0, err
	}
	for ok := it.Last(); ok && err == nil; ok = it.Prev() {
		read++
		v, err = store.DecodeVersion(it.Value())
		if err == nil && want(&v) {
			return v, read, it.Close()
		}
	}
	return store.Version{}, read, firstError(firstError(err, it.Error()), it.Close())
}

// Version reads a version; number 0 is the latest.
func (m modules) Version(_ context.Context, ns store.NamespaceID, workflow string, number uint32) (store.Version, error) {
	end, err := m.s.begin()
	if err != nil {
		return store.Version{}, err
	}
	defer end()
	var v store.Version
	if number == 0 {
		v, err = m.newest(newestKey{ns: ns, workflow: workflow, latest: true}, func(v *store.Version) bool { return !v.Imported })
	} else {
		v, err = m.version(ns, workflow, number)
	}
	if err == nil && v.Number == 0 {
		err = store.VersionNotFound(workflow, number)
	}
	return v, err
}

// Newest reads the newest version of a workflow with a module.
func (m modules) Newest(_ context.Context, ns store.NamespaceID, workflow string, module store.Digest) (store.Version, error) {
	end, err := m.s.begin()
	if err != nil {
		return store.Version{}, err
	}
	defer end()
	k := newestKey{ns: ns, workflow: workflow, module: module}
	v, err := m.newest(k, func(v *store.Version) bool { return v.Module == module })
	if err == nil && v.Number == 0 {
		err = store.NewestNotFound(workflow, module)
	}
	return v, err
}

// newest returns the version with the highest number for which want is true and that is not deleted, zero if there is
// none. The absence of a version is not cached if it is cheap to find, so that questions about unknown workflows evict
// nothing.
func (m modules) newest(k newestKey, want func(*store.Version) bool) (store.Version, error) {
	a, v, known := m.s.newest.get(k)
	if known {
		return v, nil
	}
	v, read, err := m.last(k.ns, k.workflow, func(v *store.Version) bool { return !v.Deleted && want(v) })
	m.s.newest.put(k, a, v, err == nil && read > 0)
	return v, err
}

// Count returns how many versions a namespace has.
func (m modules) Count(_ context.Context, ns store.NamespaceID) (int64, error) {
	end, err := m.s.begin()
	if err != nil {
		return 0, err
	}
	defer end()
	return m.s.newest.counted(ns), nil
}

// Versions lists versions by workflow and number.
func (m modules) Versions(_ context.Context, ns store.NamespaceID, workflow string) iter.Seq2[store.Version, error] {
	return func(yield func(store.Version, error) bool) {
		end, err := m.s.begin()
		if err != nil {
			yield(store.Version{}, err)
			return
		}
		defer end()
		stopped := false
		err = m.scanVersions(ns, workflow, func(v store.Version) bool {
			stopped = !yield(v, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(store.Version{}, err)
		}
	}
}

// version reads one version; its number is 0 if there is none, or it is deleted.
func (m modules) version(ns store.NamespaceID, workflow string, number uint32) (v store.Version, err error) {
	b, err := m.s.get(store.VersionKey(ns, workflow, number))
	if err != nil || b == nil {
		return v, err
	}
	v, err = store.DecodeVersion(b)
	if v.Deleted {
		v = store.Version{}
	}
	return v, err
}

// scanVersions visits the versions of one workflow, or of all, that are not deleted, by name and number.
func (m modules) scanVersions(ns store.NamespaceID, workflow string, visit func(store.Version) bool) error {
	prefix := store.GlobalKey(ns, store.TableWorkflow, nil)
	if workflow != "" {
		prefix = store.VersionKey(ns, workflow, 0)
	}
	return m.s.scan(prefix, store.PrefixEnd(prefix), func(_, b []byte) (bool, error) {
		v, err := store.DecodeVersion(b)
		if err != nil {
			return false, err
		}
		return v.Deleted || visit(v), nil
	})
}

// DeleteVersion deletes a version's record, or marks it as deleted if the next number depends on it. It deletes the
// module with its last version.
func (m modules) DeleteVersion(_ context.Context, ns store.NamespaceID, workflow string, number uint32) error {
	end, err := m.s.beginWrite()
	if err != nil {
		return err
	}
	defer end()
	m.s.versions.Lock()
	defer m.s.versions.Unlock()
	v, err := m.version(ns, workflow, number)
	if err != nil {
		return err
	}
	if v.Number == 0 {
		return store.VersionNotFound(workflow, number)
	}
	last, _, err := m.last(ns, workflow, func(*store.Version) bool { return true })
	if err != nil {
		return err
	}
	b := m.s.db.NewBatch()
	defer m.s.drop(b)
	if key := store.VersionKey(ns, workflow, number); last.Number > number {
		_ = b.Delete(key, nil)
	} else {
		gone := v
		gone.Deleted = true
		_ = b.Set(key, store.AppendVersion(nil, &gone), nil)
	}
	if err := m.disuse(b, v.Module); err != nil {
		return err
	}
	if err := m.s.sync(b, nil); err != nil {
		return err
	}
	m.s.newest.deleted(&v)
	return nil
}
