package handler

// Remembered returns how many namespaces the places of all handlers remember, each as often as it is remembered.
func (r *Registry) Remembered() int {
	n := r.all.remembered()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, room := range r.rooms {
		n += room.remembered()
	}
	return n
}

func (p *places) remembered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.by)
}
