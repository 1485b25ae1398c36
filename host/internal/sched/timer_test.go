package sched

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// timers is a scheduler without workers: the test takes the runs that are due, and stores their wakes.
type timers struct {
	*Scheduler
	t     testing.TB
	clock *clock.Fake
	reads int // of the index
	most  int // wakes in one of them
	wakes map[store.RunKey]int64
}

// countingPartition counts the reads of the index.
type countingPartition struct {
	store.Partition
	t *timers
}

func (p countingPartition) Due(ctx context.Context, after store.WakeKey, until int64, limit int) ([]store.Wake, error) {
	wakes, err := p.Partition.Due(ctx, after, until, limit)
	p.t.reads++
	p.t.most = max(p.t.most, len(wakes))
	return wakes, err
}

const timersStart = 1_800_000_000_000

func newTimers(t testing.TB, data *memstore.Data, b bounds) *timers {
	fake := clock.NewFake(time.UnixMilli(timersStart))
	s, err := New(context.Background(), Config{Store: data.Open(), Clock: fake, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s.bounds = b
	x := &timers{Scheduler: s, t: t, clock: fake, wakes: map[store.RunKey]int64{}}
	x.count()
	return x
}

func (x *timers) count() {
	for p := range x.parts {
		x.parts[p] = countingPartition{x.parts[p], x}
	}
}

// sleep stores the wake of a run, and arms it as a commit does.
func (x *timers) sleep(run store.RunKey, wake int64, arm bool) {
	_, known := x.wakes[run]
	err := x.parts[run.Partition()].Commit(context.Background(), []store.RunCommit{{Run: run, Create: !known,
		State: store.RunState{Run: run, Status: store.Sleeping, WakeUnixMs: wake}}})
	if err != nil {
		x.t.Fatal(err)
	}
	x.wakes[run] = wake
	if arm && wake != store.NoWake {
		x.arm(run, wake)
	}
}

// fire looks at the timers as the timer loop does, until it would wait.
func (x *timers) fire() {
	for range 10_000 {
		next, ok, err := x.fireDue(context.Background())
		if err != nil {
			x.t.Fatal(err)
		}
		if !ok || next > x.nowMs() {
			return
		}
	}
	x.t.Fatal("the timer loop does not come to rest")
}

// take takes what is due, as workers do, at most n, and has what was really due sleep for ever. It gives how many were.
func (x *timers) take(n int) (due int) {
	for range n {
		x.mu.Lock()
		run, ok := x.takeDueLocked()
		x.mu.Unlock()
		if !ok {
			return due
		}
		x.done()
		if wake := x.wakes[run]; wake != store.NoWake && wake <= x.nowMs() {
			x.sleep(run, store.NoWake, false)
			due++
		}
	}
	return due
}

// drain takes everything that is due, and what the timer loop loads meanwhile.
func (x *timers) drain() {
	for range 10_000 {
		x.fire()
		if x.take(1<<30) == 0 && !x.kicked() {
			return
		}
	}
	x.t.Fatal("something is due for ever")
}

func (x *timers) kicked() bool {
	select {
	case <-x.kick:
		return true
	default:
		return false
	}
}

// TestTimersModel stores wakes near and far, cancels some, moves the clock and restarts: whatever was loaded when, no
// wake is ever missed.
func TestTimersModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		data := memstore.New()
		b := bounds{portion: rapid.IntRange(1, 4).Draw(rt, "portion"), reads: rapid.IntRange(1, 3).Draw(rt, "reads"),
			timers: rapid.IntRange(1, 10).Draw(rt, "timers"), tightMs: 100, due: rapid.IntRange(2, 5).Draw(rt, "due")}
		x := newTimers(t, data, b)
		in := rapid.OneOf(rapid.Int64Range(-50, 300), rapid.Int64Range(window-50, window+50), rapid.Int64Range(0, 3*window))
		for range rapid.IntRange(1, 80).Draw(rt, "operations") {
			run := store.RunKey{ID: fmt.Sprint(rapid.IntRange(0, 30).Draw(rt, "run"))}
			switch rapid.IntRange(0, 5).Draw(rt, "operation") {
			case 0, 1, 2:
				x.sleep(run, x.nowMs()+in.Draw(rt, "in"), true)
			case 3:
				if _, known := x.wakes[run]; known {
					x.sleep(run, store.NoWake, false)
				}
			case 4:
				x.clock.Advance(time.Duration(rapid.Int64Range(0, window).Draw(rt, "passes")) * time.Millisecond)
				x.fire()
				x.take(rapid.IntRange(0, 5).Draw(rt, "take"))
			case 5:
				wakes, now := x.wakes, x.nowMs()
				x = newTimers(t, data, b)
				x.wakes = wakes
				x.clock.Set(time.UnixMilli(now))
			}
			x.drain()
			for run, wake := range x.wakes {
				if wake != store.NoWake && wake <= x.nowMs() {
					rt.Fatalf("run %s was due %d ms ago and is not served", run.ID, x.nowMs()-wake)
				}
			}
			x.mu.Lock()
			next, ok := x.nextWakeLocked()
			x.mu.Unlock()
			for run, wake := range x.wakes {
				if wake != store.NoWake && (!ok || next > wake) {
					rt.Fatalf("run %s is due at %d, the host says %d %v", run.ID, wake, next, ok)
				}
			}
			if x.busy != 0 {
				rt.Fatalf("busy %d at rest", x.busy)
			}
		}
	})
}

