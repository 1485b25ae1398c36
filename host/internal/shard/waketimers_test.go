package shard

import (
	"testing"

	"github.com/wfhost/wfhost/store"
)

func timerKey(id string) TimerKey { return TimerKey{store.WakeRun, store.RunKey{ID: id}} }

func indexed(id string, at int64) store.Wake {
	return store.Wake{Key: store.WakeKey{UnixMs: at, Kind: store.WakeRun, Key: store.RunKey{ID: id}}, DueUnixMs: at}
}

func nothing(store.RunKey) bool { return false }

// The index is read from its beginning in portions, and again when the first wake behind them comes near.
func TestPortions(t *testing.T) {
	s := newWakeTimers(1, nil)
	if at, ok := s.NextRead(loadAheadMs); !ok || at > 0 || !s.Reads(0, loadAheadMs) {
		t.Fatalf("a new schedule is read at %d %v", at, ok)
	}
	after, until := s.Read(0, loadAheadMs)
	if after != (store.WakeKey{}) || until != loadAheadMs || s.Reads(0, loadAheadMs) {
		t.Errorf("read after %v until %d", after, until)
	}
	if _, ok := s.NextRead(loadAheadMs); ok || !s.Finds(indexed("a", 1).Key) {
		t.Error("a portion that is being read is to be read")
	}
	s.Loaded([]store.Wake{indexed("a", 10), indexed("b", 20), indexed("c", 30)}, true, 40, nothing)
	after, _ = s.Read(0, loadAheadMs)
	if after != indexed("c", 30).Key {
		t.Errorf("the next portion is after %v", after)
	}
	s.Loaded(nil, false, 1_000_000, nothing)
	if s.Reads(0, loadAheadMs) || !s.Reads(1_000_000-margin(1), loadAheadMs) {
		t.Error("the index is read at the wrong time")
	}
	if at := s.First(); at != 10 {
		t.Errorf("the first wake is at %d", at)
	}
	for range 3 {
		s.Pop(Never)
	}
	if at := s.First(); at != 1_000_000 {
		t.Errorf("the first wake is at %d", at)
	}
}

// Timers and runs in memory are newer than the index.
func TestMemoryIsNewer(t *testing.T) {
	s := newWakeTimers(1, nil)
	s.Put(timerKey("a"), 5)
	s.Read(0, loadAheadMs)
	s.Loaded([]store.Wake{indexed("a", 10), indexed("b", 20), indexed("c", 30)}, false, Never,
		func(k store.RunKey) bool { return k.ID == "b" })
	if at, _ := s.Due(timerKey("a")); at != 5 || s.Len() != 2 {
		t.Errorf("a wakes at %d, %d timers", at, s.Len())
	}
	if _, ok := s.NextRead(loadAheadMs); ok {
		t.Error("an index without far wakes is to be read")
	}
}

// The timer of an evicted run stays if the index was read that far; otherwise its wake is left to the index.
func TestDropped(t *testing.T) {
	s := newWakeTimers(1, nil)
	s.Read(0, loadAheadMs)
	s.Loaded(nil, false, Never, nothing)
	for _, at := range []int64{100, loadAheadMs + 1, store.NoWake} {
		s.Put(timerKey("a"), 100)
		s.Dropped(timerKey("a"), at)
		if _, has := s.Due(timerKey("a")); has != (at == 100) {
			t.Errorf("a run that wakes at %d has a timer: %v", at, has)
		}
	}
	if at, ok := s.NextRead(loadAheadMs); !ok || at != loadAheadMs+1-margin(1) || !s.Finds(indexed("a", loadAheadMs+1).Key) {
		t.Errorf("the index is read at %d %v", at, ok)
	}
}

func TestFailed(t *testing.T) {
	s := newWakeTimers(1, nil)
	s.Read(0, loadAheadMs)
	s.Failed(0)
	if at := s.First(); at != 1000 || s.Reads(999, loadAheadMs) || !s.Reads(1000, loadAheadMs) {
		t.Errorf("the first wake is at %d", at)
	}
	if after, _ := s.Read(1000, loadAheadMs); after != (store.WakeKey{}) {
		t.Errorf("read after %v", after)
	}
}

