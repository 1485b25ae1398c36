package host

import (
	"slices"
	"sync"
)

// registrations are functions that register the handlers of a host on another host, in order.
type registrations struct {
	mu   sync.Mutex // guards list; no other lock is taken while it is held
	list []func(*Host)
}

func (r *registrations) add(f func(*Host)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, f)
}

// Handlers returns functions that register the handlers of this host on another host, in the same order. They are for
// programs that reopen a host over the same data, such as tests. The host may be closed.
func (h *Host) Handlers() []func(*Host) {
	h.handlers.mu.Lock()
	defer h.handlers.mu.Unlock()
	return slices.Clone(h.handlers.list)
}
