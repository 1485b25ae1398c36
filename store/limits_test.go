package store

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestLimitsRecord(t *testing.T) {
	for _, l := range []Limits{{Namespace: 7, Workflow: "print", Data: []byte("rules")}, {Workflow: "w"}} {
		got, err := DecodeLimits(AppendLimits(nil, &l))
		if err != nil || !reflect.DeepEqual(got, l) {
			t.Errorf("%+v, want %+v: %v", got, l, err)
		}
		if l.Queue() != (RunKey{l.Namespace, l.Workflow}) {
			t.Error("queue", l.Queue())
		}
	}
	if _, err := DecodeLimits([]byte("rubbish")); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
		t.Error("rubbish:", err)
	}
	if a, b := LimitsKey(1, "w"), LimitsKey(2, "w"); bytes.Equal(a, b) || !bytes.HasSuffix(a, []byte("w")) {
		t.Errorf("keys %q and %q", a, b)
	}
	queue := RunKey{3, "print"}
	prefix := len(AppendPrefix(nil, 3, queue.Partition(), TableQueue))
	if w, cell, err := ParseQueueKey(QueueKey(queue, []byte("c\x00d"))[prefix:]); w != "print" || string(cell) != "c\x00d" || err != nil {
		t.Errorf("%q, %q, %v", w, cell, err)
	}
	for _, rest := range []string{"", "print", "print\x00", "\x00cell"} {
		if _, _, err := ParseQueueKey([]byte(rest)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q: %v", rest, err)
		}
	}
}

// The number and the size of limits in a store.
func TestCheckLimits(t *testing.T) {
	for _, c := range []struct {
		all, own, bytes int
		want            string
	}{{0, 0, MaxLimitBytes, ""}, {MaxLimits - 1, MaxLimitsOfOne - 1, 0, ""}, {0, 0, MaxLimitBytes + 1, "16385 bytes"},
		{5000, MaxLimitsOfOne, 1, "1000 workflows of the namespace"}, {MaxLimits, 0, 1, "10000 workflows of the store"}} {
		err := CheckLimits(c.all, c.own, &Limits{Workflow: "w", Data: make([]byte, c.bytes)})
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Invalid changes of queues and schedules, and changes based on an outdated record.
func TestChecksOfAGroup(t *testing.T) {
	x := QueueSet{Queue: RunKey{ID: "w"}, Before: Cell{Key: []byte("q")}}
	if err := x.Check(nil); err != nil {
		t.Error(err)
	}
	if err := x.Check([]byte{}); !errors.Is(err, ErrConflict) {
		t.Error("there is a cell:", err)
	}
	x.Before.Value = []byte("1")
	if err := errors.Join(x.Check([]byte("1"))); err != nil {
		t.Error(err)
	}
	if err := x.Check([]byte("2")); !errors.Is(err, ErrConflict) {
		t.Error("another cell:", err)
	}
	p := x.Queue.Partition()
	long, many, bad := x, x, x
	long.Before.Key = make([]byte, MaxCellKey+1)
	many.Cells = make([]Cell, MaxCells+1)
	bad.Cells = []Cell{{}}
	for name, c := range map[string]struct {
		p    PartitionID
		list []QueueSet
		want string
	}{"good": {p, []QueueSet{x}, ""}, "elsewhere": {p + 1, []QueueSet{x}, "is of partition"}, "twice": {p, []QueueSet{x, x}, "twice"},
		"long key": {p, []QueueSet{long}, "257 bytes"}, "no key": {p, []QueueSet{bad}, "0 bytes"}, "many": {p, []QueueSet{many}, "16385 cells"}} {
		if err := checkQueues(0, c.p, c.list); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := ScheduleSet{Schedule: Schedule{Key: RunKey{ID: "s"}, Revision: 2}}
	if err := s.Check(&Schedule{Revision: 1}); err != nil {
		t.Error(err)
	}
	first, large := s, s
	first.Schedule.Revision, large.Schedule.Data = 1, make([]byte, MaxScheduleBytes+1)
	for _, c := range []struct {
		set  ScheduleSet
		old  *Schedule
		want error
	}{{s, nil, ErrNotFound}, {s, &Schedule{Revision: 2}, ErrConflict}, {first, &Schedule{}, ErrExists}, {large, &Schedule{Revision: 1}, ErrTooLarge}} {
		if err := c.set.Check(c.old); !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
	p = s.Schedule.Key.Partition()
	if checkSchedules(0, p, []ScheduleSet{s}) != nil || checkSchedules(0, p+1, []ScheduleSet{s}) == nil ||
		checkSchedules(0, p, []ScheduleSet{s, s}) == nil {
		t.Error("schedules of a group")
	}
	if CompareSchedules(Schedule{Key: RunKey{1, "a"}}, Schedule{Key: RunKey{0, "b"}}) <= 0 ||
		CompareSchedules(Schedule{Key: RunKey{1, "a"}}, Schedule{Key: RunKey{1, "b"}}) >= 0 {
		t.Error("the order of schedules")
	}
}

func TestNamesOfStates(t *testing.T) {
	for a, want := range map[Aside]string{NotAside: "", AsideCopy: "copy", AsideMoved: "moved", 9: "aside(9)"} {
		if a.String() != want {
			t.Errorf("%q, want %q", a.String(), want)
		}
	}
	if !SlotHolds.Known() || Slot(slotValues).Known() {
		t.Error("values of slots")
	}
	if at := (&RunState{EndedUnixMs: 5, ImportUnixMs: 9}).RetainedUnixMs(); at != 9 {
		t.Error("kept from", at)
	}
}
