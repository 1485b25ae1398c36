package runtime

import (
	"testing"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/shard"
)

// TestBodiesLeaveNoContext: an ended attempt leaves nothing behind.
func TestBodiesLeaveNoContext(t *testing.T) {
	l := newLife(t.Context())
	w := shard.NewWriter(shard.WriterConfig{Clock: clock.System(), Activity: &l.activity, Commits: 1,
		Commit: func(*shard.Batch) error { return nil }})
	w.Start(shard.New(nil, shard.Limits{Woken: 1, Commits: 1}))
	defer w.Close()
	g := guest.NewRunner(guest.Config{Clock: clock.System(), MaxInstances: 1})
	g.Close() // so that Perform returns at once, as if it had ended
	d := &desk{life: l, writer: w, guests: g, clock: clock.System()}
	a := &run.Attempt{Try: run.Try{Name: "body", Handle: 1}}
	d.Start(a) // performed in an instance of its own
	l.wg.Wait()
	w.Do(func(*shard.Shard, int64) {}) // which comes behind its end
	if a.Performer.(*performance).ctx.Err() == nil {
		t.Error("the context of an attempt that has ended hangs on that of the runtime")
	}
}
