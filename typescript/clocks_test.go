package typescript_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// tsWaits are the ways in which a TypeScript program can wait for a duration.
var tsWaits = []string{"setTimeout", "setInterval", "abort", "sleep", "signal", "hook", "race", "race of a timer"}

// TestWaitsLastAsLongAsTheySay has runs begin to wait for a minute after a pause, after a crash, and while the clock
// is wrong by a day: they wait for a minute from then.
func TestWaitsLastAsLongAsTheySay(t *testing.T) {
	const day = 24 * time.Hour
	each := func(p *program, do func(id string) error) {
		p.t.Helper()
		for _, kind := range tsWaits {
			if err := do(strings.ReplaceAll(kind, " ", "-")); err != nil {
				p.t.Fatal(kind, err)
			}
		}
	}
	pause := func(p *program) { each(p, func(id string) error { _, err := p.Pause(p.ctx, id); return err }) }
	unpause := func(p *program) { each(p, func(id string) error { _, err := p.Unpause(p.ctx, id); return err }) }
	signal := func(p *program) { each(p, func(id string) error { return p.Signal(p.ctx, id, "go", "x") }) }
	for name, c := range map[string]struct {
		begins   time.Duration // after the start
		believed bool          // by the clock that the workflow sees
		do       func(p *program)
	}{
		"paused for long": {1000 * time.Second, true, func(p *program) {
			pause(p)
			p.Advance(20 * time.Second)
			signal(p)
			p.Advance(970 * time.Second)
			unpause(p)
		}},
		"down after the signal": {1000 * time.Second, true, func(p *program) {
			pause(p)
			signal(p)
			p.Crash()
			p.Clock.Advance(990 * time.Second)
			p.Reopen()
			unpause(p)
		}},
		"ahead": {10 * time.Second, false, func(p *program) {
			p.Clock.Step(day)
			signal(p)
			p.Settle()
			p.Clock.Step(-day)
		}},
		"ahead, and killed": {10 * time.Second, false, func(p *program) {
			p.Clock.Step(day)
			signal(p)
			p.Settle()
			p.Crash()
			p.Clock.Step(-day)
		}},
		"behind": {10 * time.Second, false, func(p *program) {
			pause(p) // the journals know what the clock shows
			unpause(p)
			p.Clock.Step(-day)
			signal(p)
			p.Settle()
			p.Clock.Step(day)
		}},
		"behind while it waits": {10 * time.Second, false, func(p *program) {
			signal(p)
			p.Settle()
			p.Clock.Step(-day)
			p.Settle()
			p.Crash()
			p.Clock.Step(day)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := load(t, "clocks.ts")
			each(p, func(id string) error {
				_, err := p.Start(p.ctx, "clocks", strings.ReplaceAll(id, "-", " "), host.WithRunID(id))
				return err
			})
			p.Settle()
			p.Advance(10 * time.Second)
			c.do(p)
			p.Settle()
			p.lasts(c.begins, c.believed)
		})
	}
}

// lasts checks that all runs end a minute after an instant, and not a second earlier.
func (p *program) lasts(from time.Duration, believed bool) {
	p.t.Helper()
	end := hosttest.Epoch.Add(from + time.Minute)
	p.Advance(end.Add(-time.Second).Sub(p.Clock.Now()))
	for _, kind := range tsWaits {
		if r, err := p.Get(p.ctx, strings.ReplaceAll(kind, " ", "-")); err != nil || r.Status.Terminal() {
			p.t.Errorf("%s is %s a second before its end: %v", kind, r.Status, err)
		}
	}
	p.Advance(time.Second)
	for _, kind := range tsWaits {
		id := strings.ReplaceAll(kind, " ", "-")
		if r, err := p.Get(p.ctx, id); err != nil || r.Status != host.Completed {
			p.t.Errorf("%s is %s until %v: %v", kind, r.Status, r.Wake, err)
			continue
		}
		var out struct{ Began, Ended, Mono int64 }
		if b, err := p.ResultRaw(p.ctx, id); err != nil || json.Unmarshal(b, &out) != nil {
			p.t.Fatalf("%s: %s %v", kind, b, err)
		}
		if began := end.Add(-time.Minute).UnixMilli(); believed && (out.Began != began || out.Ended != began+60_000 || out.Mono != 60_000) {
			p.t.Errorf("%s: the workflow saw a wait from %d, of %d ms, and of %d by performance.now", kind, out.Began-began,
				out.Ended-out.Began, out.Mono)
		}
		if err := p.Replay(p.ctx, id); err != nil {
			p.t.Errorf("%s: %v", kind, err)
		}
	}
}
