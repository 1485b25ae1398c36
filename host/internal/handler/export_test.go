package handler

// Remembered returns how many namespaces the places of all handlers remember, each as often as it is remembered, and how many
// handlers have places.
func (r *Registry) Remembered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.all.by) + len(r.byHandler) + len(r.late)
	for _, runs := range r.asks.by {
		n += len(runs)
	}
	for _, runs := range r.asks.packed.by {
		n += len(runs)
	}
	for _, places := range r.byHandler {
		n += len(places.by)
	}
	return n
}

// PackFrom has attempts packed if n attempts of a workflow wait, except for the next ones.
func (r *Registry) PackFrom(n, except int) { r.asks.packed.from, r.asks.packed.kept = n, except }

// Packed returns how many attempts are packed.
func (r *Registry) Packed() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, runs := range r.asks.packed.by {
		n += len(runs)
	}
	return n
}
