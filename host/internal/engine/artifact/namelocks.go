package artifact

import "sync"

// NameLocks serializes the callers that load or compile an artifact, by its name. It keeps no entry for unused names,
// because users who may upload can make any number of names. The zero value is ready to use.
type NameLocks struct {
	mu sync.Mutex
	of map[string]*nameLock
}

type nameLock struct {
	sync.Mutex
	users int // holders and waiters; guarded by NameLocks.mu
}

// Take blocks until no other caller holds the name. The caller holds it until it calls end.
func (t *NameLocks) Take(name string) (end func()) {
	t.mu.Lock()
	own := t.of[name]
	if own == nil {
		if t.of == nil {
			t.of = map[string]*nameLock{}
		}
		own = &nameLock{}
		t.of[name] = own
	}
	own.users++
	t.mu.Unlock()
	own.Lock()
	return func() {
		own.Unlock()
		t.mu.Lock()
		defer t.mu.Unlock()
		own.users--
		if own.users == 0 {
			delete(t.of, name)
		}
	}
}
