package shard

import (
	"testing"
	"time"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// A run has one timer, however many events it gets.
func TestOneTimerAfterManySignals(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.sleeper(a, 20*time.Second)
	for range 2000 {
		w.deliver(a, run.Signal{Name: "tick"})
	}
	w.pump()
	if n := w.s.Stats(w.now).Timers; n != 1 {
		t.Errorf("%d timers", n)
	}
	if at, ok := w.s.NextWake(); !ok || at != epoch+20_000 {
		t.Errorf("the next wake is %v %d", ok, at)
	}
	w.later(20 * time.Second)
	if n := len(w.reported(ReportWake)); n != 1 {
		t.Errorf("the run is woken %d times", n)
	}
}

// Far wakes are only in the index. They are read in portions when their time comes near.
func TestPortionsOfTheIndex(t *testing.T) {
	w := newWorld(t, limits, 1)
	const runs = 35 // a portion is 10
	for i := range runs {
		w.sleeper(keyIn(1, i), time.Hour+time.Duration(i/20)*time.Millisecond)
	}
	if s := w.s.Stats(w.now); s.Timers != 0 {
		t.Fatalf("%d timers of far wakes", s.Timers)
	}
	if at, ok := w.s.NextWake(); !ok || at > epoch+time.Hour.Milliseconds() {
		t.Errorf("the next wake is %v %d", ok, at)
	}
	w.later(time.Hour - time.Second)
	if s := w.s.Stats(w.now); s.Timers != runs {
		t.Errorf("%d timers a second before, want %d", s.Timers, runs)
	}
	w.later(2 * time.Second)
	if n := len(w.reported(ReportWake)); n != runs {
		t.Errorf("%d runs wake, want %d", n, runs)
	}
}

// With many timers in memory, less is loaded ahead, and with even more, only what is due.
func TestManyTimersAreLoadedLate(t *testing.T) {
	few := limits
	few.Timers = 5
	w := newWorld(t, few, 1)
	for i := range 30 {
		w.sleeper(keyIn(1, i), time.Hour+time.Duration(i)*100*time.Millisecond)
	}
	w.later(time.Hour - 20*time.Second)
	if n := w.s.Stats(w.now).Timers; n > 20 {
		t.Errorf("%d timers are loaded 20 s ahead", n)
	}
	for range 30 {
		w.later(time.Second)
	}
	if n := len(w.reported(ReportWake)); n != 30 {
		t.Errorf("%d runs wake, want 30", n)
	}
}

// TestDueWakesWaitInTheIndex has many more runs due at once than there may be timers, as when a host starts after a day: those that
// cannot wake yet stay in the index, and wake in the order of their instants.
func TestDueWakesWaitInTheIndex(t *testing.T) {
	few := limits
	few.Timers, few.Woken, few.KeptBytes = 5, 3, 0
	w := newWorld(t, few, 1, 2)
	const runs = 120
	for i := range runs {
		w.sleeper(keyIn(store.PartitionID(1+i%2), i), time.Hour+time.Duration(i)*time.Millisecond)
	}
	asked := len(w.asked)
	w.s.SetActive(w.now, false) // as while a host is opened
	w.later(2 * time.Hour)
	if n := w.s.Stats(w.now).Timers; n < 2*few.Timers {
		t.Errorf("%d timers are in memory before the first run wakes", n)
	}
	w.s.SetActive(w.now, true)
	w.later(0)
	for done := 0; done < runs; {
		if n, most := w.s.Stats(w.now).Timers, 2*few.Timers+2*few.Portion; n > most {
			t.Fatalf("%d timers are in memory after %d runs, want %d at most", n, done, most)
		}
		if len(w.asked) == asked+done {
			t.Fatalf("no further run wakes after %d", done)
		}
		for ; asked+done < len(w.asked); done++ {
			w.complete(w.ready(w.asked[asked+done].l.Run().Key()))
			w.pump()
		}
	}
	var last [3]int64
	for _, r := range w.reported(ReportWake) {
		if due := w.now - r.LateMs; due < last[r.Partition] {
			t.Errorf("a run of partition %d that was due at %d wakes after one that was due at %d", r.Partition, due, last[r.Partition])
		} else {
			last[r.Partition] = due
		}
	}
}

// The index also has wakes of other kinds and of other namespaces. Wakes of runs in any namespace are processed,
// wakes of other kinds are not.
func TestOtherWakes(t *testing.T) {
	w := newWorld(t, limits, 1)
	other := store.RunKey{Namespace: 5, ID: "x"}
	for i := 0; other.Partition() != 1; i++ {
		other.ID = string(rune('a'+i%26)) + other.ID
	}
	w.sleeper(other, time.Hour)
	p := w.s.Partition(1)
	at := w.now + time.Hour.Milliseconds()
	set := store.WakeSet{Kind: store.WakeRetention, Key: keyIn(1, 0), OldUnixMs: store.NoWake, UnixMs: at}
	if err := w.store.Commit(t.Context(), []store.Group{{Partition: p.Owned, Wakes: []store.WakeSet{set}}}); err != nil {
		t.Fatal(err)
	}
	w.later(time.Hour)
	if n := w.reported(ReportWake); len(n) != 1 || n[0].Run != other {
		t.Errorf("wakes %v", n)
	}
	w.complete(w.ready(other))
	w.pump()
	if st := w.state(other); st.Status != store.Completed {
		t.Errorf("the run is %s", st.Status)
	}
}

// The clock is set forward and back. No run wakes too early, and no wake is lost.
func TestClockIsSet(t *testing.T) {
	w := newWorld(t, limits, 1)
	near, far := keyIn(1, 0), keyIn(1, 1)
	w.sleeper(near, 10*time.Second)
	w.sleeper(far, time.Hour)
	w.now -= 2 * time.Hour.Milliseconds()
	w.pump()
	if len(w.asked) != 2 {
		t.Error("something wakes at the wrong time")
	}
	w.now = epoch + 9_000
	w.pump()
	// The timer fires, the run has to be read, and the clock is set back in the meantime.
	w.forget(near)
	w.now = epoch + 10_000
	w.s.Tick(w.now)
	w.now = epoch + 2_000
	w.pump()
	if len(w.asked) != 2 {
		t.Error("a run is woken before its time")
	}
	w.now = epoch + 10_000
	w.pump()
	if len(w.asked) != 3 {
		t.Error("a wake is lost")
	}
	w.later(10 * time.Hour)
	if len(w.asked) != 4 {
		t.Error("a wake is lost")
	}
}

// The clock is set far back after the index was read up to some instant: wakes that are written since are earlier.
// The run that slept before is processed, and sleeps its full duration from there.
func TestClockIsSetBackBehindTheIndex(t *testing.T) {
	w := newWorld(t, limits, 1)
	a, b := keyIn(1, 0), keyIn(1, 1)
	w.sleeper(a, 10*time.Second)
	w.now -= 24 * time.Hour.Milliseconds()
	w.sleeper(b, 10*time.Second)
	w.forget(b)
	w.later(10 * time.Second)
	if n := w.reported(ReportWake); len(n) != 2 || n[0].Run != a || n[1].Run != b || len(w.asked) != 4 {
		t.Errorf("wakes %v, asked %d", n, len(w.asked))
	}
}

// If the index cannot be read, it is read again after a second, from the beginning.
func TestIndexCannotBeRead(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.sleeper(a, time.Hour)
	w.now += time.Hour.Milliseconds()
	w.s.Tick(w.now)
	w.dues = nil
	w.s.DueRead(w.now, w.s.Partition(1), nil, false, 0, errDisk)
	if len(w.reported(ReportIndex)) != 1 {
		t.Errorf("reports %v", w.reports)
	}
	w.s.Tick(w.now)
	if len(w.dues) != 0 {
		t.Error("it is read again at once")
	}
	if at, ok := w.s.Next(); !ok || at != w.now+1000 {
		t.Errorf("the shard comes again at %v %d", ok, at)
	}
	w.later(time.Second)
	if n := len(w.reported(ReportWake)); n != 1 {
		t.Errorf("%d wakes", n)
	}
}

// The number of runs in memory is bounded. The least recently used run is evicted, and its wake stays.
func TestKeptRunsAreBounded(t *testing.T) {
	few := limits
	few.KeptBytes = 20_000
	w := newWorld(t, few, 1)
	for i := range 40 {
		w.sleeper(keyIn(1, i), 20*time.Second)
	}
	n := len(w.s.Partition(1).residents)
	if n == 0 || n > 10 {
		t.Errorf("%d runs are kept in 20,000 bytes", n)
	}
	if timers := w.s.Stats(w.now).Timers; timers != 40 {
		t.Errorf("%d timers", timers)
	}
	w.later(time.Minute)
	if got := len(w.reported(ReportWake)); got != 40 {
		t.Errorf("%d runs wake", got)
	}
	w.later(time.Second)
}

// The number of concurrently woken runs is bounded: the others wait as timers until one of them comes to rest.
func TestWokenRunsAreBounded(t *testing.T) {
	few := limits
	few.Woken, few.KeptBytes = 3, 0 // they have to be read
	w := newWorld(t, few, 1, 2)
	for i := range 10 {
		w.sleeper(keyIn(store.PartitionID(1+i%2), i), 20*time.Second)
	}
	asked := len(w.asked)
	w.later(time.Minute)
	if n := len(w.asked) - asked; n != 3 {
		t.Fatalf("%d guests are asked for, want 3", n)
	}
	if at, ok := w.s.Next(); !ok || at != w.now+freshMs {
		t.Errorf("the shard has no room, and wants to come again at %d, %v; now it is %d", at, ok, w.now)
	}
	if w.s.Stats(w.now).Runs != 3 {
		t.Errorf("stats %+v", w.s.Stats(w.now))
	}
	for i := asked; i < len(w.asked); i++ {
		w.complete(w.ready(w.asked[i].l.Run().Key()))
		w.pump()
	}
	if n := len(w.asked) - asked; n != 10 {
		t.Errorf("%d guests are asked for, want 10", n)
	}
}

// Runs that take long to come to rest do not block others.
func TestWokenRunsCountForAWhile(t *testing.T) {
	few := limits
	few.Woken, few.KeptBytes = 3, 0
	w := newWorld(t, few, 1, 2)
	for i := range 10 {
		w.sleeper(keyIn(store.PartitionID(1+i%2), i), 20*time.Second)
	}
	asked := len(w.asked)
	w.later(time.Minute)
	for _, want := range []int{3, 6, 9, 10, 10} {
		if n := len(w.asked) - asked; n != want {
			t.Fatalf("%d guests are asked for, want %d", n, want)
		}
		w.later((freshMs - 1) * time.Millisecond)
		if n := len(w.asked) - asked; n != want {
			t.Fatalf("%d guests are asked for, want %d still", n, want)
		}
		w.later(time.Millisecond)
	}
	if w.s.Stats(w.now).Runs != 10 {
		t.Errorf("stats %+v", w.s.Stats(w.now))
	}
}

// A shard was told to stop while it had no room for more runs. It does not set its timer again and again: nothing
// fires, and no run will come to rest.
func TestWokenRunsExpireWhileNothingIsFired(t *testing.T) {
	few := limits
	few.Woken, few.KeptBytes = 3, 0
	w := newWorld(t, few, 1)
	for i := range 10 {
		w.sleeper(keyIn(1, i), 20*time.Second)
	}
	w.later(time.Minute)
	w.s.SetActive(w.now, false)
	w.later(freshMs * time.Millisecond)
	if at, ok := w.s.Next(); ok && at <= w.now {
		t.Errorf("the shard wants to come again at %d; it is %d", at, w.now)
	}
}
