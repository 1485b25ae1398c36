package pebblestore

import (
	"bytes"
	"context"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// SetLimits sets or removes the limits of a workflow, and sends a command.
func (s *Store) SetLimits(_ context.Context, l store.Limits, tell store.Command) error {
	end, err := s.beginWrite()
	if err != nil {
		return err
	}
	defer end()
	s.limits.Lock()
	defer s.limits.Unlock()
	b := s.db.NewBatch()
	defer s.drop(b)
	key := store.LimitsKey(l.Namespace, l.Workflow)
	old, err := s.durable(key)
	if err != nil {
		return err
	}
	if len(l.Data) == 0 {
		_ = b.Delete(key, nil)
	} else {
		if err := s.roomForLimits(&l, key); err != nil {
			return err
		}
		_ = b.Set(key, store.AppendLimits(nil, &l), nil)
	}
	s.inbox.Lock()
	if err := s.addCommand(b, tell); err != nil {
		s.inbox.Unlock()
		return err
	}
	settle := s.settling.begin(key, old)
	if err := s.sync(b, s.inbox.Unlock); err != nil {
		return err
	}
	s.limited.forget(key) // before settle: later readers must not get the old record from the cache
	settle()
	return nil
}

// roomForLimits returns store.ErrTooLarge if no limits can be added under a key.
func (s *Store) roomForLimits(l *store.Limits, key []byte) error {
	all, own := 0, 0
	prefix := store.GlobalKey(0, store.TableLimits, nil)
	mine := store.LimitsKey(l.Namespace, "")
	err := s.scan(prefix, store.PrefixEnd(prefix), func(k, _ []byte) (bool, error) {
		if bytes.Equal(k, key) { // it is replaced
			return true, nil
		}
		all++
		if bytes.HasPrefix(k, mine) {
			own++
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	return store.CheckLimits(all, own, l)
}

// LimitsOf reads the limits of a workflow. If they are being changed, it waits until the change is durable: a receiver
// of the command that announces the change gets the new limits. It does not wait for changes of other workflows.
func (s *Store) LimitsOf(_ context.Context, ns store.NamespaceID, workflow string) (store.Limits, error) {
	l := store.Limits{Namespace: ns, Workflow: workflow}
	end, err := s.begin()
	if err != nil {
		return l, err
	}
	defer end()
	v, err := s.limit(store.LimitsKey(ns, workflow))
	if err != nil || v == nil {
		return l, err
	}
	return store.DecodeLimits(v)
}

// limit reads the record of limits once it is durable, nil if there is none. The caller must not change it.
func (s *Store) limit(key []byte) ([]byte, error) {
	for {
		v, change, err := s.limitOrChange(key)
		if err != nil || change == nil {
			return v, err
		}
		select {
		case <-change.done:
		case <-s.failed:
			return change.before, nil
		}
	}
}

// limitOrChange reads the record of limits, or returns its pending change.
func (s *Store) limitOrChange(key []byte) ([]byte, *unsettled, error) {
	s.settling.mu.RLock() // no change can begin until the record is cached
	defer s.settling.mu.RUnlock()
	if u := s.settling.before[string(key)]; u != nil {
		return nil, u, nil
	}
	if v, known := s.limited.get(key); known {
		return v, nil, nil
	}
	v, err := s.get(key)
	if err == nil {
		s.limited.remember(key, v)
	}
	return v, nil, err
}

// Limits returns the durable limits of a namespace.
func (s *Store) Limits(_ context.Context, ns store.NamespaceID) (list []store.Limits, err error) {
	end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	s.limits.RLock()
	defer s.limits.RUnlock()
	prefix := store.LimitsKey(ns, "")
	err = s.scan(prefix, store.PrefixEnd(prefix), func(_, v []byte) (bool, error) {
		l, err := store.DecodeLimits(v)
		list = append(list, l)
		return true, err
	})
	return list, err
}

// Cells reads cells of a queue, and waits for a pending commit of the queue.
func (s *Store) Cells(_ context.Context, q store.CellQuery) (list []store.Cell, err error) {
	end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	if n := len(q.From); n > 0 && len(q.To) == n+1 && q.To[n] == 0 && bytes.HasPrefix(q.To, q.From) && q.Limit > 0 {
		return s.cell(q.Queue, q.From)
	}
	defer s.lockRun(q.Queue)()
	prefix := store.QueueKey(q.Queue, nil)
	lower, upper := store.QueueKey(q.Queue, q.From), store.PrefixEnd(prefix)
	if q.To != nil {
		upper = store.QueueKey(q.Queue, q.To)
	}
	if bytes.Compare(lower, upper) >= 0 {
		return nil, nil
	}
	err = s.scan(lower, upper, func(k, v []byte) (bool, error) {
		if len(list) >= q.Limit {
			return false, nil
		}
		list = append(list, store.Cell{Key: bytes.Clone(k[len(prefix):]), Value: append([]byte{}, v...)})
		return true, nil
	})
	return list, err
}

// cell reads one cell, without an iterator, and often from the cache.
func (s *Store) cell(queue store.RunKey, name []byte) ([]store.Cell, error) {
	key := store.QueueKey(queue, name)
	v, known := s.cells.get(key)
	if !known {
		defer s.lockRun(queue)()
		var err error
		v, err = s.get(key)
		if err != nil {
			return nil, err
		}
		s.cells.remember(key, v)
	}
	if v == nil {
		return nil, nil
	}
	return []store.Cell{{Key: bytes.Clone(name), Value: bytes.Clone(v)}}, nil
}

// SetCells changes cells of a queue without an owner.
func (s *Store) SetCells(_ context.Context, x store.QueueSet) error {
	if err := x.CheckCells(); err != nil {
		return err
	}
	end, err := s.beginWrite()
	if err != nil {
		return err
	}
	defer end()
	defer s.lockRun(x.Queue)()
	b := s.db.NewBatch()
	defer s.drop(b)
	if err := s.addCells(b, &x); err != nil {
		return err
	}
	return s.sync(b, nil)
}

// addCells adds the change of a queue's cells to a batch. The queue is locked.
func (s *Store) addCells(b *pebble.Batch, x *store.QueueSet) error {
	now, err := s.get(store.QueueKey(x.Queue, x.Before.Key))
	if err == nil {
		err = x.Check(now)
	}
	if err != nil {
		return err
	}
	for i := range x.Cells {
		key := store.QueueKey(x.Queue, x.Cells[i].Key)
		s.cells.forget(key)
		if x.Cells[i].Value == nil {
			_ = b.Delete(key, nil)
		} else {
			_ = b.Set(key, x.Cells[i].Value, nil)
		}
	}
	for i := range x.Expired {
		key := store.QueueKey(x.Queue, x.Expired[i].Key)
		now, err := s.get(key)
		if err != nil {
			return err
		}
		if now != nil && bytes.Equal(now, x.Expired[i].Value) {
			s.cells.forget(key)
			_ = b.Delete(key, nil)
		}
	}
	return nil
}

// setQueue adds the change of a queue to the batch.
func (c *commit) setQueue(p store.PartitionID, x *store.QueueSet) error {
	if err := c.s.addCells(c.b, x); err != nil {
		return err
	}
	for _, ack := range x.Ack {
		_ = c.b.Delete(inboxKey(p, ack), nil)
	}
	return nil
}
