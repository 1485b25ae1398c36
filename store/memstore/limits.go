package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// SetLimits sets or removes the limits of a workflow, and sends a command.
func (s *Store) SetLimits(_ context.Context, l store.Limits, tell store.Command) error {
	if err := s.change(); err != nil {
		return err
	}
	defer s.d.mu.Unlock()
	i, found := s.d.findLimits(l.Namespace, l.Workflow)
	list := slices.Clone(s.d.limits)
	if found {
		list = slices.Delete(list, i, i+1)
	}
	if len(l.Data) > 0 {
		own := 0
		for j := range list {
			if list[j].Namespace == l.Namespace {
				own++
			}
		}
		if err := store.CheckLimits(len(list), own, &l); err != nil {
			return err
		}
		l.Data = bytes.Clone(l.Data)
		list = slices.Insert(list, i, l)
	}
	s.d.limits = list
	s.d.submit(tell)
	return nil
}

func (d *Data) findLimits(ns store.NamespaceID, workflow string) (int, bool) {
	return slices.BinarySearchFunc(d.limits, store.Limits{Namespace: ns, Workflow: workflow}, func(a, b store.Limits) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Workflow, b.Workflow))
	})
}

// LimitsOf reads the limits of a workflow.
func (s *Store) LimitsOf(_ context.Context, ns store.NamespaceID, workflow string) (store.Limits, error) {
	if err := s.lock(); err != nil {
		return store.Limits{}, err
	}
	defer s.d.mu.Unlock()
	if i, found := s.d.findLimits(ns, workflow); found {
		return s.d.limits[i], nil
	}
	return store.Limits{Namespace: ns, Workflow: workflow}, nil
}

// Limits returns the limits of a namespace.
func (s *Store) Limits(_ context.Context, ns store.NamespaceID) (list []store.Limits, err error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.d.mu.Unlock()
	for _, l := range s.d.limits {
		if l.Namespace == ns {
			list = append(list, l)
		}
	}
	return list, nil
}

// Cells reads cells of a queue.
func (s *Store) Cells(_ context.Context, q store.CellQuery) (list []store.Cell, err error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.d.mu.Unlock()
	cells := s.d.queues[q.Queue]
	if next := append(bytes.Clone(q.From), 0); bytes.Equal(next, q.To) { // one key
		if v, ok := cells[string(q.From)]; ok && q.Limit > 0 {
			return []store.Cell{{Key: bytes.Clone(q.From), Value: bytes.Clone(v)}}, nil
		}
		return nil, nil
	}
	for k, v := range cells {
		if k >= string(q.From) && (q.To == nil || k < string(q.To)) {
			list = append(list, store.Cell{Key: []byte(k), Value: v})
		}
	}
	slices.SortFunc(list, func(a, b store.Cell) int { return bytes.Compare(a.Key, b.Key) })
	list = list[:min(len(list), q.Limit)]
	for i := range list {
		list[i].Value = bytes.Clone(list[i].Value)
	}
	return list, nil
}

// SetCells changes cells of a queue without an owner.
func (s *Store) SetCells(_ context.Context, x store.QueueSet) error {
	if err := x.CheckCells(); err != nil {
		return err
	}
	if err := s.lock(); err != nil {
		return err
	}
	defer s.d.mu.Unlock()
	if err := x.Check(s.d.queues[x.Queue][string(x.Before.Key)]); err != nil {
		return err
	}
	s.d.setQueue(x.Queue.Partition(), &x)
	if x.Setting {
		s.d.settings++
	}
	return nil
}

// setQueue applies a checked change.
func (d *Data) setQueue(p store.PartitionID, x *store.QueueSet) {
	cells := d.queues[x.Queue]
	if cells == nil {
		cells = map[string][]byte{}
		d.queues[x.Queue] = cells
	}
	for _, c := range x.Cells {
		if c.Value == nil {
			delete(cells, string(c.Key))
		} else {
			cells[string(c.Key)] = append([]byte{}, c.Value...)
		}
	}
	for _, c := range x.Expired {
		if now, ok := cells[string(c.Key)]; ok && bytes.Equal(now, c.Value) {
			delete(cells, string(c.Key))
		}
	}
	d.inbox[p] = slices.DeleteFunc(d.inbox[p], func(cmd store.Command) bool { return slices.Contains(x.Ack, cmd.Seq) })
	for _, cmd := range x.Outbox {
		d.submit(cmd)
	}
}
