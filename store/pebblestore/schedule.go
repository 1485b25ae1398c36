package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// Schedule reads a schedule.
func (s *Store) Schedule(_ context.Context, key store.RunKey) (store.Schedule, error) {
	end, err := s.begin()
	if err != nil {
		return store.Schedule{}, err
	}
	defer end()
	return s.durableSchedule(key)
}

// durableSchedule reads a schedule, and waits for a pending commit of it.
func (s *Store) durableSchedule(key store.RunKey) (store.Schedule, error) {
	defer s.lockRun(key)()
	x, err := s.schedule(key)
	if err == nil && x == nil {
		err = fmt.Errorf("schedule %q: %w", key.ID, store.ErrNotFound)
	}
	if err != nil {
		return store.Schedule{}, err
	}
	return *x, nil
}

// schedule reads a schedule, nil if there is none. The caller holds its lock.
func (s *Store) schedule(key store.RunKey) (*store.Schedule, error) {
	v, err := s.get(store.RunTableKey(key, store.TableSchedule))
	if err != nil || v == nil {
		return nil, err
	}
	x, err := store.DecodeSchedule(v)
	if err == nil && x.Key != key {
		err = fmt.Errorf("%w: it is that of %q", store.ErrCorrupt, x.Key.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", key.ID, err)
	}
	return &x, nil
}

// Schedules returns a page of schedules: it merges the first ids of all partitions, and reads records until the page is
// full.
func (s *Store) Schedules(_ context.Context, q store.ScheduleQuery) (list []store.Schedule, err error) {
	end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	var ids []string
	for p := range store.PartitionID(store.Partitions) {
		prefix, n := store.AppendPrefix(nil, q.Namespace, p, store.TableSchedule), 0
		lower := append(slices.Clone(prefix), q.After...)
		if q.After != "" {
			lower = append(lower, 0)
		}
		if err := s.scan(lower, store.PrefixEnd(prefix), func(k, _ []byte) (bool, error) {
			n++
			if n > q.Limit {
				return false, nil
			}
			ids = append(ids, string(k[len(prefix):]))
			return true, nil
		}); err != nil {
			return nil, err
		}
	}
	slices.Sort(ids)
	held := 0
	for _, id := range ids {
		if len(list) == q.Limit || held >= store.MaxPageBytes {
			break
		}
		x, err := s.durableSchedule(store.RunKey{Namespace: q.Namespace, ID: id})
		if errors.Is(err, store.ErrNotFound) { // its creation was not durable, or it was deleted meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, x)
		held += len(x.Data)
	}
	return list, nil
}

// setSchedule adds the change of a schedule to a batch.
func (s *Store) setSchedule(b *pebble.Batch, p store.PartitionID, x *store.ScheduleSet) error {
	key := x.Schedule.Key
	old, err := s.schedule(key)
	if err == nil {
		err = x.Check(old)
	}
	if err != nil {
		return err
	}
	w := store.WakeSet{Kind: store.WakeSchedule, Key: key, OldUnixMs: store.NoWake, UnixMs: x.Schedule.WakeUnixMs}
	if old != nil {
		w.OldUnixMs = old.WakeUnixMs
	}
	if x.Delete {
		w.UnixMs = store.NoWake
		_ = b.Delete(store.RunTableKey(key, store.TableSchedule), nil)
	} else {
		_ = b.Set(store.RunTableKey(key, store.TableSchedule), store.AppendSchedule(nil, &x.Schedule), nil)
	}
	setWake(b, p, &w)
	return nil
}

// schedules checks the schedules of a namespace, and adds the implied entries to want.
func (x *partitionCheck) schedules(ns store.NamespaceID) error {
	b := x.s.db.NewBatch()
	defer func() { _ = b.Close() }() // memory only
	return x.each(ns, x.p, store.TableSchedule, func(rest, v []byte) error {
		key := store.RunKey{Namespace: ns, ID: string(rest)}
		sch, err := store.DecodeSchedule(v)
		switch {
		case err != nil:
			x.lost = true
			x.problem("schedule", ns, key.ID, "its record: %v", err)
			return nil
		case sch.Key != key || key.Partition() != x.p || sch.Revision == 0:
			x.problem("schedule", ns, key.ID, "its record is that of revision %d of schedule %q of namespace %d, and belongs to "+
				"partition %d", sch.Revision, sch.Key.ID, sch.Key.Namespace, key.Partition())
		}
		x.report.Schedules++
		x.sealed(ns, key.ID, "its schedule", sch.Sealed, sch.Data)
		if sch.WakeUnixMs == store.NoWake {
			return nil
		}
		b.Reset()
		setWake(b, x.p, &store.WakeSet{Kind: store.WakeSchedule, Key: key, OldUnixMs: store.NoWake, UnixMs: sch.WakeUnixMs})
		return x.wants(b)
	})
}
