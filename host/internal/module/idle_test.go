package module

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// idler is a cache of some modules that counts what it unloads.
type idler struct {
	*Cache
	e    *fakeEngine
	mods []*Module
	left int // unloaded modules; guarded by e.mu, like the counts of e
}

// counts returns the number of sweeps, of unloaded modules, and of modules opened and closed.
func (i *idler) counts() (sweeps, left, opened, closed int) {
	i.e.mu.Lock()
	defer i.e.mu.Unlock()
	return i.e.trimmed, i.left, i.e.opened, i.e.close
}

// trims sets what Trim returns.
func (i *idler) trims(gave, idle int) {
	i.e.mu.Lock()
	defer i.e.mu.Unlock()
	i.e.gave, i.e.idle = gave, idle
}

func newIdler(t *testing.T, modules int, l Limits) *idler {
	t.Helper()
	s := memstore.New().Open()
	i := &idler{e: &fakeEngine{}}
	l.Left = func(_ store.Digest, bytes int64) {
		if bytes != 100 {
			t.Errorf("%d bytes left", bytes)
		}
		i.e.mu.Lock()
		defer i.e.mu.Unlock()
		i.left++
	}
	i.Cache = NewCache(i.e, s, clock.System(), l)
	t.Cleanup(i.Close)
	for n := range modules {
		d, err := s.Modules().Put(t.Context(), fmt.Append(nil, n), store.ModuleInfo{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := i.Get(d)
		if err != nil {
			t.Fatal(err)
		}
		i.mods = append(i.mods, m)
	}
	return i
}

func (i *idler) inMemory() (n int) {
	for _, m := range i.mods {
		if m.inMemory() {
			n++
		}
	}
	return n
}

func (m *Module) inMemory() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.loaded != nil
}

func (i *idler) instance(t *testing.T, m *Module) engine.Instance {
	t.Helper()
	inst, err := m.Instantiate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

// A module is unloaded some time after the release of its last instance, not before, and is loaded again for the next
// instance.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIdler(t, 1, Limits{Idle: 30 * time.Second, Bytes: 1000})
		m := i.mods[0]
		inst := i.instance(t, m)
		wait(2 * time.Hour)
		if i.inMemory() != 1 {
			t.Fatal("it has left memory under its instance")
		}
		m.Release(inst)
		wait(29 * time.Second)
		if _, left, _, _ := i.counts(); i.inMemory() != 1 || left > 0 {
			t.Fatal("it has left memory too soon")
		}
		wait(4 * time.Second)
		if _, left, _, closed := i.counts(); i.inMemory() != 0 || left != 1 || closed != 1 {
			t.Fatal("it is still in memory")
		}
		before, _, _, _ := i.counts()
		wait(time.Hour)
		if sweeps, _, _, _ := i.counts(); sweeps != before {
			t.Error("an idle cache sweeps", sweeps-before, "times in an hour")
		}
		m.Release(i.instance(t, m))
		if _, _, opened, _ := i.counts(); i.inMemory() != 1 || opened != 2 {
			t.Error("it was not loaded again")
		}
		wait(time.Minute)
		if i.inMemory() != 0 {
			t.Error("it does not leave memory a second time")
		}
	})
}

// Without a time limit, modules stay loaded. Idle instances are closed all the same, and then the sweeps stop.
func TestNeverIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIdler(t, 2, Limits{Bytes: 1000})
		i.trims(0, 1)
		wait(time.Minute)
		if sweeps, _, _, _ := i.counts(); i.inMemory() != 2 || sweeps < 50 || sweeps > 60 {
			t.Error(i.inMemory(), sweeps)
		}
		i.trims(0, 0)
		wait(2 * time.Second)
		before, _, _, _ := i.counts()
		wait(time.Hour)
		if sweeps, _, _, _ := i.counts(); sweeps != before || i.inMemory() != 2 {
			t.Error(sweeps, before)
		}
	})
}

