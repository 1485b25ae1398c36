package pebblestore

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// TestMeasure measures a store that grows, a closed one, and one whose files another caller is counting.
func TestMeasure(t *testing.T) {
	s, err := Open("db", Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	measure := func() store.Measures {
		t.Helper()
		m, err := s.Measure()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	before := measure()
	w := newStepper(t, s)
	for range 10 {
		if err := w.commit(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	s.files.counting.Store(true)
	if m := measure(); m.Bytes != before.Bytes {
		t.Errorf("it was counted twice at a time: %d, before it was %d", m.Bytes, before.Bytes)
	}
	s.files.counting.Store(false)
	after := measure()
	if after.Bytes <= before.Bytes || after.WriteStalls != 0 || after.Stalled != 0 {
		t.Errorf("%+v, before it was %+v", after, before)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if m := measure(); m != after {
		t.Errorf("closed: %+v, before it was %+v", m, after)
	}
}

// TestWriteStalls receives stalls from Pebble, and measures their duration, including a stall in progress.
func TestWriteStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{failed: make(chan struct{}), closed: true}
		from := s.options(Options{Logger: slog.New(slog.DiscardHandler)}, pebble.FormatNewest).EventListener
		want := func(count uint64, stalled time.Duration) {
			t.Helper()
			if m, err := s.Measure(); err != nil || m.WriteStalls != count || m.Stalled != stalled {
				t.Errorf("%+v %v, want %d stalls, %v", m, err, count, stalled)
			}
		}
		want(0, 0)
		from.WriteStallBegin(pebble.WriteStallBeginInfo{Reason: "memtable count limit reached"})
		<-time.After(3 * time.Second)
		want(1, 3*time.Second)
		<-time.After(time.Second)
		from.WriteStallEnd()
		<-time.After(time.Minute)
		want(1, 4*time.Second)
		from.WriteStallBegin(pebble.WriteStallBeginInfo{})
		from.WriteStallEnd()
		want(2, 4*time.Second)
	})
}
