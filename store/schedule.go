package store

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
)

// MaxScheduleBytes bounds the data of a schedule: all of it is written with each change, and each firing is one. It has room for
// an input of 64 KiB in base 64, and as much again for what is due and what was missed.
const MaxScheduleBytes = 256 << 10

// Schedule is the record of a schedule. What it starts when is in its data, which a store does not look at.
type Schedule struct {
	Key RunKey // its namespace and id; its partition is that of a run with this key
	// Revision is the number of the commit that has written the record: 1 is that of the first one.
	Revision   uint64
	WakeUnixMs int64 // its key of the kind WakeSchedule in the wake index; NoWake = none
	Data       []byte
	Sealed     bool // Data is the data, encoded by package seal
}

// ScheduleSet creates, changes or deletes a schedule within a Group.
type ScheduleSet struct {
	// Schedule replaces the record whose revision is one less: there must be none if it is 1, else ErrExists; ErrNotFound if there
	// is none, and ErrConflict if it has another revision. Its WakeUnixMs becomes its only key in the wake index.
	Schedule Schedule
	Delete   bool // removes the record and its wake
}

// scheduleExistsError is ErrExists, whose own text is about runs.
type scheduleExistsError struct{ id string }

// Error names the schedule.
func (e *scheduleExistsError) Error() string {
	return fmt.Sprintf("schedule %q exists: update or delete it, or give the new one another id", e.id)
}

// Unwrap returns ErrExists.
func (e *scheduleExistsError) Unwrap() error { return ErrExists }

// Check returns why the change cannot follow the record that is there, nil if it can. old is nil if there is none.
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
	After     string // behind the schedule with this id
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

// ScheduleStore is what a store has of schedules.
type ScheduleStore interface {
	// Schedule reads a schedule, as it is durable. ErrNotFound if there is none.
	Schedule(ctx context.Context, key RunKey) (Schedule, error)
	// Schedules returns a page of schedules, which ends when it holds MaxPageBytes. Behind the last schedule there are none. It
	// reads at most as many ids from each partition as the page may have, and no record that is not in the page.
	Schedules(ctx context.Context, q ScheduleQuery) ([]Schedule, error)
}

// checkSchedules checks the schedules of one group as checkRuns does its runs.
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
