package host_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// TestScheduleOnDisk keeps an encrypted schedule on disk across a crash: the store is valid and reveals nothing of
// the schedule.
func TestScheduleOnDisk(t *testing.T) {
	dir, keys := t.TempDir(), keyring(t, keyLine("k", 1))
	disk := func(dir string) hosttest.Option {
		return hosttest.WithStore(func() store.Store {
			s, err := pebblestore.Open(filepath.Join(dir, "store"), pebblestore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		})
	}
	encrypted := hosttest.WithConfig(func(c *host.Config) { c.Codec = keys })
	h := newScheduled(t, disk(dir), encrypted)
	h.create("@every 1h", "1s", nil)
	_, err := h.Schedules().Pause(ctx, "s", "SECRET note")
	do(t, err)
	_, err = h.Schedules().Resume(ctx, "s", "SECRET note")
	do(t, err)
	h.Advance(150 * time.Minute)
	h.Crash()
	h.Advance(time.Hour)
	h.fired("09:00", "10:00", "11:00")
	h.Stop()
	r, err := host.Verify(ctx, dir, host.Config{Codec: keys, Interpreter: true}, host.VerifyOptions{})
	do(t, err)
	if !r.Sound() || r.Schedules != 1 || r.Runs != 3 {
		t.Errorf("%+v", r)
	}
	s, err := pebblestore.Open(filepath.Join(dir, "store"), pebblestore.Options{ReadOnly: true})
	do(t, err)
	x, err := s.Schedule(ctx, store.RunKey{ID: "s"})
	do(t, err)
	do(t, s.Close())
	if !x.Sealed || strings.Contains(string(x.Data), "SECRET") || strings.Contains(string(x.Data), "@every") {
		t.Errorf("it can be read: %q", x.Data)
	}
}

// TestSchedulesOfNamespaces: schedules with the same id in two namespaces have separate runs.
func TestSchedulesOfNamespaces(t *testing.T) {
	h := newScheduled(t)
	for _, name := range []string{"a", "b"} {
		ns, err := h.Namespace(ctx, name)
		do(t, err)
		_, err = ns.Upload(ctx, "nap", napModule())
		do(t, err)
		_, err = ns.Schedules().Create(ctx, "s", host.ScheduleSpec{Workflow: "nap", Input: []byte("90m"), When: "@every 1h", Overlap: host.OverlapBufferOne})
		do(t, err)
		h.Advance(time.Hour)
	}
	h.Crash()
	h.Advance(3 * time.Hour)
	for name, want := range map[string]int{"a": 4, "b": 3} {
		ns, err := h.Namespace(ctx, name)
		do(t, err)
		s, err := ns.Schedules().Get(ctx, "s")
		do(t, err)
		runs, err := collect(ns.Runs(ctx, host.Query{}))
		do(t, err)
		if s.Namespace != name || int64(len(runs)) != s.Started || len(runs)+len(s.Waiting)+int(s.Skipped) < want {
			t.Errorf("%s: %d runs, %+v", name, len(runs), s)
		}
	}
	if list, err := h.Schedules().List(ctx, "", 10); err != nil || len(list) != 0 {
		t.Errorf("%+v %v", list, err)
	}
	_, err := h.Schedules().List(ctx, "", 0)
	is(t, err, host.ErrInvalid)
}

// TestManySchedules has many schedules: only those due soon are in memory, and all that are due at once are started.
func TestManySchedules(t *testing.T) {
	h := newScheduled(t)
	const n = 300
	for i := range n {
		_, err := h.Schedules().Create(ctx, fmt.Sprint("s", i), host.ScheduleSpec{Workflow: "nap", Input: []byte("1s"), When: "0 0 1 * *"})
		do(t, err)
	}
	for range 2 {
		h.Settle()
		if s := h.Stats(); s.Timers != 0 {
			t.Errorf("%d timers of schedules that are due in weeks", s.Timers)
		}
		h.Reopen()
	}
	next, ok := h.Settle()
	if want := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC); !ok || next.After(want) {
		t.Errorf("the next wake is at %v", next)
	}
	commits := h.Commits()
	h.Advance(28 * 24 * time.Hour)
	all, err := collect(h.Runs(ctx, host.Query{}))
	do(t, err)
	if len(all) != n {
		t.Errorf("%d runs", len(all))
	}
	t.Logf("%d commits for %d runs", h.Commits()-commits, n)
	var ids []string
	for after := ""; ; {
		page, err := h.Schedules().List(ctx, after, 77)
		do(t, err)
		for _, s := range page {
			ids = append(ids, s.ID)
		}
		if len(page) < 77 {
			break
		}
		after = ids[len(ids)-1]
	}
	if len(ids) != n || !slices.IsSorted(ids) {
		t.Errorf("%d schedules listed", len(ids))
	}
}

// TestScheduleOfHosts shares a store between two hosts, and moves the partition of a schedule from one to the other:
// each instant has one run, started by the owner.
func TestScheduleOfHosts(t *testing.T) {
	p := int(store.RunKey{ID: "s"}.Partition())
	h := newScheduled(t, hosttest.WithConfig(func(c *host.Config) { c.Partitions = []int{p, (p + 1) % host.NumPartitions} }))
	h.create("@every 1h", "1s", nil)
	h.Advance(150 * time.Minute)
	do(t, h.ReleasePartitions(ctx, p))
	h.Advance(time.Hour) // nobody owns it
	if s := h.schedule(); s.Started != 2 {
		t.Errorf("%+v", s)
	}
	_, err := h.Schedules().Pause(ctx, "s", "")
	is(t, err, host.ErrFenced)
	do(t, h.AcquirePartitions(ctx, p))
	h.Settle()
	h.Advance(time.Hour)
	h.fired("09:00", "10:00", "11:00", "12:00")
}

// TestScheduleNear has a schedule that is due more often than wakes are read from the index.
func TestScheduleNear(t *testing.T) {
	h := newScheduled(t)
	h.create("*/5 * * * * *", "1s", nil)
	h.Advance(2 * time.Minute)
	h.Crash()
	h.Advance(2 * time.Minute)
	if s := h.schedule(); s.Started != 48 || s.Skipped+s.Missed != 0 {
		t.Errorf("%+v", s)
	}
}
