package sched

import (
	"fmt"
	"testing"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// TestKept keeps owners of runs that wake soon, within the bytes, and gives up those that were used longest ago.
func TestKept(t *testing.T) {
	s := &Scheduler{owners: map[store.RunKey]*owner{}, cfg: Config{Clock: clock.System()}}
	touch := func(i int, wakeInMs int64) {
		o := s.acquire(store.RunKey{ID: fmt.Sprint(i)})
		o.loaded, o.journal = true, &journal.Journal{}
		o.state.WakeUnixMs = s.nowMs() + wakeInMs
		s.release(o)
	}
	touch(0, 2*window)
	if len(s.owners) != 0 {
		t.Fatal("the owner of a run that wakes late is kept")
	}
	const room = keptBytes / ownerBytes
	for i := range room + 10 {
		touch(i, window/2)
		touch(0, window/2)
	}
	has := func(i int) bool { return s.owners[store.RunKey{ID: fmt.Sprint(i)}] != nil }
	if len(s.owners) != room || s.kept.lru.Len() != room || s.kept.bytes > keptBytes || !has(0) || has(1) || !has(room+9) {
		t.Fatal(len(s.owners), s.kept.lru.Len(), s.kept.bytes)
	}
	o := s.acquire(store.RunKey{ID: "0"})
	if o.kept != nil || s.kept.lru.Len() != room-1 || s.acquire(o.key) != o {
		t.Fatal("one that is used is still kept, or there are two")
	}
}
