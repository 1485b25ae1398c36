package host_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
)

// TestWaitsAmongManySleepers has hundreds of runs of a partition sleep for ten days, and one start a sleep of 30 days
// while the clock is a day ahead. The host is killed. The next host finds that run behind all the others, whatever
// its clock shows.
func TestWaitsAmongManySleepers(t *testing.T) {
	const sleepers, day = 600, 24 * time.Hour
	for name, right := range map[string]func(w *waits){
		"the clock is right when the host is opened": func(w *waits) { w.Kill(); w.Clock.Step(-day); w.Reopen() },
		"the clock is set back later":                func(w *waits) { w.Crash(); w.Settle(); w.Clock.Step(-day) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWaits(t)
			late := store.RunKey{ID: "late"}
			for i, n := 0, 0; n < sleepers; i++ {
				id := fmt.Sprint("s", i)
				if (store.RunKey{ID: id}).Partition() != late.Partition() {
					continue
				}
				n++
				in := map[string]any{"Kind": "sleep", "Ms": (10 * day).Milliseconds()}
				if _, err := w.Start(ctx, "waits", in, host.WithRunID(id)); err != nil {
					t.Fatal(err)
				}
			}
			w.Settle()
			w.Clock.Step(day)
			in := map[string]any{"Kind": "sleep", "Ms": (30 * day).Milliseconds()}
			if _, err := w.Start(ctx, "waits", in, host.WithRunID(late.ID)); err != nil {
				t.Fatal(err)
			}
			w.Settle()
			right(w)
			w.Settle()
			r, err := w.Get(ctx, late.ID)
			if want := hosttest.Epoch.Add(30 * day); err != nil || !r.Wake.Equal(want) {
				t.Errorf("it wakes at %v, want %v: %v\n%s", r.Wake, want, err, w.journal(late.ID))
			}
		})
	}
}