// Above the limit of bytes, the least recently used modules without an instance are unloaded.
func TestBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIdler(t, 5, Limits{Idle: time.Hour, Bytes: 250})
		inst := i.instance(t, i.mods[0])
		synctest.Wait()
		for range 3 {
			i.mods[3].Release(i.instance(t, i.mods[3]))
			wait(sweepEvery)
		}
		if i.inMemory() != 2 || !i.mods[0].inMemory() || !i.mods[3].inMemory() {
			t.Error(i.inMemory())
		}
		more := i.instance(t, i.mods[1])
		also := i.instance(t, i.mods[2])
		wait(2 * sweepEvery)
		if i.inMemory() != 3 {
			t.Error("those that have instances:", i.inMemory())
		}
		i.mods[0].Release(inst)
		i.mods[1].Release(more)
		i.mods[2].Release(also)
	})
}

// A forgotten module is closed with its last instance, and is not loaded again.
func TestForgottenInUse(t *testing.T) {
	i := newIdler(t, 1, Limits{Bytes: 1000})
	m := i.mods[0]
	inst := i.instance(t, m)
	for d := range i.all() {
		i.Forget(d)
	}
	if _, _, _, closed := i.counts(); closed != 0 {
		t.Fatal("it was closed under its instance")
	}
	m.Release(inst)
	if _, _, _, closed := i.counts(); closed != 1 {
		t.Error("it was not closed")
	}
	if _, err := m.Instantiate(t.Context()); err == nil {
		t.Error("an instance of a module that is gone")
	}
}

// After many instances were closed, and when none is left, the garbage collector runs once.
func TestCollects(t *testing.T) {
	i := newIdler(t, 1, Limits{Bytes: 1000})
	collected := func() bool {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		i.sweep()
		runtime.ReadMemStats(&after)
		return after.NumForcedGC > before.NumForcedGC
	}
	for n, step := range []struct {
		gave, idle int
		want       bool
	}{{manyInstances - 1, 0, false}, {1, 3, false}, {0, 0, true}, {1, 0, false}, {manyInstances, 0, true}} {
		i.trims(step.gave, step.idle)
		if got := collected(); got != step.want {
			t.Errorf("%d: collected: %v", n, got)
		}
	}
}

// Concurrent guests never get a closed module; the fake module would panic.
func TestIdleConcurrently(t *testing.T) {
	i := newIdler(t, 3, Limits{Idle: time.Nanosecond, Bytes: 1000})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for n := range 200 {
				m := i.mods[(w+n)%len(i.mods)]
				inst, err := m.Instantiate(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				if n%10 == 0 {
					i.sweep()
				}
				m.Release(inst)
			}
		})
	}
	wg.Wait()
}

// wait lets time pass in a bubble.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// slowEngine blocks the first time, and then fails.
type slowEngine struct {
	*fakeEngine
	begun, fail chan struct{}
	failed      bool
}

func (e *slowEngine) Compile(ctx context.Context, s engine.Source) (engine.Module, error) {
	if !e.failed {
		e.failed = true
		close(e.begun)
		<-e.fail
		return nil, errors.New("the disk is full")
	}
	return e.fakeEngine.Compile(ctx, s)
}

// A caller that waited for a load which failed loads the module itself, for all callers.
func TestFailedLoadIsNotForgotten(t *testing.T) {
	s := memstore.New().Open()
	d, err := s.Modules().Put(t.Context(), []byte("wasm"), store.ModuleInfo{})
	if err != nil {
		t.Fatal(err)
	}
	e := &slowEngine{fakeEngine: &fakeEngine{}, begun: make(chan struct{}), fail: make(chan struct{})}
	c := NewCache(e, s, clock.System(), Limits{Bytes: 1 << 40})
	done := make(chan error)
	go func() {
		_, err := c.Get(d)
		done <- err
	}()
	<-e.begun
	waits := c.all()[d] // what another call of Get has found
	close(e.fail)
	if err := <-done; err == nil {
		t.Fatal("it did not fail")
	}
	if err := waits.know(nil); err != nil {
		t.Fatal(err)
	}
	if m, err := c.Get(d); err != nil || m != waits || e.opened != 1 {
		t.Errorf("it was loaded %d times, %v", e.opened, err)
	}
	if c.Close(); e.close != e.opened {
		t.Errorf("%d of %d were closed", e.close, e.opened)
	}
}