// TestStormStaysInIndex has many runs due at once and nobody who takes them: they stay in the index but for a few, and
// all come when there is somebody.
func TestStormStaysInIndex(t *testing.T) {
	const runs = 3000
	b := bounds{portion: 16, reads: 4, timers: 1 << 18, tightMs: 1000, due: 128}
	x := newTimers(t, memstore.New(), b)
	for i := range runs {
		x.sleep(store.RunKey{ID: fmt.Sprint(i)}, timersStart-5, false)
	}
	x.fire()
	if got := x.wheel.Due(); got < b.due || got > b.due+b.portion {
		t.Errorf("%d runs are in memory, want %d", got, b.due)
	}
	if x.most > b.portion+1 {
		t.Errorf("%d wakes in one read", x.most)
	}
	if _, ok, _ := x.fireDue(context.Background()); ok {
		t.Error("the timer loop would not wait for the workers")
	}
	due := 0
	for due < runs {
		n := x.take(b.due / 4)
		if due += n; n == 0 {
			t.Fatalf("%d runs were served, nothing is due any more", due)
		}
		if x.kicked() {
			x.fire()
		}
		if got := x.wheel.Due(); got > b.due+b.portion {
			t.Fatalf("%d runs are in memory", got)
		}
	}
}

// TestNearWakesStayInIndex has more wakes near than the wheel is to hold: those that are due soon are in it.
func TestNearWakesStayInIndex(t *testing.T) {
	const runs = 2000
	b := bounds{portion: 16, reads: 4, timers: 200, tightMs: 100, due: 1 << 20}
	x := newTimers(t, memstore.New(), b)
	for i := range runs {
		x.sleep(store.RunKey{ID: fmt.Sprint(i)}, timersStart+10+int64(i)*10, false)
	}
	most := 0
	for i := range runs {
		x.clock.Set(time.UnixMilli(timersStart + 10 + int64(i)*10))
		x.fire()
		most = max(most, x.wheel.Len())
		if n := x.take(runs); n != 1 {
			t.Fatalf("%d runs are due at instant %d", n, i)
		}
	}
	if limit := b.timers + b.portion + int(b.tightMs)/10; most > limit {
		t.Errorf("%d timers in memory, want at most %d", most, limit)
	}
}

// TestLoadsAreRare has many wakes in a few partitions, armed by commits: the index is read a few times a minute, not once
// per wake, and the partitions at different instants.
func TestLoadsAreRare(t *testing.T) {
	x := newTimers(t, memstore.New(), defaultBounds)
	const runs, minutes, partitions = 400, 5, 4
	for i := 1000; len(x.wakes) < runs; i++ {
		if run := (store.RunKey{ID: fmt.Sprint(i)}); run.Partition() < partitions {
			x.sleep(run, timersStart+int64(len(x.wakes))*97, true)
		}
	}
	x.drain()
	x.reads = 0
	most, served := 0, 0
	for end := x.nowMs() + minutes*60_000; x.nowMs() < end; {
		next, ok, err := x.fireDue(context.Background())
		if err != nil || !ok {
			t.Fatal(err, ok)
		}
		before := x.reads
		x.clock.Set(time.UnixMilli(max(next, x.nowMs()+1)))
		x.fire()
		most = max(most, x.reads-before)
		for {
			x.mu.Lock()
			run, ok := x.takeDueLocked()
			x.mu.Unlock()
			if !ok {
				break
			}
			x.done()
			if x.wakes[run] <= x.nowMs() {
				served++
				x.sleep(run, x.nowMs()+window+1000, true)
			}
		}
	}
	perMinute := float64(x.reads) / minutes / partitions
	t.Logf("%d wakes, %.1f reads per partition and minute, at most %d at an instant", served, perMinute, most)
	if perMinute > 20 {
		t.Errorf("%.1f reads of a partition's index in a minute", perMinute)
	}
	if most > 2 {
		t.Errorf("%d reads at one instant", most)
	}
}
