package store

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
)

// MaxScheduleBytes bounds the data of a schedule, which is written as a whole with each change, and so with each
// firing. It has room for an input of 64 KiB in base 64, and as much again for due and missed firings.
const MaxScheduleBytes = 256 << 10

// Schedule is the record of a schedule. Its data says what it starts and when, and is opaque to the store.
type Schedule struct {
	Key RunKey // namespace and id, which give the partition as for a run
	// Revision is the number of the commit that wrote the record, from 1.
	Revision   uint64
	WakeUnixMs int64 // the schedule's key of kind WakeSchedule in the wake index; NoWake = none
	Data       []byte
	Sealed     bool // Data is the data, encoded by package seal
}

// ScheduleSet creates, changes or deletes a schedule within a Group.
type ScheduleSet struct {
	// Schedule replaces the record of the revision before. If its Revision is 1, there must be no record, else
	// ErrExists. ErrNotFound if there is no record to replace, ErrConflict if its revision is another one. Its
	// WakeUnixMs becomes the schedule's only key in the wake index.
	Schedule Schedule
	Delete   bool // removes the record and its wake
}

// scheduleExistsError is ErrExists with a text about schedules: the text of ErrExists is about runs.
type scheduleExistsError struct{ id string }

// Error names the schedule.
func (e *scheduleExistsError) Error() string {
	return fmt.Sprintf("schedule %q exists: update or delete it, or give the new one another id", e.id)
}

// Unwrap returns ErrExists.
func (e *scheduleExistsError) Unwrap() error { return ErrExists }

// Check returns an error if the change does not fit the stored record. old is nil if there is none.
func (x *ScheduleSet) Check(old *Schedule) error {
	s := &x.Schedule
	err := error(nil)
	switch {
	case len(s.Data) > MaxScheduleBytes:
		err = fmt.Errorf("%w: it has %d bytes, the limit is %d", ErrTooLarge, len(s.Data), MaxScheduleBytes)
	case s.Revision == 1 && old != nil:
		return &scheduleExistsError{s.Key.ID}
	case s.Revision > 1 && old == nil:
		err = ErrNotFound
	case s.Revision != 1 && (old == nil || old.Revision != s.Revision-1):
		err = ErrConflict
	}
	if err != nil {
		return fmt.Errorf("schedule %q: %w", s.Key.ID, err)
	}
	return nil
}

// ScheduleQuery selects schedules of a namespace in the order of their ids.
type ScheduleQuery struct {
	Namespace NamespaceID
	After     string // the page begins after the schedule with this id
	Limit     int    // 1 to MaxPage
}

// AppendSchedule encodes a schedule.
func AppendSchedule(dst []byte, x *Schedule) []byte {
	e, from := newRecord(dst)
	e.uint(1, uint64(x.Key.Namespace))
	e.string(2, x.Key.ID)
	e.uint(3, x.Revision)
	e.int(4, x.WakeUnixMs)
	e.bytes(5, x.Data)
	e.bool(6, x.Sealed)
	return e.seal(from)
}

// DecodeSchedule decodes what AppendSchedule made.
func DecodeSchedule(b []byte) (x Schedule, err error) {
	err = decode("schedule", b, func(f field) bool {
		switch f.tag {
		case 1:
			x.Key.Namespace = NamespaceID(small(f.num))
		case 2:
			x.Key.ID = string(f.b)
		case 3:
			x.Revision = f.num
		case 4:
			x.WakeUnixMs = f.int()
		case 5:
			x.Data = clone(f.b)
		case 6:
			x.Sealed = f.num != 0
		default:
			return false
		}
		return true
	})
	return x, err
}

// ScheduleStore is the part of a store for schedules.
type ScheduleStore interface {
	// Schedule reads a schedule's durable record. ErrNotFound if there is none.
	Schedule(ctx context.Context, key RunKey) (Schedule, error)
	// Schedules returns a page of schedules, which ends once it holds MaxPageBytes. After the last schedule the page is
	// empty. It reads at most q.Limit ids from each partition, and only the records of the page.
	Schedules(ctx context.Context, q ScheduleQuery) ([]Schedule, error)
}

// checkSchedules checks the schedules of one group.
func checkSchedules(group int, p PartitionID, list []ScheduleSet) error {
	for i := range list {
		key := list[i].Schedule.Key
		if of := key.Partition(); of != p {
			return &RefusedError{group, -1, fmt.Errorf("schedule %q is of partition %d, not of %d", key.ID, of, p)}
		}
		if slices.ContainsFunc(list[:i], func(x ScheduleSet) bool { return x.Schedule.Key == key }) {
			return &RefusedError{group, -1, fmt.Errorf("schedule %q occurs twice in one commit", key.ID)}
		}
	}
	return nil
}

// CompareSchedules orders schedules by namespace and id.
func CompareSchedules(a, b Schedule) int {
	return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), bytes.Compare([]byte(a.Key.ID), []byte(b.Key.ID)))
}
