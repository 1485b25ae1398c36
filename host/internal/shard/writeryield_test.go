package shard

import (
	"testing"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

// slow is a clock that advances at each reading.
type slow struct {
	clock.Clock
	now   time.Time
	step  time.Duration
	looks int
}

func (c *slow) Now() time.Time {
	c.looks++
	c.now = c.now.Add(c.step)
	return c.now
}

// TestWriterYield has yields that take long, and then quick ones: there are few of the former, and one of the latter
// at each opportunity.
func TestWriterYield(t *testing.T) {
	c := &slow{Clock: clock.System()}
	w := NewWriter(WriterConfig{Clock: c})
	defer w.alarm.Close()
	yields := func(step time.Duration) (n int) {
		c.step = step
		for range 100 {
			c.looks = 0
			if w.yield(); c.looks == 2 {
				n++
			}
		}
		return n
	}
	if n := yields(longYield / 2); n != 100 {
		t.Errorf("%d of 100 that take little", n)
	}
	if n := yields(2 * longYield); n < 4 || n > 6 {
		t.Errorf("%d of 100 that take long, want every twentieth", n)
	}
	c.now = c.now.Add(time.Minute)
	if n := yields(longYield / 2); n != 100 {
		t.Errorf("%d of 100 that take little again", n)
	}
}
