package memstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// Schedule reads a schedule.
func (s *Store) Schedule(_ context.Context, key store.RunKey) (store.Schedule, error) {
	if err := s.lock(); err != nil {
		return store.Schedule{}, err
	}
	defer s.d.mu.Unlock()
	x := s.d.schedules[key]
	if x == nil {
		return store.Schedule{}, fmt.Errorf("schedule %q: %w", key.ID, store.ErrNotFound)
	}
	return *x, nil
}

// Schedules returns a page of schedules.
func (s *Store) Schedules(_ context.Context, q store.ScheduleQuery) (list []store.Schedule, err error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.d.mu.Unlock()
	for key, x := range s.d.schedules {
		if key.Namespace == q.Namespace && key.ID > q.After {
			list = append(list, *x)
		}
	}
	slices.SortFunc(list, store.CompareSchedules)
	list = list[:min(len(list), q.Limit)]
	return list[:store.Fitting(list, func(x *store.Schedule) int { return len(x.Data) })], nil
}

// setSchedule applies a checked change.
func (d *Data) setSchedule(p store.PartitionID, x *store.ScheduleSet) {
	w := store.WakeSet{Kind: store.WakeSchedule, Key: x.Schedule.Key, OldUnixMs: store.NoWake, UnixMs: x.Schedule.WakeUnixMs}
	if old := d.schedules[w.Key]; old != nil {
		w.OldUnixMs = old.WakeUnixMs
	}
	if x.Delete {
		w.UnixMs = store.NoWake
		delete(d.schedules, w.Key)
	} else {
		set := x.Schedule
		set.Data = slices.Clone(set.Data)
		d.schedules[w.Key] = &set
	}
	d.setWake(p, &w)
}
