package host

import (
	"slices"
	"sync"
)

// registrations are what registers the handlers of a host on another one, in their order.
type registrations struct {
	mu   sync.Mutex // guards list; no other lock is taken behind it
	list []func(*Host)
}

func (r *registrations) add(f func(*Host)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, f)
}

// Handlers returns functions that register on another host the handlers that were registered on this one, in the same order. They
// are for programs that open a host anew over the same data, as tests do. The host may be closed.
func (h *Host) Handlers() []func(*Host) {
	h.handlers.mu.Lock()
	defer h.handlers.mu.Unlock()
	return slices.Clone(h.handlers.list)
}
