package module

import (
	"context"
	"sync"

	"github.com/wfhost/wfhost/store"
)

// Guests prepares modules, and removes deleted ones from the cache.
type Guests interface {
	Prepare(ctx context.Context, b []byte) (*Module, []byte, error)
	Forget(d store.Digest)
}

// Versions prepares and deletes the versions of workflows. A version is kept while it has runs.
type Versions struct {
	Usable func() error // returns an error while the store must not be changed
	Store  store.Store
	Guests Guests

	// Exclusive, if set, is called before a version is deleted: it waits until no host lets a run begin. nil: no other host does.
	Exclusive func(context.Context) (release func(), err error)

	deleting sync.Mutex // held by Delete, before mu

	// mu is read-locked from the choice of a version until the run that uses it is durable, and write-locked during
	// deletions. It is the outermost lock: other locks may be taken while it is held, and it is not taken while any
	// of them is held.
	mu sync.RWMutex
}

// LockDeletions prevents deletions of versions until release is called. A start holds it from the choice of a version until the
// run is durable.
func (v *Versions) LockDeletions() (release func()) {
	v.mu.RLock()
	return v.mu.RUnlock
}

// LockUses prevents uses of versions, for which LockDeletions is called, until release is called. It waits for those in progress.
func (v *Versions) LockUses() (release func()) {
	v.mu.Lock()
	return v.mu.Unlock
}

// Prepare compiles a module, runs its start-up once, and asks for its description. The caller closes the module.
func (v *Versions) Prepare(ctx context.Context, b []byte) (*Module, []byte, error) {
	return v.Guests.Prepare(ctx, b)
}

// Delete deletes a version that has no runs, and its module if no other version uses it. Ended runs count until they
// are deleted, since they may be retried and replayed.
func (v *Versions) Delete(ctx context.Context, ns store.NamespaceID, workflow string, number uint32) error {
	if err := v.Usable(); err != nil {
		return err
	}
	v.deleting.Lock()
	defer v.deleting.Unlock()
	if v.Exclusive == nil {
		defer v.LockUses()()
	} else {
		release, err := v.Exclusive(ctx)
		if err != nil {
			return err
		}
		defer release()
	}
	modules := v.Store.Modules()
	version, err := modules.Version(ctx, ns, workflow, number)
	if err != nil {
		return err
	}
	if err := Unused(ctx, v.Store, ns, workflow, number); err != nil {
		return err
	}
	if err := modules.DeleteVersion(ctx, ns, workflow, number); err != nil {
		return err
	}
	if _, err := modules.Info(ctx, version.Module); err != nil { // no other version uses it
		v.Guests.Forget(version.Module)
	}
	return nil
}

// DeleteUnused deletes those modules of the list that no version uses, also from the cache, and returns how many it
// deleted.
func (v *Versions) DeleteUnused(ctx context.Context, of ...store.Digest) (deleted int, err error) {
	if err := v.Usable(); err != nil {
		return 0, err
	}
	v.mu.Lock() // held until the cache has forgotten them, so that no run begins with a module that is stored again
	defer v.mu.Unlock()
	list, err := v.Store.Modules().DeleteUnused(ctx, of)
	if err != nil {
		return 0, err
	}
	for _, d := range list {
		v.Guests.Forget(d)
	}
	return len(list), nil
}
