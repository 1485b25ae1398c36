package pebblestore

import (
	"bytes"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// TestCheckSchedules damages the data of a schedule: wakes are repaired, records are only reported.
func TestCheckSchedules(t *testing.T) {
	key := store.RunKey{Namespace: 1, ID: "nightly"}
	wake := store.WakeIndexKey(key.Partition(), store.WakeKey{UnixMs: 900, Kind: store.WakeSchedule, Key: key})
	record := store.RunTableKey(key, store.TableSchedule)
	for _, d := range []struct {
		what, kind string
		damage     func(c *checked)
	}{
		{"sound", "", func(*checked) {}},
		{"lost wake", "wake", func(c *checked) { c.do(c.s.db.Delete(wake, pebble.Sync)) }},
		{"other wake", "wake", func(c *checked) {
			k := store.WakeIndexKey(key.Partition(), store.WakeKey{UnixMs: 800, Kind: store.WakeSchedule, Key: key})
			c.do(c.s.db.Set(k, make([]byte, 8), pebble.Sync))
		}},
		{"no record", "schedule", func(c *checked) { c.do(c.s.db.Set(record, []byte("x"), pebble.Sync)) }},
		{"other record", "schedule", func(c *checked) {
			x := store.Schedule{Key: store.RunKey{ID: "other"}, Revision: 1, WakeUnixMs: store.NoWake}
			c.do(c.s.db.Set(record, store.AppendSchedule(nil, &x), pebble.Sync))
		}},
	} {
		c := newChecked(t)
		p, err := c.s.Acquire(t.Context(), key.Partition(), "a", 0)
		c.do(err)
		c.do(c.s.Commit(t.Context(), []store.Group{{Partition: p, Schedules: []store.ScheduleSet{
			{Schedule: store.Schedule{Key: key, Revision: 1, WakeUnixMs: 900, Data: []byte("{}")}}}}}))
		d.damage(c)
		found := c.check(false)
		if d.kind == "" {
			if len(found.Problems) > 0 || found.Schedules != 1 {
				t.Errorf("%s: %+v", d.what, found)
			}
			continue
		}
		if len(found.Problems) == 0 || found.Problems[0].Kind != d.kind {
			t.Errorf("%s: %+v", d.what, found)
		}
		if d.kind != "wake" {
			continue
		}
		if repaired := c.check(true); repaired.Left() != 0 {
			t.Errorf("%s: repaired %+v", d.what, repaired)
		}
		if again := c.check(false); len(again.Problems) > 0 {
			t.Errorf("%s: left %+v", d.what, again.Problems)
		}
	}
}

// TestKeyOfSchedules counts the keys that encrypt schedules: a key in use is not forgotten.
func TestKeyOfSchedules(t *testing.T) {
	c := newChecked(t)
	key := store.RunKey{ID: "nightly"}
	p, err := c.s.Acquire(t.Context(), key.Partition(), "a", 0)
	c.do(err)
	c.do(c.s.AddSealKey(t.Context(), store.SealKey{ID: "k"}))
	sealed := append([]byte{1, 'k'}, bytes.Repeat([]byte{9}, 30)...)
	c.do(c.s.Commit(t.Context(), []store.Group{{Partition: p, Schedules: []store.ScheduleSet{
		{Schedule: store.Schedule{Key: key, Revision: 1, WakeUnixMs: store.NoWake, Data: sealed, Sealed: true}}}}}))
	c.do(c.s.Close())
	c.s = nil
	if n, err := ForgetKey(t.Context(), c.dir, "k"); n != 1 || err != nil {
		t.Errorf("a key that a schedule needs: %d records, %v", n, err)
	}
}
