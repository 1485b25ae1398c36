package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// A family of runs that waits for something else than time is looked at again after the first of these, and then after twice
// as long each time, up to the second: what it waits for may have come.
const (
	firstLook = time.Millisecond
	mostLook  = 500 * time.Millisecond
)

// SkipSleeps lets no time pass for one run, and for its children and theirs: whenever the host is idle, the clock
// of these runs moves to the next instant at which one of them wakes: a sleep, the timeout of a wait, the next attempt of a
// step, the run's own deadline. Workflows see that clock, and their journals hold its instants. All other runs, schedules,
// limits, rates and retention keep the clock of the host.
//
// It blocks until the run has ended or is stuck, and returns nil then, or until ctx is done, and returns its error.
// ErrNotFound if there is no such run, ErrConflict if another call skips its sleeps. A run that has not ended by then keeps
// the clock that it has seen: what it sleeps from there is real. Config.SkipSleeps moves the clock of a whole host instead.
func (s *scope) SkipSleeps(ctx context.Context, id string) error {
	root, err := s.key(ctx, id)
	var st store.RunState
	if err == nil {
		st, err = s.h.rt.Runs.State(ctx, root)
	}
	if err != nil {
		return translate(err)
	}
	clocks := &s.h.rt.Runs.Clocks
	if !clocks.Begin(root, st.Incarnation) {
		return fmt.Errorf("%w: the sleeps of run %q are skipped already", ErrConflict, id)
	}
	defer clocks.End(root)
	for pause := firstLook; ; pause = min(2*pause, mostLook) {
		if _, _, err := s.h.rt.WaitIdle(ctx); err != nil {
			return translate(err)
		}
		next, over, err := s.h.appointment(ctx, root)
		if over || err != nil {
			return translate(err)
		}
		if next < math.MaxInt64 {
			pause = firstLook
			clocks.Leap(root, next)
			for _, key := range clocks.Members(root) { // a look has happen what is due
				if _, err := s.h.waking(ctx, key); err != nil {
					return translate(err)
				}
			}
			continue
		}
		t := clock.System().NewTimer(pause)
		select {
		case <-t.C():
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

// appointment returns the first instant at which a member of a family wakes by itself, math.MaxInt64 if none does, and
// whether its root needs nobody to wait for it any more.
func (h *Host) appointment(ctx context.Context, root store.RunKey) (unixMs int64, over bool, err error) {
	unixMs = math.MaxInt64
	seen, goesOn := map[store.RunKey]bool{}, false
	for queue := append([]store.RunKey{root}, h.rt.Runs.Clocks.Members(root)...); len(queue) > 0; queue = queue[1:] {
		key := queue[0]
		if seen[key] {
			continue
		}
		seen[key] = true
		x, err := h.waking(ctx, key)
		if err != nil {
			return 0, false, err
		}
		if key == root && x.over {
			return 0, true, nil
		}
		unixMs, goesOn = min(unixMs, x.unixMs), goesOn || x.goesOn
		for _, id := range x.children { // one that was there before is a member from this look on
			queue = append(queue, store.RunKey{Namespace: key.Namespace, ID: id})
		}
	}
	if goesOn { // it may have something to do before
		unixMs = math.MaxInt64
	}
	return unixMs, false, nil
}

// waking is when a run wakes by itself.
type waking struct {
	unixMs   int64 // math.MaxInt64 if it does not
	over     bool  // it has ended, or is left to a person
	goesOn   bool  // it goes on by itself, as soon as its namespace may
	children []string
}

// waking looks at a run of a family. One that has the clock of the host, or is not there, never wakes.
func (h *Host) waking(ctx context.Context, key store.RunKey) (waking, error) {
	x := waking{unixMs: math.MaxInt64}
	err := h.rt.Runs.Look(ctx, key, func(of *run.Run) error {
		x.over = of.Journal().Ended() != store.KindInvalid || of.State().Status == store.Stuck
		at := h.rt.Runs.Clocks.Now(math.MinInt64, key, store.RunKey{}, of.State().Incarnation, store.Incarnation{})
		x.over = x.over || at == math.MinInt64
		if x.over { // a stranger has taken its id
			return nil
		}
		now := h.cfg.Clock.Now().UnixMilli()
		x.goesOn = of.Exists() && of.Ready(now)
		if at, ok := of.NextWake(now); ok {
			x.unixMs = at
		}
		for open := range of.Journal().Handles {
			if open.Kind == store.KindChild && open.ChildID != "" {
				x.children = append(x.children, open.ChildID)
			}
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return x, err
}
