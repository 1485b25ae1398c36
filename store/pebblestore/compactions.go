package pebblestore

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// compactions schedules the compactions of a database. It starts one when the database asks for it, and the next one
// when one ends, as many at a time as the database allows: more than one while its tables have a backlog. Pebble's own
// scheduler also polls ten times a second whether more are allowed, which took most of the processor time of a host
// whose runs all sleep. Here the database announces it: after each flush or compaction.
//
// Lock order: grants, Pebble's lock, mu.
type compactions struct {
	db      pebble.DBForCompaction
	atATime func() (lower, upper int) // limits that hold from now on

	grants sync.Mutex // held while compactions are granted
	more   sync.WaitGroup

	mu       sync.Mutex
	running  int  // compactions that are granted, or about to be
	granting bool // a goroutine is about to call grant
	closed   bool
}

var _ pebble.CompactionScheduler = (*compactions)(nil)

// Register implements pebble.CompactionScheduler.
func (c *compactions) Register(_ int, db pebble.DBForCompaction) { c.db = db }

// Unregister implements pebble.CompactionScheduler. It makes no calls to the database after it returns.
func (c *compactions) Unregister() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.more.Wait()
	c.grants.Lock()
	defer c.grants.Unlock()
}

// TrySchedule implements pebble.CompactionScheduler. If it refuses, the database remembers that, and is asked when a
// compaction ends.
func (c *compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if !c.reserve() {
		return false, nil
	}
	return true, c
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler. The caller holds Pebble's lock, so if a
// waiting compaction may be allowed by now, a goroutine grants it.
func (c *compactions) UpdateGetAllowedWithoutPermission() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.granting || c.running == 0 || c.running >= c.allowed() {
		return
	}
	c.granting = true
	c.more.Go(func() {
		c.mu.Lock()
		c.granting = false
		c.mu.Unlock()
		c.grant()
	})
}

// allowed returns how many compactions may run. The database keeps the number that it was allowed when its tables changed last.
func (c *compactions) allowed() int {
	_, most := c.atATime()
	return min(c.db.GetAllowedWithoutPermission(), most)
}

// reserve takes a permission for a compaction, if one is free.
func (c *compactions) reserve() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.running >= c.allowed() {
		return false
	}
	c.running++
	return true
}

func (c *compactions) giveBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
}

// Done implements pebble.CompactionGrantHandle: a compaction has ended.
func (c *compactions) Done() {
	c.giveBack()
	c.grant()
}

// grant grants waiting compactions, as long as more are allowed.
func (c *compactions) grant() {
	c.grants.Lock()
	defer c.grants.Unlock()
	for c.reserve() {
		if waits, _ := c.db.GetWaitingCompaction(); waits && c.db.Schedule(c) {
			continue
		}
		c.giveBack()
		// The database may have been refused the permission that was just reserved. If so, it reports a waiting compaction.
		if waits, _ := c.db.GetWaitingCompaction(); !waits {
			return
		}
	}
}

// Started implements pebble.CompactionGrantHandle.
func (c *compactions) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (c *compactions) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (c *compactions) CumulativeStats(pebble.CompactionGrantHandleStats) {}
