package pebblestore

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// compactions is the scheduler of a database's compactions. It starts one when the database asks for it, and the next one
// when one has ended, as many at a time as the database allows: more than one while its tables wait to be compacted. Pebble's
// own scheduler also looks ten times a second whether more are allowed by now, which took most of the processor time of a host
// whose runs all sleep. Here the database says when that may be so: it has flushed or compacted something.
//
// Pebble's lock is taken before mu, and grants before Pebble's lock.
type compactions struct {
	db pebble.DBForCompaction

	grants sync.Mutex // held while compactions are granted
	more   sync.WaitGroup

	mu      sync.Mutex
	running int  // compactions that were granted, or are about to be
	looks   bool // a goroutine is about to grant what is allowed by now
	closed  bool
}

var _ pebble.CompactionScheduler = (*compactions)(nil)

// Register implements pebble.CompactionScheduler.
func (c *compactions) Register(_ int, db pebble.DBForCompaction) { c.db = db }

// Unregister implements pebble.CompactionScheduler. Nothing is asked of the database any more when it returns.
func (c *compactions) Unregister() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.more.Wait()
	c.grants.Lock()
	defer c.grants.Unlock()
}

// TrySchedule implements pebble.CompactionScheduler. The database remembers that it was refused, and is asked when one has ended.
func (c *compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if !c.take() {
		return false, nil
	}
	return true, c
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler. If a compaction that waits for another one's end may
// begin beside it by now, a goroutine grants it: the caller holds Pebble's lock.
func (c *compactions) UpdateGetAllowedWithoutPermission() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.looks || c.running == 0 || c.running >= c.db.GetAllowedWithoutPermission() {
		return
	}
	c.looks = true
	c.more.Go(func() {
		c.mu.Lock()
		c.looks = false
		c.mu.Unlock()
		c.grant()
	})
}

// take reserves a place for a compaction, if there is one.
func (c *compactions) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.running >= c.db.GetAllowedWithoutPermission() {
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

// grant grants what waits, as long as more is allowed.
func (c *compactions) grant() {
	c.grants.Lock()
	defer c.grants.Unlock()
	for c.take() {
		if waits, _ := c.db.GetWaitingCompaction(); waits && c.db.Schedule(c) {
			continue
		}
		c.giveBack()
		// The database may have been refused the place that was reserved just now. If so, it says that it waits.
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