// If the clock is set back, retries do not wait for it to catch up; everything else does.
func TestWakeTimersClockSetBack(t *testing.T) {
	s := newWakeTimers(1, nil)
	s.Read(5000, loadAheadMs)
	s.Failed(5000)
	s.Put(timerKey("a"), 6000)
	s.Again(5000, timerKey("b"))
	s.Again(5000, timerKey("c"))
	s.Again(5000, timerKey("d"))
	s.Put(timerKey("c"), 6000) // it was done
	s.Remove(timerKey("d"))
	if at, ok := s.Next(); !ok || at != 6000 || s.Len() != 3 {
		t.Errorf("the first of %d timers is due at %d", s.Len(), at)
	}
	s.SetBack(100)
	if !s.Reads(100, loadAheadMs) {
		t.Error("the index is not read again")
	}
	if k, at, ok := s.Pop(100); !ok || k != timerKey("b") || at != 100 {
		t.Errorf("%v is due at %d %v", k, at, ok)
	}
	if k, at, ok := s.Pop(5999); ok {
		t.Errorf("%v is due at %d", k, at)
	}
}

func TestAhead(t *testing.T) {
	for n, want := range map[int]int64{9: loadAheadMs, 10: tight, 19: tight, 20: 0} {
		if got := aheadMs(n, 10); got != want {
			t.Errorf("with %d timers: %d, want %d", n, got, want)
		}
	}
}

// A new wake gets a timer if the index was read that far, and is otherwise left to the index; the previous timer is
// removed.
func TestWakeTimersSet(t *testing.T) {
	s := newWakeTimers(1, nil)
	k := TimerKey{store.WakeSchedule, store.RunKey{ID: "s"}}
	s.Read(0, loadAheadMs)
	s.Set(k, 50) // while the index is read
	s.Loaded([]store.Wake{{Key: store.WakeKey{UnixMs: 40, Kind: k.Kind, Key: k.Run}, DueUnixMs: 40}}, false, Never, nothing)
	if at, _ := s.Due(k); at != 50 || s.Len() != 1 {
		t.Errorf("it wakes at %d, %d timers", at, s.Len())
	}
	s.Set(k, loadAheadMs+1)
	if at, ok := s.NextRead(loadAheadMs); s.Len() != 0 || !ok || at != loadAheadMs+1-margin(1) || s.First() != loadAheadMs+1 {
		t.Errorf("%d timers, the index is read at %d %v", s.Len(), at, ok)
	}
	s.Again(0, k)
	s.Set(k, -5)
	if got, at, ok := s.Pop(0); !ok || got != k || at != -5 {
		t.Errorf("%v is due at %d %v", got, at, ok)
	}
	s.Set(k, 60)
	s.Set(k, store.NoWake)
	if s.Len() != 0 {
		t.Errorf("%d timers", s.Len())
	}
}

// TestOverdue measures lateness by what is due and was not popped, in memory or in the index, but not by what waits
// for another reason.
func TestOverdue(t *testing.T) {
	r := ration{0: 99, 1: 1}
	s := newWakeTimers(1, r)
	late := func(now, want int64, why string) {
		t.Helper()
		if got := s.OverdueMs(now); got != want {
			t.Errorf("%s: %d ms late, want %d", why, got, want)
		}
	}
	late(1000, 0, "the index was not read yet")
	s.Read(0, loadAheadMs)
	late(1000, 0, "the index is being read for the first time")
	s.Loaded([]store.Wake{indexed("a", 10), indexed("b", 20)}, false, 1_000_000, nothing)
	late(10, 0, "a is just due")
	late(1000, 990, "a is due")
	s.Pop(1000)
	late(1000, 980, "b is due")
	s.Pop(1000)
	late(1000, 0, "nothing is due")
	late(1_000_400, 400, "one in the index is due")
	s.Read(1_000_400, loadAheadMs)
	late(1_000_500, 500, "it is being read")
	s.Loaded([]store.Wake{indexed("c", 1_000_000)}, false, Never, nothing)
	late(1_000_500, 500, "it was read")
	s.Pop(1_000_500)
	late(1_000_500, 0, "it was woken")
	s.Again(1_000_500, timerKey("c"))
	late(1_010_000, 0, "it is tried again")
	s.Put(of(1, "d"), 1_010_000)
	s.Put(of(1, "e"), 1_010_000)
	for range 3 {
		s.Pop(1_010_000)
	}
	late(1_020_000, 0, "its namespace has woken as many as it may")
	s.Failed(1_020_000)
	late(1_030_000, 0, "the index cannot be read")
}
