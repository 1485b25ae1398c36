package runtime

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// If a namespace has many tasks, they wait for each other. A task of another namespace waits for at most one task of
// each namespace.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newWorkPool(1, func() func() { return func() {} })
		var order []string
		release := make(chan bool)
		p.Go(1, func(*poolTask) { <-release })
		for _, name := range []string{"a1", "a2", "a3"} {
			p.Go(1, func(*poolTask) { order = append(order, name) })
		}
		p.Go(2, func(*poolTask) { order = append(order, "b1") })
		p.Go(3, func(*poolTask) { order = append(order, "c1") })
		p.Go(2, func(*poolTask) { order = append(order, "b2") })
		synctest.Wait()
		if p.Waiting() != 6 || len(order) != 0 {
			t.Fatalf("%d wait, %q were done", p.Waiting(), order)
		}
		close(release)
		synctest.Wait()
		if want := []string{"a1", "b1", "c1", "a2", "b2", "a3"}; !slices.Equal(order, want) || p.Waiting() != 0 {
			t.Errorf("%q, want %q", order, want)
		}
	})
}

// While a task runs without its permit, another task can run. The first one then continues before tasks that have not
// begun.
func TestWithoutPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newWorkPool(1, func() func() { return func() {} })
		var order []string
		aside, busy := make(chan bool), make(chan bool)
		p.Go(1, func(e *poolTask) {
			e.WithoutPermit(func() { <-aside })
			order = append(order, "first")
		})
		p.Go(1, func(*poolTask) { order = append(order, "second"); <-busy })
		p.Go(1, func(*poolTask) { order = append(order, "third") })
		synctest.Wait()
		if !slices.Equal(order, []string{"second"}) {
			t.Fatal(order)
		}
		close(aside)
		synctest.Wait()
		if len(order) != 1 {
			t.Fatal("two are done at a time", order)
		}
		close(busy)
		synctest.Wait()
		if !slices.Equal(order, []string{"second", "first", "third"}) {
			t.Error(order)
		}
	})
}

// A task with Keep counts until it is released, or for its maximum time.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newWorkPool(2, func() func() { return func() {} })
		var release [2]func()
		for i := range release {
			p.Go(1, func(e *poolTask) { release[i] = e.Keep(time.Second) })
		}
		synctest.Wait()
		var began atomic.Int64
		for range 4 {
			p.Go(1, func(e *poolTask) { began.Add(1); e.Keep(time.Hour) })
		}
		release[0]()
		release[0]()
		synctest.Wait()
		if began.Load() != 1 {
			t.Errorf("%d have begun after one was released", began.Load())
		}
		<-time.NewTimer(time.Second + time.Millisecond).C
		if synctest.Wait(); began.Load() != 2 {
			t.Errorf("%d have begun after the other one's time", began.Load())
		}
		if release[1](); began.Load() != 2 {
			t.Errorf("%d have begun by one that was over", began.Load())
		}
		<-time.NewTimer(3 * time.Hour).C
		if synctest.Wait(); began.Load() != 4 || p.running != 0 {
			t.Errorf("%d have begun, %d are said to be done", began.Load(), p.running)
		}
	})
}

// The number of concurrent tasks is limited, each is performed once, and none is left.
func TestLimit(t *testing.T) {
	const limit, all = 4, 2000
	synctest.Test(t, func(t *testing.T) {
		var now, most, done, going atomic.Int64
		p := newWorkPool(limit, func() func() {
			going.Add(1)
			return func() { going.Add(-1) }
		})
		count := func(n int64) {
			if is := now.Add(n); is > most.Load() {
				most.Store(is)
			}
		}
		var callers sync.WaitGroup
		for i := range all {
			callers.Go(func() {
				<-time.NewTimer(time.Duration(i%7) * time.Millisecond).C
				p.Go(uint32(i%5), func(e *poolTask) {
					count(1)
					<-time.NewTimer(time.Duration(i%3) * time.Millisecond).C
					count(-1)
					if i%2 == 0 {
						e.WithoutPermit(func() { <-time.NewTimer(time.Duration(i%11) * time.Millisecond).C })
					}
					count(1)
					done.Add(1)
					count(-1)
				})
			})
		}
		callers.Wait()
		<-time.NewTimer(time.Hour).C
		if done.Load() != all || going.Load() != 0 ||
			most.Load() > limit || p.Waiting() != 0 || p.running != 0 || len(p.back) != 0 {
			t.Errorf("%d done, %d at a time, %d wait, %d are said to be done", done.Load(), most.Load(), p.Waiting(), p.running)
		}
	})
}

// TestRestAfterABurst performs few tasks, and then many: only after many does the pool rest, once, when no further task comes.
func TestRestAfterABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rests atomic.Int32
		p := newWorkPool(4, func() func() { return func() {} })
		p.rest = func() { rests.Add(1) }
		tasks := func(n int) {
			for range n {
				p.Go(1, func(*poolTask) {})
			}
			synctest.Wait()
		}
		after := func(d time.Duration, want int32) {
			t.Helper()
			<-time.After(d)
			synctest.Wait()
			if n := rests.Load(); n != want {
				t.Errorf("it has rested %d times, want %d", n, want)
			}
		}
		tasks(burst - 1)
		after(time.Hour, 0)
		for range 5 {
			tasks(1)
			after(restAfter/2, 0)
		}
		after(2*restAfter, 1)
		after(time.Hour, 1)
		tasks(burst)
		after(2*restAfter, 2)
	})
}
