package pebblestore

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2"
)

// compacting imitates a database that wants compactions and, as Pebble does, remembers that it was refused one.
type compacting struct {
	c      *compactions
	ended  sync.WaitGroup
	goesOn chan struct{} // unless nil, compactions end when it is closed

	allowed atomic.Int64

	mu      sync.Mutex
	wanted  int
	waits   bool
	running int
	most    int
}

func (d *compacting) GetAllowedWithoutPermission() int { return int(d.allowed.Load()) }

func (d *compacting) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wanted == 0 {
		d.waits = false
	}
	return d.waits, pebble.WaitingCompaction{}
}

func (d *compacting) Schedule(h pebble.CompactionGrantHandle) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wanted == 0 {
		d.waits = false
		return false
	}
	d.run(h)
	return true
}

// run starts a compaction. The caller holds mu.
func (d *compacting) run(h pebble.CompactionGrantHandle) {
	d.wanted--
	d.running++
	d.most = max(d.most, d.running)
	go func() {
		if d.goesOn != nil {
			<-d.goesOn
		}
		d.mu.Lock()
		d.running--
		d.mu.Unlock()
		h.Done()
		d.ended.Done()
	}()
}

// want requests one more compaction, unless an earlier request was refused: then the scheduler asks for it.
func (d *compacting) want() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended.Add(1)
	d.wanted++
	if d.waits {
		return
	}
	if ok, h := d.c.TrySchedule(); ok {
		d.run(h)
	} else {
		d.waits = true
	}
}

// upTo returns the limits of a store that allows n concurrent compactions.
func upTo(most int) func() (int, int) { return func() (int, int) { return 1, most } }

// TestCompactions requests compactions while others end: each one is run, and never more at a time than allowed.
func TestCompactions(t *testing.T) {
	for _, allowed := range []int64{1, 3} {
		c := &compactions{atATime: upTo(3)}
		d := &compacting{c: c}
		d.allowed.Store(allowed)
		c.Register(1, d)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 2000 {
					d.want()
				}
			})
		}
		wg.Wait()
		d.ended.Wait()
		c.Unregister()
		if int64(d.most) > allowed || d.wanted != 0 || c.running != 0 {
			t.Errorf("%d allowed, %d at a time; %d wanted, %d running in the end", allowed, d.most, d.wanted, c.running)
		}
		if ok, _ := c.TrySchedule(); ok {
			t.Error("a compaction was granted after the end")
		}
	}
}

// TestCompactionsBesideALongOne allows a second compaction while the first one runs: it starts at once.
func TestCompactionsBesideALongOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &compactions{atATime: upTo(3)}
		d := &compacting{c: c, goesOn: make(chan struct{})}
		c.Register(1, d)
		d.allowed.Store(1)
		d.want()
		d.want()
		c.UpdateGetAllowedWithoutPermission()
		synctest.Wait()
		if d.running != 1 {
			t.Fatalf("%d compactions run, 1 is allowed", d.running)
		}
		d.allowed.Store(2)
		d.mu.Lock() // the caller holds Pebble's lock
		c.UpdateGetAllowedWithoutPermission()
		c.UpdateGetAllowedWithoutPermission()
		d.mu.Unlock()
		synctest.Wait()
		if d.running != 2 {
			t.Errorf("%d compactions run, 2 are allowed", d.running)
		}
		close(d.goesOn)
		d.ended.Wait()
		c.Unregister()
		if d.most != 2 || c.running != 0 {
			t.Errorf("%d at a time, %d running in the end", d.most, c.running)
		}
	})
}

// TestCompactionsWhileReclaiming lowers the limit while the database remembers a higher one: no second compaction
// starts.
func TestCompactionsWhileReclaiming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &compactions{atATime: upTo(1)}
		d := &compacting{c: c, goesOn: make(chan struct{})}
		d.allowed.Store(2)
		c.Register(1, d)
		d.want()
		d.want()
		c.UpdateGetAllowedWithoutPermission()
		synctest.Wait()
		close(d.goesOn)
		d.ended.Wait()
		c.Unregister()
		if d.most != 1 || c.running != 0 {
			t.Errorf("%d at a time, %d running in the end", d.most, c.running)
		}
	})
}
