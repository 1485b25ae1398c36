package pebblestore

import "sync"

// settling holds the durable value of records that are being changed, until the change is durable. Readers get the
// durable value without waiting for an fsync: each request looks up tokens and namespaces. One writer at a time changes
// a record, under a lock that these readers do not take.
type settling struct {
	mu     sync.RWMutex // not held while waiting for the disk
	before map[string]*unsettled
}

// unsettled is a record that is being changed.
type unsettled struct {
	before []byte
	done   chan struct{} // closed when the change is durable
}

// begin notes the durable value of a record, nil for none, before the batch that changes it is applied. The caller
// calls settle when the batch is durable. If the batch failed it does not: readers keep getting the former value, since
// the state of the disk is unknown.
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

// durable reads the durable value of a record, nil if there is none. The caller must not change it.
func (s *Store) durable(key []byte) ([]byte, error) {
	s.settling.mu.RLock()
	defer s.settling.mu.RUnlock()
	if u := s.settling.before[string(key)]; u != nil {
		return u.before, nil
	}
	return s.get(key)
}
