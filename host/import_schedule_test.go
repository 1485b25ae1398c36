package host_test

import (
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

// TestMoveBeforeAWaitingStart moves a run while a start of its schedule waits for the run's end: the start no longer
// waits. A run that is taken back counts again.
func TestMoveBeforeAWaitingStart(t *testing.T) {
	p := newPrims(t)
	_, err := p.Schedules().Create(ctx, "hourly", host.ScheduleSpec{Workflow: "patient", Input: []byte("360000"), When: "@every 1h",
		Overlap: host.OverlapBufferOne})
	do(t, err)
	p.Advance(2*time.Hour + time.Minute)
	runs := func() (ids []string) {
		for r, err := range p.Runs(ctx, host.Query{Order: host.OldestFirst}) {
			do(t, err)
			ids = append(ids, r.ID)
		}
		return ids
	}
	first := runs()
	want(t, len(first), 1)
	move(t, p.Host.Host, first[0])
	p.Settle()
	p.Reopen()
	p.Settle()
	want(t, len(runs()), 2)
	_, err = p.TakeBack(ctx, first[0])
	do(t, err)
	p.Settle()
	p.Advance(time.Hour) // one waits
	do(t, p.Terminate(ctx, runs()[1]))
	p.Settle()
	want(t, len(runs()), 2) // for the one that was taken back
	do(t, p.Terminate(ctx, first[0]))
	p.Settle()
	want(t, len(runs()), 3)
}
