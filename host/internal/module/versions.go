package module

import (
	"context"
	"sync"

	"github.com/wfhost/wfhost/store"
)

// Guests is what runs them.
type Guests interface {
	Prepare(ctx context.Context, b []byte) (*Module, []byte, error)
	Forget(d store.Digest)
}

// Versions are those of workflows. One is kept for as long as there are runs of it.
type Versions struct {
	Usable func() error // why nothing may be done, nil if it may
	Store  store.Store
	Guests Guests

	// mu is held for reading by whoever chooses a version, until the run that has it is durable, and for writing while one is
	// deleted. Other locks are taken meanwhile; nobody who holds one of these waits for it.
	mu sync.RWMutex
}

// Hold keeps versions from being deleted until release is called: between choosing one for a run and the run's being durable.
func (v *Versions) Hold() (release func()) {
	v.mu.RLock()
	return v.mu.RUnlock
}

// Prepare compiles a module, runs its start-up once, and asks for its description. The caller closes the module.
func (v *Versions) Prepare(ctx context.Context, b []byte) (*Module, []byte, error) {
	return v.Guests.Prepare(ctx, b)
}

// Delete deletes a version that no run has, with its module if no other version has it. Ended runs count
// too until they are deleted, since they may be retried and replayed.
func (v *Versions) Delete(ctx context.Context, ns store.NamespaceID, workflow string, number uint32) error {
	if err := v.Usable(); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
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
	if _, err := modules.Info(ctx, version.Module); err != nil { // no other version has it
		v.Guests.Forget(version.Module)
	}
	return nil
}

// DeleteUnused deletes those of the modules that no version has, and what the cache has of them, and returns how many these were.
func (v *Versions) DeleteUnused(ctx context.Context, of ...store.Digest) (deleted int, err error) {
	if err := v.Usable(); err != nil {
		return 0, err
	}
	v.mu.Lock() // until the cache has forgotten them, no run begins with a module that was stored again
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
