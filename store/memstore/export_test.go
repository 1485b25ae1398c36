package memstore

// Expire ends the lease of a member.
func (d *Data) Expire(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.members {
		if x.member.Name == name {
			x.untilUnixMs = d.now()
		}
	}
}
