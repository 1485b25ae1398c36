package pebblestore

import "sync"

// settling has what records were that are being changed, until the change is durable. Whoever reads them meanwhile gets what is
// durable, and waits for no fsync: tokens and namespaces are looked up by each request. One writer changes a record at a time,
// under a lock that no such reader takes.
type settling struct {
	mu     sync.RWMutex // nobody waits for the disk while holding it
	before map[string][]byte
}

// begin notes what a record is, nil for none, before the batch that changes it is applied. The caller calls settle when that is
// durable, and not if it has failed: the record stays as it was then, since nobody knows what the disk has.
func (x *settling) begin(key, value []byte) (settle func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.before == nil {
		x.before = map[string][]byte{}
	}
	x.before[string(key)] = value
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.before, string(key))
	}
}

// durable reads a record as it is durable, nil if there is none. The caller does not change it.
func (s *Store) durable(key []byte) ([]byte, error) {
	s.settling.mu.RLock()
	defer s.settling.mu.RUnlock()
	if v, ok := s.settling.before[string(key)]; ok {
		return v, nil
	}
	return s.get(key)
}
