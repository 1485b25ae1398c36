package pebblestore

import "sync"

// settling has what records were that are being changed, until the change is durable. Whoever reads them meanwhile gets what is
// durable, and waits for no fsync: tokens and namespaces are looked up by each request. One writer changes a record at a time,
// under a lock that no such reader takes.
type settling struct {
	mu     sync.RWMutex // nobody waits for the disk while holding it
	before map[string]*unsettled
}

// unsettled is a record that is being changed.
type unsettled struct {
	before []byte
	done   chan struct{} // closed when the change is durable
}

// begin notes what a record is, nil for none, before the batch that changes it is applied. The caller calls settle when that is
// durable, and not if it has failed: the record stays as it was then, since nobody knows what the disk has.
func (x *settling) begin(key, value []byte) (settle func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.before == nil {
		x.before = map[string]*unsettled{}
	}
	u := &unsettled{value, make(chan struct{})}
	x.before[string(key)] = u
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.before, string(key))
		close(u.done)
	}
}

// durable reads a record as it is durable, nil if there is none. The caller does not change it.
func (s *Store) durable(key []byte) ([]byte, error) {
	s.settling.mu.RLock()
	defer s.settling.mu.RUnlock()
	if u := s.settling.before[string(key)]; u != nil {
		return u.before, nil
	}
	return s.get(key)
}
