package postgres

import (
	"github.com/wfhost/wfhost/store"
)

// wakes adds the wakes of a group, so that several of one key take effect in their order.
func (c *change) wakes(p store.PartitionID, list []store.WakeSet) error {
	due := map[store.WakeKey]*int64{}
	var order []store.WakeKey
	set := func(w *store.WakeSet, unixMs int64, to *int64) {
		if unixMs == store.NoWake {
			return
		}
		k := store.WakeKey{UnixMs: max(unixMs, 0), Kind: w.Kind, Key: w.Key}
		if _, ok := due[k]; !ok {
			order = append(order, k)
		}
		due[k] = to
	}
	for i := range list {
		if !legal(list[i].Key.ID) {
			return badText("key of a wake", list[i].Key.ID)
		}
		set(&list[i], list[i].OldUnixMs, nil)
		set(&list[i], list[i].UnixMs, &list[i].UnixMs)
	}
	w := &c.rest.w
	for _, k := range order {
		w.p, w.kind, w.ns = append(w.p, int16(p)), append(w.kind, int16(k.Kind)), append(w.ns, int32(k.Key.Namespace))
		w.id, w.wake, w.due = append(w.id, k.Key.ID), append(w.wake, k.UnixMs), append(w.due, due[k])
	}
	return nil
}

// schedule adds the change of a schedule.
func (c *change) schedule(g, at int, x *store.ScheduleSet) error {
	s := &x.Schedule
	if len(s.Data) > store.MaxScheduleBytes {
		return x.Check(nil)
	}
	if !legal(s.Key.ID) {
		return badText("schedule", s.Key.ID)
	}
	var data []byte
	if !x.Delete {
		data = store.AppendSchedule([]byte{}, s)
	}
	wake, due := wakeOf(s.WakeUnixMs)
	y := &c.rest.s
	y.ns, y.id, y.p = append(y.ns, int32(s.Key.Namespace)), append(y.id, s.Key.ID), append(y.p, int16(s.Key.Partition()))
	y.revision, y.wake, y.due = append(y.revision, int64(s.Revision)-1), append(y.wake, wake), append(y.due, due)
	y.data, y.group, y.at = append(y.data, data), append(y.group, g), append(y.at, at)
	return nil
}

// queue adds the change of a queue.
func (c *change) queue(g int, x *store.QueueSet) error {
	if !legal(x.Queue.ID) {
		return badText("queue", x.Queue.ID)
	}
	q, y := &c.rest.q, &c.rest.y
	q.ns, q.queue = append(q.ns, int32(x.Queue.Namespace)), append(q.queue, x.Queue.ID)
	q.key, q.value, q.group = append(q.key, x.Before.Key), append(q.value, x.Before.Value), append(q.group, g)
	for i, list := range [][]store.Cell{x.Cells, x.Expired} {
		for _, cell := range list {
			value := cell.Value
			if i == 1 && value == nil { // an empty value and none are the same here
				value = []byte{}
			}
			y.ns, y.queue = append(y.ns, int32(x.Queue.Namespace)), append(y.queue, x.Queue.ID)
			y.key, y.value, y.expired = append(y.key, cell.Key), append(y.value, value), append(y.expired, i == 1)
		}
	}
	c.ack(x.Queue.Partition(), x.Ack)
	return c.rest.out.add(x.Outbox)
}
